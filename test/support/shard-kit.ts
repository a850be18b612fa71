/**
 * A shard over a journal in memory, for cases that cannot be caused from outside: a failing store, and a crash at each
 * write.
 */

import { tmpdir } from 'node:os';
import { AgentCatalog } from '../../actors/agent-catalog.ts';
import { ResultStore } from '../../actors/result-store.ts';
import {
  ERASE_WITHIN_MS_DEFAULT,
  LIMIT_DEFAULTS,
  type Limits,
  SHARD_BOUNDS,
  type ShardBounds,
} from '../../src/base/bounds.ts';
import { type Clock, type Random, soon } from '../../src/base/clock.ts';
import type { TroupeError } from '../../src/base/errors.ts';
import { parseSettings, type SettingsInput } from '../../src/base/settings.ts';
import type { SessionEvent } from '../../src/events/event.ts';
import { type MemoryJournalOptions, openMemoryJournal } from '../../src/journal/memory-journal.ts';
import { MemoryStore } from '../../src/journal/memory-store.ts';
import type { SessionKey } from '../../src/journal/position.ts';
import { createInPlacePool } from '../../src/models/pools/in-place-pool.ts';
import type { ModelProvider } from '../../src/models/provider.ts';
import { hostCalls } from '../../src/runtime/door/host-calls.ts';
import { serveShard } from '../../src/runtime/door/shard-requests.ts';
import { serveHost } from '../../src/runtime/host/host-services.ts';
import { type Agent, agentSource, toolValues } from '../../src/runtime/protocol/agent.ts';
import { Counters, createCounterMemory, readCounters } from '../../src/runtime/protocol/metrics.ts';
import type { SessionIntroduction, ShardMethods } from '../../src/runtime/protocol/protocol.ts';
import { IsolatedSessions } from '../../src/runtime/shard/isolated-sessions.ts';
import { SessionAtWork } from '../../src/runtime/shard/session-at-work.ts';
import { Shard } from '../../src/runtime/shard/shard.ts';
import type { EnricherFacts } from '../../src/session/state/inputs.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { createLocalEndpoints } from '../../src/threads/batched-endpoint.ts';
import type { ToolPool, ToolPoolListener } from '../../src/tools/pool.ts';
import { createToolPool } from '../../src/tools/threads/threaded-pool.ts';

/** Options of a test. */
export interface ShardOptions {
  readonly provider: ModelProvider;
  readonly agents: readonly Agent[];
  readonly store?: MemoryStore;
  readonly clock?: Clock;
  readonly limits?: Partial<Limits>;
  readonly settings?: SettingsInput;
  readonly enrichers?: EnricherFacts;
  /** Called before each write of the store. */
  readonly refuse?: () => Error | undefined;
  /** If missing, the pool of the product with its one thread. */
  readonly makeToolPool?: (listener: ToolPoolListener) => ToolPool;
  /** The store's device; see `MemoryJournalOptions.device`. */
  readonly device?: NonNullable<MemoryJournalOptions['device']>;
  /** Sessions on which earlier threads ran out of memory. */
  readonly isolated?: readonly SessionKey[];
  /** If missing, a new record that the test does not read. */
  readonly sessionAtWork?: SessionAtWork;
  /** If missing, always 0. */
  readonly random?: Random;
  /** Bounds in place of the product's. */
  readonly bounds?: Partial<ShardBounds>;
}

/** A shard behind its endpoint, and the messages it sent. */
export interface TestShard {
  call<M extends keyof ShardMethods>(
    method: M,
    request: ShardMethods[M]['request'],
  ): Promise<ShardMethods[M]['answer']>;
  readonly events: SessionEvent[];
  /** The sessions introduced, each with the number of events published before it. */
  readonly introduced: (SessionIntroduction & { readonly behind: number })[];
  readonly degraded: (TroupeError | undefined)[];
  counters(): ReturnType<typeof readCounters>;
  /** The state of a session that is in memory. */
  stateOf(session: string): SessionState | undefined;
  close(): Promise<void>;
}

/** A shard that continues with the content of its store. All its tools are values. */
export function openShard(options: ShardOptions): TestShard {
  const { provider, agents, store = new MemoryStore(), clock = manualClock(), refuse, device } = options;
  const settings = parseSettings(options.settings ?? {});
  const limits = { ...LIMIT_DEFAULTS, ...options.limits };
  const definitions = agents.map((each) => {
    const source = agentSource(each);
    const tools = source.tools.flatMap((tool) =>
      tool.kind === 'value'
        ? [{ description: tool.description, place: { kind: 'host' as const, agent: each.name } }]
        : [],
    );
    return { plan: source.plan, tools };
  });
  const [near, far] = createLocalEndpoints();
  const values = {
    providers: new Map(),
    tools: new Map(agents.map((a) => [a.name, toolValues(a)])),
    systems: new Map(),
  };
  const services = serveHost(near, values, { clock });
  const counters = createCounterMemory();
  const events: SessionEvent[] = [];
  const introduced: TestShard['introduced'] = [];
  const degraded: (TroupeError | undefined)[] = [];
  const shard = new Shard({
    index: 0,
    journal: openMemoryJournal({
      store,
      ...(refuse === undefined ? {} : { refuse }),
      ...(device === undefined ? {} : { device }),
    }),
    catalog: new AgentCatalog(definitions, settings, limits, options.enrichers),
    settings,
    limits,
    eraseWithinMs: ERASE_WITHIN_MS_DEFAULT,
    providers: [''],
    runsAhead: () => true,
    clock,
    random: options.random ?? (() => 0),
    soon,
    bounds: { ...SHARD_BOUNDS, ...options.bounds },
    resultStore: new ResultStore(tmpdir(), { ownerOf: () => undefined }),
    sessionAtWork: options.sessionAtWork ?? new SessionAtWork(),
    isolated: new IsolatedSessions(options.isolated),
    counters: new Counters(counters),
    host: {
      settled: () => undefined,
      events: (told) => void events.push(...told.filter((event) => event.type !== 'streamed')),
      introduced: (told) => void introduced.push(...told.map((each) => ({ ...each, behind: events.length }))),
      degraded: (error) => void degraded.push(error),
      log: () => undefined,
      ...hostCalls(services),
    },
    makeModelPool: (listener) => createInPlacePool(provider, listener, clock),
    makeToolPool:
      options.makeToolPool ??
      ((listener) => createToolPool({ threads: 1, clock, hostRunner: services.runner, listener })),
  });
  serveShard(shard, far, true);
  shard.subscribers.watch(undefined, true);
  shard.life.resumeInterrupted();
  return {
    call: (method, request) => near.call(method, request) as Promise<never>,
    events,
    introduced,
    degraded,
    counters: () => readCounters([counters]),
    stateOf: (session) => shard.residency.inMemory(session)?.state,
    async close() {
      await shard.life.close(0);
      services.abandon();
    },
  };
}

/** The store as it is now, which is what a crash leaves. */
export function copyStore(store: MemoryStore): MemoryStore {
  const copy = new MemoryStore();
  copy.fence = store.fence;
  copy.state = store.state;
  copy.rowNumbers.push(...store.rowNumbers);
  for (const name of ['rows', 'keys', 'names', 'heads', 'lastRows', 'blobs'] as const) {
    const target = copy[name] as Map<unknown, unknown>;
    for (const [key, value] of store[name]) target.set(key, value);
  }
  return copy;
}
