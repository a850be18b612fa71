/**
 * Checks that removed sessions are erased from the log, and that the entries of other sessions do not change (J7 of
 * `journal.ts`).
 */
import assert from 'node:assert/strict';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { entriesOf, shippedRows } from '../../journal/rows/shipped-rows.ts';
import { appendTransition, assertLog, type Written } from './journal-log-checks.ts';
import type { JournalCheck, JournalUnderTest } from './journal-under-test.ts';

/** The number of transitions before each flush. So many transitions do not fit into one row. */
const TRANSITIONS = 70;
const ROUNDS = 12;

/** Checks of J7. */
export const erasureChecks: readonly JournalCheck[] = [
  {
    title: 'J7: the entries of removed sessions leave all rows, and other sessions keep theirs at their positions',
    async run(store) {
      const { journal } = store;
      const { kept, removed, written } = await filled(journal);
      journal.remove(removed);
      await journal.flushed();
      // In an encrypted store the data key of these sessions is deleted, so `stored` no longer returns their entries.
      assert.equal((await keysInRows(journal)).has(removed[0] ?? 0), journal.resultKey === undefined);
      const rest = written.filter(({ key }) => kept.includes(key));
      await erase(journal);
      assert.deepEqual([...(await keysInRows(journal))].sort(), [...kept].sort());
      assertLog(journal, rest);
      await endsAndReopens(store, journal, rest);
    },
  },
  {
    title: 'J7: an erasure continues after a reopen, and the numbers of its rows are not given out again',
    async run(store) {
      const { journal } = store;
      const { kept, removed, written } = await filled(journal);
      // The newest rows have only entries of the removed sessions.
      for (const key of removed) journal.append([{ key, data: '"last"' }]);
      await journal.flushed();
      const end = journal.end();
      journal.remove(removed);
      assert.equal(journal.eraseSome(), true);
      await journal.close();
      const again = await store.reopen();
      assert.deepEqual([...again.erasures().keys()].sort(), [...removed].sort());
      await erase(again);
      const rest = written.filter(({ key }) => kept.includes(key));
      assert.deepEqual([...(await keysInRows(again))].sort(), [...kept].sort());
      await again.close();
      const third = await store.reopen();
      assertLog(third, rest);
      const [first] = kept;
      assert.ok(first !== undefined && third.append([{ key: first, data: '1' }]) > end);
    },
  },
  {
    title: 'J7: what is not durable yet is erased after its flush',
    async run({ journal }) {
      const [a, b] = [journal.intern('a'), journal.intern('b')];
      journal.append([{ key: a, data: '1' }]);
      journal.append([{ key: b, data: '2' }]);
      journal.remove([a]);
      assert.equal(journal.eraseSome(), false);
      await erase(journal);
      assert.deepEqual([...(await keysInRows(journal))], [b]);
      assert.deepEqual(
        [...journal.tail(0)].map(({ data }) => data),
        ['2'],
      );
    },
  },
  {
    title: 'J7: a refused slice is made again',
    needs: 'refuseWrites',
    async run(store) {
      const { journal } = store;
      const { kept, removed, written } = await filled(journal);
      journal.remove(removed);
      await journal.flushed();
      store.refuseWrites?.(new Error('no space left'));
      assert.equal(journal.eraseSome(), true);
      await assert.rejects(journal.flushed());
      store.refuseWrites?.(undefined);
      await journal.recover();
      await erase(journal);
      assert.deepEqual([...(await keysInRows(journal))].sort(), [...kept].sort());
      assertLog(
        journal,
        written.filter(({ key }) => kept.includes(key)),
      );
    },
  },
  {
    title: 'J7: blobs of a session are removed with it, and those of another with the same text stay',
    async run(store) {
      const { journal } = store;
      const [a, b] = [journal.intern('a'), journal.intern('b')];
      const text = JSON.stringify('the same text');
      const [ofA, ofB] = [journal.putBlob(text, a), journal.putBlob(text, b)];
      await journal.flushed();
      const late = journal.putBlob(JSON.stringify('late'), a);
      journal.remove([a]);
      await journal.flushed();
      assert.deepEqual(
        [ofA, late, ofB].map((address) => journal.blob(address)),
        [undefined, undefined, text],
      );
      await journal.close();
      assert.equal((await store.reopen()).blob(ofB), text);
    },
  },
];

/** Writes several rows. Most have entries of sessions that stay and of sessions that are removed. */
async function filled(
  journal: Journal,
): Promise<{ readonly kept: SessionKey[]; readonly removed: SessionKey[]; readonly written: Written[] }> {
  const keys = ['a', 'b', 'c', 'd', 'e'].map((name) => journal.intern(name));
  const written: Written[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let each = 0; each < TRANSITIONS; each += 1) {
      // In some rounds only removed sessions write, so that whole rows become empty.
      const among = round % 3 === 1 ? [1, 3] : [0, 1, 2, 3, 4];
      const key = keys[among[each % among.length] ?? 0] ?? 0;
      const other = keys[among[(each + 1) % among.length] ?? 0] ?? 0;
      const data = JSON.stringify(`${round} ${each} ${'x'.repeat(each * 20)}`);
      const entries = each % 7 === 0 && other !== key ? [key, other] : [key];
      appendTransition(
        journal,
        entries.map((of) => ({ key: of, data })),
        written,
      );
    }
    await journal.flushed();
    if (round === ROUNDS / 2) journal.checkpoint([], journal.end());
  }
  return { kept: [0, 2, 4].map((at) => keys[at] ?? 0), removed: [1, 3].map((at) => keys[at] ?? 0), written };
}

/** Erases until nothing is left to do. */
async function erase(journal: Journal): Promise<void> {
  do await journal.flushed();
  while (journal.eraseSome());
  await journal.flushed();
  for (const { row } of journal.erasures().values()) assert.equal(row, 0);
}

async function endsAndReopens(store: JournalUnderTest, journal: Journal, rest: readonly Written[]): Promise<void> {
  journal.erased([...journal.erasures().keys()]);
  assert.equal(journal.erasures().size, 0);
  await journal.close();
  const again = await store.reopen();
  assert.equal(again.erasures().size, 0);
  assertLog(again, rest);
}

/** The sessions with entries in the stored rows. */
async function keysInRows({ stored }: Journal): Promise<ReadonlySet<SessionKey>> {
  const keys = new Set<SessionKey>();
  for (let from = 1; ; ) {
    const start = from;
    const { rows, isLast } = await shippedRows(async (offset) => stored.rowsFrom(start, offset));
    for (const shipped of rows) for (const { key } of entriesOf(shipped)) keys.add(key);
    const last = rows.at(-1);
    if (isLast || last === undefined) return keys;
    from = last.row + 1;
  }
}
