/** A replicated journal under test: a log that outlives it, and an empty directory for its copy at each opening. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine } from '../../../src/journal/engine.ts';
import { EngineJournal } from '../../../src/journal/engine-journal.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { openLmdbEngine } from '../../../src/journal/lmdb/engine.ts';
import { lmdbSnapshotFiles } from '../../../src/journal/lmdb/snapshot-file.ts';
import { type CopyFault, openReplicatedEngine } from '../../../src/journal/replica/replicated-engine.ts';
import type { ShardLog } from '../../../src/journal/replica/shard-log.ts';
import type { JournalUnderTest } from '../../../src/testing/conformance/journal-under-test.ts';

/** The parts of a replica in a test. */
export interface TestReplica {
  readonly directory: string;
  readonly log: ShardLog;
  /** Receives the faults of copies that are taken away. */
  readonly faults?: CopyFault[];
  readonly leased?: () => Promise<boolean>;
}

/** Opens the engine of a shard with its copy in `directory`. */
export function openReplica({ directory, log, faults = [], leased = async () => true }: TestReplica): Promise<Engine> {
  return openReplicatedEngine({
    log,
    openCopy: () => openLmdbEngine({ directory, durability: 'os' }),
    removeCopy: async (fault) => {
      faults.push(fault);
      await rm(directory, { recursive: true, force: true });
    },
    files: lmdbSnapshotFiles(directory),
    leased,
    damaged: () => undefined,
  });
}

/** Opens a journal over such an engine. */
export async function openReplicaJournal(parts: TestReplica): Promise<Journal> {
  return new EngineJournal(await openReplica(parts), { schedule: (run) => void setImmediate(run) });
}

/** A log for the suite of the journal. */
export interface ReplicaStore {
  claim(): Promise<ShardLog>;
  /** Makes every call of the log fail, until it is called with `undefined`. */
  refuse(cause: Error | undefined): void;
  dispose(): Promise<void>;
}

/** A journal for the suite, whose machine is lost at every reopening and crash. */
export async function makeReplicaJournal(store: ReplicaStore): Promise<JournalUnderTest> {
  const directories: string[] = [];
  const opened: Journal[] = [];
  const reopen = async (): Promise<Journal> => {
    const directory = join(await mkdtemp(join(tmpdir(), 'troupe-replica-')), 'copy');
    directories.push(directory);
    const journal = await openReplicaJournal({ directory, log: await store.claim() });
    opened.push(journal);
    return journal;
  };
  return {
    journal: await reopen(),
    reopen,
    crash: reopen,
    refuseWrites: (cause) => store.refuse(cause),
    async dispose() {
      // A journal that was fenced off may still hold batches that it cannot write.
      for (const journal of opened) await journal.close().catch(() => undefined);
      for (const directory of directories) await rm(join(directory, '..'), { recursive: true, force: true });
      await store.dispose();
    },
  };
}
