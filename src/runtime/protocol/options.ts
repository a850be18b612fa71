/** The options of `open` and their checks. Errors name unknown keys and bad values (A9). */
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  CLOSE_DEADLINE_MS,
  DEFINITION_DIRECTORIES_MAX,
  ERASE_WITHIN_MS_DEFAULT,
  LIMIT_DEFAULTS,
  type Limits,
  PROVIDER_NAME_CHARACTERS_MAX,
  PROVIDERS_MAX,
  SHARDS_MAX,
  TAKEOVER_MS_MAX,
} from '../../base/bounds.ts';
import { type Clock, type Random, randomNumber, systemClock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import { parseSettings, type Settings, type SettingsInput } from '../../base/settings.ts';
import type { ClusterPlan } from '../../cluster/plan.ts';
import type { Durability } from '../../journal/journal.ts';
import type { GivenKeys } from '../../journal/store/store-key.ts';
import { anthropic } from '../../models/anthropic/anthropic.ts';
import type { GovernorLimits } from '../../models/governor/limits.ts';
import type { ModelProvider, ProviderData } from '../../models/provider.ts';
import { isModelProvider, isProviderData } from '../../models/provider-check.ts';
import type { McpServerMap } from '../../tools/mcp/protocol.ts';
import { parseServers } from '../../tools/mcp/server-options.ts';
import { type Agent, agent, checkAgents } from './agent.ts';
import { checkCluster, clusterSchema } from './cluster-option.ts';
import { checkEncryption, checkEncryptionForm, type EncryptionOptions, encryptionSchema } from './encryption-option.ts';
import { type GuardedLogger, type Logger, loggerOf } from './logger-option.ts';
import { checkRedact, type RedactOption, redactSchema } from './redact-option.ts';
import { type Retention, retentionOf, retentionSchema } from './retention.ts';
import type { SearchOptions, SearchScope } from './search-scope.ts';
import { type StoreOptions, storeSchema } from './store-option.ts';
import { type CheckedWebhook, checkWebhooks, type WebhookOptions, webhooksSchema } from './webhook-options.ts';

export type { GuardedLogger, Logger } from './logger-option.ts';

/** Threads of a runtime. */
export interface ThreadOptions {
  /**
   * Number of session threads. If the store was made with another number, `open` changes the store to this number; an
   * encrypted store is refused instead. 0: sessions run on the host thread, and the store keeps its number. Default:
   * the number of the store, or 1 for a new store.
   */
  readonly sessions?: number;
  /** Number of model threads of each session thread; 0: model calls run on the session thread. Default 1. */
  readonly models?: number;
  /** Number of tool threads of each session thread. Default: the number of the machine's cores. */
  readonly tools?: number;
}

/**
 * The limits of a provider's API key, for all sessions of this runtime together; default: no limit. With several
 * providers, either each provider has the same limits, or the limits stand under the providers' names: `{ claude: {
 * requestsPerMinute: 50 } }`. Each session thread gets an equal share of the limits. Calls beyond a limit wait, and
 * the session trees are served in rotation. The pause of all calls after a 429 or 529 and the circuit breaker work even
 * without limits.
 */
export type GovernorOptions = GovernorLimits | Readonly<Record<string, GovernorLimits>>;

/**
 * The enrichers: actors beside a session, each with its own model. Melete prepares the turn of a user's message
 * (skills, workflows, goals, the session's name). Mneme remembers messages that leave the window, and recalls earlier
 * ones.
 */
export interface EnricherOptions {
  readonly melete?: { readonly model: string };
  /** Mneme, the enricher that remembers. Not allowed if an agent has compression, because a session cannot use both. */
  readonly mneme?: { readonly model: string };
}

/** The options of `open`. */
export interface OpenOptions {
  /**
   * A provider, provider data (`anthropic()`, `scripted()`), or the URL of a module whose default export is a provider.
   */
  readonly provider?: ModelProvider | ProviderData | URL;
  /**
   * Providers by name: with `{ gpt: … }` the model `gpt/gpt-5.5` is the model `gpt-5.5` of that provider. A model
   * without such a prefix belongs to `provider`, or to the first provider of this option if `provider` is not given. A
   * name has 1 to 64 letters, digits, `_` and `-`. There are at most 32 providers.
   */
  readonly providers?: Readonly<Record<string, ModelProvider | ProviderData | URL>>;
  readonly agents?: readonly Agent<unknown>[];
  readonly threads?: ThreadOptions;
  readonly durability?: Durability;
  /**
   * Takes over the directory from the process that has it open, instead of rejecting with `StoreLockedError`. The other
   * process begins no further half-step, waits up to `deadlineMs` (default 10,000) for those that run, and releases the
   * directory. Its `runtime.closed` resolves. Half-steps that take longer are cut, and begin again in the process that
   * takes over. `open` rejects with `StoreLockedError` if the directory is not released in time, or if another process
   * is already taking it over. If no process has the directory open, this option changes nothing. Both processes must
   * run on the same machine.
   */
  readonly takeover?: boolean | { readonly deadlineMs?: number };
  readonly settings?: SettingsInput;
  readonly limits?: Partial<Limits>;
  readonly governor?: GovernorOptions;
  /**
   * Directories of skills: Markdown files with front matter. If two directories define the same name, the later
   * directory wins. The files are read again when they change. `workflows` works in the same way.
   */
  readonly skills?: string | readonly string[];
  readonly workflows?: string | readonly string[];
  /** Directories of agent definitions, which are added to `agents`. Only `open` reads them. */
  readonly specialists?: string | readonly string[];
  /** Enrichers of main sessions. An enricher without a model is off. */
  readonly enrichers?: EnricherOptions;
  /** The sessions that `search_messages`, `view_messages` and Mneme's recall can reach. */
  readonly search?: SearchOptions;
  /**
   * MCP servers by name, or the path or `file:` URL of an `mcp.json`, which is read again when it changes. `mcpTools`
   * grants their tools to an agent. Needs the package `@modelcontextprotocol/client`.
   */
  readonly mcp?: McpServerMap | string | URL;
  /**
   * Encrypts a new store with AES-256-GCM, and opens an encrypted store. A store is encrypted from the start or not at
   * all. An encrypted store keeps its number of session threads. Not allowed for `':memory:'`.
   */
  readonly encryption?: EncryptionOptions;
  /**
   * Redacts each text before it is stored, published, or sent in a later request. The option is the URL of a module
   * whose default export is a `RedactFunction`. With `threads.sessions: 0` it may also be the function itself.
   */
  readonly redact?: RedactOption;
  /**
   * How long data that sessions no longer need is kept. Default: as long as its session exists; entries of the audit
   * log are kept forever.
   */
  readonly retention?: Retention;
  /** How the files of the store are kept while it is open. */
  readonly store?: StoreOptions;
  /**
   * Receivers of notices over HTTP. There are two notices: a tool call waits for a person, and a turn ended. At most 16
   * receivers.
   */
  readonly webhooks?: readonly WebhookOptions[];
  /**
   * The cluster that this runtime joins, for example made by `postgres()` of `troupe/postgres`. The database of the
   * cluster has the log, and the directory has a copy. Without lines `open` waits until no other node has the sessions. Not allowed
   * with `takeover`, `webhooks` and `encryption.previousKeys`.
   */
  readonly cluster?: ClusterPlan;
  /**
   * A pino logger, or an object with its methods. Default: warnings and errors are written to stderr, as pino writes
   * them. The environment variable `LOG_LEVEL` sets another level; the level `silent` turns the log off. `false`: no
   * log.
   */
  readonly logger?: Logger | false;
  /**
   * A clock for tests. With your own clock or random numbers, sessions and models run on the host thread, unless
   * `threads` sets other numbers.
   */
  readonly clock?: Clock;
  readonly random?: Random;
}

/** The source of the definitions of MCP servers. `path` is absolute. */
export type McpSource =
  | { readonly kind: 'servers'; readonly servers: McpServerMap }
  | { readonly kind: 'file'; readonly path: string };

/** Directories of definition files, in order. */
export interface DefinitionDirectories {
  readonly skills: readonly string[];
  readonly workflows: readonly string[];
  readonly specialists: readonly string[];
}

/** A provider of a runtime. */
export interface CheckedProvider {
  /** The provider's name in the option `providers`; empty for the provider of the option `provider`. */
  readonly key: string;
  readonly provider: ModelProvider | ProviderData;
  /** The limits of the provider's key; undefined without limits. */
  readonly governor: GovernorLimits | undefined;
  /** The option that holds these limits. */
  readonly governorOption: string;
}

/** Options with every default filled in. */
export interface CheckedOptions {
  /** At least one provider. The first provider makes the calls of models whose name has no provider's prefix. */
  readonly providers: readonly CheckedProvider[];
  readonly agents: readonly Agent<unknown>[];
  /**
   * The agent of sessions for which a caller names no agent: the only agent of the option `agents`; empty if there are
   * several.
   */
  readonly onlyAgent: string;
  readonly threads: Required<ThreadOptions>;
  /** The number of shards that the store must have; undefined: an existing store keeps its number. */
  readonly shards: number | undefined;
  readonly durability: Durability;
  /** Milliseconds that the present holder of the directory gets to finish its half-steps; missing: no takeover. */
  readonly takeoverMs?: number;
  readonly settings: Settings;
  readonly limits: Limits;
  /** Directories of definitions; undefined when none is given. */
  readonly definitions: DefinitionDirectories | undefined;
  /** The enrichers that are on; undefined when all are off. */
  readonly enrichers: EnricherOptions | undefined;
  readonly searchScope: SearchScope;
  /** The source of the MCP servers; undefined when there are none. */
  readonly mcp: McpSource | undefined;
  readonly encryption: GivenKeys | undefined;
  readonly redact: RedactOption | undefined;
  readonly webhooks: readonly CheckedWebhook[];
  /** The cluster of the option; undefined: the runtime is in no cluster. */
  readonly cluster: ClusterPlan | undefined;
  /** How long data is kept; undefined: as long as its session exists. */
  readonly retention: Retention | undefined;
  readonly store: Required<StoreOptions>;
  /** The logger; undefined when nothing is logged. */
  readonly logger: GuardedLogger | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

const count = z.number().int().min(0).max(SHARDS_MAX);
const bound = z.number().int().positive();
const isFunction = (value: unknown): boolean => typeof value === 'function';
const hasMethods =
  (...names: readonly string[]) =>
  (value: unknown): boolean =>
    typeof value === 'object' && value !== null && names.every((name) => isFunction(Reflect.get(value, name)));

const enricher = z.strictObject({ model: z.string().trim().min(1) }).optional();
const path = z.string().min(1);
const paths = z.union([path.transform((only) => [only]), z.array(path).max(DEFINITION_DIRECTORIES_MAX)]).optional();

type Given<T> = { readonly [Key in keyof T]?: T[Key] | undefined };
type PathOption = 'skills' | 'workflows' | 'specialists';
type NestedOption = 'threads' | 'limits' | 'enrichers' | 'search' | 'retention' | 'store';
type GivenLimits = Given<GovernorLimits>;

/** Options whose form was checked. A key may have the value `undefined`, and directories are lists. */
type GivenOptions = Given<
  Omit<
    OpenOptions,
    PathOption | NestedOption | 'governor' | 'agents' | 'settings' | 'takeover' | 'webhooks' | 'encryption'
  >
> & {
  readonly [Key in NestedOption]?: Given<NonNullable<OpenOptions[Key]>> | undefined;
} & { readonly [Key in PathOption]?: readonly string[] | undefined } & {
  readonly agents?: readonly unknown[] | undefined;
  readonly settings?: unknown;
  readonly takeover?: boolean | { readonly deadlineMs?: number | undefined } | undefined;
  readonly encryption?: z.infer<typeof encryptionSchema> | undefined;
  readonly webhooks?: Parameters<typeof checkWebhooks>[0];
  readonly governor?: GivenLimits | Readonly<Record<string, GivenLimits>> | undefined;
};

const provider = z.custom<ModelProvider | ProviderData | URL>(
  (value) => value instanceof URL || isModelProvider(value) || isProviderData(value),
  'must be a provider (name, generate), anthropic(), scripted(), or the URL of a module',
);
const providerName = z
  .string()
  .regex(
    new RegExp(`^[A-Za-z0-9_-]{1,${PROVIDER_NAME_CHARACTERS_MAX}}$`, 'u'),
    `the name of a provider has 1 to ${PROVIDER_NAME_CHARACTERS_MAX} letters, digits, "_" and "-"`,
  );
const governorLimits = z.strictObject({
  concurrency: bound.optional(),
  requestsPerMinute: bound.optional(),
  inputTokensPerMinute: bound.optional(),
  outputTokensPerMinute: bound.optional(),
});

/** The schema of the options of `open`. Each option is a key of the schema. */
export const openSchema: z.ZodType<GivenOptions> = z.strictObject({
  provider: provider.optional(),
  providers: z
    .record(z.string(), provider)
    .superRefine((given, context) => {
      const names = Object.keys(given);
      if (names.length === 0 || names.length > PROVIDERS_MAX) {
        context.addIssue({ code: 'custom', message: `must have 1 to ${PROVIDERS_MAX} providers by name` });
      }
      for (const name of names) {
        const problem = providerName.safeParse(name).error?.issues[0]?.message;
        if (problem !== undefined) context.addIssue({ code: 'custom', path: [name], message: problem });
      }
    })
    .optional(),
  agents: z.array(z.unknown()).min(1).optional(),
  threads: z
    .strictObject({ sessions: count.optional(), models: count.optional(), tools: count.min(1).optional() })
    .optional(),
  durability: z.enum(['flush', 'strict', 'os']).optional(),
  takeover: z
    .union([z.boolean(), z.strictObject({ deadlineMs: z.number().min(0).max(TAKEOVER_MS_MAX).optional() })])
    .optional(),
  settings: z.unknown().optional(),
  limits: z
    .strictObject({
      mailbox: bound.optional(),
      mailboxBytes: bound.optional(),
      waitingBytes: bound.optional(),
      messageBytes: bound.optional(),
      toolResultBytes: bound.optional(),
      children: bound.optional(),
      spawnsWaiting: z.number().int().min(0).optional(),
      liveSessions: bound.optional(),
      liveBytes: bound.optional(),
      depth: z.number().int().min(0).optional(),
      toolRounds: bound.optional(),
      answerCorrections: z.number().int().min(0).optional(),
    })
    .optional(),
  governor: z.union([governorLimits, z.record(z.string(), governorLimits)]).optional(),
  skills: paths,
  workflows: paths,
  specialists: paths,
  enrichers: z.strictObject({ melete: enricher, mneme: enricher }).optional(),
  search: z
    .strictObject({
      scope: z
        .custom<SearchScope>(
          (value) => value === 'tree' || value === 'all' || isFunction(value),
          "must be 'tree', 'all' or a function",
        )
        .optional(),
    })
    .optional(),
  mcp: z
    .custom<OpenOptions['mcp']>(
      (value) => (typeof value === 'string' && value !== '') || isFileUrl(value) || isRecord(value),
      'must be MCP servers by name, or the path or file: URL of an mcp.json',
    )
    .optional(),
  encryption: encryptionSchema.optional(),
  redact: redactSchema.optional(),
  webhooks: webhooksSchema.optional(),
  cluster: clusterSchema.optional(),
  retention: retentionSchema.optional(),
  store: storeSchema.optional(),
  logger: z
    .custom<Logger | false>(
      (value) => value === false || hasMethods('info', 'warn', 'error', 'debug')(value),
      'must be a pino logger, or false',
    )
    .optional(),
  clock: z
    .custom<Clock>(
      hasMethods('now', 'monotonic', 'setTimer', 'clearTimer'),
      'must have now, monotonic, setTimer, clearTimer',
    )
    .optional(),
  random: z.custom<Random>(isFunction, 'must be a function').optional(),
});

/**
 * Throws a `ConfigError` that names the key, the value's type and the expected value. `defaultLogger`: used if the
 * options have no logger.
 */
export function checkOptions(options: unknown, defaultLogger?: Logger): CheckedOptions {
  checkEncryptionForm(options);
  const given = parseOption(openSchema, '', options ?? {}, 'once');
  const isTest = given.clock !== undefined || given.random !== undefined;
  const threads = given.threads ?? {};
  const sessionThreads = threads.sessions ?? (isTest ? 0 : 1);
  const agents = checkAgents(given.agents ?? [agent({ name: 'default' })]);
  return {
    providers: providersOf(given),
    agents,
    onlyAgent: new Set(agents.map(({ name }) => name)).size === 1 ? (agents[0]?.name ?? '') : '',
    threads: {
      sessions: sessionThreads,
      models: threads.models ?? (isTest ? 0 : 1),
      tools: threads.tools ?? availableParallelism(),
    },
    shards: threads.sessions === 0 ? undefined : threads.sessions,
    durability: given.durability ?? 'flush',
    ...defined({ takeoverMs: takeoverMsOf(given.takeover) }),
    settings: parseSettings(given.settings),
    limits: { ...LIMIT_DEFAULTS, ...defined(given.limits ?? {}) },
    definitions: directoriesOf(given),
    enrichers: enrichersOf(given.enrichers),
    searchScope: given.search?.scope ?? 'tree',
    mcp: mcpSourceOf(given.mcp),
    encryption: checkEncryption(given.encryption),
    redact: checkRedact(given.redact, sessionThreads),
    webhooks: checkWebhooks(given.webhooks),
    cluster: checkCluster(given),
    retention: retentionOf(given.retention),
    store: { eraseWithinMs: given.store?.eraseWithinMs ?? ERASE_WITHIN_MS_DEFAULT },
    logger: loggerOf(given.logger ?? defaultLogger ?? false),
    clock: given.clock ?? systemClock,
    random: given.random ?? randomNumber,
  };
}

function takeoverMsOf(given: GivenOptions['takeover']): number | undefined {
  if (given === undefined || given === false) return undefined;
  return given === true ? CLOSE_DEADLINE_MS : (given.deadlineMs ?? CLOSE_DEADLINE_MS);
}

function enrichersOf(
  given: {
    readonly [Key in keyof EnricherOptions]?: EnricherOptions[Key] | undefined;
  } = {},
): EnricherOptions | undefined {
  const { melete, mneme } = given;
  const enrichers = defined({ melete, mneme });
  return enrichers.melete === undefined && enrichers.mneme === undefined ? undefined : enrichers;
}

function isFileUrl(value: unknown): value is URL {
  return value instanceof URL && value.protocol === 'file:';
}

function mcpSourceOf(given: OpenOptions['mcp']): McpSource | undefined {
  if (given === undefined) return undefined;
  if (typeof given === 'string') return { kind: 'file', path: resolve(given) };
  if (isFileUrl(given)) return { kind: 'file', path: fileURLToPath(given) };
  return { kind: 'servers', servers: parseServers(given as McpServerMap) };
}

function directoriesOf({
  skills = [],
  workflows = [],
  specialists = [],
}: {
  readonly [Key in keyof DefinitionDirectories]?: readonly string[] | undefined;
}): DefinitionDirectories | undefined {
  if (skills.length + workflows.length + specialists.length === 0) return undefined;
  return { skills, workflows, specialists };
}

function providersOf({ provider: unnamed, providers = {}, governor }: GivenOptions): readonly CheckedProvider[] {
  const named = Object.entries(providers);
  const all = unnamed === undefined && named.length > 0 ? named : [['', unnamed ?? anthropic()] as const, ...named];
  const limitsOf = governorOf(
    governor,
    named.map(([name]) => name),
  );
  return all.map(([key, given]) => ({
    key,
    provider: given instanceof URL ? { kind: 'module', url: given.href } : given,
    ...limitsOf(key),
  }));
}

/**
 * Returns the function that finds a provider's limits: the limits under its name, or the same limits for all providers.
 */
function governorOf(
  given: GivenOptions['governor'],
  names: readonly string[],
): (key: string) => Pick<CheckedProvider, 'governor' | 'governorOption'> {
  if (given === undefined || !isByName(given)) {
    const governor = given === undefined ? undefined : defined(given);
    return () => ({ governor, governorOption: 'governor' });
  }
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const key = `governor.${unknown}`;
    const known =
      names.length === 0 ? 'there is no option providers; give the limits without a name' : names.join(', ');
    throw new ConfigError(`option ${JSON.stringify(key)}: must be the name of a provider: ${known}`, { data: { key } });
  }
  return (key) => {
    const own = Object.hasOwn(given, key) ? given[key] : undefined;
    return { governor: own === undefined ? undefined : defined(own), governorOption: `governor.${key}` };
  };
}

function isByName(governor: NonNullable<GivenOptions['governor']>): governor is Readonly<Record<string, GivenLimits>> {
  const values: readonly unknown[] = Object.values(governor);
  return values.length > 0 && values.every((value) => typeof value === 'object');
}
