/**
 * Backups of a store in use, in one seed of five. Each backup replaces the previous backup, but keeps its copies of the
 * shards that had no commit since then.
 *
 * Owns: the backups, which outlive processes, and the moments at which they are made. Does not own: the order in which
 * the parts of the store are copied, and which commits a copy has: both are production code.
 *
 *  I40 a backup has every message, spawn and event that was acknowledged or published before it began. It has the first
 *      part of each session's log. It has nothing of a session whose deletion was acknowledged before it began. It has
 *      each whole result that its logs refer to, if the durability of the store keeps results. Its cursors of webhooks
 *      are not newer than its copy of any shard.
 */

import { StoreFullError } from '../../../base/errors.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import type { Engine } from '../../../journal/engine.ts';
import { EngineJournal, type EngineJournalOptions } from '../../../journal/engine-journal.ts';
import type { Journal } from '../../../journal/journal.ts';
import { type MemoryJournalOptions, openMemoryEngine } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { type BackupSource, copyInOrder, type WriteBackup } from '../../../journal/store/backup.ts';
import { decodeCursor } from '../../../runtime/webhooks/cursor.ts';
import { isWithin, type Ledger, type MessageStory, type SpawnStory } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { RenderingAt, SessionStory } from '../session-story.ts';
import { StoreReader, type Stories } from '../store-reading.ts';
import { savedTo } from '../tool-invariants.ts';
import type { SimulatedProcess, World } from '../world.ts';
import { drawnFor, LifeActions, type LifeParts } from './life-actions.ts';

const SHARE = 0.2;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x0bac_0b40;
/** Maximum number of backups in one life. */
const BACKUPS = 4;
/** Maximum milliseconds that the copy of one part of the store takes. */
const PART_MS = 5_000;
/** The share of the copies that the device of the backup refuses. */
const REFUSED_SHARE = 0.1;
const DIRECTORY = '/backup';

/** The parts of the store beside its shards. */
export interface BackedUpStore {
  readonly world: World;
  /** Paths of the whole results. */
  readonly results: () => Iterable<string>;
  /** Cursors of webhooks, as text. */
  readonly cursors: () => Iterable<string>;
}

interface CopiedShard {
  readonly mark: string;
  readonly store: MemoryStore;
}

interface FinishedBackup {
  readonly shards: readonly CopiedShard[];
  readonly results: ReadonlySet<string>;
  readonly cursors: readonly string[];
  /** For each shard, the cursors just before that shard was copied. */
  readonly cursorsAtCopy: readonly (readonly string[])[];
}

/** The messages, spawns and events that had left the runtime when a backup began. */
interface Acknowledged {
  readonly messages: readonly MessageStory[];
  readonly spawns: readonly SpawnStory[];
  /** Number of the last published event, by session. */
  readonly events: ReadonlyMap<string, number>;
  readonly deleted: readonly string[];
}

interface UncheckedBackup extends FinishedBackup {
  readonly before: Acknowledged;
}

/** See the head of the file. */
export class SimulatedBackups {
  readonly #random: SeededRandom;
  /** Copies of shards, by the directory that they were made in. */
  readonly #copies = new Map<string, MemoryStore>();
  #openings = 0;
  #last: FinishedBackup | undefined;
  #unchecked: UncheckedBackup[] = [];

  private constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** The backups of a run; undefined if it makes none. */
  static draw(seed: number): SimulatedBackups | undefined {
    const random = drawnFor(seed, STREAM, SHARE);
    return random && new SimulatedBackups(random);
  }

  /** Opens a journal of a shard in `process`. A backup can copy this journal. */
  openJournal(
    process: SimulatedProcess,
    world: World,
    options: MemoryJournalOptions & EngineJournalOptions & { readonly store: MemoryStore },
  ): Journal {
    this.#openings += 1;
    const opening = this.#openings;
    const engine = openMemoryEngine(options);
    const copyTo: Engine['copyTo'] = async (directory, known) => {
      const mark = `${opening} ${engine.state().commit}`;
      if (mark === known) return { mark };
      const copy = options.store.copy();
      await world.sleep(process, this.#random.number() * PART_MS);
      if (this.#random.chance(REFUSED_SHARE)) throw new StoreFullError('the backup cannot be written');
      this.#copies.set(directory, copy);
      return { mark, bytes: copy.rows.size };
    };
    return new EngineJournal(Object.assign(engine, { copyTo }), options);
  }

  /** Returns the function that writes the backups of a process. */
  writerOf(process: SimulatedProcess, { world, results, cursors }: BackedUpStore): WriteBackup {
    return async (directory, source) => {
      const takes = (): Promise<void> => world.sleep(process, this.#random.number() * PART_MS);
      const former = this.#last?.shards;
      const copied = new Set<string>();
      const cursorsAtCopy: (readonly string[])[] = [];
      const begins = (): void => void cursorsAtCopy.push([...cursors()]);
      const parts = await copyInOrder({
        cursors: async () => {
          await takes();
          return [...cursors()];
        },
        results: async () => {
          await takes();
          for (const path of results()) copied.add(path);
        },
        shards: () => this.#copyShards(directory, source, former, begins),
      });
      this.#last = { ...parts, results: copied, cursorsAtCopy };
      const [shards, copiedShards] = [parts.shards.length, parts.shards.filter((each) => !former?.includes(each))];
      const counts = { bytes: 0, copiedBytes: 0, results: copied.size, copiedResults: copied.size };
      return { directory, shards, copiedShards: copiedShards.length, ...counts };
    };
  }

  async #copyShards(
    directory: string,
    { shards, copyShard }: BackupSource,
    former: readonly CopiedShard[] | undefined,
    begins: () => void,
  ): Promise<readonly CopiedShard[]> {
    const copied: CopiedShard[] = [];
    for (let shard = 0; shard < shards; shard += 1) {
      const place = `${directory}/${shard}`;
      const known = former?.[shard];
      begins();
      const { mark, bytes } = await copyShard(shard, place, known?.mark);
      const store = bytes === undefined ? known?.store : this.#copies.get(place);
      if (store === undefined) throw new Error(`shard ${shard} was not copied`);
      copied.push(bytes === undefined && known !== undefined ? known : { mark, store });
    }
    return copied;
  }

  /** The backups of one life. */
  actions(parts: LifeParts): { run(): Promise<void>; leave(): void } {
    const actions = new LifeActions(parts, this.#random.fork(), 'b');
    const back = async (): Promise<void> => {
      const before = acknowledgedIn(parts.ledger);
      await parts.runtime.backup(DIRECTORY);
      parts.trace('a backup is complete');
      if (this.#last !== undefined) this.#unchecked.push({ ...this.#last, before });
    };
    return {
      run: () => actions.run(BACKUPS, () => actions.attempts.attempt('backup', back)),
      leave: () => actions.leave(),
    };
  }

  /** Checks the backups that were completed since the previous check. `stories`: the contents of the store now. */
  async check(ledger: Ledger, stories: Stories, options: BackupReaderOptions): Promise<void> {
    for (const backup of this.#unchecked.splice(0)) await checkBackup(backup, { ledger, stories, options });
  }
}

/** How the logs of a backup are read. */
export interface BackupReaderOptions {
  readonly rendering: RenderingAt;
  readonly encryption?: StoreEncryption | undefined;
  /** False if the store syncs nothing, so that a power loss may take a result. */
  readonly keepsResults: boolean;
}

interface Checked {
  readonly ledger: Ledger;
  /** The contents of the store. */
  readonly stories: Stories;
  readonly options: BackupReaderOptions;
}

async function checkBackup(backup: UncheckedBackup, { ledger, stories, options }: Checked): Promise<void> {
  const stores = backup.shards.map(({ store }) => store);
  const found = await new StoreReader(stores, options).read();
  // A session whose deletion was requested may be in the backup, or may be missing there.
  const lost = (session: string, what: string): void => {
    if (!ledger.isDeleted(session)) ledger.violate('lost', `a backup lacks ${what} of ${session} (I40)`);
  };
  for (const name of found.differing) ledger.violate('fold', `${name} in a backup differs from its log (I40)`);
  for (const what of found.misstated) ledger.violate('fold', `in a backup: ${what} (I40)`);
  for (const session of backup.before.deleted) {
    if (found.names.some((id) => isWithin(id, session)))
      ledger.violate('duplicated', `a backup has ${session}, which was deleted (I40)`);
  }
  for (const { session, pendingId = 0, uid } of backup.before.messages) {
    if (!found.stories.get(session)?.accepted.has(pendingId)) lost(session, `the message ${uid}`);
  }
  for (const { session, child = '' } of backup.before.spawns) {
    if (!found.stories.get(session)?.spawned.has(child)) lost(session, `the child ${child}`);
  }
  for (const [session, last] of backup.before.events) {
    if ((found.stories.get(session)?.events.length ?? 0) < last) lost(session, `event ${last}`);
  }
  for (const story of found.stories.values()) {
    checkBeginning(ledger, story, stories);
    if (!options.keepsResults) continue;
    for (const path of savedTo(story)) if (!backup.results.has(path)) lost(story.id, `the result ${path}`);
  }
  checkCursors(ledger, backup);
}

function checkBeginning(ledger: Ledger, { id, events }: SessionStory, stories: Stories): void {
  const now = stories.get(id);
  if (now === undefined && !ledger.isDeleted(id))
    ledger.violate('changed', `a backup has ${id}, which is unknown (I40)`);
  if (now !== undefined && events.some((digest, index) => digest !== now.events[index]))
    ledger.violate('changed', `the log of ${id} in a backup is no beginning of its log (I40)`);
}

function checkCursors(ledger: Ledger, { cursors, cursorsAtCopy }: FinishedBackup): void {
  for (const [index, text] of cursors.entries()) {
    for (const [shard, position] of positionsOf(text).entries()) {
      const atCopy = positionsOf(cursorsAtCopy[shard]?.[index])[shard] ?? 0;
      if (position > atCopy)
        ledger.violate('lost', `a backup has a cursor at ${position} of shard ${shard}, as of ${atCopy} (I40)`);
    }
  }
}

function positionsOf(cursor: string | undefined): readonly number[] {
  return decodeCursor(cursor)?.positions ?? [];
}

function acknowledgedIn({ messages, spawns, events, deleted }: Ledger): Acknowledged {
  return {
    messages: [...messages.values()].filter(({ pendingId, isRefused }) => pendingId !== undefined && !isRefused),
    spawns: [...spawns.values()].filter(({ child }) => child !== undefined),
    events: new Map(Array.from(events, ([session, received]) => [session, Math.max(...received.keys())])),
    deleted: [...deleted].flatMap(([session, isAcknowledged]) => (isAcknowledged ? session : [])),
  };
}
