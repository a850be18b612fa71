/**
 * Replaces a file's content completely or not at all. This holds for simultaneous readers, and if the process is
 * killed.
 *
 * Owns two files beside the one that is written. `.troupe-<random>.part` has the new content.
 * `.troupe-<hash of the name>.lock` exists while the part is moved into place. Both are removed afterwards. If the
 * process is killed in between, they remain, but no reader mistakes them for the file. Does not own: the text, the
 * containment in a root.
 *
 * W1 A reader finds the old content or the new, never incomplete content. The new content is complete and on disk
 *    before it gets the file's name.
 * W2 Two changes of one file follow one another. Changes of one thread queue, so that each starts from the result of
 *    the change before it. Changes of other threads and processes wait for the lock. A file that changed since it was
 *    read is not replaced.
 * W3 A call whose signal was aborted changes nothing from then on.
 * W4 No lock outlives its owner for long: a lock that stays the same for `FILE_LOCK_STALE_MS` is removed. The lock
 *    guards two quick steps: the check that the file is unchanged, and the move. A process that stalls between them for
 *    longer than that may overwrite the change of another process (W2). Even then no reader finds incomplete content
 *    (W1).
 * W5 Nothing is written outside a root, even while another process replaces directories with links. On Linux all
 *    operations use the checked descriptor of the directory. On other systems the write goes outside if a directory is
 *    replaced between check and write. On all systems a directory may be replaced while missing directories are made.
 *    Then at most empty directories appear outside.
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

/** The new content of a file. */
export interface Replacement {
  /** The file's real path, which contains no links. */
  readonly real: string;
  /** The path as the model named it, for failures. */
  readonly path: string;
  /** The root outside which nothing is written. */
  readonly root: string | undefined;
  readonly bytes: Uint8Array;
  readonly signal: AbortSignal;
  /**
   * Called while the lock is held: returns true if the file still has the content that the change was made from. If
   * missing, any content is replaced.
   */
  readonly isCurrent?: () => Promise<boolean>;
}

/** The last change in progress of each file on this thread; removed when it ends. */
const turns = new Map<string, Promise<unknown>>();

/** Runs `work` after all earlier work for the same file on this thread has ended (W2). Settles as `work` does. */
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
 * Replaces the file with the bytes. Missing directories are made. The mode is kept, and so is the owner if the process
 * may set it. Other names of the same file (hard links) keep the old content. Resolves to false when the file is no
 * longer current; nothing was changed then. When it resolves to true, the change is durable. Throws `FileToolError` and
 * the file system's errors.
 *
 * The sync costs milliseconds per write, which is acceptable for a user's file. Without it a power cut may leave an
 * empty file in place of the old content, although the log says that the file was written. So the content is synced
 * before the move, and the names after the move.
 */
export async function replaceFile(replacement: Replacement): Promise<boolean> {
  const { real, path, root } = replacement;
  // A directory or a pipe is reported before anything is created.
  await writableStats(real, path);
  const directory = dirname(real);
  const made = await mkdir(directory, { recursive: true });
  // The open directory is checked and used, so a link that replaced it after the check of the path has no effect (W5).
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
    // After the move no file has this name, so nothing is removed.
    await rm(part, { force: true });
  }
}

/** The stats of the existing file. Throws when the file may not be written, because a move would not check that. */
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
  // The new file is private until it has the mode of the file that it replaces. Otherwise a secret could be readable
  // for a moment.
  const handle = await open(part, 'wx', existing === undefined ? 0o666 : 0o600);
  try {
    await handle.writeFile(bytes);
    if (existing !== undefined) await keepRights(handle, existing);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Gives the new file the owner and the mode of the existing one. The owner is set first, because changing it clears
 * some bits of the mode. The setuid and setgid bits are dropped if the owner cannot be kept.
 */
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

/**
 * The path of a file's lock. The lock is beside the file, so that all writers find the same lock. The lock's name is
 * never too long.
 */
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

/**
 * A mark that distinguishes the present lock of a file from earlier and later locks; `undefined` when there is no lock.
 */
async function markOf(lock: string): Promise<string | undefined> {
  try {
    const { ino, ctimeNs } = await lstat(lock, { bigint: true });
    return `${ino}:${ctimeNs}`;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** The errors of a file system that cannot sync a directory, or does not allow this process to do it. */
const UNSYNCABLE: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP', 'EBADF', 'EISDIR']);

/**
 * Makes durable the name of the file, and those of the directories that were made for it. `made`: the uppermost of
 * these directories.
 */
async function syncNames(real: string, made: string | undefined): Promise<void> {
  await syncName(real);
  if (made === undefined) return;
  for (let at = dirname(real); at.length >= made.length; at = dirname(at)) await syncName(at);
}

/** Makes a name durable, if the file system can. */
export async function syncName(path: string): Promise<void> {
  try {
    await syncDirectory(dirname(path));
  } catch (error) {
    if (!UNSYNCABLE.has(systemCodeOf(error) ?? '')) throw error;
  }
}
