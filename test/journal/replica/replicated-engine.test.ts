import { describe, expect, test } from 'vitest';
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
