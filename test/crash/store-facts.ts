/**
 * The victim's store between two lives. This process opens the store as the next life will open it, and folds new log
 * entries onto the earlier reading. At the end everything is read again and must be the same.
 */
import { auditEntry } from '../../src/base/audit/audit-entry.ts';
import type { Journal } from '../../src/journal/journal.ts';
import { openJournal } from '../../src/journal/open-journal.ts';
import type { SessionKey } from '../../src/journal/position.ts';
import { rowOf } from '../../src/journal/rows/row-codec.ts';
import { readManifest, shardDirectory } from '../../src/journal/store/manifest.ts';
import { contentReader } from '../../src/runtime/reading/content-reader.ts';
import { plantFork } from '../../src/runtime/reading/fork-reader.ts';
import { readActor } from '../../src/runtime/reading/session-reader.ts';
import { withContent } from '../../src/session/rules/waiting-content.ts';
import { decodeTransition } from '../../src/session/state/records.ts';
import { snapshotState } from '../../src/session/state/snapshot.ts';
import { familyOf } from './protocol.ts';
import { FactsGatherer, type SessionFacts } from './session-facts.ts';

/** The result of one reading. */
export interface Reading {
  /** Session threads of the store; 0: there is no store yet. */
  readonly shards: number;
  /** Sessions whose logs grew since the last reading. */
  readonly changed: ReadonlySet<string>;
  readonly sessions: ReadonlyMap<string, SessionFacts>;
  /** Problems: log entries that cannot be read, or that read differently before. */
  readonly torn: readonly string[];
  /** Checkpoints found since the first reading. */
  readonly checkpoints: number;
  /** Families that have a session in the store, or the note of one that is being erased. */
  readonly families: ReadonlySet<string>;
  /** For each session that the audit log calls deleted, how often. */
  readonly deletions: ReadonlyMap<string, number>;
  /** Deleted sessions that are being erased, and sessions whose old history is. */
  readonly erasing: number;
  readonly removing: number;
  /** Removals of old history found since the first reading. */
  readonly removals: number;
}

interface Known {
  readonly key: SessionKey;
  readonly gatherer: FactsGatherer;
  facts: SessionFacts;
}

/** The facts of one shard. */
interface ShardFacts {
  readonly sessions: Map<string, Known>;
  position: number;
  checkpointed: number;
}

/** See the head of the file. */
export class StoreFacts {
  readonly #directory: string;
  readonly #shards = new Map<number, ShardFacts>();
  #checkpoints = 0;
  #removals = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads new entries; with `all`, reads everything again. No process may have the store open. */
  async read(all: boolean): Promise<Reading> {
    const changed = new Set<string>();
    const torn: string[] = [];
    const families = new Set<string>();
    const deletions = new Map<string, number>();
    let [erasing, removing] = [0, 0];
    const { shards = 0 } = (await readManifest(this.#directory)) ?? {};
    for (let index = 0; index < shards; index += 1) {
      const before = this.#shards.get(index) ?? { sessions: new Map(), position: 0, checkpointed: 0 };
      const shard = all ? { ...before, sessions: new Map(), position: 0 } : before;
      const journal = await openJournal({ directory: shardDirectory(this.#directory, index), durability: 'flush' });
      try {
        this.#removals += readShard(journal, shard, { before, changed, torn });
        for (const { name, keeps } of journal.erasures().values()) {
          if (keeps === true) removing += 1;
          else erasing += 1;
          addFamily(families, name);
        }
        for (const [name] of journal.names({})) addFamily(families, name);
        for (const { number, text } of journal.audit.read(0, Number.MAX_SAFE_INTEGER)) {
          const { action, session = '' } = auditEntry(number, text);
          if (action === 'session.deleted') deletions.set(session, (deletions.get(session) ?? 0) + 1);
        }
        if (journal.checkpointed() !== shard.checkpointed) this.#checkpoints += 1;
        shard.checkpointed = journal.checkpointed();
        if (all) compare(before, shard, torn);
        // A log that cannot be folded was reported already.
        if (all && torn.length === 0) compareStates(journal, shard, torn);
      } finally {
        await journal.close();
      }
      this.#shards.set(index, shard);
    }
    const sessions = new Map<string, SessionFacts>();
    for (const shard of this.#shards.values()) for (const [id, { facts }] of shard.sessions) sessions.set(id, facts);
    const [checkpoints, removals] = [this.#checkpoints, this.#removals];
    return { shards, changed, sessions, torn, checkpoints, families, deletions, erasing, removing, removals };
  }
}

function addFamily(families: Set<string>, name: string): void {
  const family = familyOf(name);
  if (family !== undefined) families.add(family);
}

/** The facts of a session whose old history was removed: the store does not have what an earlier reading has. */
function keptFacts(journal: Journal, id: string, key: SessionKey, before: ShardFacts): Known | undefined {
  const start = journal.starts.of(key);
  if (start === undefined) return undefined;
  const known = before.sessions.get(id);
  if (known?.key !== key || rowOf(start.position) > rowOf(before.position))
    throw new Error('a part of it was removed before it was read');
  return known;
}

/** Returns the number of removals of old history. `before`: the reading before. */
function readShard(
  journal: Journal,
  shard: ShardFacts,
  {
    before: { ...before },
    changed,
    torn,
  }: { readonly before: ShardFacts; readonly changed: Set<string>; readonly torn: string[] },
): number {
  let removals = 0;
  // A deleted session is no longer in the tail. It is removed by its name, which a newer session may have by now.
  for (const [id, { key }] of shard.sessions) if (journal.keyOf(id) !== key) shard.sessions.delete(id);
  const broken = new Set<SessionKey>();
  for (const entry of journal.tail(shard.position)) {
    if (entry.position < shard.position) torn.push(`position ${entry.position} comes after ${shard.position}`);
    shard.position = entry.position;
    if (broken.has(entry.key)) continue;
    const id = journal.nameOf(entry.key);
    try {
      if (id === undefined) throw new Error(`key ${entry.key} has turns and no name`);
      const kept = keptFacts(journal, id, entry.key, before);
      if (kept !== undefined) shard.sessions.set(id, kept);
      // An earlier reading has it already.
      if (kept !== undefined && entry.position <= before.position) continue;
      const known = shard.sessions.get(id)?.gatherer;
      const gatherer = known ?? new FactsGatherer(id);
      const turn = decodeTransition(entry.data);
      removals += turn.records.filter(({ type }) => type === 'historyRemoved').length;
      if (known === undefined) gatherer.plant((state) => plantFork(journal, entry.key, state, turn));
      gatherer.turn(turn);
      changed.add(id);
      // The facts are taken after all transitions are folded: see below.
      if (!shard.sessions.has(id)) shard.sessions.set(id, { key: entry.key, gatherer, facts: gatherer.facts() });
    } catch (error) {
      broken.add(entry.key);
      torn.push(`${id ?? `key ${entry.key}`} at ${entry.position}: ${error instanceof Error ? error.message : error}`);
    }
  }
  for (const id of changed) {
    const known = shard.sessions.get(id);
    if (known !== undefined) known.facts = known.gatherer.facts();
  }
  return removals;
}

/** A session as the runtime reads it, from its head, snapshot or base, must be as the fold of its whole log. */
function compareStates(journal: Journal, shard: ShardFacts, torn: string[]): void {
  for (const [id, { key, facts }] of shard.sessions) {
    const { state } = readActor(journal, id, key);
    const read = contentReader(journal, key);
    const whole = {
      ...state,
      mailbox: state.mailbox.map((entry) => withContent(entry, read)),
      deadLetters: state.deadLetters.map((letter) => ({ ...letter, entry: withContent(letter.entry, read) })),
    };
    if (snapshotState(whole) !== snapshotState(facts.state)) torn.push(`${id} is another than its log says`);
  }
}

/** All readings between lives together must equal the final reading. */
function compare(before: ShardFacts, now: ShardFacts, torn: string[]): void {
  for (const [id, { facts }] of before.sessions) {
    const again = now.sessions.get(id)?.facts;
    if (again === undefined) continue;
    if (facts.events.some((digest, index) => again.events[index] !== digest))
      torn.push(`${id} has other events than were read before`);
  }
}
