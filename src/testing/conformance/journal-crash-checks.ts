/**
 * Checks of crashes, refused writes, and fences: a new owner of a store shuts out the old one (J2 to J5 of
 * `journal.ts`).
 */
import assert from 'node:assert/strict';
import { ShardMovedError, StoreFullError, StoreLockedError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import { appendTransition, assertLog, type Written } from './journal-log-checks.ts';
import type { JournalCheck, JournalUnderTest } from './journal-under-test.ts';

const MODEL_STEPS = 250;
const MODEL_SEED = 20_261_120;

/** Checks that need `crash` or `refuseWrites` of the store. */
export const crashChecks: readonly JournalCheck[] = [
  {
    title: 'J2: after a crash everything flushed is there; J4: of the rest a prefix, turns whole',
    needs: 'crash',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const [a, b] = [journal.intern('a'), journal.intern('b')];
      for (let turn = 0; turn < 150; turn += 1) {
        appendTransition(
          journal,
          [
            { key: a, data: String(turn) },
            { key: b, data: String(turn) },
          ],
          written,
        );
      }
      await journal.flushed();
      const flushed = written.length;
      for (let turn = 0; turn < 10; turn += 1) {
        appendTransition(
          journal,
          [
            { key: a, data: '"maybe"' },
            { key: b, data: '"maybe"' },
          ],
          written,
        );
      }
      const again = await crash(store);
      const found = [...again.tail(0)].length;
      assert.ok(found >= flushed && found % 2 === 0, `${found} entries, ${flushed} flushed`);
      assertLog(again, written.slice(0, found));
    },
  },
  {
    title: 'audit log: after a crash a row is there if and only if the transition after it is',
    needs: 'crash',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      for (let turn = 1; turn <= 100; turn += 1) {
        journal.audit.add(turn, String(turn));
        journal.append([{ key, data: String(turn) }]);
        if (turn === 60) await journal.flushed();
      }
      const again = await crash(store);
      const turns = [...again.read(again.keyOf('a') ?? 0, 0)].map(({ data }) => data);
      assert.ok(turns.length >= 60);
      assert.deepEqual(
        again.audit.read(0, 200).map(({ text }) => text),
        turns,
      );
    },
  },
  {
    title: 'names, heads, removals and blobs that were not flushed are gone after a crash',
    needs: 'crash',
    async run(store) {
      const { journal } = store;
      const a = journal.intern('a');
      const position = journal.append([{ key: a, data: '1' }]);
      journal.checkpoint([{ key: a, position, data: '"kept"', runnable: true }], position);
      await journal.flushed();
      journal.intern('never-written');
      journal.checkpoint([{ key: a, position, data: '"lost"', runnable: false }], position + 1);
      journal.remove([a]);
      const address = journal.putBlob('lost');
      const again = await crash(store);
      assert.equal(again.keyOf('a'), a);
      assert.equal(again.keyOf('never-written'), undefined);
      assert.equal(again.head(a)?.data, '"kept"');
      assert.equal(again.checkpointed(), position);
      assert.deepEqual([...again.runnable()], [a]);
      assert.deepEqual(
        [...again.read(a, 0)].map((entry) => entry.data),
        ['1'],
      );
      assert.equal(again.blob(address), undefined);
    },
  },
  {
    title: 'J5: a later owner has a higher fence, and the one before writes no more',
    needs: 'crash',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      journal.append([{ key, data: '1' }]);
      await journal.flushed();
      const second = await crash(store);
      assert.ok(second.fence > journal.fence);
      journal.append([{ key, data: '"from the dead"' }]);
      await assert.rejects(journal.flushed(), isFenced);
      await assert.rejects(journal.recover(), isFenced);
      await assert.rejects(journal.flushed(), isFenced);
      second.append([{ key, data: '2' }]);
      await second.flushed();
      assert.deepEqual(
        [...second.read(key, 0)].map((entry) => entry.data),
        ['1', '2'],
      );
      await second.close();
      const third = await store.reopen();
      assert.ok(third.fence > second.fence);
      assert.deepEqual(
        [...third.read(key, 0)].map((entry) => entry.data),
        ['1', '2'],
      );
    },
  },
  {
    title:
      'J3: what a failed write refused is not readable, nothing acknowledged is lost, and recover() makes it writable again',
    needs: 'refuseWrites',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const key = journal.intern('a');
      const last = appendTransition(journal, [{ key, data: '1' }], written);
      await journal.flushed();
      const cause = new Error('no space left');
      store.refuseWrites?.(cause);
      journal.audit.add(1_000, '"refused"');
      const refused = journal.append([
        { key, data: '"refused"' },
        { key: journal.intern('b'), data: '1' },
      ]);
      journal.checkpoint([{ key, position: refused, data: '"refused"', runnable: true }], refused);
      const address = journal.putBlob('refused');
      await assert.rejects(journal.flushed(), (error) => error instanceof StoreFullError && error.cause !== undefined);
      const assertGone = (from: Journal): void => {
        assertLog(from, written);
        assert.equal(from.keyOf('b'), undefined);
        assert.equal(from.head(key), undefined);
        assert.equal(from.blob(address), undefined);
        assert.equal(from.checkpointed(), 0);
        assert.deepEqual(from.audit.read(0, 10), []);
      };
      assertGone(journal);
      assert.ok(journal.append([{ key, data: '"later"' }]) > refused);
      await assert.rejects(journal.flushed(), StoreFullError);
      await assert.rejects(journal.recover(), StoreFullError);
      assertGone(journal);
      store.refuseWrites?.(undefined);
      assert.equal(await journal.recover(), last);
      assertGone(journal);
      assert.ok(appendTransition(journal, [{ key, data: '2' }], written) > refused);
      await journal.flushed();
      assertLog(journal, written);
      await journal.close();
      assertLog(await store.reopen(), written);
    },
  },
  {
    title: 'J1, J3: a checkpoint behind a refused write hides nothing of what is written after the next opening',
    needs: 'refuseWrites',
    async run(store) {
      const { journal } = store;
      const written: Written[] = [];
      const key = journal.intern('a');
      appendTransition(journal, [{ key, data: '1' }], written);
      await journal.flushed();
      store.refuseWrites?.(new Error('no space left'));
      const refused = journal.append([{ key, data: '"refused"' }]);
      await assert.rejects(journal.flushed(), StoreFullError);
      store.refuseWrites?.(undefined);
      await journal.recover();
      journal.checkpoint([{ key, position: refused, data: '"head"', runnable: false }], refused);
      await journal.flushed();
      await journal.close();
      const again = await store.reopen();
      const checkpointed = again.checkpointed();
      assert.ok(appendTransition(again, [{ key, data: '2' }], written) > checkpointed);
      await again.flushed();
      await again.close();
      const third = await store.reopen();
      assertLog(third, written);
      assert.deepEqual(
        [...third.tail(checkpointed)].map((entry) => entry.data),
        ['2'],
      );
    },
  },
  {
    title: 'J3: recover() with nothing to recover says where the log ends',
    needs: 'refuseWrites',
    async run({ journal }) {
      assert.equal(await journal.recover(), 0);
      const key = journal.intern('a');
      journal.append([{ key, data: '1' }]);
      const position = journal.append([{ key, data: '2' }]);
      await journal.flushed();
      assert.equal(await journal.recover(), position);
    },
  },
  {
    title: `J1-J5: ${MODEL_STEPS} random steps agree with a list (seed ${MODEL_SEED})`,
    needs: 'crash',
    async run(store) {
      await runModel(store, randomNumbers(MODEL_SEED));
    },
  },
];

/** True for the error of an owner that was fenced off: by another opener of the files, or by another node. */
function isFenced(error: unknown): boolean {
  return error instanceof StoreLockedError || error instanceof ShardMovedError;
}

async function crash(store: JournalUnderTest): Promise<Journal> {
  const again = await store.crash?.();
  assert.ok(again !== undefined);
  return again;
}

/**
 * Appends, flushes, checkpoints, removes and crashes at random. Compares the journal with a plain list of the expected
 * entries.
 */
async function runModel(store: JournalUnderTest, random: (below: number) => number): Promise<void> {
  let { journal } = store;
  let durable: Written[] = [];
  let written: Written[] = [];
  for (let step = 0; step < MODEL_STEPS; step += 1) {
    const kind = random(20);
    if (kind < 12) {
      const entries = Array.from({ length: 1 + random(4) }, () => ({
        key: journal.intern(`s${random(12)}`),
        data: JSON.stringify(`${step} ${'é'.repeat(random(2_000))}`),
      }));
      appendTransition(journal, entries, written);
    } else if (kind < 15) {
      await journal.flushed();
      durable = written.slice();
    } else if (kind < 17) {
      const last = written.at(-1)?.position ?? 0;
      const keys = new Set(written.map((entry) => entry.key));
      const heads = [...keys].map((key) => ({ key, position: last, data: '{}', runnable: random(2) === 0 }));
      journal.checkpoint(heads.slice(random(3)), last);
    } else if (kind < 18) {
      const key = journal.keyOf(`s${random(12)}`);
      if (key === undefined) continue;
      journal.remove([key]);
      written = written.filter((entry) => entry.key !== key);
      // After a crash before this flush, the entries may be removed or not. The list of expected entries cannot express
      // both.
      await journal.flushed();
      durable = written.slice();
    } else if (kind < 19) {
      journal = await crash(store);
      written = durable.slice();
      assertLog(journal, written);
    } else {
      await journal.close();
      journal = await store.reopen();
      durable = written.slice();
    }
    if (step % 20 === 0) assertLog(journal, written);
  }
  assertLog(journal, written);
}

/** Random integers from 0, less than `below`: a linear congruential generator, so that the seed determines the run. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
