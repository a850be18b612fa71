/**
 * Changes of the number of shards between two lives (see `invariants.ts`), and their check. Only some runs have them.
 * Their draws come from a separate stream, so that they change no other draw.
 *
 * Owns: the draws. Does not own: the stores, which belong to the machine, and the move, which is the production code.
 *
 *  I35 after a change, each session has the same head and the same log at the same positions, in the shard that its
 *      id determines. The next open still reads every session that has work. The keys of the new stores, and the
 *      positions assigned later, are higher than all earlier ones. If a crash interrupts a change before its last step,
 *      the stores stay as they were.
 */
import { shardOf } from '../../../base/ids.ts';
import type { Journal } from '../../../journal/journal.ts';
import { type MovedSessions, moveSessions } from '../../../journal/layout/move-sessions.ts';
import { openMemoryEngine, openMemoryJournal } from '../../../journal/memory-journal.ts';
import { MemoryStore } from '../../../journal/memory-store.ts';
import type { SessionKey } from '../../../journal/position.ts';
import { decodeHead, encodeHead, movedHead } from '../../../runtime/reading/head.ts';
import { MOVED_SESSIONS } from '../../../runtime/reading/moved-sessions.ts';
import type { Faults } from '../faults.ts';
import type { Ledger } from '../ledger.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { StoreReader } from '../store-reading.ts';

/** Share of the runs in which the number of shards changes. */
const SHARE = 0.3;
/** The share of the opens of such a run at which a number of shards is drawn. It may be the same number as before. */
const CHANGE_SHARE = 0.7;
/** Share of the changes that a crash interrupts. */
const CRASH_SHARE = 0.2;
const SHARDS_MAX = 3;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x1a70_0035;

/** The parts of the simulation that a change needs. */
export interface LayoutSurroundings {
  readonly machine: {
    readonly stores: readonly MemoryStore[];
    /** Replaces the stores. */
    changeLayout(stores: readonly MemoryStore[], moved: MovedSessions): void;
  };
  readonly reader: Pick<StoreReader, 'moved'>;
  readonly faults: Pick<Faults, 'isOn'>;
  readonly ledger: Ledger;
  readonly trace: (text: string) => void;
}

/** The contents of all stores that a change must keep. */
interface Kept {
  /** Log and head of each session, as text. */
  readonly sessions: ReadonlyMap<string, string>;
  /** The sessions that the next open reads. */
  readonly resumed: ReadonlySet<string>;
  /**
   * The removed sessions that are not erased yet, each with its heirs (forks that share its results). Only those heirs
   * are listed that come into the same new shard as the first heir.
   */
  readonly removed: readonly string[];
  readonly lastKey: SessionKey;
  readonly end: number;
}

/** See the head of the file. */
export class LayoutChanges {
  readonly #random: SeededRandom;
  readonly #surroundings: LayoutSurroundings;

  private constructor(random: SeededRandom, surroundings: LayoutSurroundings) {
    this.#random = random;
    this.#surroundings = surroundings;
  }

  /** The changes of a run; undefined if the run has none. */
  static draw(seed: number, surroundings: LayoutSurroundings): LayoutChanges | undefined {
    const random = new SeededRandom((seed ^ STREAM) >>> 0);
    return random.chance(SHARE) ? new LayoutChanges(random, surroundings) : undefined;
  }

  /**
   * Perhaps changes the stores, as an open with a different number of session threads does. No process has the stores
   * open at that time.
   */
  async change(): Promise<void> {
    const { machine, reader, faults, ledger, trace } = this.#surroundings;
    const { stores } = machine;
    const shards = this.#random.between(1, SHARDS_MAX);
    const isInterrupted = this.#random.chance(CRASH_SHARE) && faults.isOn;
    if (!this.#random.chance(CHANGE_SHARE) || shards === stores.length) return;
    const before = keptIn(stores, shards);
    const made = Array.from({ length: shards }, () => new MemoryStore());
    trace(`${stores.length} shards become ${shards}${isInterrupted ? ', interrupted' : ''}`);
    const moved = await moveSessions({
      from: stores.map((store) => openMemoryEngine({ store })),
      to: made.map((store) => openMemoryEngine({ store })),
      reading: MOVED_SESSIONS,
    });
    checkKept(ledger, before, keptIn(isInterrupted ? stores : made, shards), isInterrupted);
    if (isInterrupted) return;
    checkHigher(ledger, before, made);
    machine.changeLayout(made, moved);
    reader.moved();
  }
}

function keptIn(stores: readonly MemoryStore[], shards: number): Kept {
  const sessions = new Map<string, string>();
  const resumed = new Set<string>();
  const removed: string[] = [];
  let [lastKey, end] = [0, 0];
  for (const [shard, store] of stores.entries()) {
    const journal = openMemoryJournal({ store });
    for (const [name, key] of journal.names({})) {
      const place = shardOf(name, stores.length) === shard ? '' : `in shard ${shard} `;
      sessions.set(name, place + textOf(journal, name, key));
    }
    for (const key of [...journal.runnable(), ...journal.tailKeys(journal.checkpointed())]) {
      const name = journal.nameOf(key);
      if (name !== undefined) resumed.add(name);
    }
    for (const { name, heirs } of store.erasures.values()) {
      // An heir that was itself removed and erased no longer needs the results of this session.
      const names = heirs.flatMap((heir) => journal.nameOf(heir) ?? store.erasures.get(heir)?.name ?? []);
      const [home] = names;
      const kept = names.filter((each) => home !== undefined && shardOf(each, shards) === shardOf(home, shards));
      removed.push(`${name} ${kept.sort().join()}`);
    }
    lastKey = Math.max(lastKey, store.state.nextKey - 1);
    end = Math.max(end, journal.end());
  }
  return { sessions, resumed, removed: removed.sort(), lastKey, end };
}

function textOf(journal: Journal, name: string, key: SessionKey): string {
  const entries = Array.from(journal.read(key, 0), ({ position, data }) => `${position} ${data}`);
  // A fork without a head gets one, made from its log, when it leaves its parent's shard.
  const head = entries.length > 0 ? MOVED_SESSIONS.headOf(journal, name, key) : journal.head(key);
  // The address of a blob depends on the session's key, and a change of the layout replaces that key. So the texts of
  // the blobs are compared, not their addresses.
  const data = head === undefined ? '' : movedHead(head.data, (address) => journal.blob(address) ?? 'missing');
  return [...entries, head?.position, withoutBase(data)].join('\n');
}

/** The head without `base`: a fork that leaves its parent's shard gets a copy of its beginning, which I13 checks. */
function withoutBase(head: string): string {
  if (head === '') return head;
  const { base: _base, ...rest } = decodeHead(head);
  return encodeHead(rest);
}

function checkKept(ledger: Ledger, before: Kept, after: Kept, isInterrupted: boolean): void {
  for (const [name, text] of before.sessions) {
    if (after.sessions.get(name) !== text) ledger.violate('changed', `${name} is another after a move (I35)`);
  }
  for (const name of after.sessions.keys()) {
    if (!before.sessions.has(name)) ledger.violate('changed', `${name} is there after a move (I35)`);
  }
  for (const name of before.resumed) {
    if (!after.resumed.has(name)) ledger.violate('stuck', `${name} has work and is not read after a move (I35)`);
  }
  if (after.removed.join('\n') !== before.removed.join('\n'))
    ledger.violate('lost', `the removed sessions are others after a move (I35)`);
  if (isInterrupted && after.end !== before.end) ledger.violate('changed', 'an interrupted move was not undone (I35)');
}

function checkHigher(ledger: Ledger, before: Kept, made: readonly MemoryStore[]): void {
  for (const store of made) {
    const [lowest = Number.POSITIVE_INFINITY] = [...store.names.keys()].sort((a, b) => a - b);
    if (Math.min(lowest, store.state.nextKey) <= before.lastKey)
      ledger.violate('duplicated', 'a key of before the move is given out again (I35)');
    if (openMemoryJournal({ store }).end() < before.end)
      ledger.violate('reordered', 'a position of before the move is given out again (I35)');
  }
}
