/**
 * A store's whole log, read record by record. It shows which calls were answered and which reports delivered, once or
 * twice.
 */
import { openJournal } from '../../../src/journal/open-journal.ts';
import { acquireStoreLock } from '../../../src/journal/store/lock.ts';
import { readManifest, shardDirectory } from '../../../src/journal/store/manifest.ts';
import { readActor } from '../../../src/runtime/reading/session-reader.ts';
import { decodeTransition, type SessionRecord } from '../../../src/session/state/records.ts';
import type { SessionState } from '../../../src/session/state/state.ts';

/** One session's records in order, and the state that their fold gives. */
export interface SessionLog {
  readonly id: string;
  readonly records: readonly SessionRecord[];
  readonly state: SessionState;
}

/** The logs of all sessions, by id. */
export async function readLogs(directory: string): Promise<readonly SessionLog[]> {
  const lock = await acquireStoreLock(directory);
  const logs: SessionLog[] = [];
  try {
    const shards = (await readManifest(directory))?.shards ?? 0;
    for (let shard = 0; shard < shards; shard += 1) {
      const journal = await openJournal({ directory: shardDirectory(directory, shard), durability: 'flush' });
      for (const [id, key] of journal.names({})) {
        const records = [...journal.read(key, 0)].flatMap(({ data }) => decodeTransition(data).records);
        logs.push({ id, records, state: readActor(journal, id, key).state });
      }
      await journal.close();
    }
  } finally {
    await lock.release();
  }
  return logs;
}

/** Records of a type in all logs, per session: `{ 'review-1': 2 }`. */
export function countOf(logs: readonly SessionLog[], type: SessionRecord['type']): Readonly<Record<string, number>> {
  return Object.fromEntries(
    logs.map(({ id, records }) => [id, records.filter((record) => record.type === type).length]),
  );
}
