/**
 * The conformance suite of a shard's log: for the project's own, and for a log over another database. It needs no test
 * runner.
 */
import assert from 'node:assert/strict';
import { ShardMovedError, StoreLostError } from '../../../src/base/errors.ts';
import {
  digestAfter,
  LOG_START,
  type LogEnd,
  type LogEntry,
  type ShardLog,
} from '../../../src/journal/replica/shard-log.ts';

/** A log under test: empty, and without a claim. */
export interface ShardLogUnderTest {
  /** Claims the shard as another node does: earlier claims are fenced. */
  claim(): Promise<ShardLog>;
  /** Removes the newest entries, as a database does that goes back. Missing: the checks that need it are skipped. */
  goBack?(entries: number): Promise<void>;
  dispose(): Promise<void>;
}

/** Makes a new, empty log. */
export type MakeShardLog = () => Promise<ShardLogUnderTest>;

/** One required behaviour of a log. `run` throws `AssertionError` on a violation. */
export interface ShardLogCheck {
  readonly title: string;
  readonly needsGoBack?: true;
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

/** The titles of the checks that passed, and of those that were skipped because the log cannot go back. */
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
      if (check.needsGoBack === true && store.goBack === undefined) {
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
