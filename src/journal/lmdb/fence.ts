/**
 * The fence of an environment (the LMDB file of one shard): a number that each opener raises, and that every write
 * compares in its transaction (L1 and L2 of `engine.ts`). This module also makes the room that a write needs before it
 * begins (L7).
 */
import { asError } from '../../base/errors.ts';
import { sealText, unsealText } from '../rows/sealed-text.ts';
import type { CommitRoom } from './commit-room.ts';
import type { LmdbEnvironment } from './environment.ts';
import { commitCause, corruptError, writeError } from './errors.ts';
import { STORE_FORMAT } from './tables.ts';

/** Raises the fence by one, and the format to ours; repeats both if another opener was faster. */
export async function takeFence(environment: LmdbEnvironment, room: CommitRoom, directory: string): Promise<number> {
  for (;;) {
    const format = readNumber(environment, 'format', directory);
    const found = readNumber(environment, 'fence', directory);
    const fence = found + 1;
    await madeRoom(directory, () => room.forRecords(2));
    const taken = await guardedWrite(environment, directory, found, () => {
      void environment.meta.put('fence', sealText('meta', 'fence', String(fence)), fence);
      if (format < STORE_FORMAT)
        void environment.meta.put('format', sealText('meta', 'format', String(STORE_FORMAT)), 0);
    });
    if (taken) return fence;
  }
}

/**
 * One durable transaction that does nothing unless the fence on disk is `fence` (L1, L2). Resolves to false if the
 * fence on disk is another one.
 */
export async function guardedWrite(
  { meta }: LmdbEnvironment,
  directory: string,
  fence: number,
  put: () => void,
): Promise<boolean> {
  try {
    const written = meta.ifVersion('fence', fence, put);
    // The write's own promise rejects when the write is refused. `flushed` resolves when a write that was not refused
    // is on the device.
    const [held] = await Promise.all([written, meta.flushed]);
    meta.resetReadTxn();
    return held;
  } catch (error) {
    throw await writeError(directory, await commitCause(error));
  }
}

/** Makes room for a commit before it begins (L7). Rejects like a refused write. */
export async function madeRoom(directory: string, make: () => Promise<void> | undefined): Promise<void> {
  try {
    const growing = make();
    // For most commits the room is ready. They need not wait for a microtask.
    if (growing !== undefined) await growing;
  } catch (error) {
    throw await writeError(directory, asError(error));
  }
}

/** A number of the table `meta`. Throws `StoreCorruptError` when the record is missing or damaged. */
export function readNumber({ meta }: LmdbEnvironment, name: string, path: string): number {
  const entry = meta.getEntry(name);
  const text = entry === undefined ? undefined : unsealText('meta', name, entry.value);
  const value = Number(text);
  // Writes are guarded by the version (L2): a version that is not the fence would cause every write to be refused
  // forever.
  const isRight = name !== 'fence' || entry?.version === value;
  if (text === undefined || !isRight || !Number.isSafeInteger(value) || value < 0) {
    throw corruptError(path, new Error(`its record ${JSON.stringify(name)} is damaged`));
  }
  return value;
}
