/**
 * Counters of a shard, in memory shared with the host thread, so that `metrics()` sends no request. The shard is the
 * only writer. The files that count, in `src/runtime`:
 *
 *  - `shard/transitions.ts`: transitions (`turns`) and those with records (`journalTurns`), accepted messages, sessions
 *    in a turn and queued, calls in flight, completions for sessions that no longer exist;
 *  - `shard/session-work.ts`: half-steps, model calls and tool calls that begin, completions that `decide` finds stale,
 *    bytes of the answered requests whose provider reports them, requests that continued a message thread or were
 *    replayed because they could not;
 *  - `shard/residency.ts`: sessions in memory; `shard/shard.ts`: flushes;
 *  - `door/build-shard.ts`: model calls that the governor holds back, and calls that warm the provider's cache; `door/shard.worker.ts`: stalls.
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
] as const;

/** A counter's name. */
export type Counter = (typeof COUNTERS)[number];
/** Values of all counters. */
export type CounterValues = Readonly<Record<Counter, number>>;

/** The index of each counter in the shared array. */
const PLACES = Object.fromEntries(COUNTERS.map((name, place) => [name, place])) as Record<Counter, number>;

/** Memory for one shard's counters. */
export function createCounterMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(COUNTERS.length * Float64Array.BYTES_PER_ELEMENT);
}

/** The shard's side. */
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
}

/** The host's side: the sum over shards. */
export function readCounters(memories: readonly SharedArrayBuffer[]): CounterValues {
  const sums = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Record<Counter, number>;
  for (const memory of memories) {
    const values = new Float64Array(memory);
    for (const [index, name] of COUNTERS.entries()) sums[name] += values[index] ?? 0;
  }
  return sums;
}

/** The sum of one counter over shards, for frequent reads. */
export function sumOf(memories: readonly SharedArrayBuffer[], counter: Counter): number {
  const offset = PLACES[counter] * Float64Array.BYTES_PER_ELEMENT;
  let sum = 0;
  for (const memory of memories) sum += new Float64Array(memory, offset, 1)[0] ?? 0;
  return sum;
}
