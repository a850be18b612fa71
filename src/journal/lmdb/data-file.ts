/**
 * The data file of an environment (the LMDB store of one shard), as the file system sees it. This class keeps room for
 * the next commits, and checks that the file is still the one that was opened.
 *
 * LMDB maps its file and trusts it. A page that cannot be written for lack of room may end the process
 * (`docs/upstream`). Reading a page where the file was cut always ends the process. A removed file accepts commits that
 * can never be read again. So room is made before a commit needs it, and the file is checked regularly.
 *
 * Owns: one descriptor of the file, opened to append; the number of bytes that have blocks of the device.
 * Does not own: the pages.
 *
 * Invariants:
 *  D1 a commit begins only when every page that it may write has blocks of the device (`commit-size.ts`). Otherwise it
 *     is refused before it begins. On a file system that writes to new blocks (`isOverwriting` is false) the free space
 *     is checked instead;
 *  D2 the file grows by zeros appended at its current end. So this class never overwrites a byte, even while another
 *     process writes to the file, such as a fenced owner. LMDB ignores the bytes beyond its last page;
 *  D3 the file is checked every `STORE_LOOK_MS`, and before a commit when the last check is older. A file that is gone,
 *     replaced or shorter than before is lost for good: it is neither read beyond its end nor written again.
 */
import { closeSync, constants, fdatasync, fstatSync, openSync, statfsSync, statSync, write, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { STORE_LOOK_MS, STORE_ROOM_BYTES_MAX, STORE_ROOM_BYTES_MIN, STORE_SPARE_BYTES_MIN } from '../../base/bounds.ts';
import { StoreLostError } from '../../base/errors.ts';

/**
 * File systems that overwrite a block in place: ext2 to ext4, XFS, tmpfs. Other file systems may need a new block for
 * an old page.
 */
const OVERWRITING: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x01021994]);
/** Bytes appended by one write. */
const PIECE_BYTES = 256 * 1024;
const BLOCK_BYTES = 512;
/** The room that is kept ready at the end of the file, as a share of the bytes in use. */
const ROOM_SHARE = 1 / 8;

const ZEROS: Buffer = Buffer.alloc(PIECE_BYTES);
const writeLater = promisify(write);
const syncLater = promisify(fdatasync);

/** The options of a data file. */
export interface DataFileOptions {
  readonly directory: string;
  readonly path: string;
  /** True if appended zeros are flushed here, so that the next commit need not wait for their flush. */
  readonly isSynced: boolean;
  /** Called once, when a check finds the file lost (D3). */
  readonly onLost?: (error: StoreLostError) => void;
}

/** The data file; see the head of the file. Belongs to one thread. */
export class DataFile {
  readonly #options: DataFileOptions;
  /** The present path of the file; `moved` changes it. */
  #path: string;
  readonly #descriptor: number;
  /** `dev` and `ino` of the file that was opened. */
  readonly #identity: string;
  readonly #isOverwriting: boolean;
  readonly #watch: NodeJS.Timeout;
  /** Bytes of the file, from its beginning, that have blocks of the device. */
  #end: number;
  #lookedAt: number;
  #growing: Promise<void> | undefined;
  #lost: StoreLostError | undefined;
  #isShort = false;
  #isClosed = false;

  constructor(options: DataFileOptions) {
    this.#options = options;
    this.#path = options.path;
    this.#descriptor = openSync(options.path, constants.O_WRONLY | constants.O_APPEND);
    const found = fstatSync(this.#descriptor, { bigint: true });
    this.#identity = `${found.dev} ${found.ino}`;
    this.#end = Number(found.size);
    const hasHoles = Number(found.blocks) * BLOCK_BYTES < this.#end;
    this.#isOverwriting = !hasHoles && OVERWRITING.has(statfsSync(options.directory).type);
    this.#lookedAt = performance.now();
    this.#watch = setInterval(() => this.#look(), STORE_LOOK_MS);
    this.#watch.unref();
  }

  /** The reason why the store must not be written any more; undefined if it may be written. */
  get lost(): StoreLostError | undefined {
    return this.#lost;
  }

  /** True if the file is shorter than it was, so that reading the file may end the process. */
  get isShort(): boolean {
    return this.#isShort;
  }

  /** Bytes of the file that have blocks of the device. */
  get end(): number {
    return this.#end;
  }

  /**
   * Throws `StoreLostError` when the file is lost. Checks again when the last check is older than `STORE_LOOK_MS` (D3).
   */
  checkPresence(): void {
    if (performance.now() - this.#lookedAt >= STORE_LOOK_MS) this.#look();
    if (this.#lost !== undefined) throw this.#lost;
  }

  /**
   * True when there is room for a commit of so many bytes behind the `usedBytes` that LMDB uses (D1). If the result is
   * false, call `grow` first.
   */
  hasRoom(usedBytes: number, commitBytes: number): boolean {
    return usedBytes + commitBytes <= this.#end && this.#hasSpare(commitBytes);
  }

  /**
   * Makes room for a commit. Rejects with the device's error, in most cases ENOSPC or EDQUOT. In that case no page of
   * the commit was written.
   */
  async grow(usedBytes: number, commitBytes: number): Promise<void> {
    await this.#growing;
    if (usedBytes + commitBytes > this.#end) {
      try {
        await this.#append(this.#target(usedBytes, commitBytes));
      } catch (error) {
        // The device may lack room for the spare part although the commit itself fits.
        if (usedBytes + commitBytes > this.#end) throw error;
      }
    }
    if (!this.#hasSpare(commitBytes)) throw noSpace();
  }

  /**
   * Extends the file to `bytes`, at once and on this thread. Used for the few commits that create the tables of a new
   * store.
   */
  growNow(bytes: number): void {
    while (this.#end < bytes) {
      writeSync(this.#descriptor, ZEROS, 0, Math.min(PIECE_BYTES, bytes - this.#end));
      this.#end = fstatSync(this.#descriptor).size;
    }
    if (!this.#hasSpare(bytes)) throw noSpace();
  }

  /**
   * Starts making room for later commits when little is left. A refusal is ignored here, because the commit that needs
   * the room will meet it again.
   */
  growAhead(usedBytes: number): void {
    if (this.#isClosed || this.#growing !== undefined || this.#lost !== undefined) return;
    const target = this.#target(usedBytes, 0);
    if (this.#end - usedBytes >= (target - usedBytes) / 2) return;
    this.#growing = this.#append(target)
      .catch(() => undefined)
      .finally(() => {
        this.#growing = undefined;
      });
  }

  /** Resolves when everything that was written to the file is on the device. */
  async sync(): Promise<void> {
    await syncLater(this.#descriptor);
  }

  /** Called when the file was renamed. Later checks look for it at `path`. */
  moved(path: string): void {
    this.#path = path;
  }

  /** Closes the file. From this call on, no check looks for the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#watch);
    await this.#growing;
    closeSync(this.#descriptor);
  }

  /** The size that the file should have. */
  #target(usedBytes: number, commitBytes: number): number {
    const ready = Math.min(Math.max(usedBytes * ROOM_SHARE, STORE_ROOM_BYTES_MIN), STORE_ROOM_BYTES_MAX);
    return Math.ceil((usedBytes + commitBytes + ready) / PIECE_BYTES) * PIECE_BYTES;
  }

  async #append(end: number): Promise<void> {
    let isGrown = false;
    while (this.#end < end && !this.#isClosed) {
      await writeLater(this.#descriptor, ZEROS, 0, Math.min(PIECE_BYTES, end - this.#end));
      this.#end = fstatSync(this.#descriptor).size;
      isGrown = true;
    }
    if (isGrown && this.#options.isSynced) await syncLater(this.#descriptor);
  }

  #hasSpare(commitBytes: number): boolean {
    if (this.#isOverwriting) return true;
    const { bavail, bsize } = statfsSync(this.#options.directory);
    return bavail * bsize >= STORE_SPARE_BYTES_MIN + 2 * commitBytes;
  }

  #look(): void {
    if (this.#isClosed || this.#lost !== undefined) return;
    this.#lookedAt = performance.now();
    const reason = this.#absence();
    if (reason === undefined) return;
    const { directory, onLost } = this.#options;
    this.#lost = new StoreLostError(
      `the store ${directory} is lost to this process: ${reason}. Nothing more is written to it; everything acknowledged ` +
        'is in the original files. Put them back and open the store again',
      { data: { path: directory, reason } },
    );
    onLost?.(this.#lost);
  }

  /** How the file differs from the opened one; undefined if it does not. */
  #absence(): string | undefined {
    const path = this.#path;
    if (fstatSync(this.#descriptor).size < this.#end) {
      this.#isShort = true;
      return `${path} was cut short`;
    }
    try {
      const { dev, ino } = statSync(path, { bigint: true });
      return `${dev} ${ino}` === this.#identity ? undefined : `${path} was replaced by another file`;
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      // Other errors do not show that the file is gone.
      return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ESTALE' ? `${path} was removed` : undefined;
    }
  }
}

function noSpace(): Error {
  return Object.assign(new Error('no space left on device for a commit'), { code: 'ENOSPC' });
}
