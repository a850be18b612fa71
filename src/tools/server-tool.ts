/**
 * Tools that the provider runs itself: `serverTool()`, the types that are known, and the settings of each. Source: the
 * types of the vendor's SDK 1.12.0 (`resources/messages/messages.d.ts`, `ToolUnion`). Pure.
 */
import { z } from 'zod';
import { SERVER_TOOL_CHARACTERS_MAX } from '../base/bounds.ts';
import { ConfigError, describeValue } from '../base/errors.ts';
import { isRecord, type Json } from '../base/json.ts';
import { parseOption } from '../base/parse-option.ts';
import type { ServerToolEntry } from './server-tool-entry.ts';

/** The callers that a tool may have: the model itself, or the model's code in a container. */
export type ServerToolCaller =
  | 'direct'
  | 'code_execution_20250825'
  | 'code_execution_20260120'
  | 'code_execution_20260521';

/** Settings that every server tool has. */
export interface ServerToolSettings {
  /** Default: the vendor's own for this type. */
  readonly allowed_callers?: readonly ServerToolCaller[];
  /** True if the model sees the tool only after a tool search has found it. */
  readonly defer_loading?: boolean;
  /** True if the vendor guarantees that the input of a call fits the tool. */
  readonly strict?: boolean;
}

/** Settings of tools that read the web. `allowed_domains` and `blocked_domains` may not be given together. */
export interface WebToolSettings extends ServerToolSettings {
  readonly allowed_domains?: readonly string[];
  readonly blocked_domains?: readonly string[];
  /** The most uses in one request. */
  readonly max_uses?: number;
}

/** The rough place of the user. */
export interface UserLocation {
  readonly type: 'approximate';
  readonly city?: string;
  /** Two letters, as ISO 3166-1 has them. */
  readonly country?: string;
  readonly region?: string;
  /** A name of the IANA time zones. */
  readonly timezone?: string;
}

/** Settings of web search. */
export interface WebSearchSettings extends WebToolSettings {
  readonly user_location?: UserLocation;
}

/** The tools whose results may give web fetch addresses to read. */
export type UrlSource =
  | { readonly type: 'all' | 'none' }
  | {
      readonly type: 'only' | 'except';
      readonly tools: readonly { readonly type: 'tool_reference'; readonly name: string }[];
    };

/** Settings of web fetch. */
export interface WebFetchSettings extends WebToolSettings {
  readonly citations?: { readonly enabled?: boolean };
  /** The most tokens of one page, roughly. */
  readonly max_content_tokens?: number;
  /** Default: addresses of every source. */
  readonly url_sources?: {
    readonly client_tool_results?: UrlSource;
    readonly server_tool_results?: UrlSource;
    readonly user_input?: { readonly type: 'all' | 'none' };
  };
}

/** Whether the answer shows results that the model's code has already used. */
export interface ResponseInclusion {
  readonly response_inclusion?: 'full' | 'excluded';
}

/** The types of server tools with their settings. */
export interface ServerToolTypes {
  web_search_20250305: WebSearchSettings;
  web_search_20260209: WebSearchSettings;
  web_search_20260318: WebSearchSettings & ResponseInclusion;
  web_fetch_20250910: WebFetchSettings;
  web_fetch_20260209: WebFetchSettings;
  web_fetch_20260309: WebFetchSettings & { readonly use_cache?: boolean };
  web_fetch_20260318: WebFetchSettings & ResponseInclusion & { readonly use_cache?: boolean };
  code_execution_20250522: ServerToolSettings;
  code_execution_20250825: ServerToolSettings;
  code_execution_20260120: ServerToolSettings;
  code_execution_20260521: ServerToolSettings;
  tool_search_tool_regex: ServerToolSettings;
  tool_search_tool_regex_20251119: ServerToolSettings;
  tool_search_tool_bm25: ServerToolSettings;
  tool_search_tool_bm25_20251119: ServerToolSettings;
}

/** Options of `serverTool`: a type and its settings, as the Messages API names them. */
export type ServerToolOptions = {
  readonly [Type in keyof ServerToolTypes]: { readonly type: Type } & ServerToolTypes[Type];
}[keyof ServerToolTypes];

const SERVER_TOOL: unique symbol = Symbol('troupe.server-tool');

/** A tool for an agent's `tools` that the provider runs. */
export interface ServerTool {
  readonly [SERVER_TOOL]: true;
  /** The tool's name for the model. The type decides the name. */
  readonly name: string;
  readonly entry: ServerToolEntry;
}

const text = z.string().min(1);
const positive = z.number().int().positive();
const settings = {
  allowed_callers: z
    .array(z.enum(['direct', 'code_execution_20250825', 'code_execution_20260120', 'code_execution_20260521']))
    .min(1)
    .exactOptional(),
  defer_loading: z.boolean().exactOptional(),
  strict: z.boolean().exactOptional(),
};
const domains = z
  .array(text.regex(/^(?!.*:\/\/)\S+$/u, 'must be a domain without "https://", such as "example.com"'))
  .min(1)
  .exactOptional();
const web = { ...settings, allowed_domains: domains, blocked_domains: domains, max_uses: positive.exactOptional() };
const search = {
  ...web,
  user_location: z
    .strictObject({
      type: z.literal('approximate'),
      city: text.exactOptional(),
      country: text.exactOptional(),
      region: text.exactOptional(),
      timezone: text.exactOptional(),
    })
    .exactOptional(),
};
const anySource = z.strictObject({ type: z.enum(['all', 'none']) });
const source = z
  .union([
    anySource,
    z.strictObject({
      type: z.enum(['only', 'except']),
      tools: z.array(z.strictObject({ type: z.literal('tool_reference'), name: text })),
    }),
  ])
  .exactOptional();
const fetched = {
  ...web,
  citations: z.strictObject({ enabled: z.boolean().exactOptional() }).exactOptional(),
  max_content_tokens: positive.exactOptional(),
  url_sources: z
    .strictObject({
      client_tool_results: source,
      server_tool_results: source,
      user_input: anySource.exactOptional(),
    })
    .exactOptional(),
};
const inclusion = { response_inclusion: z.enum(['full', 'excluded']).exactOptional() };
const cached = { use_cache: z.boolean().exactOptional() };

/** The name and the settings of each type. */
const TYPES: Readonly<Record<keyof ServerToolTypes, { readonly name: string; readonly fields: z.ZodRawShape }>> = {
  web_search_20250305: { name: 'web_search', fields: search },
  web_search_20260209: { name: 'web_search', fields: search },
  web_search_20260318: { name: 'web_search', fields: { ...search, ...inclusion } },
  web_fetch_20250910: { name: 'web_fetch', fields: fetched },
  web_fetch_20260209: { name: 'web_fetch', fields: fetched },
  web_fetch_20260309: { name: 'web_fetch', fields: { ...fetched, ...cached } },
  web_fetch_20260318: { name: 'web_fetch', fields: { ...fetched, ...cached, ...inclusion } },
  code_execution_20250522: { name: 'code_execution', fields: settings },
  code_execution_20250825: { name: 'code_execution', fields: settings },
  code_execution_20260120: { name: 'code_execution', fields: settings },
  code_execution_20260521: { name: 'code_execution', fields: settings },
  tool_search_tool_regex: { name: 'tool_search_tool_regex', fields: settings },
  tool_search_tool_regex_20251119: { name: 'tool_search_tool_regex', fields: settings },
  tool_search_tool_bm25: { name: 'tool_search_tool_bm25', fields: settings },
  tool_search_tool_bm25_20251119: { name: 'tool_search_tool_bm25', fields: settings },
};

/** Every type, for errors. */
const SERVER_TOOL_TYPES = Object.keys(TYPES) as readonly (keyof ServerToolTypes)[];

/**
 * Grants an agent a tool that the provider runs, such as web search. Throws a `ConfigError` that names the unknown
 * type, the unknown setting or the bad value. `open` checks that the agent's model has the tool.
 *
 * ```ts
 * agent({ name: 'scout', tools: [serverTool({ type: 'web_search_20260318', max_uses: 5 })] });
 * ```
 */
export function serverTool(options: ServerToolOptions): ServerTool {
  const given: unknown = options;
  const type: unknown = isRecord(given) ? given['type'] : given;
  const known = SERVER_TOOL_TYPES.find((each) => each === type);
  if (!isRecord(given) || known === undefined) {
    const key = 'serverTool.type';
    throw new ConfigError(
      `option ${JSON.stringify(key)} must be one of ${SERVER_TOOL_TYPES.join(', ')}; got ${describeValue(type)}`,
      { data: { key } },
    );
  }
  const { type: _type, ...fields } = given;
  const label = `serverTool ${known}`;
  if (Object.hasOwn(fields, 'cache_control')) refuse(label, 'cache_control', 'use the option "cacheTtl" of the agent');
  if (Object.hasOwn(fields, 'name')) refuse(label, 'name', 'leave it out: the type decides it');
  const checked = parseOption(z.strictObject(TYPES[known].fields), label, fields);
  if (Object.hasOwn(checked, 'allowed_domains') && Object.hasOwn(checked, 'blocked_domains')) {
    refuse(label, 'blocked_domains', 'give either allowed_domains or blocked_domains');
  }
  const { name } = TYPES[known];
  const entry: ServerToolEntry = { type: known, name, ...(checked as Readonly<Record<string, Json>>) };
  if (JSON.stringify(entry).length > SERVER_TOOL_CHARACTERS_MAX) {
    throw new ConfigError(`${label} must have at most ${SERVER_TOOL_CHARACTERS_MAX} characters as JSON`, {
      data: { key: label },
    });
  }
  return Object.freeze({ [SERVER_TOOL]: true as const, name, entry: Object.freeze(entry) });
}

function refuse(label: string, field: string, remedy: string): never {
  const key = `${label}.${field}`;
  throw new ConfigError(`option ${JSON.stringify(key)}: ${remedy}`, { data: { key } });
}

/** True for a result of `serverTool`. */
export function isServerTool(value: unknown): value is ServerTool {
  return typeof value === 'object' && value !== null && SERVER_TOOL in value;
}
