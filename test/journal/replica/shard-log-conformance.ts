/**
 * The conformance suite of a shard's log: for the project's own, and for a log over another database. It needs no test
 * runner.
 */
import assert from 'node:assert/strict';
import { CancelledError, ShardMovedError, StoreCorruptError, StoreLostError } from '../../../src/base/errors.ts';
import {
  digestAfter,
  LOG_START,
  type LogEnd,
  type LogEntry,
  type LogSnapshot,
  type ShardLog,
  type SnapshotStore,
} from '../../../src/journal/replica/shard-log.ts';

/** A log under test: empty, and without a claim. */
export interface ShardLogUnderTest {
  /** Claims the shard as another node does: earlier claims are fenced. */
  claim(): Promise<ShardLog>;
  /** Removes the newest entries, as a database does that goes back. Missing: the checks that need it are skipped. */
  goBack?(entries: number): Promise<void>;
  /** True for a log without snapshots. */
  readonly hasNoSnapshots?: true;
  dispose(): Promise<void>;
}

/** Makes a new, empty log. */
export type MakeShardLog = () => Promise<ShardLogUnderTest>;

/** One required behaviour of a log. `run` throws `AssertionError` on a violation. */
export interface ShardLogCheck {
  readonly title: string;
  readonly needsGoBack?: true;
  /** SL6 to SL8 are of logs that keep snapshots. */
  readonly needsSnapshots?: true;
  run(log: ShardLogUnderTest): Promise<void>;
}

/** The entry that follows an end. */
function after(end: LogEnd, text: string): LogEntry {
  const bytes = Buffer.from(text);
  return { number: end.number + 1, digest: digestAfter(end.digest, bytes), bytes };
}

/** Entries that follow each other, with these texts. */
function chain(end: LogEnd, texts: readonly string[]): readonly LogEntry[] {
  const entries: LogEntry[] = [];
  for (const text of texts) entries.push(after(entries.at(-1) ?? end, text));
  return entries;
}

async function appendAll(log: ShardLog, entries: readonly LogEntry[]): Promise<void> {
  for (const entry of entries) assertEnd(await log.append(entry), entry);
}

/** All entries of a log after a number. */
async function entriesAfter(log: ShardLog, number: number): Promise<readonly LogEntry[]> {
  const found: LogEntry[] = [];
  for (;;) {
    const page = await log.fetch(found.at(-1)?.number ?? number);
    if (page.length === 0) return found;
    found.push(...page);
  }
}

function assertEnd(found: LogEnd, wanted: LogEnd): void {
  assert.equal(found.number, wanted.number);
  assert.deepEqual(Buffer.from(found.digest), Buffer.from(wanted.digest));
}

function assertEntries(found: readonly LogEntry[], wanted: readonly LogEntry[]): void {
  assert.deepEqual(
    found.map(({ number, digest, bytes }) => [number, digest.toString('hex'), bytes.toString('base64')]),
    wanted.map(({ number, digest, bytes }) => [number, digest.toString('hex'), bytes.toString('base64')]),
  );
}

function snapshotsOf(log: ShardLog): SnapshotStore {
  assert.ok(log.snapshots !== undefined);
  return log.snapshots;
}

/** A snapshot as of an entry, with these pieces. */
function snapshotOf({ number, digest }: LogEnd, id: string, pieces: readonly string[]): LogSnapshot {
  return { id, number, digest, pieces: pieces.length, hash: Buffer.alloc(32, number) };
}

async function putSnapshot(log: ShardLog, end: LogEnd, id: string, pieces: readonly string[]): Promise<void> {
  const store = snapshotsOf(log);
  for (const [index, piece] of pieces.entries()) await store.putPiece(id, index, Buffer.from(piece));
  await store.put(snapshotOf(end, id, pieces));
}

/** Removes everything that may be removed; returns the number of slices. */
async function trimAll(store: SnapshotStore, upTo: number): Promise<number> {
  let slices = 0;
  while (await store.trim(upTo)) slices += 1;
  return slices;
}

/** Every check, in the order they are run. */
export const shardLogChecks: readonly ShardLogCheck[] = [
  {
    title: 'SL1: entries are read as they were appended, from any number on, also after another claim',
    async run(store) {
      const log = await store.claim();
      assertEnd(await log.reclaim(), LOG_START);
      assert.deepEqual(await log.fetch(0), []);
      const binary = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256));
      const first = chain(LOG_START, ['one', '', 'three'.repeat(50_000)]);
      const last = first.at(-1) ?? LOG_START;
      const fourth = { number: 4, digest: digestAfter(last.digest, binary), bytes: binary };
      const all = [...first, fourth];
      await appendAll(log, all);
      for (const number of [0, 1, 3, 4]) assertEntries(await entriesAfter(log, number), all.slice(number));
      const second = await store.claim();
      assertEnd(await second.reclaim(), fourth);
      assertEntries(await entriesAfter(second, 0), all);
      for (const { number, digest } of all)
        assert.deepEqual(Buffer.from((await second.digestOf(number)) ?? ''), digest);
      assert.equal(await second.digestOf(5), undefined);
    },
  },
  {
    title: 'SL3: a later claim has a higher epoch, and fences appends and reclaims of an earlier one',
    async run(store) {
      const log = await store.claim();
      const [one, two] = chain(LOG_START, ['one', 'two']);
      assert.ok(one !== undefined && two !== undefined);
      await log.append(one);
      const second = await store.claim();
      assert.ok(second.epoch > log.epoch);
      await assert.rejects(log.append(two), ShardMovedError);
      await assert.rejects(log.append(one), ShardMovedError);
      await assert.rejects(log.reclaim(), ShardMovedError);
      assertEnd(await second.reclaim(), one);
      await second.append(two);
      await assert.rejects(log.append(after(two, 'three')), ShardMovedError);
      assertEntries(await entriesAfter(second, 0), [one, two]);
    },
  },
  {
    title: 'SL4: a claim continues after it was made again by its owner',
    async run(store) {
      const log = await store.claim();
      const [one, two] = chain(LOG_START, ['one', 'two']);
      assert.ok(one !== undefined && two !== undefined);
      await log.append(one);
      assertEnd(await log.reclaim(), one);
      assertEnd(await log.reclaim(), one);
      assertEnd(await log.append(two), two);
    },
  },
  {
    title: 'SL5: an entry that is there is not appended again, and another one under its number is refused',
    async run(store) {
      const log = await store.claim();
      const [one, two] = chain(LOG_START, ['one', 'two']);
      assert.ok(one !== undefined && two !== undefined);
      await appendAll(log, [one, two]);
      assertEnd(await log.append(two), two);
      await assert.rejects(log.append(after(one, 'another two')), StoreLostError);
      assertEntries(await entriesAfter(log, 0), [one, two]);
    },
  },
  {
    title:
      'SL6: a snapshot appears whole, once its pieces are there and its entry is in the log, and replaces the one before',
    needsSnapshots: true,
    async run(store) {
      const log = await store.claim();
      const snapshots = snapshotsOf(log);
      assert.deepEqual(await snapshots.history(), { first: 1, bytes: 0 });
      const entries = chain(LOG_START, ['one', 'two', 'three']);
      await appendAll(log, entries);
      assert.deepEqual(await snapshots.history(), { first: 1, bytes: 11 });
      const [one, two, three] = entries;
      assert.ok(one !== undefined && two !== undefined && three !== undefined);
      await snapshots.putPiece('aa', 0, Buffer.from('piece'));
      await assert.rejects(snapshots.put(snapshotOf(two, 'aa', ['piece', 'missing'])), CancelledError);
      await assert.rejects(
        snapshots.put({ ...snapshotOf(two, 'aa', ['piece']), digest: three.digest }),
        CancelledError,
      );
      assert.deepEqual(await snapshots.history(), { first: 1, bytes: 11 });
      // A second attempt of a piece, whose first answer was lost.
      await snapshots.putPiece('aa', 0, Buffer.from('piece'));
      await snapshots.put(snapshotOf(two, 'aa', ['piece']));
      const found = await snapshots.history();
      assert.deepEqual(found, { first: 1, bytes: 5, snapshot: snapshotOf(two, 'aa', ['piece']) });
      assert.equal((await snapshots.piece('aa', 0)).toString(), 'piece');
      await assert.rejects(snapshots.piece('aa', 1), StoreCorruptError);
      await putSnapshot(log, three, 'bb', ['', 'second'.repeat(50_000)]);
      await snapshots.rest();
      assert.equal((await snapshots.history()).snapshot?.id, 'bb');
      assert.equal((await snapshots.piece('bb', 1)).toString(), 'second'.repeat(50_000));
    },
  },
  {
    title: 'SL7: only entries that a snapshot covers are removed, from the oldest on, and the log continues after them',
    needsSnapshots: true,
    async run(store) {
      const log = await store.claim();
      const snapshots = snapshotsOf(log);
      const entries = chain(LOG_START, ['one', 'two', 'three', 'four', 'five', 'six']);
      const [, two, , four, , six] = entries;
      assert.ok(two !== undefined && four !== undefined && six !== undefined);
      await appendAll(log, entries.slice(0, 5));
      assert.equal(await snapshots.trim(5), false);
      await putSnapshot(log, two, 'aa', ['old', 'pieces']);
      await snapshots.putPiece('ab', 0, Buffer.from('never finished'));
      await putSnapshot(log, four, 'bb', ['new']);
      assert.ok((await trimAll(snapshots, 1)) > 0);
      assertEntries(await entriesAfter(log, 0), entries.slice(1, 5));
      assert.equal((await snapshots.history()).first, 2);
      await assert.rejects(snapshots.piece('aa', 0), StoreCorruptError);
      await assert.rejects(snapshots.piece('ab', 0), StoreCorruptError);
      assert.equal((await snapshots.piece('bb', 0)).toString(), 'new');
      assert.equal(await log.digestOf(1), undefined);
      await trimAll(snapshots, 6);
      assertEntries(await entriesAfter(log, 0), entries.slice(4, 5));
      // The snapshot knows the digest of its entry.
      assert.deepEqual(Buffer.from((await log.digestOf(4)) ?? ''), four.digest);
      assertEnd(await log.append(six), six);
      await putSnapshot(log, six, 'cc', ['newest']);
      await trimAll(snapshots, 6);
      const second = await store.claim();
      assertEnd(await second.reclaim(), six);
      assert.deepEqual(await second.fetch(0), []);
      assert.deepEqual(await snapshotsOf(second).history(), {
        first: 7,
        bytes: 0,
        snapshot: snapshotOf(six, 'cc', ['newest']),
      });
      const seven = after(six, 'seven');
      assertEnd(await second.append(seven), seven);
      assertEntries(await entriesAfter(second, 6), [seven]);
    },
  },
  {
    title: 'SL8: an earlier claim writes no snapshot and removes nothing; what it began is removed by a later one',
    needsSnapshots: true,
    async run(store) {
      const log = await store.claim();
      const entries = chain(LOG_START, ['one', 'two', 'three']);
      const last = entries.at(-1);
      assert.ok(last !== undefined);
      await appendAll(log, entries);
      const former = snapshotsOf(log);
      await putSnapshot(log, last, 'aa', ['whole']);
      await former.putPiece('bb', 0, Buffer.from('begun'));
      const second = await store.claim();
      await assert.rejects(former.putPiece('bb', 1, Buffer.from('late')), ShardMovedError);
      await assert.rejects(former.put(snapshotOf(last, 'bb', ['begun'])), ShardMovedError);
      await assert.rejects(former.trim(3), ShardMovedError);
      const snapshots = snapshotsOf(second);
      assert.equal((await snapshots.history()).snapshot?.id, 'aa');
      assertEntries(await entriesAfter(second, 0), entries);
      await trimAll(snapshots, 0);
      await assert.rejects(snapshots.piece('bb', 0), StoreCorruptError);
      assertEntries(await entriesAfter(second, 0), entries);
    },
  },
  {
    title: 'a log that went back says where it ends, and takes the entries again',
    needsGoBack: true,
    async run(store) {
      const log = await store.claim();
      const entries = chain(LOG_START, ['one', 'two', 'three', 'four', 'five']);
      await appendAll(log, entries.slice(0, 4));
      await store.goBack?.(3);
      const [one, two, three, four, five] = entries;
      assert.ok(one !== undefined && two !== undefined && three !== undefined && four !== undefined);
      assert.ok(five !== undefined);
      assertEnd(await log.append(five), one);
      await appendAll(log, [two, three, four, five]);
      assertEntries(await entriesAfter(log, 0), entries);
    },
  },
];

/** The titles of the checks that passed, and of those that were skipped because the log cannot do that. */
export interface ShardLogConformance {
  readonly passed: readonly string[];
  readonly skipped: readonly string[];
}

/**
 * Runs every check one after the other, each on its own log. Rejects with the error of the first check that fails
 * (`AssertionError`). Its message begins with the title of the check.
 */
export async function runShardLogConformance(makeLog: MakeShardLog): Promise<ShardLogConformance> {
  const passed: string[] = [];
  const skipped: string[] = [];
  for (const check of shardLogChecks) {
    const store = await makeLog();
    try {
      const cannot =
        (check.needsGoBack === true && store.goBack === undefined) ||
        (check.needsSnapshots === true && store.hasNoSnapshots === true);
      if (cannot) {
        skipped.push(check.title);
        continue;
      }
      await check.run(store);
      passed.push(check.title);
    } catch (error) {
      if (error instanceof Error) error.message = `${check.title}: ${error.message}`;
      throw error;
    } finally {
      await store.dispose();
    }
  }
  return { passed, skipped };
}
