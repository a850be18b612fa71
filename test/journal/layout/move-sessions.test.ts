/** The move of sessions to another number of shards, over stores in memory: the facts that must be the same afterwards. */
import { expect, test } from 'vitest';
import { LAYOUT_BATCH_BYTES } from '../../../src/base/bounds.ts';
import { shardOf } from '../../../src/base/ids.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { type MovedSessions, moveSessions, type SessionReading } from '../../../src/journal/layout/move-sessions.ts';
import { openMemoryEngine, openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const MEDIUM = Buffer.alloc(6_000, 'x').toString('base64');

/** The data of each head is the address of a blob, and no session is a fork. */
const reading: SessionReading = {
  moveHead: (data, moved) => moved(data),
  sharedWith: () => undefined,
  beginning: () => undefined,
  headOf: () => {
    throw new Error('no fork is expected');
  },
  withBase: (head) => head,
};

async function moved(
  stores: readonly MemoryStore[],
  shards: number,
): Promise<{ readonly made: readonly MemoryStore[]; readonly result: MovedSessions }> {
  const made = Array.from({ length: shards }, () => new MemoryStore());
  const from = stores.map((store) => openMemoryEngine({ store }));
  const result = await moveSessions({ from, to: made.map((store) => openMemoryEngine({ store })), reading });
  return { made, result };
}

/**
 * A store whose sessions have `turns - 1` entries each before a checkpoint that covers all of them. The sessions `a` and
 * `h` have one more entry, after the checkpoint.
 */
async function filled(turns: number): Promise<MemoryStore> {
  const store = new MemoryStore();
  const journal = openMemoryJournal({ store });
  for (const name of NAMES) {
    const key = journal.intern(name);
    for (let turn = 1; turn < turns; turn += 1) {
      journal.append([{ key, data: JSON.stringify({ name, turn, data: MEDIUM }) }]);
      await journal.flushed();
    }
    const data = journal.putBlob(JSON.stringify({ of: name, data: MEDIUM }), key);
    journal.checkpoint([{ key, position: journal.end(), data, runnable: false }], journal.end());
  }
  await journal.flushed();
  for (const name of ['a', 'h']) journal.append([{ key: journal.intern(name), data: '{"late":true}' }]);
  await journal.flushed();
  return store;
}

function textOf(journal: Journal, name: string): string {
  const key = journal.keyOf(name) ?? 0;
  const head = journal.head(key);
  return JSON.stringify([
    [...journal.read(key, 0)].map(({ position, data }) => [position, data]),
    journal.blob(head?.data ?? ''),
    head?.position,
  ]);
}

test('Y1, Y3: sessions keep their positions, media and heads over several moves, and no shard gives out an earlier position again', async () => {
  let stores: readonly MemoryStore[] = [await filled(4)];
  const [first] = stores.map((store) => openMemoryJournal({ store }));
  const before = new Map(NAMES.map((name) => [name, first === undefined ? '' : textOf(first, name)]));
  const end = first?.end() ?? 0;
  for (const shards of [3, 2, 5, 1]) {
    ({ made: stores } = await moved(stores, shards));
    const journals = stores.map((store) => openMemoryJournal({ store }));
    for (const name of NAMES) {
      const journal = journals[shardOf(name, shards)];
      expect(journal === undefined ? '' : textOf(journal, name), name).toBe(before.get(name));
    }
    for (const journal of journals) expect(journal.end()).toBeGreaterThanOrEqual(end);
    expect(journals.flatMap((journal) => journal.names({}).map(([name]) => name)).sort()).toEqual(NAMES);
  }
});

test('Y3: a position of a row that the store refused is not given out again after a move', async () => {
  const store = await filled(2);
  let isFull = true;
  const refuse = (): Error | undefined => (isFull ? new Error('no space left') : undefined);
  const journal = openMemoryJournal({ store, refuse });
  const key = journal.intern('a');
  const lost = journal.append([{ key, data: '{"lost":true}' }]);
  await expect(journal.flushed()).rejects.toMatchObject({ code: 'store_full' });
  isFull = false;
  await journal.recover();
  journal.checkpoint([], lost);
  await journal.flushed();
  const { made, result } = await moved([store], 2);
  for (const each of made) expect(openMemoryJournal({ store: each }).end()).toBeGreaterThanOrEqual(lost);
  expect(result.ends[0]).toBeGreaterThanOrEqual(lost);
});

test('Y2: each session gets a key above all earlier keys; its first place is kept until it is erased', async () => {
  const { made, result } = await moved([await filled(2)], 2);
  const again = await moved(made, 1);
  const journal = openMemoryJournal({ store: again.made[0] ?? new MemoryStore() });
  for (const [index, name] of NAMES.entries()) {
    const key = journal.keyOf(name) ?? 0;
    expect(result.find(0, index + 1)?.origin).toBe(`0-${index + 1}`);
    expect(key).toBeGreaterThan(result.find(0, index + 1)?.key ?? Number.POSITIVE_INFINITY);
    expect(journal.originOf(key)).toBe(`0-${index + 1}`);
  }
  const key = journal.keyOf('c') ?? 0;
  journal.remove([key]);
  await journal.flushed();
  while (journal.eraseSome()) await journal.flushed();
  expect(journal.originOf(key)).toBe('0-3');
  journal.erased(journal.erasable());
  await journal.flushed();
  expect(journal.originOf(key)).toBeUndefined();
});

test('Y1: a session without a head keeps its log, although its shard has nothing else to write meanwhile', async () => {
  const store = new MemoryStore();
  const journal = openMemoryJournal({ store });
  const alone = NAMES[0] ?? '';
  const [first = '', ...others] = NAMES.filter((name) => shardOf(name, 2) !== shardOf(alone, 2));
  expect(others.length).toBeGreaterThan(0);
  const long = JSON.stringify('x'.repeat(LAYOUT_BATCH_BYTES));
  for (const name of [first, alone, ...others]) {
    const key = journal.intern(name);
    journal.append([{ key, data: name === alone ? '{"alone":true}' : long }]);
    // `alone` has no head, as after a kill before its first checkpoint. Each blob of the others fills a batch.
    if (name !== alone) {
      const data = journal.putBlob(JSON.stringify({ of: name, long }), key);
      journal.checkpoint([{ key, position: journal.end(), data, runnable: false }], journal.end());
    }
    await journal.flushed();
  }
  const { made } = await moved([store], 2);
  const home = openMemoryJournal({ store: made[shardOf(alone, 2)] ?? new MemoryStore() });
  expect([...home.read(home.keyOf(alone) ?? 0, 0)].map(({ data }) => data)).toEqual(['{"alone":true}']);
});

test('Y4: the next open reads the sessions that the checkpoint did not cover, and no others', async () => {
  const { made } = await moved([await filled(2)], 2);
  const read = made.flatMap((store) => {
    const journal = openMemoryJournal({ store });
    const keys = new Set([...journal.runnable(), ...journal.tailKeys(journal.checkpointed())]);
    return [...keys].map((key) => journal.nameOf(key));
  });
  expect(read.sort()).toEqual(['a', 'h']);
});

test('Y1: only the note of a session that is being erased moves, and none of its rows', async () => {
  const store = await filled(3);
  const journal = openMemoryJournal({ store });
  const [gone = 0, heir = 0] = ['b', 'g'].map((name) => journal.keyOf(name) ?? 0);
  journal.remove([gone], new Map([[gone, [heir]]]));
  await journal.flushed();
  const { made } = await moved([store], 3);
  const [home] = made.filter((each) => each.erasures.size > 0);
  const now = openMemoryJournal({ store: home ?? store });
  expect([...now.erasures().values()]).toEqual([{ name: 'b', row: 0, heirs: [now.keyOf('g')] }]);
  expect(now.erasable()).toEqual([]);
  expect(made.flatMap((each) => [...each.names.values()])).not.toContain('b');
});
