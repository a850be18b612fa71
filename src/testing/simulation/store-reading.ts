/**
 * Reads every session of a machine's stores while no process has a store open. The state of a session is the fold of
 * its log: all records are applied, one after another.
 *
 * Owns: earlier readings, so that a session whose log has not grown is not read again. Does not own: the stores.
 */
import { defined } from '../../base/defined.ts';
import type { StoreEncryption } from '../../journal/encryption/master-keys.ts';
import type { Journal } from '../../journal/journal.ts';
import { openMemoryJournal } from '../../journal/memory-journal.ts';
import type { MemoryStore } from '../../journal/memory-store.ts';
import type { Position, SessionKey } from '../../journal/position.ts';
import { contentReader } from '../../runtime/reading/content-reader.ts';
import { plantFork } from '../../runtime/reading/fork-reader.ts';
import { readActor } from '../../runtime/reading/session-reader.ts';
import { withContent } from '../../session/rules/waiting-content.ts';
import { decodeTransition, type TransitionRecords } from '../../session/state/records.ts';
import { snapshotState } from '../../session/state/snapshot.ts';
import type { SessionState } from '../../session/state/state.ts';
import { misstatedEnd } from './end-trail.ts';
import { type RenderingAt, type SessionStory, type StoredTransition, writeStory } from './session-story.ts';

/** The contents of a runtime's stores, by session. */
export type Stories = ReadonlyMap<string, SessionStory>;

/** The result of a reading. */
export interface Reading {
  readonly stories: Stories;
  /** Sessions whose logs grew since the previous reading. */
  readonly changed: ReadonlySet<string>;
  /**
   * Sessions whose state, as the runtime loads it from head and snapshot, differs from the fold of the whole log. Also
   * sessions whose log is incomplete.
   */
  readonly differing: readonly string[];
  /** A sentence about each session whose head and log report different ends of the last turn. */
  readonly misstated: readonly string[];
  /** The names of all sessions, including names without any transition. */
  readonly names: readonly string[];
}

/** The transitions of a session that were read. */
interface KnownTurns {
  readonly name: string;
  readonly turns: readonly StoredTransition[];
}

/** Facts about the runtime that wrote the stores. */
export interface ReaderOptions {
  /** How requests are rendered from the logs. Missing: as for agents with tools and without thinking. */
  readonly rendering?: RenderingAt | undefined;
  /** The keys of the stores. Missing: the stores are not encrypted. */
  readonly encryption?: StoreEncryption | undefined;
  /** True if the runtime removes old history (I33). Missing: the runtime keeps all history. */
  readonly removesHistory?: boolean;
}

/** See the head of the file. */
export class StoreReader {
  readonly #stores: readonly MemoryStore[];
  #positions: Position[];
  readonly #rendering: RenderingAt | undefined;
  readonly #encryption: StoreEncryption | undefined;
  #stories = new Map<string, SessionStory>();
  /**
   * The transitions of each session, by shard and key, including those that the runtime has removed since. Undefined if
   * the runtime removes no history.
   */
  readonly #turns: Map<string, KnownTurns> | undefined;
  /** The transitions of each session by name, as they were before the last change of the layout. */
  #turnsBefore: ReadonlyMap<string, KnownTurns> = new Map();

  constructor(stores: readonly MemoryStore[], { rendering, encryption, removesHistory = false }: ReaderOptions = {}) {
    this.#stores = stores;
    this.#encryption = encryption;
    this.#turns = removesHistory ? new Map() : undefined;
    this.#rendering = rendering;
    this.#positions = stores.map(() => 0);
  }

  /**
   * Reads each session with new log entries in two ways: from its whole log, and as the runtime loads it into memory.
   */
  async read(): Promise<Reading> {
    const before = this.#stories;
    this.#stories = new Map();
    const changed = new Set<string>();
    const differing: string[] = [];
    const misstated: string[] = [];
    const names: string[] = [];
    for (const [index, store] of this.#stores.entries()) {
      const journal = openMemoryJournal({ store, ...defined({ encryption: this.#encryption }) });
      const since = this.#positions[index] ?? 0;
      const grown = this.#grown(journal, index);
      // The heads of these sessions may be older than their logs. No list uses such heads (K1 of the checkpointer), so
      // they are not checked.
      const unlisted = new Set([...journal.runnable(), ...journal.tailKeys(journal.checkpointed())]);
      for (const [name, key] of journal.names({})) {
        names.push(name);
        const known = before.get(name);
        if (known !== undefined && !grown.has(key)) {
          this.#stories.set(name, known);
          if (!unlisted.has(key)) misstated.push(...misstatedEnd(journal, key, known.state));
          continue;
        }
        const plant = (state: SessionState, first: TransitionRecords): void => {
          plantFork(journal, key, state, first);
        };
        const story = writeStory(name, this.#turnsOf(journal, index, key, name), plant, this.#rendering);
        // The name has no transition, because the transition that would have made the session was lost.
        if (story.state.agent === undefined) continue;
        this.#stories.set(name, story);
        changed.add(name);
        if (!unlisted.has(key)) misstated.push(...misstatedEnd(journal, key, story.state));
        // The session's own log must have each entry that the common log of the shard has for this session. An entry
        // that only one of the two logs has would reappear or be missed later.
        const isWhole = count(journal.read(key, since)) === (grown.get(key) ?? 0);
        const woken = readActor(journal, name, key).state;
        if (!isWhole || snapshotState(filled(woken, journal, key)) !== snapshotState(story.state)) differing.push(name);
      }
      await journal.close();
    }
    return { stories: this.#stories, changed, differing, misstated, names };
  }

  /** The whole log of a session, with the part that was removed after an earlier reading (I33). */
  #turnsOf(journal: Journal, shard: number, key: SessionKey, name: string): Iterable<StoredTransition> {
    if (this.#turns === undefined) return turnsOf(journal, key);
    const place = `${shard}/${key}`;
    const start = journal.starts.of(key)?.position ?? 0;
    const known = this.#turns.get(place) ?? this.#turnsBefore.get(name);
    const removed = start === 0 ? [] : (known?.turns ?? []).filter(({ position }) => position <= start);
    const turns = [...removed, ...turnsOf(journal, key)];
    this.#turns.set(place, { name, turns });
    return turns;
  }

  /** Called after a change of the layout replaced the stores. The next reading reads everything again. */
  moved(): void {
    this.#positions = this.#stores.map(() => 0);
    this.#turnsBefore = new Map(Array.from(this.#turns?.values() ?? [], (each) => [each.name, each]));
    this.#turns?.clear();
  }

  /** Number of new log entries, by session. */
  #grown(journal: Journal, index: number): ReadonlyMap<SessionKey, number> {
    const turns = new Map<SessionKey, number>();
    for (const entry of journal.tail(this.#positions[index] ?? 0)) {
      turns.set(entry.key, (turns.get(entry.key) ?? 0) + 1);
      this.#positions[index] = entry.position;
    }
    return turns;
  }
}

/** The state with all contents of waiting entries and dead letters in memory, where the fold of a story has them. */
function filled(state: SessionState, journal: Journal, key: SessionKey): SessionState {
  const read = contentReader(journal, key);
  return {
    ...state,
    mailbox: state.mailbox.map((entry) => withContent(entry, read)),
    deadLetters: state.deadLetters.map((letter) => ({ ...letter, entry: withContent(letter.entry, read) })),
  };
}

function count(entries: Iterable<unknown>): number {
  let found = 0;
  for (const _entry of entries) found += 1;
  return found;
}

function* turnsOf(journal: Journal, key: SessionKey): Iterable<StoredTransition> {
  for (const { data, position } of journal.read(key, 0)) yield { ...decodeTransition(data), position };
}
