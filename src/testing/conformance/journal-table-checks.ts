/**
 * Checks of the data beside the log (see `journal.ts`): heads, the runnable set, names, removal, drafts, the audit log,
 * blobs.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Journal } from '../../journal/journal.ts';
import type { JournalCheck } from './journal-under-test.ts';

const MANY_NAMES = 700;

/** Checks that need no crash. */
export const tableChecks: readonly JournalCheck[] = [
  {
    title: 'heads: the newest is read at once and after a reopen, and `read` continues after it',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      const first = journal.append([{ key, data: '1' }]);
      const second = journal.append([{ key, data: '2' }]);
      journal.append([{ key, data: '3' }]);
      assert.equal(journal.head(key), undefined);
      journal.checkpoint([{ key, position: first, data: '"old"', runnable: true }], first);
      const head = { key, position: second, data: JSON.stringify('𝄞 \ud83d'), runnable: false };
      journal.checkpoint([head], second);
      assert.deepEqual(journal.head(key), head);
      await journal.flushed();
      assert.deepEqual(journal.head(key), head);
      await journal.close();
      const again = await store.reopen();
      assert.deepEqual(again.head(key), head);
      assert.equal(again.checkpointed(), second);
      assert.deepEqual(
        [...again.read(key, second)].map((entry) => entry.data),
        ['3'],
      );
      assert.deepEqual(
        [...again.tail(again.checkpointed())].map((entry) => entry.data),
        ['3'],
      );
    },
  },
  {
    title: 'heads: a session is found again after checkpoints that had no head for it',
    // The entries of both sessions are read: `a` has a head only in the first checkpoint, `b` has no head.
    async run(store) {
      const { journal } = store;
      const [a, b] = [journal.intern('a'), journal.intern('b')];
      const first = journal.append([{ key: a, data: '1' }]);
      journal.append([{ key: b, data: '2' }]);
      journal.checkpoint([{ key: a, position: first, data: '{}', runnable: false }], first);
      const third = journal.append([{ key: a, data: '3' }]);
      await journal.flushed();
      journal.append([{ key: a, data: '4' }]);
      journal.checkpoint([], third);
      await journal.close();
      const again = await store.reopen();
      again.append([
        { key: a, data: '5' },
        { key: b, data: '6' },
      ]);
      assert.deepEqual(
        [...again.read(a, 0)].map((entry) => entry.data),
        ['1', '3', '4', '5'],
      );
      assert.deepEqual(
        [...again.read(b, 0)].map((entry) => entry.data),
        ['2', '6'],
      );
      await again.flushed();
      assert.deepEqual(
        [...again.read(a, 0)].map((entry) => entry.data),
        ['1', '3', '4', '5'],
      );
    },
  },
  {
    title: 'runnable: what the last checkpoint said, ascending, at once and after a reopen',
    async run(store) {
      const { journal } = store;
      assert.equal(journal.checkpointed(), 0);
      const keys = ['d', 'c', 'b', 'a'].map((name) => journal.intern(name));
      const position = journal.append(keys.map((key) => ({ key, data: '1' })));
      const heads = (runnable: (index: number) => boolean) =>
        keys.map((key, index) => ({ key, position, data: '{}', runnable: runnable(index) })).reverse();
      journal.checkpoint(
        heads(() => true),
        position,
      );
      assert.deepEqual([...journal.runnable()], keys);
      await journal.flushed();
      journal.checkpoint(
        heads((index) => index % 2 === 0),
        position,
      );
      const wanted = keys.filter((_, index) => index % 2 === 0);
      assert.deepEqual([...journal.runnable()], wanted);
      await journal.close();
      assert.deepEqual([...(await store.reopen()).runnable()], wanted);
    },
  },
  {
    title: 'names: one key a name, found both ways, the same after a reopen',
    async run(store) {
      const { journal } = store;
      const a = journal.intern('a');
      const b = journal.intern('b:1');
      assert.equal(journal.intern('a'), a);
      assert.notEqual(a, b);
      assert.ok(a > 0 && Number.isSafeInteger(a));
      assert.equal(journal.keyOf('a'), a);
      assert.equal(journal.nameOf(b), 'b:1');
      assert.equal(journal.keyOf('nobody'), undefined);
      assert.equal(journal.nameOf(b + 1), undefined);
      journal.append([
        { key: a, data: '1' },
        { key: b, data: '2' },
      ]);
      await journal.close();
      const again = await store.reopen();
      assert.equal(again.keyOf('a'), a);
      assert.equal(again.nameOf(b), 'b:1');
      assert.ok(again.intern('c') > b);
    },
  },
  {
    title: 'names: listed ascending by prefix, after a name, up to a limit, durable or not',
    async run({ journal }) {
      const listed = Array.from({ length: MANY_NAMES }, (_, index) => `s${String(index).padStart(4, '0')}`);
      const add = (name: string): void => {
        journal.append([{ key: journal.intern(name), data: '1' }]);
      };
      for (const name of listed.filter((_, index) => index % 3 !== 0).reverse()) add(name);
      add('t');
      add('r');
      await journal.flushed();
      for (const name of listed.filter((_, index) => index % 3 === 0)) add(name);
      assertNames(journal, listed);
      await journal.flushed();
      assertNames(journal, listed);
    },
  },
  {
    title: 'remove: names, heads and entries are gone at once and for good, and a key is never given again',
    async run(store) {
      const { journal } = store;
      const [a, b, c] = [journal.intern('a'), journal.intern('b'), journal.intern('c')];
      const position = journal.append([a, b, c].map((key) => ({ key, data: String(key) })));
      const heads = [a, b, c].map((key) => ({ key, position, data: '{}', runnable: true }));
      journal.checkpoint(heads, position);
      await journal.flushed();
      journal.append([
        { key: a, data: '"late"' },
        { key: b, data: '"stays"' },
      ]);
      journal.remove([a, c, c + 1_000]);
      assertOnly(journal, b, String(b), '"stays"');
      await journal.flushed();
      assertOnly(journal, b, String(b), '"stays"');
      // These heads were made before the removal and are written after it.
      journal.checkpoint(heads, position);
      assert.equal(journal.head(a), undefined);
      assert.throws(() => journal.append([{ key: a, data: '1' }]));
      const anew = journal.intern('a');
      assert.ok(anew > c);
      assert.deepEqual([...journal.read(anew, 0)], []);
      journal.append([{ key: anew, data: '"new"' }]);
      await journal.close();
      const again = await store.reopen();
      assert.deepEqual(
        [...again.tail(0)].map((entry) => entry.data),
        [String(b), '"stays"', '"new"'],
      );
      assert.equal(again.keyOf('a'), anew);
      assert.equal(again.nameOf(a), undefined);
      assert.equal(again.head(c), undefined);
      assert.deepEqual([...again.runnable()], [b]);
    },
  },
  {
    title: 'drafts: replaced and removed with the transitions around them, and gone with their session',
    // A draft is put into the open batch, and becomes durable together with the transitions of that batch.
    async run(store) {
      const { journal } = store;
      const [kept, ended, removed] = ['a', 'b', 'c'].map((name) => journal.intern(name)) as [number, number, number];
      journal.append([{ key: kept, data: '1' }]);
      for (const key of [kept, ended, removed]) journal.drafts.put(key, '"first"');
      await journal.flushed();
      journal.drafts.put(kept, JSON.stringify('𝄞 \ud83d'));
      journal.drafts.put(ended, undefined);
      journal.remove([removed]);
      journal.drafts.put(removed, '"late"');
      assert.equal(journal.drafts.get(kept), JSON.stringify('𝄞 \ud83d'));
      assert.deepEqual([...journal.drafts.keys()], [kept]);
      await journal.flushed();
      await journal.close();
      const again = await store.reopen();
      assert.equal(again.drafts.get(kept), JSON.stringify('𝄞 \ud83d'));
      assert.equal(again.drafts.get(ended), undefined);
      assert.deepEqual([...again.drafts.keys()], [kept]);
    },
  },
  {
    title: 'audit log: rows rise with the clock, are read in parts, outlive their session, and leave by age',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      journal.audit.add(1_000, '"first"');
      journal.append([{ key, data: '1' }]);
      journal.audit.add(1_000, '"second"');
      // The clock was set back. The row still gets a higher number than the rows before it.
      journal.audit.add(500, JSON.stringify('𝄞'));
      await journal.flushed();
      journal.remove([key]);
      journal.audit.add(9_000, '"last"');
      const texts = ['"first"', '"second"', JSON.stringify('𝄞'), '"last"'];
      assertAudit(journal, texts);
      await journal.flushed();
      await journal.close();
      const again = await store.reopen();
      const rows = assertAudit(again, texts);
      const [first, second] = again.audit.read(0, 2);
      assert.deepEqual([first, second], rows.slice(0, 2));
      assert.deepEqual(again.audit.read(second?.number ?? 0, 10), rows.slice(2));
      assert.equal(again.audit.oldestAt(), 1_000);
      assert.equal(again.audit.removeBefore(2_000, 2), 2);
      assert.equal(again.audit.removeBefore(2_000, 2), 1);
      assert.equal(again.audit.removeBefore(2_000, 2), 0);
      assertAudit(again, ['"last"']);
      again.audit.add(9_000, '"more"');
      await again.flushed();
      assertAudit(again, ['"last"', '"more"']);
    },
  },
  {
    title: 'blobs: stored once under their content address, read at once and after a reopen',
    async run(store) {
      const { journal } = store;
      const texts = ['', 'plain', 'é ∑ 𝄞', 'a \ud83d lone surrogate', 'x'.repeat(3_000_000)];
      const addresses = texts.map((text) => journal.putBlob(text));
      assert.equal(addresses[1], createHash('sha256').update('plain').digest('hex'));
      assert.equal(new Set(addresses).size, texts.length);
      assert.equal(journal.putBlob('plain'), addresses[1]);
      assert.deepEqual(
        addresses.map((address) => journal.blob(address)),
        texts,
      );
      await journal.flushed();
      const { flushes } = journal.statistics();
      assert.equal(journal.putBlob('plain'), addresses[1]);
      await journal.flushed();
      assert.equal(journal.statistics().flushes, flushes, 'a text that is stored is not written again');
      await journal.close();
      const again = await store.reopen();
      assert.deepEqual(
        addresses.map((address) => again.blob(address)),
        texts,
      );
      assert.equal(again.blob('0'.repeat(64)), undefined);
    },
  },
  {
    title: 'blobs: those that are outdated go with the checkpoint that says so, and can be stored again',
    async run(store) {
      const { journal } = store;
      const key = journal.intern('a');
      const position = journal.append([{ key, data: '1' }]);
      const head = { key, position, data: '{}', runnable: false };
      const [old, kept, never] = ['old', 'kept', 'never flushed'].map((text) => journal.putBlob(text));
      assert.ok(old !== undefined && kept !== undefined && never !== undefined);
      journal.checkpoint([head], position, [never]);
      assert.equal(journal.blob(never), undefined);
      await journal.flushed();
      journal.checkpoint([head], position, [old, never]);
      assert.equal(journal.blob(old), undefined);
      await journal.flushed();
      assert.equal(journal.blob(old), undefined);
      assert.equal(journal.blob(kept), 'kept');
      journal.checkpoint([head], position, [kept]);
      assert.equal(journal.putBlob('kept'), kept);
      await journal.close();
      const again = await store.reopen();
      assert.equal(again.blob(kept), 'kept');
      assert.equal(again.blob(old), undefined);
      assert.equal(again.putBlob('old'), old);
      await again.flushed();
      assert.equal(again.blob(old), 'old');
    },
  },
];

function assertNames(journal: Journal, listed: readonly string[]): void {
  const names = (options: Parameters<Journal['names']>[0]): string[] =>
    journal.names(options).map(([name, key]) => {
      assert.equal(journal.keyOf(name), key);
      return name;
    });
  assert.deepEqual(names({}), ['r', ...listed, 't']);
  assert.deepEqual(names({ prefix: 's' }), listed);
  assert.deepEqual(
    names({ prefix: 's00' }),
    listed.filter((name) => name.startsWith('s00')),
  );
  assert.deepEqual(names({ after: 's0007', limit: 5 }), listed.slice(8, 13));
  assert.deepEqual(names({ after: 's0007', prefix: 's', limit: 600 }), listed.slice(8, 608));
  assert.deepEqual(names({ after: 'a', prefix: 's', limit: 1 }), listed.slice(0, 1));
  assert.deepEqual(names({ after: 'z' }), []);
  assert.deepEqual(names({ prefix: 's', limit: 0 }), []);
}

function assertOnly(journal: Journal, key: number, ...data: string[]): void {
  assert.deepEqual(
    [...journal.tail(0)].map((entry) => entry.data),
    data,
  );
  assert.deepEqual(
    [...journal.read(key, 0)].map((entry) => entry.data),
    data,
  );
  assert.deepEqual([...journal.runnable()], [key]);
  const names = journal.names({});
  assert.deepEqual(
    names.map(([, named]) => named),
    [key],
  );
  for (const removed of [key - 1, key + 1]) {
    assert.equal(journal.nameOf(removed), undefined);
    assert.equal(journal.head(removed), undefined);
    assert.deepEqual([...journal.read(removed, 0)], []);
  }
}

/** Checks the rows of the audit log, and returns them. */
function assertAudit(journal: Journal, texts: readonly string[]): ReturnType<Journal['audit']['read']> {
  const rows = journal.audit.read(0, 100);
  assert.deepEqual(
    rows.map(({ text }) => text),
    texts,
  );
  for (const [index, { number }] of rows.entries()) assert.ok(number > (rows[index - 1]?.number ?? 0), 'numbers rise');
  return rows;
}
