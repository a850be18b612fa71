/**
 * A file's content replaced: whole or not at all, for readers and through a kill.
 *
 * Owns the files it makes beside the one it writes: `.troupe-<random>.part`, what is to become the file, and
 * `.troupe-<hash of the name>.lock`, held while the part is moved into place. Both are gone afterwards, unless the process is
 * killed in between: then they are litter, which no reader takes for the file. Owns neither the text nor the wall of a root.
 *
 * W1 a reader finds the old content or the new, never a part: the new one is complete and on the disk before it has the name.
 * W2 two changes of one file follow one another: those of a thread by turns, so that none is made in vain, those of other
 *    threads and processes by the lock. What was changed since it was read is not replaced.
 * W3 a caller that has given up (its signal) changes nothing from then on.
 * W4 no lock outlives its owner for long: one that stays the same for `FILE_LOCK_STALE_MS` is taken away. The lock guards two
 *    quick steps; who is stalled for longer there may lose a change of others (W2), never tear a file (W1).
 * W5 nothing is written outside a root, also while directories are exchanged for links: on Linux all is done through the
 *    descriptor of the directory, which was checked. Elsewhere the check comes before, and a swap in between may win; so may one
 *    while missing directories are made, which leaves empty directories at most.
 */
import { createHash, randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { access, type FileHandle, lstat, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { FILE_LOCK_POLL_MS, FILE_LOCK_STALE_MS } from '../../base/bounds.ts';
import { systemClock } from '../../base/clock.ts';
import { systemCodeOf } from '../../base/errors.ts';
import { syncDirectory } from '../../journal/store/durable-file.ts';
import { checkKind, checkOpened, FileToolError } from './file-access.ts';

/** What a file is to hold. */
export interface Replacement {
  /** The file's own place: no link on the way to it. */
  readonly real: string;
  /** As the model named it, for failures. */
  readonly path: string;
  /** Nothing is put outside of it. */
  readonly root: string | undefined;
  readonly bytes: Uint8Array;
  readonly signal: AbortSignal;
  /** Asked under the lock: whether the file is still what the change was made of. Missing: whatever it holds is replaced. */
  readonly isCurrent?: () => Promise<boolean>;
}

/** The last change of each file at work on this thread; gone when it is over. */
const turns = new Map<string, Promise<unknown>>();

/** Runs `work` when what was asked for before it on this thread, for the same file, is over (W2). Settles as `work` does. */
export async function inTurn<T>(real: string, work: () => Promise<T>): Promise<T> {
  const before = turns.get(real);
  const mine = before === undefined ? work() : before.then(work, work);
  turns.set(real, mine);
  try {
    return await mine;
  } finally {
    if (turns.get(real) === mine) turns.delete(real);
  }
}

/**
 * Puts the bytes in the file's place; its directories are made, its mode and, as far as the process may, its owner are kept.
 * Other names of the same file (hard links) keep the old content. False when the file is no longer current: nothing was
 * changed. Durable when it resolves. Throws `FileToolError` and the file system's errors.
 *
 * The sync costs milliseconds a write, and is right for a file of the user's: without it a power cut may leave an empty file
 * where the old content was, and a log that says it was written. So the content is synced before the move, the names after it.
 */
export async function replaceFile(replacement: Replacement): Promise<boolean> {
  const { real, path, root } = replacement;
  // A directory, a pipe: said before anything is made for it.
  await writableStats(real, path);
  const directory = dirname(real);
  const made = await mkdir(directory, { recursive: true });
  // Held open, and checked as what was opened: a link put in its place since the path was checked leads nowhere (W5).
  const held = await open(directory, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0));
  try {
    await checkOpened(held, directory, path, root);
    const inside = process.platform === 'linux' ? `/proc/self/fd/${held.fd}` : directory;
    if (!(await moveInto({ ...replacement, real: join(inside, basename(real)) }))) return false;
  } finally {
    await held.close();
  }
  await syncNames(real, made);
  return true;
}

async function moveInto({ real, path, bytes, signal, isCurrent }: Replacement): Promise<boolean> {
  const existing = await writableStats(real, path);
  const part = join(dirname(real), `.troupe-${randomUUID()}.part`);
  try {
    await writePart(part, bytes, existing);
    return await underLock(real, signal, async () => {
      if (isCurrent !== undefined && !(await isCurrent())) return false;
      signal.throwIfAborted();
      await rename(part, real);
      return true;
    });
  } finally {
    // After the move there is nothing of this name.
    await rm(part, { force: true });
  }
}

/** What is there of the file; throws when it may not be written, since a move would not ask. */
async function writableStats(real: string, path: string): Promise<Stats | undefined> {
  let stats: Stats;
  try {
    stats = await stat(real);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  checkKind(stats, path);
  try {
    await access(real, constants.W_OK);
  } catch (error) {
    if (systemCodeOf(error) === 'EACCES') throw new FileToolError(`Not writable: ${path}`, { cause: error });
    throw error;
  }
  return stats;
}

async function writePart(part: string, bytes: Uint8Array, existing: Stats | undefined): Promise<void> {
  // Private until it has the mode of what it replaces: a secret must not be readable for a moment.
  const handle = await open(part, 'wx', existing === undefined ? 0o666 : 0o600);
  try {
    await handle.writeFile(bytes);
    if (existing !== undefined) await keepRights(handle, existing);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Owner first: changing it clears some bits of the mode. Bits that borrow the owner's rights go where the owner is not kept. */
async function keepRights(handle: FileHandle, existing: Stats): Promise<void> {
  const own = await handle.stat();
  let isKept = own.uid === existing.uid && own.gid === existing.gid;
  if (!isKept) {
    isKept = await handle.chown(existing.uid, existing.gid).then(
      () => true,
      () => false,
    );
  }
  await handle.chmod(existing.mode & (isKept ? 0o7777 : 0o777));
}

/** Holds the file's lock while `work` runs (W2, W4). Throws the signal's reason when the caller gives up. */
async function underLock<T>(real: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const lock = lockOf(real);
  let seen: string | undefined;
  let seenAtMs = 0;
  while (!(await takeLock(lock))) {
    const mark = await markOf(lock);
    const nowMs = systemClock.monotonic();
    if (mark !== seen) [seen, seenAtMs] = [mark, nowMs];
    else if (mark !== undefined && nowMs - seenAtMs >= FILE_LOCK_STALE_MS) await rm(lock, { force: true });
    await delay(FILE_LOCK_POLL_MS, undefined, { signal });
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/** Where a file's lock is: beside it, so that all who write it find the same, under a name that is never too long. */
export function lockOf(real: string): string {
  const name = createHash('sha256').update(basename(real)).digest('hex').slice(0, 16);
  return join(dirname(real), `.troupe-${name}.lock`);
}

async function takeLock(lock: string): Promise<boolean> {
  try {
    await (await open(lock, 'wx', 0o600)).close();
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/** Tells one lock from the next; `undefined` when there is none any more. */
async function markOf(lock: string): Promise<string | undefined> {
  try {
    const { ino, ctimeNs } = await lstat(lock, { bigint: true });
    return `${ino}:${ctimeNs}`;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** What a place answers that cannot sync a directory, or does not let this process. */
const UNSYNCABLE: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EBADF', 'EISDIR']);

/** Makes the file's name durable, and those of the directories that were made for it, `made` the uppermost. */
async function syncNames(real: string, made: string | undefined): Promise<void> {
  await syncName(real);
  if (made === undefined) return;
  for (let at = dirname(real); at.length >= made.length; at = dirname(at)) await syncName(at);
}

/** Makes a name durable, where the place knows how. */
export async function syncName(path: string): Promise<void> {
  try {
    await syncDirectory(dirname(path));
  } catch (error) {
    if (!UNSYNCABLE.has(systemCodeOf(error) ?? '')) throw error;
  }
}
