/**
 * The pool of a shard's model calls, built from its plan. Each provider has its own pool with its own governor, rates,
 * circuit and model threads. With several providers, `provider-pools.ts` gives each call to the pool of its provider.
 * Runs on the shard's thread.
 */
import { ERROR_TEXT_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { Clock, Random, Soon } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { errorShape } from '../../base/errors.ts';
import { cutText } from '../../base/json.ts';
import { createGovernedPool } from '../../models/governor/governed-pool.ts';
import { RateTable } from '../../models/governor/rate-table.ts';
import { createWarmUpPool } from '../../models/governor/warm-up-pool.ts';
import type { ModelPool, ModelPoolListener } from '../../models/pool.ts';
import { createInPlacePool } from '../../models/pools/in-place-pool.ts';
import { createProviderPools, type PooledProvider } from '../../models/pools/provider-pools.ts';
import { createThreadedPool, type ModelThread } from '../../models/pools/threaded-pool.ts';
import type { ModelProvider, ProviderData } from '../../models/provider.ts';
import { resolveProvider } from '../../models/resolve.ts';
import type { Counters } from '../protocol/metrics.ts';
import type { LogLine, ShardPlan, ShardProvider } from '../protocol/protocol.ts';
import { troubleLogLine } from './trouble-log-line.ts';

/** The surroundings that model calls need. */
export interface ModelSurroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly soon: Soon;
  readonly counters: Counters;
  readonly log: (line: LogLine) => void;
  /** Makes the provider that calls a provider value on the host. */
  readonly hostProvider: (key: string, name: string) => ModelProvider;
  /** Starts a model thread; default: a worker. */
  readonly startModelThread?: ((provider: ProviderData) => ModelThread) | undefined;
  /** Prompts of at least this many tokens are cached. Default: as the model's traits say. */
  readonly cachedPromptTokens?: number | undefined;
}

type MakePool = (listener: ModelPoolListener) => ModelPool;

/** The providers of a shard with their threads, before the shard listens to them. */
export interface StartedModels {
  /** Makes the pool of all calls; call it once. */
  readonly makePool: MakePool;
  /** Ends all threads, for a shard that cannot start. */
  readonly close: () => Promise<void>;
}

/** A pool that was started before its listener is known. */
interface StartedPool {
  readonly attach: MakePool;
  /** Ends the threads of the pool, for a start that fails. */
  readonly close: () => Promise<void>;
}

/**
 * Starts the model threads and builds the providers. Rejects with the error of building a provider: `ConfigError` for
 * bad options or a module that cannot be loaded. In that case no thread is left running.
 */
export async function startModels(plan: ShardPlan, surroundings: ModelSurroundings): Promise<StartedModels> {
  const results = await Promise.allSettled(plan.providers.map((each) => startPool(each, plan, surroundings)));
  const failed = results.find((result) => result.status === 'rejected');
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const close = async (): Promise<void> => {
    await Promise.allSettled(started.map((pool) => pool.close()));
  };
  if (failed !== undefined) {
    await close();
    throw failed.reason;
  }
  const pools = started.map(({ attach }, index): PooledProvider => {
    const { counters } = surroundings;
    const key = plan.providers[index]?.key ?? '';
    return {
      key,
      makePool: governedPool(plan, index, attach, surroundings),
      onCall: () => counters.addOf(index, 'modelCalls'),
      onRunning: (count) => counters.setOf(index, 'modelCallsRunning', count),
    };
  });
  const [first, ...others] = pools;
  if (first === undefined) throw new Error('a shard has at least one provider');
  const makePool: MakePool =
    others.length === 0
      ? first.makePool
      : (listener) => createProviderPools({ providers: [first, ...others], listener, soon: surroundings.soon });
  return { makePool, close };
}

/** The pool of one provider behind its governor. With `warmCache`, calls first pass the pool that warms the cache. */
function governedPool(
  { providers, settings }: ShardPlan,
  index: number,
  makePool: MakePool,
  { clock, random, soon, counters, log, cachedPromptTokens }: ModelSurroundings,
): MakePool {
  const provider = providers[index];
  if (provider === undefined) throw new Error(`no provider ${index}`);
  const governed = (listener: ModelPoolListener): ModelPool =>
    createGovernedPool({
      limits: provider.governor,
      rates: new RateTable(provider.rates),
      clock,
      random,
      soon,
      listener,
      makePool,
      onWaiting: (count) => counters.setWaiting(index, count),
      onTrouble: (trouble) => log(troubleLogLine(trouble, provider.key)),
      onStop: ({ isCircuitOpen, isRefused }) => {
        counters.setOf(index, 'circuitsOpen', isCircuitOpen ? 1 : 0);
        counters.setOf(index, 'credentialsRefused', isRefused ? 1 : 0);
      },
    });
  if (!settings.llm.warmCache) return governed;
  return (listener) =>
    createWarmUpPool({
      clock,
      soon,
      listener,
      makePool: governed,
      promptTokensMin: cachedPromptTokens,
      onWarmUp: () => counters.add('cacheWarmUps'),
    });
}

/**
 * The pool that makes a provider's calls. A provider that is given as data runs on model threads. Without model threads
 * its calls run on this thread. The calls to a provider that is a value on the host start on this thread too.
 */
async function startPool(
  { key, plan: provider }: ShardProvider,
  { threads }: ShardPlan,
  { clock, soon, hostProvider, startModelThread, log }: ModelSurroundings,
): Promise<StartedPool> {
  if (provider.kind === 'host' || threads.models === 0) {
    const called = provider.kind === 'host' ? hostProvider(key, provider.name) : await resolveProvider(provider.data);
    return {
      attach: (listener) => createInPlacePool(called, listener, clock, soon),
      close: async () => undefined,
    };
  }
  let attached: ModelPoolListener | undefined;
  const pool = await createThreadedPool({
    threads: threads.models,
    provider: provider.data,
    clock,
    ...defined({ startThread: startModelThread }),
    onDeath: (why, error) => log(deathLogLine(provider.data, key, why, error)),
    listener: {
      completed: (completions) => attached?.completed(completions),
      delta: (id, session, piece) => attached?.delta(id, session, piece),
    },
  });
  return {
    attach: (listener) => {
      attached = listener;
      return pool;
    },
    close: () => pool.close(),
  };
}

/** The log line of a model thread that died. The usual cause is an error in a timer of its provider's module. */
function deathLogLine(data: ProviderData, provider: string, why: string, error: Error | undefined): LogLine {
  const of = data.kind === 'module' ? ` of ${data.url}` : '';
  const message = `a model thread${of} died (${why}); another one takes its place`;
  const stack = error?.stack === undefined ? undefined : cutText(error.stack, ERROR_TEXT_CHARACTERS_MAX);
  const shape = error === undefined ? undefined : errorShape(error);
  return { level: 'error', message, ...(provider === '' ? {} : { provider }), ...defined({ error: shape, stack }) };
}
