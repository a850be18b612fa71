/**
 * Counters of a shard, in memory shared with the host thread, so that `metrics()` sends no request. The shard is the
 * only writer. These files in `src/runtime` count:
 *
 *  - `shard/transitions.ts`: transitions (`turns`), transitions with records (`journalTurns`), accepted messages,
 *    sessions in a turn, queued sessions, calls in flight, completions for sessions that no longer exist;
 *  - `shard/session-work.ts`: half-steps, model calls and tool calls that begin, completions that `decide` finds stale,
 *    failed attempts of tool calls that are repeated, bytes of answered requests if the provider reports them, requests
 *    that continued a message thread, requests that were sent whole because the thread was lost;
 *  - `shard/residency.ts`: sessions in memory, calls that wait for a person; `shard/shard.ts`: flushes;
 *  - `shard/eraser.ts`: deleted sessions that are not erased yet; `shard/compaction/compactor.ts`: compactions,
 *    snapshots of the logs of a cluster;
 *  - `door/build-shard.ts`: tool calls that wait for a thread; `door/shard-models.ts`: model calls that the governor
 *    holds back, calls that warm the provider's cache, and the counters of each provider; `door/shard.worker.ts`:
 *    stalls.
 */

/** Names of the counters, in the order of the shared array. */
export const COUNTERS = [
  'turns',
  'halfSteps',
  'modelCalls',
  'toolCalls',
  'accepted',
  'staleCompletions',
  'sessionsHot',
  'sessionsLive',
  'sessionsQueued',
  'modelCallsRunning',
  'modelCallsWaiting',
  'toolCallsRunning',
  'flushes',
  'journalTurns',
  'stalls',
  'cacheWarmUps',
  'requestBytes',
  'threadsContinued',
  'threadsReplayed',
  'toolCallsWaiting',
  'toolRetries',
  'callsWaitingForPerson',
  'sessionsErasing',
  'compactions',
  'compactionsRunning',
  'compactionsFailed',
  'compactionBytesBefore',
  'compactionBytes',
  'compactionSliceMs',
  'snapshots',
  'snapshotsFailed',
] as const;

/** A counter's name. */
export type Counter = (typeof COUNTERS)[number];
/** Values of all counters. */
export type CounterValues = Readonly<Record<Counter, number>>;

/** The names of each provider's counters, in their order in the shared array. They follow the other counters there. */
const PROVIDER_COUNTERS = [
  'modelCalls',
  'modelCallsRunning',
  'modelCallsWaiting',
  'circuitsOpen',
  'credentialsRefused',
] as const;

type ProviderCounter = (typeof PROVIDER_COUNTERS)[number];

/** Figures of one provider, summed over session threads. */
export interface ProviderMetrics extends Readonly<Record<ProviderCounter, number>> {
  /** Model calls started, attempts included. */
  readonly modelCalls: number;
  /** Model calls that turns wait for. */
  readonly modelCallsRunning: number;
  /** Model calls that wait because of rates, a pause of all calls, the open circuit or refused credentials. */
  readonly modelCallsWaiting: number;
  /** Session threads whose circuit is open, because the provider does not answer. */
  readonly circuitsOpen: number;
  /** Session threads whose calls wait for `resume()`, because the provider refused the credentials. */
  readonly credentialsRefused: number;
}

/** Counters whose value for the runtime is the largest of all shards, not the sum. */
const LARGEST: ReadonlySet<Counter> = new Set(['compactionSliceMs']);

/** The index of each counter in the shared array. */
const PLACES = Object.fromEntries(COUNTERS.map((name, place) => [name, place])) as Record<Counter, number>;

/** Memory for one shard's counters. `providers`: the number of its providers. */
export function createCounterMemory(providers: number = 1): SharedArrayBuffer {
  return new SharedArrayBuffer(placeOf(providers, 'modelCalls') * Float64Array.BYTES_PER_ELEMENT);
}

/** The index of a provider's counter in the shared array. */
function placeOf(provider: number, counter: ProviderCounter): number {
  return COUNTERS.length + provider * PROVIDER_COUNTERS.length + PROVIDER_COUNTERS.indexOf(counter);
}

/** The shard's side of the counters: writes them. */
export class Counters {
  readonly #values: Float64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#values = new Float64Array(memory);
  }

  add(counter: Counter, amount = 1): void {
    const place = PLACES[counter];
    this.#values[place] = (this.#values[place] ?? 0) + amount;
  }

  set(counter: Counter, value: number): void {
    this.#values[PLACES[counter]] = value;
  }

  /** Sets a counter to a value if that value is higher than the present one. */
  raise(counter: Counter, value: number): void {
    this.set(counter, Math.max(value, this.#values[PLACES[counter]] ?? 0));
  }

  /** Adds 1 to a counter of a provider. `provider`: its index. */
  addOf(provider: number, counter: ProviderCounter): void {
    const place = placeOf(provider, counter);
    this.#values[place] = (this.#values[place] ?? 0) + 1;
  }

  /** Sets a counter of a provider. `provider`: its index. */
  setOf(provider: number, counter: ProviderCounter, value: number): void {
    this.#values[placeOf(provider, counter)] = value;
  }

  /** Sets the number of waiting calls of a provider, and updates the number for all providers. */
  setWaiting(provider: number, count: number): void {
    this.setOf(provider, 'modelCallsWaiting', count);
    let sum = 0;
    for (let each = 0; placeOf(each, 'modelCalls') < this.#values.length; each += 1) {
      sum += this.#values[placeOf(each, 'modelCallsWaiting')] ?? 0;
    }
    this.set('modelCallsWaiting', sum);
  }
}

/** Reads the counters on the host: the sum over all shards, or the largest value for those in `LARGEST`. */
export function readCounters(memories: readonly SharedArrayBuffer[]): CounterValues {
  const sums = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<Counter, number>;
  for (const memory of memories) {
    const values = new Float64Array(memory);
    for (const [index, name] of COUNTERS.entries()) {
      const value = values[index] ?? 0;
      sums[name] = LARGEST.has(name) ? Math.max(sums[name], value) : sums[name] + value;
    }
  }
  return sums;
}

/**
 * Reads each provider's counters on the host, as sums over all shards. `keys`: the keys of the providers, in the order
 * of their plans. With a single provider, its calls are counted only in the runtime's counters, because only the pool
 * for several providers counts calls by provider.
 */
export function readProviders(
  memories: readonly SharedArrayBuffer[],
  keys: readonly string[],
): Readonly<Record<string, ProviderMetrics>> {
  const totals = keys.length > 1 ? undefined : readCounters(memories);
  const entries = keys.map((key, provider) => {
    const sums = Object.fromEntries(PROVIDER_COUNTERS.map((name) => [name, 0])) as Record<ProviderCounter, number>;
    for (const memory of memories) {
      const values = new Float64Array(memory);
      for (const name of PROVIDER_COUNTERS) sums[name] += values[placeOf(provider, name)] ?? 0;
    }
    if (totals === undefined) return [key, sums] as const;
    const { modelCalls, modelCallsRunning, modelCallsWaiting } = totals;
    return [key, { ...sums, modelCalls, modelCallsRunning, modelCallsWaiting }] as const;
  });
  return Object.fromEntries(entries);
}

/** The sum of one counter over shards, for frequent reads. */
export function sumOf(memories: readonly SharedArrayBuffer[], counter: Counter): number {
  const offset = PLACES[counter] * Float64Array.BYTES_PER_ELEMENT;
  let sum = 0;
  for (const memory of memories) sum += new Float64Array(memory, offset, 1)[0] ?? 0;
  return sum;
}
