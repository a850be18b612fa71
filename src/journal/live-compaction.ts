/**
 * Replaces the store of an open engine by a compact copy of itself, while the engine takes writes.
 *
 * The copy is made from a snapshot. The batches that are committed meanwhile are kept, and are written into the copy
 * afterwards, a slice at a time. When little is left, the next write waits until the rest is in the copy and the copy
 * has taken the place of the store.
 *
 * Owns: the batches kept for the copy, and the hold on writes. Does not own: the copy and the store, which are the
 * engine's, and the decision when a compaction runs.
 *
 * Invariants:
 *  M1 a copy takes the place of the store only when it holds every commit of the store. From the last slice to the
 *     replacement no write begins;
 *  M2 the copy is durable before it takes the place of the store. So a crash at any moment leaves the store or the
 *     copy, and the commits that were acknowledged are in both;
 *  M3 kept batches are bounded (`COMPACT_KEPT_BYTES_MAX`). The compaction ends beyond the bound, after a refused write,
 *     and at a close. Then the copy is discarded, and the store is as if no compaction had begun;
 *  M4 the state of the store has two numbers of commits: the last one that ended the erasure of a deleted session
 *     (`erased`), and the newest one in the snapshot of the newest copy (`compacted`). So after a crash the store still
 *     says that a compaction is owed.
 */
import {
  COMPACT_HELD_BYTES_MAX,
  COMPACT_KEPT_BYTES_MAX,
  COMPACT_SLICE_BYTES_MAX,
  COMPACT_SLICE_CHANGES_MAX,
} from '../base/bounds.ts';
import { CancelledError, LimitError, TroupeError } from '../base/errors.ts';
import type { CompactionResult, EngineState, StoreCompaction, StoredBatch, StoredChange, StoreUse } from './engine.ts';

/** Bytes of memory that a kept change takes beside its value, roughly. */
const CHANGE_BYTES = 64;

/** A compact copy that is being prepared to take the place of its store. Only the engine's thread may call it. */
export interface CompactCopy {
  /** The newest commit of the snapshot. */
  readonly commit: number;
  /** Writes changes into the copy, in one transaction. */
  apply(changes: readonly StoredChange[]): Promise<void>;
  /** Resolves when everything that was applied is durable. */
  sync(): Promise<void>;
  /**
   * Puts the copy in the place of the store, or rejects and changes nothing. The caller lets no write run meanwhile.
   * Resolves to the copy's bytes, without the room kept at the end of its file.
   */
  replace(): Promise<number>;
  /** Removes the copy. Never called after `replace` has resolved. */
  discard(): Promise<void>;
}

/** The functions of an engine that a compaction uses. */
export interface CompactionPort {
  state(): EngineState;
  /** False for a store that keeps no bytes of removed entries. */
  keepsRemoved(): boolean;
  /** Reads a few pages of the store. */
  use(): StoreUse;
  /**
   * Makes a copy that has every commit up to the newest, and perhaps commits that follow during the call. `slices`
   * measures the work on this thread.
   */
  copy(slices: SliceWatch): Promise<CompactCopy>;
}

/** Measures the pieces of work that hold a thread, and ends the work between two of them. */
export class SliceWatch {
  longestMs = 0;
  /** The next piece of work throws this error. */
  end: Error | undefined;

  run<T>(work: () => T): T {
    if (this.end !== undefined) throw this.end;
    const startedAt = performance.now();
    try {
      return work();
    } finally {
      this.took(performance.now() - startedAt);
    }
  }

  took(ms: number): void {
    this.longestMs = Math.max(this.longestMs, ms);
  }
}

/** One compaction under way. */
interface Run {
  readonly slices: SliceWatch;
  /** Commits whose changes the copy may lack, oldest first. */
  kept: { readonly commit: number; readonly changes: readonly StoredChange[] }[];
  /** The number of changes of the first kept commit that are in the copy already. */
  taken: number;
  keptBytes: number;
}

/** See the head of the file. One for each engine. */
export class LiveCompaction implements StoreCompaction {
  readonly #port: CompactionPort;
  #run: Run | undefined;
  #ended: Promise<unknown> = Promise.resolve();
  #held: Promise<void> | undefined;
  #isWriting = false;
  #written: (() => void) | undefined;

  constructor(port: CompactionPort) {
    this.#port = port;
  }

  get isOwed(): boolean {
    const { erased, compacted } = this.#port.state();
    return erased > compacted && this.#port.keepsRemoved();
  }

  use(): StoreUse {
    return this.#port.use();
  }

  async run(): Promise<CompactionResult> {
    if (this.#run !== undefined) throw new TroupeError('internal', 'M1: a compaction is under way');
    const run: Run = { slices: new SliceWatch(), kept: [], taken: 0, keptBytes: 0 };
    this.#run = run;
    const running = this.#compact(run).finally(() => {
      this.#run = undefined;
    });
    this.#ended = running.catch(() => undefined);
    return running;
  }

  /** Ends the compaction under way, if any, and resolves when it has ended. */
  async end(reason: Error): Promise<void> {
    if (this.#run !== undefined) this.#run.slices.end ??= reason;
    await this.#ended;
  }

  // ---- the engine's writes ------------------------------------------------------------------------------------------

  /** The promise that writes must wait for; undefined if a write may begin. */
  get hold(): Promise<void> | undefined {
    return this.#held;
  }

  /** Called when a write begins. */
  writing(): void {
    this.#isWriting = true;
  }

  /** Called when a write has ended. `stored`: the batch, if it was committed. */
  wrote(stored: StoredBatch | undefined): void {
    this.#isWriting = false;
    const run = this.#run;
    if (run !== undefined && stored === undefined)
      run.slices.end ??= new CancelledError('a write was refused while the store was compacted');
    else if (run !== undefined && stored !== undefined) this.#keep(run, stored);
    this.#written?.();
  }

  #keep(run: Run, { state, changes }: StoredBatch): void {
    if (run.slices.end !== undefined) return;
    run.kept.push({ commit: state.commit, changes });
    run.keptBytes += changes.reduce((sum, change) => sum + bytesOf(change), 0);
    if (run.keptBytes <= COMPACT_KEPT_BYTES_MAX) return;
    run.kept = [];
    run.slices.end = new LimitError('more was committed during a compaction than can be kept for the copy', {
      data: { limit: 'COMPACT_KEPT_BYTES_MAX', value: COMPACT_KEPT_BYTES_MAX },
    });
  }

  // ---- a compaction -------------------------------------------------------------------------------------------------

  async #compact(run: Run): Promise<CompactionResult> {
    const bytesBefore = this.#port.use().bytes;
    const copy = await this.#port.copy(run.slices);
    let release: (() => void) | undefined;
    try {
      // The snapshot of the copy has these commits already.
      while ((run.kept[0]?.commit ?? Number.POSITIVE_INFINITY) <= copy.commit) this.#drop(run);
      await copy.apply([{ table: 'meta', key: 'compacted', value: String(copy.commit) }]);
      await this.#catchUp(run, copy, COMPACT_HELD_BYTES_MAX);
      // This first sync takes most of the time of the two syncs, and no write waits for it.
      await copy.sync();
      await this.#catchUp(run, copy, COMPACT_HELD_BYTES_MAX);
      this.#held = new Promise((resolve) => {
        release = resolve;
      });
      if (this.#isWriting) {
        await new Promise<void>((resolve) => {
          this.#written = resolve;
        });
      }
      await this.#catchUp(run, copy, 0);
      await copy.sync();
      throwIfEnded(run);
      const bytes = await copy.replace();
      return { bytesBefore, bytes, sliceMs: run.slices.longestMs };
    } catch (error) {
      await copy.discard();
      throw error;
    } finally {
      this.#written = undefined;
      this.#held = undefined;
      release?.();
    }
  }

  /**
   * Writes kept changes into the copy until fewer than `leftBytes` bytes of changes are left. With 0, writes all of
   * them.
   */
  async #catchUp(run: Run, copy: CompactCopy, leftBytes: number): Promise<void> {
    throwIfEnded(run);
    while (run.kept.length > 0 && run.keptBytes >= leftBytes) {
      await copy.apply(this.#take(run));
      throwIfEnded(run);
    }
  }

  #take(run: Run): readonly StoredChange[] {
    const slice: StoredChange[] = [];
    let bytes = 0;
    while (slice.length < COMPACT_SLICE_CHANGES_MAX && bytes < COMPACT_SLICE_BYTES_MAX) {
      const first = run.kept[0];
      if (first === undefined) break;
      const change = first.changes[run.taken];
      if (change === undefined) {
        this.#drop(run);
        continue;
      }
      slice.push(change);
      bytes += bytesOf(change);
      run.taken += 1;
      run.keptBytes -= bytesOf(change);
    }
    // A batch whose changes are all taken is dropped now, so that `kept` is empty when no change is left.
    const first = run.kept[0];
    if (first !== undefined && run.taken >= first.changes.length) this.#drop(run);
    return slice;
  }

  #drop(run: Run): void {
    const rest = run.kept.shift()?.changes.slice(run.taken) ?? [];
    run.keptBytes -= rest.reduce((sum, change) => sum + bytesOf(change), 0);
    run.taken = 0;
  }
}

function throwIfEnded({ slices: { end } }: Run): void {
  if (end !== undefined) throw end;
}

function bytesOf({ value }: StoredChange): number {
  return (value?.length ?? 0) + CHANGE_BYTES;
}
