/** Puts a shard together from its plan: journal, tools, models, agents. Runs on the shard's thread, whichever that is. */
import { AgentCatalog, type AgentDefinition } from '../../../actors/agent-catalog.ts';
import { ResultShelf, type Shelf } from '../../../actors/result-shelf.ts';
import { SHARD_BOUNDS, type ShardBounds } from '../../base/bounds.ts';
import { type Clock, soon as nextTurn, type Random, type Soon } from '../../base/clock.ts';
import type { StoreLostError } from '../../base/errors.ts';
import type { Journal, JournalOptions, ThreadGate } from '../../journal/journal.ts';
import { openJournal } from '../../journal/open-journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { checkResponse } from '../../models/anthropic/response-check.ts';
import { createGovernedPool } from '../../models/governor/governed-pool.ts';
import type { ModelPool, ModelPoolListener } from '../../models/pool.ts';
import { createInPlacePool } from '../../models/pools/in-place-pool.ts';
import { createThreadedPool, type ModelThread } from '../../models/pools/threaded-pool.ts';
import type {
  GenerateContext,
  ModelDelta,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  ProviderData,
} from '../../models/provider.ts';
import { resolveProvider } from '../../models/resolve.ts';
import type { ToolPool, ToolPoolListener } from '../../tools/pool.ts';
import { createToolPool, type ToolPoolOptions } from '../../tools/threads/threaded-pool.ts';
import type { RegisteredTool } from '../../tools/tool-registry.ts';
import { Counters } from '../protocol/metrics.ts';
import type { AgentSource, LogLine, RemoteServices, ShardPlan } from '../protocol/protocol.ts';
import { IsolatedSessions } from '../shard/isolated-sessions.ts';
import { SessionInHand } from '../shard/session-in-hand.ts';
import { Shard } from '../shard/shard.ts';
import type { ShardHost } from '../shard/shard-parts.ts';
import { troubleLine } from '../shard/trouble-line.ts';

/** What surrounds a shard on its thread. */
export interface ShardSurroundings {
  readonly services: RemoteServices;
  /** The embedder's provider value, where the shard is on the host thread itself: called without a detour. */
  readonly provider?: ModelProvider;
  readonly host: Omit<ShardHost, 'evaluateSystem' | 'consult' | 'lookUp'>;
  readonly clock: Clock;
  readonly random: Random;
  /** Of the shard's thread; missing: nobody ends it while its script runs. */
  readonly gate?: ThreadGate;
  /** Where the thread says which session it works on; missing: its death ends the process. */
  readonly inHand?: SessionInHand;
  /** Sessions that are to be left alone; missing: none. */
  readonly isolated?: readonly SessionKey[];
  readonly ports?: ShardPorts;
}

/** What a shard stands on, where it is not the machine's own. A simulator replaces all of it. */
export interface ShardPorts {
  readonly soon?: Soon;
  readonly bounds?: ShardBounds;
  readonly openJournal?: (options: JournalOptions) => Promise<Journal>;
  readonly makeToolPool?: (options: ToolPoolOptions) => ToolPool;
  readonly startModelThread?: (provider: ProviderData) => ModelThread;
  readonly shelf?: Shelf;
}

/** A shard, and the way in for what the host tells it besides requests. */
export interface BuiltShard {
  readonly shard: Shard;
  /** Progress of a host tool. */
  readonly toolProgress: (id: number, data: unknown) => void;
  /** A delta of a host provider. */
  readonly modelDelta: (id: number, delta: ModelDelta) => void;
}

/**
 * Opens the journal, loads and checks the tools, builds the pools. Rejects with `ConfigError` for a tool, provider or agent
 * that cannot be used, and with the store's errors; nothing is left open then.
 */
export async function buildShard(plan: ShardPlan, surroundings: ShardSurroundings): Promise<BuiltShard> {
  const { services, clock, ports = {} } = surroundings;
  let journal: Journal | undefined;
  let listener: ToolPoolListener | undefined;
  let shard: Shard | undefined;
  let lost: StoreLostError | undefined;
  const toolPool = (ports.makeToolPool ?? createToolPool)({
    threads: plan.threads.tools,
    clock,
    secretEnv: plan.settings.tools.secretEnv,
    hostRunner: { run: (run) => services.run(run), abort: (id, reason) => services.abort(id, reason) },
    listener: {
      finished: (id, outcome) => listener?.finished(id, outcome),
      progress: (id, data) => listener?.progress(id, data),
    },
    onNoise: ({ toolName, message }) =>
      surroundings.host.log({ level: 'warn', message: `late error of tool ${JSON.stringify(toolName)}: ${message}` }),
  });
  try {
    const definitions = await describeAgents(plan.agents, toolPool, (line) => surroundings.host.log(line));
    const catalog = new AgentCatalog(definitions, plan.settings, plan.limits, plan.enrichers);
    journal = await (ports.openJournal ?? openJournal)({
      durability: plan.durability,
      onLost: (error) => {
        lost = error;
        shard?.life.storeLost(error);
      },
      ...(surroundings.gate === undefined ? {} : { gate: surroundings.gate }),
      ...(plan.directory === undefined ? {} : { directory: plan.directory }),
    });
    // Last: the model threads are the only ones that could not be ended here again.
    const models = await modelPools(plan, surroundings);
    const counters = new Counters(plan.counters);
    shard = new Shard({
      journal,
      catalog,
      settings: plan.settings,
      limits: plan.limits,
      durability: plan.durability,
      clock,
      random: surroundings.random,
      soon: ports.soon ?? nextTurn,
      bounds: ports.bounds ?? SHARD_BOUNDS,
      shelf: ports.shelf ?? shelfOf(plan),
      inHand: surroundings.inHand ?? new SessionInHand(),
      isolated: new IsolatedSessions(surroundings.isolated),
      counters,
      host: {
        events: (events) => surroundings.host.events(events),
        introduced: (sessions) => surroundings.host.introduced?.(sessions),
        settled: (follow, state) => surroundings.host.settled(follow, state),
        said: (note) => surroundings.host.said?.(note),
        degraded: (error) => surroundings.host.degraded(error),
        log: (line) => surroundings.host.log(line),
        evaluateSystem: (agent, session) => services.evaluateSystem(agent, session),
        consult: (question) => services.consult(question),
        lookUp: (question) => services.lookUp(question),
      },
      makeModelPool: (modelListener) =>
        createGovernedPool({
          limits: plan.governor,
          clock,
          random: surroundings.random,
          soon: ports.soon,
          listener: modelListener,
          makePool: (governed) => models.attach(governed),
          onWaiting: (count) => counters.set('modelCallsWaiting', count),
          onTrouble: (trouble) => surroundings.host.log(troubleLine(trouble)),
        }),
      makeToolPool: (toolListener) => {
        listener = toolListener;
        return toolPool;
      },
    });
    // Models and tools take their time to start.
    if (lost !== undefined) shard.life.storeLost(lost);
    return {
      shard,
      toolProgress: (id, data) => listener?.progress(id, data),
      modelDelta: (id, delta) => models.delta(id, delta),
    };
  } catch (error) {
    await Promise.allSettled([toolPool.close(), journal?.close()]);
    throw error;
  }
}

/** Beside a store its files last as long as the log that names them. */
function shelfOf({ shelf, directory, durability }: ShardPlan): Shelf {
  return new ResultShelf(shelf, { isSynced: directory !== undefined && durability !== 'os' });
}

/** Finds every agent's tools; a module is loaded once, in a tool thread. */
async function describeAgents(
  sources: readonly AgentSource[],
  pool: ToolPool,
  tell: (line: LogLine) => void,
): Promise<readonly AgentDefinition[]> {
  const urls = new Set(
    sources.flatMap(({ tools }) => tools.flatMap((tool) => (tool.kind === 'module' ? [tool.url] : []))),
  );
  const modules = new Map<string, readonly RegisteredTool[]>();
  for (const url of urls) {
    const found = await pool.describe(url);
    modules.set(
      url,
      found.map(({ exportName, description }) => ({ description, place: { kind: 'thread', url, exportName } })),
    );
  }
  const byName = new Map([...modules.values()].flat().map((tool) => [tool.description.name.toLowerCase(), tool]));
  const hasAll = ({ plan, tools }: AgentSource): boolean => {
    const unknown = tools.find((tool) => tool.kind === 'named' && !byName.has(tool.name));
    if (unknown?.kind !== 'named') return true;
    const message = `a specialist is left out: ${plan.name} names ${unknown.name}, a tool nobody has`;
    tell({ level: 'warn', message });
    return false;
  };
  return sources.filter(hasAll).map(({ plan, tools }) => ({
    plan,
    tools: tools.flatMap((tool): readonly RegisteredTool[] => {
      if (tool.kind === 'module') return modules.get(tool.url) ?? [];
      if (tool.kind === 'value') return [{ description: tool.description, place: { kind: 'host', agent: plan.name } }];
      const named = byName.get(tool.name);
      return named === undefined ? [] : [named];
    }),
  }));
}

interface ModelPools {
  attach(listener: ModelPoolListener): ModelPool;
  delta(id: number, delta: ModelDelta): void;
}

/** The pool of model calls: threads for plain data, in place when there are none, a proxy for a value on the host. */
async function modelPools(plan: ShardPlan, surroundings: ShardSurroundings): Promise<ModelPools> {
  const { clock, services, provider: here } = surroundings;
  const { soon, startModelThread } = surroundings.ports ?? {};
  if (here !== undefined) {
    return { attach: (listener) => createInPlacePool(here, listener, clock, soon), delta: () => undefined };
  }
  if (plan.provider.kind === 'host') {
    const proxy = new HostProvider(plan.provider.name, services);
    return {
      attach: (listener) => createInPlacePool(proxy, listener, clock, soon),
      delta: (id, delta) => proxy.delta(id, delta),
    };
  }
  const { data } = plan.provider;
  const delta = (): void => undefined;
  if (plan.threads.models === 0) {
    const provider = await resolveProvider(data);
    return { attach: (listener) => createInPlacePool(provider, listener, clock, soon), delta };
  }
  let listener: ModelPoolListener | undefined;
  const pool = await createThreadedPool({
    threads: plan.threads.models,
    provider: data,
    clock,
    ...(startModelThread === undefined ? {} : { startThread: startModelThread }),
    listener: {
      completed: (completions) => listener?.completed(completions),
      delta: (id, session, piece) => listener?.delta(id, session, piece),
    },
  });
  return {
    attach: (attached) => {
      listener = attached;
      return pool;
    },
    delta,
  };
}

/** A provider that is a value on the host thread, called as if it were here. */
class HostProvider implements ModelProvider {
  readonly name: string;
  readonly #services: RemoteServices;
  readonly #calls = new Map<number, HostCall>();
  #nextId = 1;

  constructor(name: string, services: RemoteServices) {
    this.name = name;
    this.#services = services;
  }

  async generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    const id = this.#nextId;
    this.#nextId += 1;
    const onAbort = (): void => void this.#services.abortModel(id).catch(() => undefined);
    const call: HostCall = { onDelta: context.onDelta, heard: 0, told: undefined, onHeard: undefined };
    this.#calls.set(id, call);
    context.signal.addEventListener('abort', onAbort, { once: true });
    try {
      const { response, deltas } = await this.#services.generate({ id, session: context.session, request });
      if (call.heard < deltas) {
        await new Promise<void>((resolve) => {
          call.told = deltas;
          call.onHeard = resolve;
        });
      }
      return checkResponse(response);
    } finally {
      this.#calls.delete(id);
      context.signal.removeEventListener('abort', onAbort);
    }
  }

  delta(id: number, delta: ModelDelta): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    call.heard += 1;
    call.onDelta(delta);
    if (call.heard === call.told) call.onHeard?.();
  }
}

interface HostCall {
  readonly onDelta: (delta: ModelDelta) => void;
  /** Deltas heard so far. */
  heard: number;
  /** Deltas told in all, once the answer has come. */
  told: number | undefined;
  /** Called when all were heard. */
  onHeard: (() => void) | undefined;
}
