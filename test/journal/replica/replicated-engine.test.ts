import { describe, expect, test } from 'vitest';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import type { Engine } from '../../../src/journal/engine.ts';
import { EngineJournal } from '../../../src/journal/engine-journal.ts';
import { createMemoryStore, openMemoryEngine } from '../../../src/journal/memory-journal.ts';
import { openReplicatedEngine } from '../../../src/journal/replica/replicated-engine.ts';
import { journalChecks, runJournalCheck } from '../../../src/testing/conformance/journal-conformance.ts';
import type { MakeJournal } from '../../../src/testing/conformance/journal-under-test.ts';
import { MemoryShardLogs } from './memory-shard-log.ts';
import { runShardLogConformance, shardLogChecks } from './shard-log-conformance.ts';
import { makeReplicaJournal } from './support.ts';

const makeJournal: MakeJournal = () => {
  const logs = new MemoryShardLogs();
  return makeReplicaJournal({
    claim: async () => logs.claim(),
    refuse: (cause) => {
      logs.outage = cause;
    },
    dispose: async () => undefined,
  });
};

describe('conformance of the journal over a log in memory, with an empty directory at each opening', () => {
  test.each(journalChecks.map((check) => [check.title, check] as const))('%s', async (_title, check) => {
    expect(await runJournalCheck(check, makeJournal)).toBe(true);
  });
});

test('conformance of the log in memory', async () => {
  const { passed, skipped } = await runShardLogConformance(async () => {
    const logs = new MemoryShardLogs();
    return {
      claim: async () => logs.claim(),
      goBack: async (count) => logs.goBack(count),
      dispose: async () => undefined,
    };
  });
  expect(passed).toEqual(shardLogChecks.map(({ title }) => title));
  expect(skipped).toEqual([]);
});

test('a row of the copy with other bytes is refused when it is read, and the next opening builds the copy again', async () => {
  const logs = new MemoryShardLogs();
  const stores = [createMemoryStore()];
  const damage: Error[] = [];
  const engine = await openReplicatedEngine({
    log: logs.claim(),
    openCopy: async () => openMemoryEngine({ store: stores.at(-1) ?? createMemoryStore() }),
    removeCopy: async () => void stores.push(createMemoryStore()),
    leased: async () => true,
    damaged: (error) => damage.push(error),
  });
  const journal = new EngineJournal(engine, { schedule: (run) => void setImmediate(run) });
  const key = journal.intern('one');
  journal.append([{ key, data: '"a needle"' }]);
  await journal.flushed();
  const bytes = stores[0]?.rows.get(1);
  if (bytes === undefined) throw new Error('the row is missing');
  bytes.write('noodle', bytes.indexOf('needle'));
  expect(() => [...journal.read(key, 0)]).toThrow(StoreCorruptError);
  expect(damage).toHaveLength(1);
  journal.append([{ key, data: '"refused"' }]);
  await expect(journal.flushed()).rejects.toMatchObject({ code: 'store_full', data: { reason: 'copy' } });
  await journal.recover();
  expect(stores).toHaveLength(2);
  expect([...journal.read(key, 0)].map(({ data }) => data)).toEqual(['"a needle"']);
  await journal.close();
});

test('RE4: a write is acknowledged only under a lease, and is in the log nevertheless', async () => {
  const logs = new MemoryShardLogs();
  let isLeased = false;
  const open = (): Promise<Engine> =>
    openReplicatedEngine({
      log: logs.claim(),
      openCopy: async () => openMemoryEngine(),
      removeCopy: async () => undefined,
      leased: async () => isLeased,
      damaged: () => undefined,
    });
  const journal = new EngineJournal(await open(), { schedule: (run) => void setImmediate(run) });
  const key = journal.intern('one');
  journal.append([{ key, data: '1' }]);
  await expect(journal.flushed()).rejects.toMatchObject({ code: 'store_full', data: { reason: 'lease' } });
  await expect(journal.recover()).rejects.toMatchObject({ data: { reason: 'lease' } });
  isLeased = true;
  await journal.recover();
  expect([...journal.read(key, 0)].map(({ data }) => data)).toEqual(['1']);
});
