/**
 * Assembles a runtime from checked options and a `Place`: counters, links, event hub, handles. Once `open` holds a
 * directory, it calls `assembleWithModels`, which adds the vendor's list of models and the MCP servers. A simulator
 * calls `assembleRuntime` with its own ports, and has no list and no servers.
 */
import { defined } from '../../base/defined.ts';
import { asError, ShardMovedError, type TroupeError } from '../../base/errors.ts';
import { agentKey, shardOf } from '../../base/ids.ts';
import { Lane } from '../../base/lane.ts';
import type { ClusterMembership } from '../../cluster/membership.ts';
import type { ListedModel } from '../../context/model-traits.ts';
import type { DefinitionSource } from '../../definitions/definition.ts';
import type { StoreEncryption } from '../../journal/encryption/master-keys.ts';
import { type WriteBackup, writeBackup } from '../../journal/store/backup.ts';
import type { Takeover } from '../../journal/store/lock.ts';
import { shardDirectory } from '../../journal/store/manifest.ts';
import { shareOfLimits } from '../../models/governor/limits.ts';
import { createRateMemory } from '../../models/governor/rate-table.ts';
import { readModelName } from '../../models/model-name.ts';
import { modelOf } from '../../models/model-options.ts';
import type { ModelProvider, ProviderData } from '../../models/provider.ts';
import { isModelProvider } from '../../models/provider-check.ts';
import { isMemoryTool, type MessageMemory, withMemory } from '../../tools/built-in/memory-tools.ts';
import { type ShellsOfTool, shellsOf } from '../../tools/built-in/shell-thread.ts';
import type { AnyTool } from '../../tools/tool.ts';
import { type ToolBlock, ToolWatch } from '../../tools/tool-watch.ts';
import { Diagnostics, type DiagnosticsParts } from '../events/diagnostics.ts';
import { EventHub } from '../events/event-hub.ts';
import { MessageCallbacks } from '../events/message-callbacks.ts';
import type { HostValues } from '../host/host-services.ts';
import { firstModelList, KnownModels } from '../host/known-models.ts';
import { type LinkParts, linkAt } from '../host/link-parts.ts';
import type { McpServers } from '../host/mcp-servers.ts';
import { createMessageMemory } from '../host/message-memory.ts';
import { ProcessHold } from '../host/process-hold.ts';
import { SessionLogs } from '../host/session-logs.ts';
import type { ShardFinder } from '../host/shard-finder.ts';
import type { ShardLines } from '../host/shard-lines.ts';
import { ShardLink } from '../host/shard-link.ts';
import { type ShardWorker, startWorker } from '../host/shard-threads.ts';
import type { SystemFunction } from '../protocol/agent.ts';
import { agentSource, checkMcpServers, toolValues } from '../protocol/agent.ts';
import { checkAgentModels, checkProviderOptions, listedInUse, ModelWarnings } from '../protocol/agent-models.ts';
import type { ApprovalPredicate, Guardrails } from '../protocol/guardrails.ts';
import { createCounterMemory, sumOf } from '../protocol/metrics.ts';
import type { CheckedOptions, GuardedLogger } from '../protocol/options.ts';
import type { ProviderPlan, ShardCaller, ShardPlan, ShardProvider } from '../protocol/protocol.ts';
import type { UpgradeFunction } from '../protocol/upgrade.ts';
import { VERSION } from '../protocol/version.ts';
import type { MessageSearch } from '../search/client.ts';
import type { Webhooks, WebhooksParts } from '../webhooks/webhooks.ts';
import type { Announce } from './announced-servers.ts';
import { isSearched, makeSearch } from './message-search.ts';
import { createRuntime, type Runtime } from './runtime.ts';

/** The directory name that `open` takes for a store in memory. Such a store exists only as long as its runtime. */
export const MEMORY = ':memory:';

/** The directories and threads that a runtime is given. */
export interface Place {
  /** Path of the data directory; missing: the store is in memory. */
  readonly directory?: string;
  /** The result store: the full texts of shortened results. In memory, search and webhooks also keep files here. */
  readonly resultStore: string;
  readonly shards: number;
  /** Missing: the store is not encrypted. */
  readonly encryption?: StoreEncryption;
  /** The thread of the first shard, started before the directory was opened. After an error the caller ends it. */
  readonly thread?: ShardWorker;
  /** The membership of this runtime in its cluster; missing: the runtime is in no cluster. */
  readonly cluster?: ClusterMembership;
  /** Finds the shards of the cluster; present with `cluster`. */
  readonly finder?: ShardFinder;
  /** The lines to other nodes and from them; missing: this node has none. */
  readonly lines?: Pick<ShardLines, 'serve'>;
  /** Writes a server's address into the lock of the directory, or removes it; missing: the store is in memory. */
  readonly announce?: Announce;
  /** Registers a function to call when another process takes over the directory. Missing in memory and in a cluster. */
  readonly onTakeover?: (found: (takeover: Takeover) => void) => void;
  /** Releases the directory. For a store in memory it deletes the store's temporary files. */
  readonly release: () => Promise<void>;
}

/** Ports that take the place of this machine's threads, webhooks and files. A simulator has its own. */
export type LinkPorts = Partial<Pick<LinkParts, 'startShard' | 'startInPlace' | 'shardPorts'>> & {
  /** Opens the webhooks; missing: they are sent over HTTP. */
  readonly webhooks?: OpenWebhooks;
  /** Writes backups; missing: into the file system of the machine. */
  readonly writeBackup?: WriteBackup;
};

/** Opens the webhooks of a runtime. */
type OpenWebhooks = (parts: WebhooksParts) => Promise<Webhooks>;

/** The parts of a runtime that `assembleWithModels` adds. A simulator has none of them. */
interface RuntimeSources {
  /** The vendor's list of models. */
  readonly known: KnownModels;
  /** The log lines about the models in use. */
  readonly warnings: ModelWarnings;
  readonly mcp: McpServers | undefined;
  readonly toolWatch: ToolWatch;
  /** The logger for lines of the host thread; undefined when nothing is logged. */
  readonly logger: GuardedLogger | undefined;
}

/** The log line about tools that held the host thread. */
function blockText({ tools, isKnown, ms }: ToolBlock): string {
  const names = tools.map((name) => JSON.stringify(name)).join(', ');
  const remedy = 'a tool given by URL runs in the tool threads instead';
  if (isKnown) return `tool ${names} held the host thread for ${ms} ms; ${remedy}`;
  return `the host thread stood still for ${ms} ms while these tools ran on it: ${names}; ${remedy}`;
}

/**
 * Calls `assembleRuntime` with the vendor's list of models and the MCP servers. Closing the runtime closes `known` and
 * `mcp` before it releases `place`. Rejects as `assembleRuntime` does, and with `ConfigError` for MCP servers that
 * cannot be used.
 */
export async function assembleWithModels(
  checked: CheckedOptions,
  place: Place,
  definitions?: DefinitionSource,
): Promise<Runtime> {
  const { clock } = checked;
  const logger = await hostLogger(checked);
  const list = firstModelList(checked.providers.map(({ provider }) => provider));
  const known = await KnownModels.open({ list, directory: place.directory, clock, logger });
  const warnings = new ModelWarnings(checked);
  warnings.log(known.models);
  const mcp = await openMcp({ ...checked, logger }, place.directory);
  const toolWatch = new ToolWatch((block) => logger?.warn({ ms: block.ms }, blockText(block)));
  const endUses = shellsInUse(checked).map((shells) => shells.use());
  const end = async (): Promise<void> => {
    for (const endUse of endUses) endUse();
    await Promise.all([known.close(), mcp?.close()]);
  };
  const release = async (): Promise<void> => {
    await end();
    await place.release();
  };
  try {
    const sources = { known, warnings, mcp, toolWatch, logger };
    return await assembleRuntime(checked, { ...place, release }, {}, definitions, sources);
  } catch (error) {
    await end();
    throw error;
  }
}

/** The logger for lines of the host thread. It redacts them if the option `redact` is set. */
async function hostLogger({ logger, redact }: CheckedOptions): Promise<GuardedLogger | undefined> {
  if (logger === undefined || redact === undefined) return logger;
  return (await import('../redaction/redacted-logger.ts')).redactedLogger(logger, redact);
}

/** The shells of the agents' `bash` tools. */
function shellsInUse({ agents }: CheckedOptions): readonly ShellsOfTool[] {
  return [...new Set(agents.flatMap(({ tools = [] }) => tools.flatMap((tool) => shellsOf(tool) ?? [])))];
}

/** The MCP servers. Their code is imported only if the option `mcp` is set. */
async function openMcp(
  { mcp: source, agents, clock, logger }: CheckedOptions,
  directory: string | undefined,
): Promise<McpServers | undefined> {
  if (source === undefined) {
    checkMcpServers(agents, []);
    return undefined;
  }
  const { McpServers } = await import('../host/mcp-servers.ts');
  return McpServers.open({ source, agents, directory, clock, logger });
}

/**
 * Starts the shards of `place` and returns the runtime over them. Rejects with `ConfigError` for an option that a model
 * refuses, and with the error that keeps a shard from starting. In that case no shard is left running, and the caller
 * still owns `place`.
 */
export async function assembleRuntime(
  checked: CheckedOptions,
  place: Place,
  ports: LinkPorts = {},
  definitions?: DefinitionSource,
  sources?: RuntimeSources,
): Promise<Runtime> {
  const listed = (): readonly ListedModel[] => sources?.known.models ?? [];
  checkAgentModels(checked, listed());
  checkProviderOptions(checked);
  const startInPlace =
    checked.threads.sessions > 0
      ? undefined
      : (ports.startInPlace ?? (await import('../host/shard-in-place.ts')).startInPlace);
  const links: ShardLink[] = [];
  const logsTo = (logger: GuardedLogger | undefined): SessionLogs =>
    new SessionLogs(
      logger,
      checked.providers.map(({ provider }) => provider),
    );
  const logs = logsTo(checked.logger);
  const logger = sources === undefined ? checked.logger : sources.logger;
  const hostLogs = logger === checked.logger ? logs : logsTo(logger);
  const hub = new EventHub({
    linkOf: (session) => linkAt(links, shardOf(session, links.length)),
    links: () => links,
    now: () => checked.clock.now(),
  });
  const callbacks = new MessageCallbacks({
    listen: (session, on) => linkAt(links, shardOf(session, links.length)).listen(session, on),
    log: (line) => hostLogs.write(line),
  });
  const search = makeSearch(checked, place, links);
  const webhooks = await openWebhooks({ ...checked, logger }, place, links, ports.webhooks);
  const found = isSearched(checked) ? search : undefined;
  const values: HostValues = {
    ...hostValues(checked, links, {
      search: found,
      definitions,
      mcp: sources?.mcp,
      toolWatch: sources?.toolWatch,
    }),
    eraseIndex: (sessions) => search.erase(sessions),
    compactions: new Lane(1),
  };
  const agents = checked.agents.map(agentSource);
  const degraded = new Map<number, TroupeError>();
  const counters: SharedArrayBuffer[] = [];
  const rates = checked.providers.map(() => createRateMemory());
  let { thread } = place;
  const takeThread = (): ShardWorker | undefined => {
    const taken = thread;
    thread = undefined;
    return taken;
  };
  const hold = new ProcessHold(counters, async () => runtime?.close());
  for (let index = 0; index < place.shards; index += 1) {
    const memory = createCounterMemory(checked.providers.length);
    counters.push(memory);
    links.push(
      new ShardLink({
        startShard: (plan) =>
          hold.watch(takeThread() ?? startWorker({ index, usesStore: plan.directory !== undefined })),
        ...ports,
        plan: shardPlan(checked, place, {
          index,
          agents,
          counters: memory,
          providers: shardProviders(checked, rates, { index, count: place.shards }),
        }),
        values,
        startInPlace,
        ...defined({ finder: place.finder }),
        learned: () => ({ models: listedInUse(checked, listed()), mcp: sources?.mcp?.lists ?? [] }),
        clock: checked.clock,
        random: checked.random,
        listener: {
          events: (events) => hub.dispatch(events),
          introduced: (sessions) => diagnostics.introduced(sessions),
          degraded: (error) => {
            if (error === undefined) degraded.delete(index);
            else degraded.set(index, error);
            // The store of another node is that node's matter.
            if (error instanceof ShardMovedError && !linkAt(links, index).isElsewhere) place.cluster?.lost(error);
          },
          log: (line) => logs.write(line),
          said: (note) => callbacks.said(note),
          noticed: (note) => webhooks?.take(index, note),
          remind: (event) => hub.remind(event),
          resumed: () => {
            hub.resumed((session) => shardOf(session, place.shards) === index);
            webhooks?.resumed(index);
            diagnostics.look();
          },
          lost: (error) => hub.fail((session) => shardOf(session, place.shards) === index, error),
        },
      }),
    );
  }
  const diagnostics = new Diagnostics({
    isElsewhere: () => links.every((link) => link.isElsewhere),
    ...(place.lines === undefined
      ? {}
      : { isAway: (session: string) => linkAt(links, shardOf(session, links.length)).isElsewhere }),
    tap: (reader) => hub.tap(reader),
    introduce: (on) => {
      for (const link of links) link.introduce(on);
    },
    modelOf: modelNames(checked),
    commits: () => ({ flushes: sumOf(counters, 'flushes'), journalTurns: sumOf(counters, 'journalTurns') }),
    now: () => checked.clock.now(),
    failed: (error) => hostLogs.write({ level: 'warn', message: `diagnostics: ${asError(error).message}` }),
  });
  place.lines?.serve(links, { search: (request) => search.answer(request) });
  const started = startAll(links);
  // The cluster may have asked for a shard already, and a link cannot hand over what it does not start.
  place.cluster?.onGive((shard) => void linkAt(links, shard).handOver());
  await started;
  // A new webhook makes its cursor durable before the embedder can use the runtime. If that fails, it retries later.
  await webhooks?.begin();
  const learn = (): void => {
    for (const link of links) link.learn();
  };
  sources?.known.begin(() => {
    sources.warnings.log(listed());
    learn();
  });
  sources?.mcp?.begin(learn);
  const runtime = createRuntime({
    links,
    hub,
    callbacks,
    diagnostics,
    counters,
    providers: checked.providers.map(({ key }) => key),
    agentNames: new Set(checked.agents.map((each) => each.name)),
    onlyAgent: checked.onlyAgent,
    degraded: () => [...degraded.values()][0],
    toolBlocks: () => sources?.toolWatch.blocks ?? 0,
    release: async () => {
      // A node that never had the shards has not used its first thread.
      await thread?.exit();
      await place.release();
    },
    store: place.directory,
    cluster: place.cluster,
    writeBackup: ports.writeBackup ?? writeBackup,
    now: () => checked.clock.now(),
    definitions,
    search,
    webhooks,
    info: {
      version: VERSION,
      node: process.version,
      directory: place.directory ?? MEMORY,
      durability: checked.durability,
      threads: { ...checked.threads, sessions: checked.threads.sessions === 0 ? 0 : place.shards },
      shards: place.shards,
      defaultViewMode: checked.settings.session.defaultViewMode,
    },
  });
  return runtime;
}

function shardPlan(
  checked: CheckedOptions,
  place: Place,
  shard: Pick<ShardPlan, 'index' | 'agents' | 'counters' | 'providers'>,
): ShardPlan {
  return {
    ...shard,
    count: place.shards,
    resultStore: place.resultStore,
    durability: checked.durability,
    settings: checked.settings,
    limits: checked.limits,
    eraseWithinMs: checked.store.eraseWithinMs,
    ...defined({
      enrichers: checked.enrichers,
      retention: checked.retention,
      encryption: place.encryption,
      redactModule: checked.redact instanceof URL ? checked.redact.href : undefined,
    }),
    threads: { models: checked.threads.models, tools: checked.threads.tools },
    publishesNotices: checked.webhooks.length > 0,
    ...(place.directory === undefined ? {} : { directory: shardDirectory(place.directory, shard.index) }),
  };
}

/** Starts all shards or none: if one cannot start, the others are closed again. */
async function startAll(links: readonly ShardLink[]): Promise<void> {
  const results = await Promise.allSettled(links.map((link) => link.start()));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed === undefined) return;
  await Promise.allSettled(links.map((link) => link.close(0)));
  throw failed.reason;
}

/** The providers of one shard, with its share of their limits. `rates`: the memory of each provider. */
function shardProviders(
  { providers }: CheckedOptions,
  rates: readonly SharedArrayBuffer[],
  { index, count }: Pick<ShardPlan, 'index' | 'count'>,
): readonly ShardProvider[] {
  return providers.map(({ key, provider, governor, governorOption }, each) => ({
    key,
    plan: providerPlan(provider),
    ...(governor === undefined ? {} : { governor: shareOfLimits(governor, index, count, governorOption) }),
    rates: rates[each] ?? createRateMemory(),
  }));
}

/** Throws `ConfigError` if a provider's limits are too small for this number of session threads. */
export function checkShares({ providers }: CheckedOptions, count: number): void {
  for (const { governor, governorOption } of providers) {
    if (governor !== undefined) shareOfLimits(governor, 0, count, governorOption);
  }
}

function providerPlan(provider: ModelProvider | ProviderData): ProviderPlan {
  return isModelProvider(provider) ? { kind: 'host', name: provider.name } : { kind: 'data', data: provider };
}

function providerName(provider: ModelProvider | ProviderData): string {
  return isModelProvider(provider) ? provider.name : provider.kind;
}

/** Returns a function that finds an agent's model, and the name of the model's provider, by the agent's name. */
function modelNames({ agents, settings, providers }: CheckedOptions): DiagnosticsParts['modelOf'] {
  const byName = new Map(agents.map((each) => [each.name, each]));
  const keys = providers.map(({ key }) => key);
  const names = new Map(providers.map(({ key, provider }) => [key, providerName(provider)]));
  const provider = names.get(keys[0] ?? '') ?? '';
  return (name, isChild) => {
    const found = byName.get(name);
    if (found === undefined) return { provider };
    const { model, provider: key } = readModelName(modelOf(found, settings, isChild), keys);
    return { model, provider: key === undefined ? provider : (names.get(key) ?? provider) };
  };
}

/** The provider values by their keys. */
function providerValues({ providers }: CheckedOptions): ReadonlyMap<string, ModelProvider> {
  return new Map(
    providers.flatMap(({ key, provider }) => (isModelProvider(provider) ? [[key, provider] as const] : [])),
  );
}

/** The webhooks. Their code is imported only if there are webhooks. The caller fills `links` after this call. */
async function openWebhooks(
  { webhooks, clock, random, logger }: CheckedOptions,
  place: Place,
  links: readonly ShardLink[],
  port: OpenWebhooks | undefined,
): Promise<Webhooks | undefined> {
  if (webhooks.length === 0) return undefined;
  const shards = Array.from(
    { length: place.shards },
    (_, index): ShardCaller => ({
      call: (method, request, isRepeatable) => linkAt(links, index).call(method, request, isRepeatable),
    }),
  );
  const opened = port ?? (async (parts) => (await import('../webhooks/webhooks.ts')).Webhooks.open(parts));
  return opened({ webhooks, shards, directory: place.directory ?? place.resultStore, clock, random, logger });
}

/** The tool values of an agent. Tools that read messages are bound to this runtime. */
function boundTools(
  values: ReadonlyMap<string, AnyTool>,
  memory: MessageMemory | undefined,
): ReadonlyMap<string, AnyTool> {
  if (memory === undefined) return values;
  return new Map([...values].map(([name, tool]) => [name, isMemoryTool(tool) ? withMemory(tool, memory) : tool]));
}

function hostValues(
  checked: CheckedOptions,
  links: readonly ShardLink[],
  services: {
    readonly search: MessageSearch | undefined;
    readonly definitions: DefinitionSource | undefined;
    readonly mcp: McpServers | undefined;
    readonly toolWatch: ToolWatch | undefined;
  },
): HostValues {
  const { search, definitions, mcp, toolWatch } = services;
  const memory =
    search === undefined
      ? undefined
      : createMessageMemory({
          search,
          linkOf: (session) => linkAt(links, shardOf(session, links.length)),
          scope: checked.searchScope,
          resultsMax: checked.settings.recall.maxResults,
        });
  const systems = new Map<string, SystemFunction>();
  const approvals = new Map<string, ApprovalPredicate>();
  const guardrails = new Map<string, Guardrails>();
  const upgrades = new Map<string, UpgradeFunction>();
  for (const { name, version, upgrade, system, approve, guardrails: own } of checked.agents) {
    const key = agentKey(name, version);
    if (typeof system === 'function') systems.set(key, system);
    if (typeof approve === 'function') approvals.set(key, approve);
    if (own !== undefined) guardrails.set(key, own);
    if (upgrade !== undefined) upgrades.set(key, upgrade);
  }
  return {
    providers: providerValues(checked),
    tools: new Map(
      checked.agents.map((each) => [agentKey(each.name, each.version), boundTools(toolValues(each), memory)]),
    ),
    ...defined({ toolWatch, redact: typeof checked.redact === 'function' ? checked.redact : undefined }),
    ...(mcp === undefined ? {} : { mcpTool: (name, place, elicited) => mcp.tool(name, place, elicited) }),
    systems,
    upgrades,
    decisions: { approvals, guardrails },
    ...(checked.enrichers === undefined ? {} : { enricherLibrary: { definitions, memory } }),
  };
}
