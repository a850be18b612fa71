/**
 * The vocabulary of a conversation: content blocks in the shape of the Anthropic Messages API, the messages of a
 * session's log, the entries of its mailbox. This file has the types, the lists that some types are derived from, and
 * small pure functions over them.
 *
 * Source of the block shapes: Anthropic Messages API reference.
 */
import { USAGE_COUNTERS_MAX } from './bounds.ts';
import type { Draft } from './draft.ts';
import type { Json } from './json.ts';

/** Marks the end of the part of a request that the provider caches. */
export interface CacheControl {
  readonly type: 'ephemeral';
  readonly ttl?: '5m' | '1h';
}
/**
 * The model of another vendor that wrote a block (`troupe/ai-model`). The log keeps this member, which the Messages API
 * does not have. Thoughts and `metadata` are sent only to this model of this provider; requests to any other model omit
 * them.
 */
export interface BlockOrigin {
  readonly provider: string;
  readonly model: string;
  /** The provider's id of a call, if the provider also wants metadata back with the call. */
  readonly id?: string;
  /** The provider's metadata of the block, verbatim: the ids of its items, signatures, encrypted reasoning. */
  readonly metadata?: Readonly<Record<string, Json>>;
}
/** Text of either role. Never empty or blank in a request. */
export interface TextBlock {
  readonly type: 'text';
  readonly text: string;
  readonly cache_control?: CacheControl;
  readonly origin?: BlockOrigin;
}
/** An image of a user message. */
export interface ImageBlock {
  readonly type: 'image';
  readonly source: Readonly<Record<string, Json>>;
  readonly cache_control?: CacheControl;
}
/** A document of a user message. */
export interface DocumentBlock {
  readonly type: 'document';
  readonly source: Readonly<Record<string, Json>>;
  readonly title?: string;
  readonly context?: string;
  readonly citations?: Readonly<Record<string, Json>>;
  readonly cache_control?: CacheControl;
}
/** A call that the model requests. */
export interface ToolUseBlock {
  readonly type: 'tool_use';
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  /** The origin of the call: the model itself, or its code in a container. */
  readonly caller?: Readonly<Record<string, Json>>;
  /** The toolset of the provider that the tool belongs to. */
  readonly toolset_name?: string;
  readonly cache_control?: CacheControl;
  readonly origin?: BlockOrigin;
}
/** A source that the model may cite, in the result of a search. */
export interface SearchResultBlock {
  readonly type: 'search_result';
  /** The source of the text: a URL, or any other name. */
  readonly source: string;
  readonly title: string;
  readonly content: readonly TextBlock[];
  readonly citations?: Readonly<Record<string, Json>>;
  readonly cache_control?: CacheControl;
}
/** A block that the result of a call may have. */
export type ResultBlock = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock;
/** The answer to a call, in the user message right after it. */
export interface ToolResultBlock {
  readonly type: 'tool_result';
  readonly tool_use_id: string;
  readonly content?: string | readonly ResultBlock[];
  readonly is_error?: boolean;
  readonly cache_control?: CacheControl;
}
/**
 * Reasoning, signed by the model; replayed byte for byte. A thought with an `origin` has an empty `signature`. If the
 * vendor of that model signs thoughts, the signature is in `origin.metadata`.
 */
export interface ThinkingBlock {
  readonly type: 'thinking';
  readonly thinking: string;
  readonly signature: string;
  readonly origin?: BlockOrigin;
}
/** Reasoning the provider encrypted; replayed byte for byte. */
export interface RedactedThinkingBlock {
  readonly type: 'redacted_thinking';
  readonly data: string;
}
/**
 * A part of another vendor's answer that no other block type can hold, such as a file that the model made. It is kept
 * verbatim, and sent only to the model that wrote it.
 */
export interface ProviderPartBlock {
  readonly type: 'provider_part';
  readonly part: Readonly<Record<string, Json>>;
  readonly origin: BlockOrigin;
}
/** The types of the results of the provider's own tools. */
export const SERVER_RESULT_TYPES = [
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
  'tool_search_tool_result',
] as const;
/** A block type that this library does not read: kept and replayed unchanged. */
export interface OpaqueBlock {
  readonly type: 'server_tool_use' | (typeof SERVER_RESULT_TYPES)[number] | 'container_upload';
  readonly [key: string]: unknown;
}
/** One block of a message's content. */
export type ContentBlock =
  | TextBlock
  | ImageBlock
  | DocumentBlock
  | SearchResultBlock
  | ToolUseBlock
  | ToolResultBlock
  | ThinkingBlock
  | RedactedThinkingBlock
  | ProviderPartBlock
  | OpaqueBlock;

/** Content that a user may send: text, or text, image and document blocks. */
export type UserContent = string | readonly ContentBlock[];

/** Tokens written to the cache, by how long the cache keeps them. */
export type CacheCreation = {
  readonly ephemeral_5m_input_tokens?: number;
  readonly ephemeral_1h_input_tokens?: number;
};

/** The tokens of one part of an answer: the message, a compaction, an advisor, or a fallback model. */
export interface UsageIteration {
  readonly type: string;
  readonly model?: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens?: number;
  readonly cache_read_input_tokens?: number;
  readonly cache_creation?: CacheCreation;
}

/**
 * Tokens as the provider counted them, of one answer or summed over several. The first four counters are totals: they
 * include tokens that the provider reports only in `iterations`. A sum lacks the members that describe one answer
 * (`service_tier`, `speed`, `inference_geo`, `iterations`).
 */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens?: number;
  readonly cache_read_input_tokens?: number;
  readonly cache_creation?: CacheCreation;
  readonly output_tokens_details?: { readonly thinking_tokens: number };
  /** Uses of the provider's own tools, by counter: `web_search_requests`, `web_fetch_requests`. */
  readonly server_tool_use?: Readonly<Record<string, number>>;
  readonly service_tier?: string;
  readonly speed?: string;
  readonly inference_geo?: string;
  readonly iterations?: readonly UsageIteration[];
  /** The tokens of each model, by the name that the agent gives the model. Only for agents with several models. */
  readonly models?: Readonly<Record<string, ModelTokens>>;
  /** The part of these tokens that was used for lost answers, whose calls ended before the answer was complete. */
  readonly lost?: ModelTokens;
}

/** The tokens of one model. The input includes tokens read from the cache and written to it. */
export interface ModelTokens {
  readonly input_tokens: number;
  readonly output_tokens: number;
}

/** Usage without any tokens. */
export const NO_USAGE: Usage = Object.freeze({ input_tokens: 0, output_tokens: 0 });

/** The sum of two usages; an optional counter is present if either side has it. */
export function addUsage(a: Usage, b: Usage): Usage {
  const created = (a.cache_creation_input_tokens ?? 0) + (b.cache_creation_input_tokens ?? 0);
  const read = (a.cache_read_input_tokens ?? 0) + (b.cache_read_input_tokens ?? 0);
  const sum: Draft<Usage> = {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
  };
  if (created > 0) sum.cache_creation_input_tokens = created;
  if (read > 0) sum.cache_read_input_tokens = read;
  const split = addCounters(a.cache_creation, b.cache_creation);
  if (split !== undefined) sum.cache_creation = split;
  const thinking = (a.output_tokens_details?.thinking_tokens ?? 0) + (b.output_tokens_details?.thinking_tokens ?? 0);
  if (thinking > 0) sum.output_tokens_details = { thinking_tokens: thinking };
  const served = addCounters(a.server_tool_use, b.server_tool_use);
  if (served !== undefined) sum.server_tool_use = served;
  const models = addModels(a.models, b.models);
  if (models !== undefined) sum.models = models;
  const lost = a.lost === undefined || b.lost === undefined ? (a.lost ?? b.lost) : addTokens(a.lost, b.lost);
  if (lost !== undefined) sum.lost = lost;
  return sum;
}

/** The usage of a lost answer, with all its tokens also in `lost`. */
export function lostUsage(usage: Usage): Usage {
  return { ...usage, lost: { input_tokens: inputTokensOf(usage), output_tokens: usage.output_tokens } };
}

function addTokens(a: ModelTokens, b: ModelTokens): ModelTokens {
  return { input_tokens: a.input_tokens + b.input_tokens, output_tokens: a.output_tokens + b.output_tokens };
}

/** The usage of an answer, with the name of the model that gave it. */
export function usageOf(model: string, usage: Usage): Usage {
  return { ...usage, models: { [model]: { input_tokens: inputTokensOf(usage), output_tokens: usage.output_tokens } } };
}

function addModels(a: Usage['models'], b: Usage['models']): Usage['models'] {
  if (a === undefined || b === undefined) return a ?? b;
  const sum: Record<string, ModelTokens> = { ...a };
  for (const [model, tokens] of Object.entries(b)) {
    const known = sum[model];
    // An agent has few models, but a session may outlive many changes of its agent.
    if (known === undefined && Object.keys(sum).length >= USAGE_COUNTERS_MAX) continue;
    sum[model] = known === undefined ? tokens : addTokens(known, tokens);
  }
  return sum;
}

type Counters = Readonly<Record<string, number | undefined>>;

/** The sums by name, without zeros; undefined if there are none. A name that only one side has is kept. */
function addCounters(a: Counters | undefined, b: Counters | undefined): Record<string, number> | undefined {
  if (a === undefined && b === undefined) return undefined;
  let sum: Record<string, number> | undefined;
  for (const name of new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])) {
    const count = (a?.[name] ?? 0) + (b?.[name] ?? 0);
    if (count <= 0 || (sum !== undefined && Object.keys(sum).length >= USAGE_COUNTERS_MAX)) continue;
    sum ??= {};
    sum[name] = count;
  }
  return sum;
}

/** All tokens the provider counts as input: read from a cache, written to one, or neither. */
export function inputTokensOf(usage: Usage): number {
  return usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
}

/** All tokens of a usage, input and output. */
export function tokensOf(usage: Usage): number {
  return inputTokensOf(usage) + usage.output_tokens;
}

/** The five kinds of logged messages. */
export const MESSAGE_TYPES = ['user_message', 'agent_message', 'tool_call', 'tool_response', 'system_message'] as const;
/** One of `MESSAGE_TYPES`. */
export type MessageType = (typeof MESSAGE_TYPES)[number];

/** The kinds of senders of a message or a mailbox entry. */
export const SOURCE_TYPES = ['user', 'tool', 'subagent', 'skill', 'workflow', 'recall', 'goal'] as const;

/** The sender of a message or a mailbox entry. */
export interface Source {
  readonly type: (typeof SOURCE_TYPES)[number];
  readonly name?: string;
}

/** One message of a session's log. `seq` counts the messages of the session from 1; `at` is epoch ms. */
export interface Message {
  readonly seq: number;
  readonly type: MessageType;
  readonly content: string | readonly ContentBlock[];
  readonly at: number;
  /** The estimated tokens, four bytes each. */
  readonly tokens: number;
  readonly toolUseId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
  /** Whether the call succeeded; for `tool_response` only. Missing means success. */
  readonly success?: boolean;
  readonly source?: Source;
  readonly usage?: Usage;
  /** The key that the message was sent with. A merged message has the first key of its parts. */
  readonly key?: string;
  /**
   * Only on the first message of an answer with calls of the provider's own tools, or with files. It has all blocks of
   * the answer except its thoughts, in order: the provider's calls, results and files, and the citations of the text.
   */
  readonly blocks?: readonly ContentBlock[];
}

/** The seven kinds of mailbox entries. */
export const PENDING_TYPES = [
  'user_message',
  'tool_response',
  'subagent',
  'from_mneme',
  'from_melete_skill',
  'from_melete_workflow',
  'from_melete_goal',
] as const;
/** One of `PENDING_TYPES`. */
export type PendingType = (typeof PENDING_TYPES)[number];

/** The ways a user entry can be delivered to a session. */
export const DELIVERIES = ['ride', 'steer', 'turn', 'interrupt', 'merge', 'latest', 'reject'] as const;
/** One of `DELIVERIES`. */
export type Deliver = (typeof DELIVERIES)[number];

/** One entry that waits in a session's mailbox. `id` counts the entries of the session from 1. */
export interface Pending {
  readonly id: number;
  readonly type: PendingType;
  readonly kind: 'active' | 'background';
  readonly content: string | readonly ContentBlock[];
  readonly at: number;
  readonly source: Source;
  readonly toolUseId?: string;
  readonly success?: boolean;
  readonly deliver?: Deliver;
  /** The key that the message was sent with. */
  readonly key?: string;
}

/** The text of a content: a string as it is, otherwise its text blocks joined by newlines. */
export function textOf(content: string | readonly ContentBlock[]): string {
  if (typeof content === 'string') return content;
  const parts: string[] = [];
  for (const block of content) if (block.type === 'text') parts.push(block.text);
  return parts.join('\n');
}

/** True for a model's reasoning: signed by the model, or encrypted. */
export function isThought(block: { readonly type?: unknown }): boolean {
  return block.type === 'thinking' || block.type === 'redacted_thinking';
}

/** True for a call of a tool that the provider runs. */
export function isServerUse(block: { readonly type: string }): boolean {
  return block.type === 'server_tool_use' || block.type === 'mcp_tool_use';
}

/** True for the result of a tool that the provider runs, even of a tool that this library does not know. */
export function isServerResult(block: { readonly type: string }): boolean {
  return block.type.endsWith('_tool_result');
}

/** True when a content has nothing a model could read: only blank text, and no other block. */
export function isBlank(content: string | readonly ContentBlock[]): boolean {
  if (typeof content === 'string') return content.trim() === '';
  return content.every((block) => block.type === 'text' && block.text.trim() === '');
}

/** The agent with which a turn begins, as the turn's record names it. Only agents with a version are named. */
export interface TurnAgent {
  readonly name: string;
  readonly version: string;
  /** The fingerprint of the prompt, the tools and the options of its requests, as the epoch has it. */
  readonly hash: string;
}
