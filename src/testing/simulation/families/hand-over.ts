/**
 * Hand-overs: another process takes the store over from a working runtime (I42 of `invariants.ts`). First the host asks
 * each shard to stand still: to begin no half-step, but to accept messages. Until the close, the embedder continues to
 * send.
 *
 * Owns: the moments of the last hand-over and of the last release, read from the requests of the host to its shards.
 * Does not own: the stores, and `Ledger.standsStill`, which says whether a refusal is a violation.
 */
import { defined } from '../../../base/defined.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import { openMemoryJournal } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { positionOf } from '../../../journal/rows/row-codec.ts';
import type { ShardThread } from '../../../runtime/host/shard-threads.ts';
import { decodeTransition } from '../../../session/state/records.ts';
import { type Endpoint, endpointWith } from '../../../threads/endpoint.ts';
import type { Ledger } from '../ledger.ts';
import { LINE_MS_MAX } from '../simulated-line.ts';
import type { SimulatedProcess, World } from '../world.ts';

/** The times of process clocks are whole milliseconds. */
const ROUNDING_MS = 1;

/** A hand-over, from the first request to a shard to stand still. */
interface Standing {
  readonly process: SimulatedProcess;
  /** Wall time from which every shard stands still. */
  readonly fromMs: number;
  /** The last row of each store at the first request. */
  readonly rows: readonly number[];
}

/** See the head of the file. */
export class HandOverWatch {
  readonly #world: World;
  readonly #ledger: Ledger;
  /** The difference between wall time and monotonic time at the open: a jump of the clock changes it. */
  #shiftMs = 0;
  #standing: Standing | undefined;
  /** The number of unanswered requests to stand still. */
  #unanswered = 0;
  /** The number of the newest commit of each shard when the store was released. */
  #released: readonly number[] | undefined;

  constructor(world: World, ledger: Ledger) {
    this.#world = world;
    this.#ledger = ledger;
  }

  /** Called when a process opens the stores. */
  opened(process: SimulatedProcess): void {
    this.#shiftMs = this.#shiftOf(process);
    this.#standing = undefined;
    this.#released = undefined;
    this.#unanswered = 0;
    this.#ledger.standsStill = false;
  }

  /** Called when a process releases the stores. */
  released(stores: readonly MemoryStore[]): void {
    this.#released ??= stores.map(({ state }) => state.commit);
  }

  /** Wraps the thread of a shard, to note each request to stand still or to close. */
  line(process: SimulatedProcess, thread: ShardThread, stores: readonly MemoryStore[]): ShardThread {
    const { endpoint } = thread;
    const call: Endpoint['call'] = (method, payload) => {
      if (method === 'runtime.standStill') this.#standStill(process, stores);
      if (method === 'runtime.close') this.#closes();
      const answer = endpoint.call(method, payload);
      if (method === 'runtime.standStill') this.#awaitStill(answer);
      return answer;
    };
    return {
      endpoint: endpointWith(endpoint, { call }),
      onExit: (listener) => thread.onExit(listener),
      exit: () => thread.exit(),
      serve: (services) => thread.serve(services),
    };
  }

  #standStill(process: SimulatedProcess, stores: readonly MemoryStore[]): void {
    if (this.#standing !== undefined) return;
    const fromMs = this.#world.clockOf(process).now() + LINE_MS_MAX + ROUNDING_MS;
    this.#standing = { process, fromMs, rows: stores.map(({ state }) => state.lastRow) };
    this.#ledger.standsStill = true;
  }

  #awaitStill(answer: Promise<unknown>): void {
    this.#unanswered += 1;
    const answered = (): void => {
      this.#unanswered -= 1;
    };
    answer.then(answered, answered);
  }

  #closes(): void {
    if (this.#ledger.standsStill && this.#unanswered > 0)
      this.#ledger.violate('failed', 'a runtime closed before its shards stood still (I42)');
    this.#ledger.standsStill = false;
  }

  /** Checks the stores after a life. */
  async check(stores: readonly MemoryStore[], encryption: StoreEncryption | undefined): Promise<void> {
    this.#ledger.standsStill = false;
    for (const [shard, { state }] of stores.entries()) {
      const released = this.#released?.[shard];
      if (released !== undefined && released !== state.commit)
        this.#ledger.violate('failed', `shard ${shard} was written after the store was released (I42)`);
    }
    const standing = this.#standing;
    // If the clock has jumped meanwhile, the times in a log do not say when a half-step began.
    if (standing === undefined || Math.abs(this.#shiftOf(standing.process) - this.#shiftMs) > ROUNDING_MS) return;
    for (const [shard, store] of stores.entries()) {
      const journal = openMemoryJournal({ store, ...defined({ encryption }) });
      // A claim in a later row may have been decided before the shards stood still, so its time is checked too.
      for (const { key, data } of journal.tail(positionOf((standing.rows[shard] ?? 0) + 1, 0) - 1)) {
        const { at, records } = decodeTransition(data);
        if (at <= standing.fromMs || !records.some(({ type }) => type === 'claimed')) continue;
        const session = journal.nameOf(key) ?? key;
        this.#ledger.violate('failed', `a half-step of ${session} began while its shard stood still (I42)`);
      }
      await journal.close();
    }
  }

  #shiftOf(process: SimulatedProcess): number {
    return this.#world.clockOf(process).now() - this.#world.elapsedMs;
  }
}
