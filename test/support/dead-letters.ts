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
  const [ids = []] = await leaveInRow(directory, [{ session, entries }], setAside);
  return ids;
}

/** Appends entries of several sessions of one shard as one row of its log. Returns the ids of each session's entries. */
export async function leaveInRow(
  directory: string,
  left: readonly { readonly session: string; readonly entries: readonly Entry[] }[],
  setAside = false,
): Promise<readonly (readonly number[])[]> {
  const lock = await acquireStoreLock(directory);
  try {
    const shards = (await readManifest(directory))?.shards ?? 1;
    const [shard = 0, ...others] = new Set(left.map(({ session }) => shardOf(session, shards)));
    if (others.length > 0) throw new Error('these sessions are on different shards');
    const journal = await openJournal({ directory: shardDirectory(directory, shard), durability: 'flush' });
    const appended = left.map(({ session, entries }) => {
      const key = journal.keyOf(session);
      if (key === undefined) throw new Error(`the store has no session ${session}`);
      const { state } = readActor(journal, session, key);
      const ids = entries.map((_entry, index) => state.nextPendingId + index);
      const records = entries.flatMap((entry, index): readonly SessionRecord[] => {
        const id = state.nextPendingId + index;
        const error = { name: 'Error', code: 'internal', message: 'an earlier version could not show it' } as const;
        return [{ type: 'accepted', id, entry }, ...(setAside ? [{ type: 'poisoned', id, error } as const] : [])];
      });
      return { ids, write: { key, data: encodeTransition({ at: state.updatedAt + 1, records }) } };
    });
    journal.append(appended.map(({ write }) => write));
    await journal.close();
    return appended.map(({ ids }) => ids);
  } finally {
    await lock.release();
  }
}
