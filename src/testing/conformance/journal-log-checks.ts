/** Checks of the log itself: order, wholeness, visibility, positions (J1, J2 and J4 of `journal.ts`). */
import assert from 'node:assert/strict';
import type { Journal } from '../../journal/journal.ts';
import type { Position, SessionKey, TurnEntry } from '../../journal/position.ts';
import type { JournalCheck } from './journal-under-test.ts';

const MANY_TURNS = 1_000;
const LARGE_CHARACTERS = 300_000;
/** The length of each of the ten entries of a large transition, which has more than a megabyte. */
const LARGE_ENTRY_CHARACTERS = 110_000;

/** JSON texts that a faulty store might change. */
const hardTexts: readonly string[] = [
  '""',
  '{"a":1}',
  JSON.stringify('é ∑ 𝄞 \u0000 \u2028 \ud83d'),
  JSON.stringify({ ['__proto__']: 1, constructor: [null] }),
  JSON.stringify('x'.repeat(LARGE_CHARACTERS)),
  JSON.stringify('∑'.repeat(LARGE_CHARACTERS)),
];

/** An entry that was appended, for comparison with the port's reads. */
export interface Written {
  readonly position: Position;
  readonly key: SessionKey;
  readonly data: string;
}

/**
 * Asserts that `tail`, `tailKeys` and `read` return exactly `written`, from the start and from later positions. Also
 * checks the pages of the log.
 */
export function assertLog(journal: Journal, written: readonly Written[]): void {
  const positions = [0, ...new Set(written.map((entry) => entry.position))];
  const step = Math.max(1, Math.floor(positions.length / 4));
  for (let index = 0; index < positions.length; index += step) {
    const after = positions[index] ?? 0;
    const wanted = written.filter((entry) => entry.position > after);
    assert.deepEqual([...journal.tail(after)].map(plain), wanted.map(plain), `tail after ${after}`);
    // Keys of sessions deleted since may still be listed.
    const tailKeys = [...journal.tailKeys(after)].filter((key) => journal.nameOf(key) !== undefined);
    assert.deepEqual(tailKeys, [...new Set(wanted.map(({ key }) => key))], `tailKeys after ${after}`);
    assertPages(journal, after, wanted);
    for (const key of new Set(written.map((entry) => entry.key))) {
      const own = wanted.filter((entry) => entry.key === key);
      assert.deepEqual([...journal.read(key, after)].map(plain), own.map(plain), `read ${key} after ${after}`);
    }
  }
}

/** Asserts that the pages of the log list every session that was written in them, and cover the log up to its end. */
function assertPages(journal: Journal, from: Position, wanted: readonly Written[]): void {
  const end = journal.end();
  assert.ok(
    wanted.every(({ position }) => position <= end),
    `an entry is behind the end ${end}`,
  );
  for (let after = from; after < end; ) {
    const page = journal.tailPage(after, 3);
    assert.ok(page.end > after, `a page after ${after} ends at ${page.end}`);
    const inPage = wanted.filter(({ position }) => position > after && position <= page.end);
    for (const { key } of inPage) assert.ok(page.keys.has(key), `the page after ${after} lacks key ${key}`);
    after = page.end;
  }
}

function plain({ position, key, data }: Written): Written {
  return { position, key, data };
}

/** Appends one transition of entries and adds them to `written`. */
export function appendTransition(journal: Journal, entries: readonly TurnEntry[], written: Written[]): Position {
  const position = journal.append(entries);
  for (const { key, data } of entries) written.push({ position, key, data });
  return position;
}

/** Checks that need no crash. */
export const logChecks: readonly JournalCheck[] = [
  {
    title: 'J1: turns are read in the order they were appended, by all and by session',
    async run({ journal }) {
      const written: Written[] = [];
      const keys = ['a', 'b', 'c'].map((name) => journal.intern(name));
      for (let turn = 0; turn < 30; turn += 1) {
        const key = keys[turn % 3] ?? 0;
        appendTransition(journal, [{ key, data: JSON.stringify({ turn }) }], written);
        if (turn % 7 === 0) await journal.flushed();
      }
      assertLog(journal, written);
      await journal.flushed();
      assertLog(journal, written);
    },
  },
  {
    title: 'J1: a turn of several sessions has one position, and a session may be in it twice',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const [a, b] = [journal.intern('a'), journal.intern('b')];
      appendTransition(journal, [{ key: a, data: '1' }], written);
      const entries = [
        { key: b, data: '2' },
        { key: a, data: '3' },
        { key: b, data: '4' },
      ];
      const position = appendTransition(journal, entries, written);
      appendTransition(journal, [{ key: b, data: '5' }], written);
      assert.deepEqual(
        [...journal.tail(0)].filter((entry) => entry.position === position).map((entry) => entry.data),
        ['2', '3', '4'],
      );
      await journal.close();
      const again = await store.reopen();
      assertLog(again, written);
    },
  },
  {
    title: 'J1: many turns without a flush, and one large turn among small ones, are all there after a reopen',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const keys = Array.from({ length: 10 }, (_, index) => journal.intern(`session-${index}`));
      for (let turn = 0; turn < MANY_TURNS; turn += 1) {
        const key = keys[(turn * 7) % 10] ?? 0;
        appendTransition(journal, [{ key, data: JSON.stringify(`turn ${turn} ${'x'.repeat(turn % 50)}`) }], written);
      }
      const all = keys.map((key) => ({ key, data: JSON.stringify('y'.repeat(LARGE_ENTRY_CHARACTERS)) }));
      appendTransition(journal, all, written);
      appendTransition(journal, [{ key: keys[0] ?? 0, data: '"last"' }], written);
      assertLog(journal, written);
      await journal.flushed();
      assertLog(journal, written);
      await journal.close();
      assertLog(await store.reopen(), written);
    },
  },
  {
    title: 'J1: a text comes back as the same JSON value, lone surrogates and NUL included',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      const raw = [...hardTexts, '"raw \ud83d lone"'];
      for (const data of raw) journal.append([{ key, data }]);
      const wanted = raw.map((data): unknown => JSON.parse(data));
      const values = (from: Journal): unknown[] =>
        [...from.read(key, 0)].map((entry): unknown => JSON.parse(entry.data));
      assert.deepEqual(values(journal), wanted);
      await journal.close();
      assert.deepEqual(values(await store.reopen()), wanted);
    },
  },
  {
    title: 'J1: positions rise from turn to turn and over a reopen, above 0',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      let last = 0;
      const next = (from: Journal): void => {
        const position = from.append([{ key, data: '1' }]);
        assert.ok(Number.isSafeInteger(position) && position > last, `${position} after ${last}`);
        last = position;
      };
      for (let turn = 0; turn < 200; turn += 1) next(journal);
      await journal.flushed();
      next(journal);
      await journal.close();
      const again = await store.reopen();
      next(again);
      assert.equal([...again.read(key, 0)].length, 202);
    },
  },
  {
    title: 'J4: what is appended is visible at once, before it is durable, with everything before it',
    async run({ journal }) {
      const key = journal.intern('a');
      const other = journal.intern('b');
      journal.append([{ key, data: '1' }]);
      const flush = journal.flushed();
      journal.append([
        { key, data: '2' },
        { key: other, data: '3' },
      ]);
      assert.deepEqual(
        [...journal.read(key, 0)].map((entry) => entry.data),
        ['1', '2'],
      );
      assert.deepEqual(
        [...journal.tail(0)].map((entry) => entry.data),
        ['1', '2', '3'],
      );
      await flush;
      assert.deepEqual(
        [...journal.tail(0)].map((entry) => entry.data),
        ['1', '2', '3'],
      );
    },
  },
  {
    title: 'J2: flushed() never resolves in the call, resolves when there is nothing to do, and callers share flushes',
    async run({ journal }) {
      await journal.flushed();
      const key = journal.intern('a');
      const order: string[] = [];
      const waiting = Array.from({ length: 100 }, (_, index) => {
        journal.append([{ key, data: String(index) }]);
        return journal.flushed().then(() => order.push('flushed'));
      });
      order.push('appended');
      await Promise.all(waiting);
      assert.equal(order[0], 'appended');
      const { flushes, turns } = journal.statistics();
      assert.equal(turns, 100);
      assert.ok(flushes >= 1 && flushes <= 10, `${flushes} flushes for 100 callers of one turn of the loop`);
      await journal.flushed();
    },
  },
  {
    title: 'a key without a name cannot be written, and nothing of its turn is put',
    async run({ journal }) {
      const key = journal.intern('a');
      assert.throws(() =>
        journal.append([
          { key, data: '1' },
          { key: key + 1_000, data: '2' },
        ]),
      );
      await journal.flushed();
      assert.deepEqual([...journal.tail(0)], []);
    },
  },
  {
    title: 'close() flushes appends that no caller waited for, and every later call throws',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const key = journal.intern('a');
      appendTransition(journal, [{ key, data: '1' }], written);
      await journal.close();
      assert.throws(() => journal.append([{ key, data: '2' }]));
      assert.throws(() => journal.keyOf('a'));
      assert.throws(() => [...journal.tail(0)]);
      await assert.rejects(async () => journal.flushed());
      assertLog(await store.reopen(), written);
    },
  },
];
