/**
 * Entries in the log of a closed store that cannot be promoted, as an earlier version might have left them. A version
 * accepts no such entry itself, so a test writes it.
 */
import { shardOf } from '../../src/base/ids.ts';
import { openJournal } from '../../src/journal/open-journal.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { readManifest, shardDirectory } from '../../src/journal/store/manifest.ts';
import { readActor } from '../../src/runtime/reading/session-reader.ts';
import { type Entry, encodeTransition, type SessionRecord } from '../../src/session/state/records.ts';

/** An active entry that cannot be promoted: it claims to be a sub-agent's reply, and comes from a user. */
export function unfit(content: string): Entry {
  return { type: 'subagent', content, source: { type: 'user' } };
}

/** An entry that this version can promote. */
export function promotable(content: string): Entry {
  return { type: 'from_mneme', content, source: { type: 'recall', name: '7' } };
}

/**
 * Appends entries to the log of a session. `setAside`: the version that wrote them also set them aside. Returns their
 * ids.
 */
export async function leaveEntries(
  directory: string,
  session: string,
  entries: readonly Entry[],
  setAside = false,
): Promise<readonly number[]> {
  const lock = await acquireStoreLock(directory);
  try {
    const shards = (await readManifest(directory))?.shards ?? 1;
    const journal = await openJournal({
      directory: shardDirectory(directory, shardOf(session, shards)),
      durability: 'flush',
    });
    const key = journal.keyOf(session);
    if (key === undefined) throw new Error(`the store has no session ${session}`);
    const { state } = readActor(journal, session, key);
    const first = state.nextPendingId;
    const records = entries.flatMap((entry, index): readonly SessionRecord[] => {
      const id = first + index;
      const error = { name: 'Error', code: 'internal', message: 'an earlier version could not show it' } as const;
      return [{ type: 'accepted', id, entry }, ...(setAside ? [{ type: 'poisoned', id, error } as const] : [])];
    });
    journal.append([{ key, data: encodeTransition({ at: state.updatedAt + 1, records }) }]);
    await journal.close();
    return entries.map((_entry, index) => first + index);
  } finally {
    await lock.release();
  }
}
