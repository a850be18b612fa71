/**
 * Builds a shard from its plan: journal, tools, models, agents. Runs on the shard's thread, a worker or the host
 * thread.
 */
import { AgentCatalog } from '../../../actors/agent-catalog.ts';
import type { AgentDefinition } from '../../../actors/agent-plan.ts';
import {
  type LoggedResults,
  type ResultDisk,
  ResultStore,
  type ResultStoreSettings,
} from '../../../actors/result-store.ts';
import { SHARD_BOUNDS, type ShardBounds } from '../../base/bounds.ts';
import { type Clock, soon as nextTick, type Random, type Soon } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { asError, type StoreLostError, TroupeError } from '../../base/errors.ts';
import { agentKey } from '../../base/ids.ts';
import type { ClusterJournalParts } from '../../cluster/cluster-journal.ts';
import { Lease } from '../../cluster/lease.ts';
import type { Journal, JournalOptions, ThreadGate } from '../../journal/journal.ts';
import { openJournal } from '../../journal/open-journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { ResultTexts } from '../../journal/stored-results.ts';
import type { ModelThread } from '../../models/pools/threaded-pool.ts';
import type { ProviderData } from '../../models/provider.ts';
import type { HostRunner } from '../../tools/host-tools.ts';
import type { ToolPlace, ToolPool, ToolPoolListener } from '../../tools/pool.ts';
import { createToolPool, type ToolPoolOptions } from '../../tools/threads/threaded-pool.ts';
import type { RegisteredTool } from '../../tools/tool-registry.ts';
import { Counters } from '../protocol/metrics.ts';
import type { AgentSource, Learned, LogLine, ShardPlan } from '../protocol/protocol.ts';
import type { RedactFunction } from '../protocol/redact-option.ts';
import { Redacted } from '../redaction/redacted.ts';
import { loadRedact } from '../redaction/redactor.ts';
import { resultOwner } from '../shard/eraser.ts';
import { IsolatedSessions } from '../shard/isolated-sessions.ts';
import { SessionAtWork } from '../shard/session-at-work.ts';
import { Shard } from '../shard/shard.ts';
import type { ShardHost } from '../shard/shard-parts.ts';
import { type ModelSurroundings, type StartedModels, startModels } from './shard-models.ts';

/** The surroundings of a shard on its thread. */
export interface ShardSurroundings {
  /** Runs the tools given as values. */
  readonly runner: HostRunner;
  /** Makes the provider that calls a provider value on the host. */
  readonly hostProvider: ModelSurroundings['hostProvider'];
  readonly host: ShardHost;
  readonly clock: Clock;
  readonly random: Random;
  /** The exit latch of the shard's thread; missing: the thread is never ended while its script runs. */
  readonly gate?: ThreadGate;
  /** Records which session the thread works on. Missing if the death of the thread ends the process. */
  readonly sessionAtWork?: SessionAtWork;
  /** Sessions that must not be read; missing: none. */
  readonly isolated?: readonly SessionKey[];
  readonly learned: Learned;
  /** The function of the option `redact`, if it was given as a value; otherwise the plan may name its module. */
  readonly redact?: RedactFunction | undefined;
  readonly ports?: ShardPorts;
}

/** Ports of a shard that replace the ports of the machine. A simulator replaces all of them. */
export interface ShardPorts {
  readonly soon?: Soon;
  readonly bounds?: ShardBounds;
  readonly openJournal?: (options: JournalOptions) => Promise<Journal>;
  /** Opens the journal of a shard in a cluster. */
  readonly openClusterJournal?: (parts: ClusterJournalParts) => Promise<Journal>;
  readonly makeToolPool?: (options: ToolPoolOptions) => ToolPool;
  readonly startModelThread?: (provider: ProviderData) => ModelThread;
  readonly resultDisk?: ResultDisk;
}

/** A shard, and its function for messages of the host that are not requests. */
export interface BuiltShard {
  readonly shard: Shard;
  /** Takes the progress of a tool that runs on the host. */
  readonly toolProgress: (id: number, data: unknown) => void;
}

/**
 * Opens the journal, loads and checks the tools, builds the pools. Rejects with `ConfigError` for a tool, provider or
 * agent that cannot be used, and with the store's errors. After a rejection nothing is left open.
 */
export async function buildShard(plan: ShardPlan, surroundings: ShardSurroundings): Promise<BuiltShard> {
  const { runner, clock, ports = {} } = surroundings;
  const { soon = nextTick } = ports;
  const providers = plan.providers.map(({ key }) => key);
  let journal: Journal | undefined;
  let models: StartedModels | undefined;
  let listener: ToolPoolListener | undefined;
  let shard: Shard | undefined;
  let lost: StoreLostError | undefined;
  const { redactModule } = plan;
  const redact = surroundings.redact ?? (redactModule === undefined ? undefined : await loadRedact(redactModule));
  const redacted = redact && new Redacted(redact, (session) => shard?.residency.find(session)?.state.agent);
  const host = redacted?.host(surroundings.host) ?? surroundings.host;
  const counters = new Counters(plan.counters);
  const mayBegin = leased(plan, clock);
  const toolPool = (ports.makeToolPool ?? createToolPool)({
    threads: plan.threads.tools,
    clock,
    mayBegin,
    secretEnv: plan.settings.tools.secretEnv,
    hostRunner: runner,
    listener: {
      finished: (id, outcome) => listener?.finished(id, outcome),
      progress: (id, data) => listener?.progress(id, data),
    },
    onWaiting: (count) => counters.set('toolCallsWaiting', count),
    onNoise: ({ toolName, message }) =>
      host.log({ level: 'warn', message: `late error of tool ${JSON.stringify(toolName)}: ${message}` }),
  });
  try {
    // Tools, journal and models start at the same time: each mostly waits for the disk, or for threads to load code.
    const [described, opened, started] = await Promise.allSettled([
      describeAgents(plan.agents, toolPool, (line) => host.log(line)),
      (
        ports.openJournal ??
        opener(
          plan,
          ports,
          (line) => host.log(line),
          () => shard?.life.copyDamaged(),
        )
      )({
        durability: plan.durability,
        shard: plan.index,
        onLost: (error) => {
          lost = error;
          shard?.life.storeLost(error);
        },
        ...defined({ gate: surroundings.gate, directory: plan.directory, encryption: plan.encryption }),
      }),
      startModels(plan, {
        clock,
        random: surroundings.random,
        soon,
        counters,
        log: (line) => host.log(line),
        hostProvider: surroundings.hostProvider,
        startModelThread: ports.startModelThread,
        cachedPromptTokens: ports.bounds?.cachedPromptTokens,
      }),
    ]);
    // The parts are noted before an error is thrown, so that a failed start closes each part that began.
    if (opened.status === 'fulfilled') journal = opened.value;
    if (started.status === 'fulfilled') models = started.value;
    const definitions = settledValue(described);
    const { settings, limits, enrichers } = plan;
    const { learned } = surroundings;
    const catalog = new AgentCatalog(definitions, settings, limits, enrichers, learned.models, providers, learned.mcp);
    journal = settledValue(opened);
    models = settledValue(started);
    const { makePool: makeModelPool } = models;
    const makeToolPool = (toolListener: ToolPoolListener): ToolPool => {
      listener = toolListener;
      return toolPool;
    };
    const resultStore = resultStoreOf(plan, journal, ports.resultDisk);
    if (plan.cluster !== undefined) await removeGone(resultStore, plan.index, journal, (line) => host.log(line));
    shard = new Shard({
      index: plan.index,
      journal,
      catalog,
      settings,
      limits,
      retention: plan.retention,
      eraseWithinMs: plan.eraseWithinMs,
      runsAhead: runsAhead(plan, mayBegin),
      clock,
      random: surroundings.random,
      soon,
      providers,
      bounds: ports.bounds ?? SHARD_BOUNDS,
      resultStore,
      sessionAtWork: surroundings.sessionAtWork ?? new SessionAtWork(),
      isolated: new IsolatedSessions(surroundings.isolated),
      counters,
      publishesNotices: plan.publishesNotices,
      host,
      makeModelPool: redacted?.models(makeModelPool) ?? makeModelPool,
      makeToolPool: redacted?.tools(makeToolPool) ?? makeToolPool,
      redactInput: redacted && ((session, input, agent) => redacted.input(session, input, agent)),
    });
    // The store may have been lost while models and tools started.
    if (lost !== undefined) shard.life.storeLost(lost);
    return { shard, toolProgress: (id, data) => listener?.progress(id, data) };
  } catch (error) {
    await Promise.allSettled([toolPool.close(), journal?.close(), models?.close()]);
    throw error;
  }
}

/** Opens the journal of a plan. `damaged`: the copy of a shard in a cluster was found damaged. */
function opener(
  { cluster: place }: ShardPlan,
  ports: ShardPorts,
  publish: (line: LogLine) => void,
  damaged: () => void,
): (options: JournalOptions) => Promise<Journal> {
  if (place === undefined) return openJournal;
  return async ({ directory, ...options }) => {
    if (directory === undefined) throw new TroupeError('internal', 'a shard in a cluster has no directory');
    const open = ports.openClusterJournal ?? (await import('../../cluster/cluster-journal.ts')).openClusterJournal;
    return open({
      place,
      options: { ...options, directory },
      damaged: (error) => {
        publish({ level: 'warn', message: `the copy ${directory} of a shard is damaged: ${error.message}` });
        damaged();
      },
      log: (message) => publish({ level: 'warn', message }),
    });
  };
}

/**
 * Returns the check whether tool calls may begin: in a cluster only while the node has a valid lease. The check is made
 * when a call begins, so it also stops a call that has waited. Undefined without a cluster.
 */
function leased({ cluster }: ShardPlan, clock: Clock): (() => boolean) | undefined {
  if (cluster === undefined) return undefined;
  const lease = new Lease(cluster.memory, clock);
  return () => lease.isValid;
}

/**
 * Returns the check whether calls may begin before their records are flushed. With durability `strict` they never may,
 * and in a cluster only while the lease of the node is valid.
 */
function runsAhead({ durability }: ShardPlan, mayBegin: (() => boolean) | undefined): () => boolean {
  if (durability === 'strict') return () => false;
  return mayBegin ?? (() => true);
}

/** The value of a promise that has settled; throws its error. */
function settledValue<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

/** The result store. If there is a data directory, its files must last as long as the log that names them. */
function resultStoreOf(
  { index, resultStore, directory, durability, cluster }: ShardPlan,
  journal: Journal,
  disk: ResultDisk | undefined,
): ResultStore {
  return new ResultStore(resultStore, {
    isSynced: directory !== undefined && durability !== 'os',
    ownerOf: (session) => {
      const key = journal.keyOf(session);
      return key === undefined ? undefined : resultOwner(journal, index, key);
    },
    durable: () => journal.flushed(),
    ...resultKeys(index, journal),
    ...defined({ disk, logged: cluster && loggedResults(index, journal.results) }),
  });
}

/** The keys of results; none if the store is not encrypted. */
function resultKeys(index: number, journal: Journal): Pick<ResultStoreSettings, 'keyOf' | 'keyOfOwner'> {
  const { resultKey } = journal;
  if (resultKey === undefined) return {};
  return {
    keyOf: (session, isNew) => {
      const key = journal.keyOf(session);
      return key === undefined ? undefined : resultKey(key, isNew);
    },
    keyOfOwner: (owner) => {
      const key = ownKey(index, owner);
      return key === undefined ? undefined : resultKey(key, false);
    },
  };
}

/** The whole texts in the log of a shard in a cluster. The layout of a cluster never changes, so no session was moved. */
function loggedResults(index: number, results: ResultTexts): LoggedResults {
  return {
    keep: (owner, hash, text) => {
      const key = ownKey(index, owner);
      return key === undefined || results.keep(key, hash, text);
    },
    find: (owner, hash) => {
      const key = ownKey(index, owner);
      return key === undefined ? undefined : results.find(key, hash);
    },
  };
}

/**
 * Removes the results that this node has of sessions of the shard that were removed at another node. Call it before the
 * shard is at work: while a damaged copy is built again, the journal does not know all sessions.
 */
async function removeGone(
  results: ResultStore,
  index: number,
  journal: Journal,
  publish: (line: LogLine) => void,
): Promise<void> {
  const isGone = (owner: string): boolean => {
    const key = ownKey(index, owner);
    return key !== undefined && journal.nameOf(key) === undefined && !journal.erasures().has(key);
  };
  try {
    await results.removeGone(isGone);
  } catch (thrown) {
    publish({ level: 'warn', message: `results of removed sessions stay on the disk: ${asError(thrown).message}` });
  }
}

/** The key of the session with this name in files; undefined for a session of another shard. */
function ownKey(index: number, owner: string): SessionKey | undefined {
  const [shard, key] = owner.split('-').map(Number);
  return shard === index ? key : undefined;
}

function hostPlace({ name, version }: AgentSource['plan']): ToolPlace {
  return { kind: 'host', agent: agentKey(name, version) };
}

/** Finds every agent's tools; a module is loaded once, in a tool thread. */
async function describeAgents(
  sources: readonly AgentSource[],
  pool: ToolPool,
  publish: (line: LogLine) => void,
): Promise<readonly AgentDefinition[]> {
  const urls = new Set(
    sources.flatMap(({ tools }) => tools.flatMap((tool) => (tool.kind === 'module' ? [tool.url] : []))),
  );
  const modules = new Map<string, readonly RegisteredTool[]>();
  const described = await Promise.all([...urls].map(async (url) => [url, await pool.describe(url)] as const));
  for (const [url, found] of described) {
    modules.set(
      url,
      found.map(({ exportName, description }) => {
        const { isolation } = description;
        return { description, place: { kind: 'thread', url, exportName, ...defined({ isolation }) } };
      }),
    );
  }
  const byName = new Map([...modules.values()].flat().map((tool) => [tool.description.name.toLowerCase(), tool]));
  const hasAll = ({ plan, tools }: AgentSource): boolean => {
    const unknown = tools.find((tool) => tool.kind === 'named' && !byName.has(tool.name));
    if (unknown?.kind !== 'named') return true;
    const message = `a specialist is left out: ${plan.name} names ${unknown.name}, an unknown tool`;
    publish({ level: 'warn', message });
    return false;
  };
  return sources.filter(hasAll).map(({ plan, tools }) => ({
    plan,
    tools: tools.flatMap((tool): readonly RegisteredTool[] => {
      if (tool.kind === 'module') return modules.get(tool.url) ?? [];
      if (tool.kind === 'server' || tool.kind === 'mcp') return [];
      if (tool.kind === 'value') {
        const { description, origin } = tool;
        return [{ description, place: origin === undefined ? hostPlace(plan) : { kind: 'thread', ...origin } }];
      }
      const named = byName.get(tool.name);
      return named === undefined ? [] : [named];
    }),
    serverTools: tools.flatMap((tool) => (tool.kind === 'server' ? [tool.entry] : [])),
    mcp: tools.flatMap((tool) => (tool.kind === 'mcp' ? [tool.grant] : [])),
  }));
}
