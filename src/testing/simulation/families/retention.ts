/**
 * The removal of old history (I33 of `invariants.ts`), in one seed of four. Time passes between two lives. So
 * messages that left the window in one life are old in the next.
 *
 * The reader of the stores keeps the removed transitions. The fold of the whole log, with the removed part, gives a
 * state. The runtime must read the same state from the rest of the log and the blob that replaces the removed part. At
 * the end, no old history is left in a log.
 */
import { defined } from '../../../base/defined.ts';
import { shardOf } from '../../../base/ids.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import type { Journal } from '../../../journal/journal.ts';
import { openMemoryJournal } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { rowOf, rowSessions } from '../../../journal/rows/row-codec.ts';
import type { Retention } from '../../../runtime/protocol/retention.ts';
import { beginningOf } from '../../../runtime/reading/log-beginning.ts';
import { foldEntry } from '../../../runtime/reading/session-reader.ts';
import { firstDeparture } from '../../../session/rules/eviction.ts';
import { decodeTransition } from '../../../session/state/records.ts';
import type { Ledger } from '../ledger.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { Stories } from '../store-reading.ts';
import type { SimulatedProcess, World } from '../world.ts';

/** Separates these draws from all others, so that they change no other draw. */
const STREAM = 0x51c3_9a27;
const SHARE = 0.25;
/** Longer than any life, so that the reader has read all history before it becomes old. */
const KEPT_MS = 48 * 3_600_000;
/** The share of lives that are followed by a pause of `KEPT_MS`. */
const PAUSE_SHARE = 0.6;
/**
 * Virtual ms in which a runtime without faults removes old history. Its first search comes an hour after its start.
 */
const REMOVED_WITHIN_MS = 2 * 3_600_000;

/** The parts of the simulation that the checks read. */
export interface RetentionCheckParts {
  readonly stores: readonly MemoryStore[];
  /** The keys of the stores; missing: they are not encrypted. */
  readonly encryption?: StoreEncryption | undefined;
  readonly ledger: Ledger;
  readonly world: World;
  readonly harness: SimulatedProcess;
}

/** See the head of the file. */
export class SimulatedRetention {
  readonly option: Retention = { archivedHistoryMs: KEPT_MS };
  readonly #random: SeededRandom;

  private constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** The removal of a run; undefined if the run keeps its whole history. */
  static draw(seed: number): SimulatedRetention | undefined {
    const random = new SeededRandom((seed ^ STREAM) >>> 0);
    return random.chance(SHARE) ? new SimulatedRetention(random) : undefined;
  }

  /** Lets `KEPT_MS` pass after some lives, and always after the last life with faults (`isLast`). */
  async pass({ world, harness }: RetentionCheckParts, isLast: boolean): Promise<void> {
    if (isLast || this.#random.chance(PAUSE_SHARE)) await world.sleep(harness, KEPT_MS + 1_000);
  }

  /** Waits for the time in which a process without faults removes all old history. */
  untilRemoved({ world, harness }: RetentionCheckParts): Promise<void> {
    return world.sleep(harness, REMOVED_WITHIN_MS);
  }

  /** Checks that all old history has left the logs, and that its rows are erased. */
  checkRemoved(parts: RetentionCheckParts, stories: Stories): void {
    for (const id of this.#old(parts, stories)) {
      parts.ledger.violate('stuck', `old history of ${id} is still in its log (I33)`);
    }
    for (const [shard, store] of parts.stores.entries()) {
      for (const { key, row } of leftovers(store))
        parts.ledger.violate('stuck', `shard ${shard}: row ${row} has a removed part of session ${key} (I33)`);
    }
  }

  #old({ stores, encryption, world, harness }: RetentionCheckParts, stories: Stories): readonly string[] {
    const before = world.clockOf(harness).now() - KEPT_MS - REMOVED_WITHIN_MS;
    const late = Array.from(stories.values()).filter(
      ({ state }) => (firstDeparture(state) ?? Number.POSITIVE_INFINITY) < before && !waits(state),
    );
    if (late.length === 0) return [];
    const journals = stores.map((store) => openMemoryJournal({ store, ...defined({ encryption }) }));
    return late.flatMap(({ id }) => {
      const journal = journals[shardOf(id, stores.length)];
      return journal !== undefined && canBeCut(journal, id, before) ? id : [];
    });
  }
}

/**
 * True if a part at the beginning of a session's log can be removed. All transitions of such a part are old, and within
 * the part messages left the window. At the end of the part no content waits (V3 of `old-history.ts`).
 */
function canBeCut(journal: Journal, id: string, before: number): boolean {
  const key = journal.keyOf(id) ?? 0;
  const { state, position } = beginningOf(journal, id, key);
  const entries = [...journal.read(key, position)];
  for (const [index, entry] of entries.entries()) {
    if (decodeTransition(entry.data).at >= before) return false;
    foldEntry(journal, state, entry, position === 0 && index === 0);
    const next = entries[index + 1];
    const endsRow = next === undefined || rowOf(next.position) !== rowOf(entry.position);
    if (endsRow && (firstDeparture(state) ?? before) < before && !waits(state)) return true;
  }
  return false;
}

/** Checks, between two processes, that the stores have all that a removal needs to continue after a crash. */
export function checkCuts({ stores, ledger }: Pick<RetentionCheckParts, 'stores' | 'ledger'>): void {
  for (const [shard, store] of stores.entries()) {
    for (const { key, row } of leftovers(store)) {
      const note = store.erasures.get(key);
      if (Math.max(note?.row ?? -1, ...(note?.earlier ?? []).map(({ left }) => left)) < row)
        ledger.violate('lost', `shard ${shard}: row ${row} has a removed part of session ${key}, unnoted (I33)`);
    }
    for (const [key, { base }] of store.starts) {
      if (!store.names.has(key) || !store.blobs.has(base))
        ledger.violate('lost', `shard ${shard}: the beginning of the log of session ${key} is lost (I33)`);
    }
  }
}

/** True for a session with waiting contents. The log may have their only copy; then that part of the log must stay. */
function waits({
  mailbox,
  deadLetters,
}: {
  readonly mailbox: readonly unknown[];
  readonly deadLetters: readonly unknown[];
}): boolean {
  return mailbox.length + deadLetters.length > 0;
}

/** The entries of removed parts of logs that are still in the rows. */
function leftovers({ rows, starts, state }: MemoryStore): readonly { readonly key: number; readonly row: number }[] {
  return Array.from(rows).flatMap(([row, bytes]) =>
    row > state.lastRow
      ? []
      : rowSessions(bytes, row).flatMap(([key]) => (row <= rowOf(starts.get(key)?.position ?? 0) ? { key, row } : [])),
  );
}
