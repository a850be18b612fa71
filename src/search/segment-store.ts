/**
 * The storage of an index's segments and its saved state: a directory, or memory.
 *
 * Owns: the files of its directory. Does not own: their contents.
 *
 * Invariants:
 *  H1 when a state is saved, all its segments are completely on the device;
 *  H2 when the index is opened, each segment that is not in the saved state is removed. So no file of a crash stays for
 *     ever.
 *
 * The methods are synchronous, because the search thread has nothing else to do.
 */
import {
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../base/private-files.ts';
import { DamagedSegmentError, type SegmentBytes } from './segment-file.ts';

/** A stored segment: its name and its bytes. */
export interface SegmentEntry {
  readonly name: string;
  readonly bytes: SegmentBytes;
}

/** See the head of the file. The methods throw the errors of the device. */
export interface SegmentStore {
  /** Stores the bytes of a segment. The segment is durable when the method returns. */
  put(chunks: readonly Buffer[]): SegmentEntry;
  /** Opens a stored segment. Throws if no segment has this name. */
  open(name: string): SegmentBytes;
  /** Removes a segment. The saved state must not have it. */
  remove(name: string): void;
  /** Replaces the saved state atomically. */
  saveState(text: string): void;
  /** The last saved state; undefined if there is none. */
  loadState(): string | undefined;
  /** Removes all segments except those with these names. */
  keepOnly(names: ReadonlySet<string>): void;
  /** Closes the open files. No method may be called afterwards. */
  close(): void;
}

/** Storage in memory, which ends with the index. */
export class MemorySegmentStore implements SegmentStore {
  readonly #segments = new Map<string, Buffer>();
  #state: string | undefined;
  #last = 0;

  put(chunks: readonly Buffer[]): SegmentEntry {
    this.#last += 1;
    const name = String(this.#last);
    this.#segments.set(name, Buffer.concat(chunks));
    return { name, bytes: this.open(name) };
  }

  open(name: string): SegmentBytes {
    const bytes = this.#segments.get(name);
    if (bytes === undefined) throw new DamagedSegmentError(`there is no segment ${name}`);
    return { length: bytes.length, read: (at, length) => bytes.subarray(at, at + length) };
  }

  remove(name: string): void {
    this.#segments.delete(name);
  }

  saveState(text: string): void {
    this.#state = text;
  }

  loadState(): string | undefined {
    return this.#state;
  }

  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#segments.keys()) if (!names.has(name)) this.#segments.delete(name);
  }

  close(): void {}
}

const STATE = 'index.json';
const SEGMENT = /^segment-(\d+)$/u;
/** Buffers passed to the system in one write. */
const CHUNKS_MAX = 512;

/** Storage in a directory, which is created if it is missing. No other code may use the directory. */
export class DirectorySegmentStore implements SegmentStore {
  readonly #directory: string;
  /** Descriptors of the open files, by name. */
  readonly #files = new Map<string, number>();
  #last = 0;

  constructor(directory: string) {
    this.#directory = directory;
    mkdirSync(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    for (const name of readdirSync(directory)) this.#last = Math.max(this.#last, Number(SEGMENT.exec(name)?.[1] ?? 0));
  }

  put(chunks: readonly Buffer[]): SegmentEntry {
    this.#last += 1;
    const name = `segment-${this.#last}`;
    this.#write(name, chunks);
    return { name, bytes: this.open(name) };
  }

  open(name: string): SegmentBytes {
    const file = openSync(join(this.#directory, name), 'r');
    this.#files.set(name, file);
    const length = sizeOf(file);
    return {
      length,
      read: (at, wanted) => {
        const bytes = Buffer.allocUnsafeSlow(Math.max(0, wanted));
        const read = bytes.length === 0 ? 0 : readSync(file, bytes, 0, bytes.length, at);
        if (read !== bytes.length) throw new DamagedSegmentError(`${name} ends early`);
        return bytes;
      },
    };
  }

  remove(name: string): void {
    const file = this.#files.get(name);
    if (file !== undefined) closeSync(file);
    this.#files.delete(name);
    rmSync(join(this.#directory, name), { force: true });
  }

  saveState(text: string): void {
    const unfinished = `${STATE}.new`;
    this.#write(unfinished, [Buffer.from(text)]);
    renameSync(join(this.#directory, unfinished), join(this.#directory, STATE));
    this.#sync();
  }

  loadState(): string | undefined {
    try {
      return readFileSync(join(this.#directory, STATE), 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw error;
    }
  }

  keepOnly(names: ReadonlySet<string>): void {
    for (const name of readdirSync(this.#directory)) if (SEGMENT.test(name) && !names.has(name)) this.remove(name);
  }

  close(): void {
    for (const file of this.#files.values()) closeSync(file);
    this.#files.clear();
  }

  #write(name: string, chunks: readonly Buffer[]): void {
    const file = openSync(join(this.#directory, name), 'w', PRIVATE_FILE_MODE);
    try {
      for (let at = 0; at < chunks.length; at += CHUNKS_MAX) writeAll(file, chunks.slice(at, at + CHUNKS_MAX));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    this.#sync();
  }

  /** Makes the file names durable by syncing the directory. Windows cannot do that and does not need it. */
  #sync(): void {
    if (process.platform === 'win32') return;
    const directory = openSync(this.#directory, 'r');
    try {
      fsyncSync(directory);
    } finally {
      closeSync(directory);
    }
  }
}

function writeAll(file: number, chunks: readonly Buffer[]): void {
  const bytes = chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks);
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}

function sizeOf(file: number): number {
  return fstatSync(file).size;
}
