/**
 * The result store: keeps the whole text of a shortened result, so that the model can read the rest with `read_file`.
 * Each text is one file, named by its session and by a hash of its content. The files are beside the store. For a store
 * in memory they are in the system's temporary directory. In a cluster the log has the texts too, for the next owner.
 *
 * Owns: the files of its directory while they are written. Does not own: the log that names them.
 *
 * Invariants:
 *  R1 a shortened text names a file only when the file is durable: written, synced, moved into place, and the move
 *     synced. The record with the shortened text is made after that, so no log names a file that a power loss removed;
 *  R2 a reader never sees half a file, and two writers of one text do not collide: each writes to its own temporary
 *     name first;
 *  R3 a file belongs to the session in its name, and no file of a removed session stays. `removeOf` waits for the
 *     writes that are in flight, and a session that does not exist any more gets no file. A node of a cluster removes
 *     its files of sessions that were removed at another node when it has the shard again;
 *  R4 in an encrypted store a text is encrypted with a key made of its session's data key and the file's name. The data
 *     key is durable before a log names the file;
 *  R5 no file is written before its session is durable, except within a transition (`shortenNow`). Otherwise a crash
 *     could undo the beginning of the session, and no deletion would ever remove the file. An unfinished file that a
 *     killed process left is removed at the next open of the store;
 *  R6 in a cluster the log has the text, too (`ResultTexts`), before the record with the shortened text is appended.
 *     A path with the name of a file leads to the file of this directory, whatever its directory is: the session may
 *     have been on another node. If the file is not here, it is written again from the log, in the steps of R1.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { access, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../src/base/private-files.ts';
import type { DataKey } from '../src/journal/encryption/data-key.ts';
import { sealedFile } from '../src/journal/encryption/sealed-file.ts';
import { resultHash } from '../src/journal/rows/result-address.ts';
import { type TruncationOptions, truncateResult } from '../src/tools/truncation.ts';

/** How to shorten a text. The result store sets `reference` itself. */
export interface ResultStoreOptions extends Omit<TruncationOptions, 'reference'> {
  /** The session that the text belongs to. */
  readonly session: string;
  /** True if no record will have the shortened text, so that a cluster's log need not have the whole text. */
  readonly isUnlogged?: boolean;
}

/** The part of the result store that the shard needs. */
export type ResultShortener = Pick<ResultStore, 'shorten' | 'shortenNow' | 'removeOf' | 'fileKeyOf' | 'fileOf'>;

/** One operation on a disk. */
export type DiskStep =
  | { readonly kind: 'makeDirectory' | 'syncFile' | 'syncDirectory' | 'remove'; readonly path: string }
  | { readonly kind: 'write'; readonly path: string; readonly text: string | Buffer }
  | { readonly kind: 'move'; readonly path: string; readonly to: string };

/** Performs steps in order and throws the disk's error. A simulator supplies a simulated disk. */
export interface ResultDisk {
  /** Performs a step without blocking the thread. */
  perform(step: DiskStep): Promise<void>;
  /** Performs a step and blocks the thread meanwhile. */
  performNow(step: DiskStep): void;
  /** The names in a directory; none if there is no such directory. */
  list(directory: string): Promise<readonly string[]>;
  /** True if there is a file, or a directory, with this path. */
  has(path: string): Promise<boolean>;
}

/** A file with a whole text, and its key as hexadecimal digits if it is encrypted. */
export interface ResultFile {
  readonly path: string;
  readonly fileKey: string | undefined;
}

/** The whole texts in the log of a cluster; see `ResultTexts` of the journal. */
export interface LoggedResults {
  /** False if the log refuses writes now. */
  keep(owner: string, hash: string, text: string): boolean;
  /** The text; undefined if the log does not have it. Throws `StoreCorruptError`. */
  find(owner: string, hash: string): string | undefined;
}

/** The options of a result store. */
export interface ResultStoreSettings {
  /** False if nothing must survive a power loss, as for a store in memory and for durability `'os'`. Default: true. */
  readonly isSynced?: boolean;
  /**
   * The part of a file's name that stands for its session: digits and `-`. No other session ever has the same part.
   * `undefined` if the session does not exist any more.
   */
  readonly ownerOf: (session: string) => string | undefined;
  /** Resolves when everything that the session's log has so far is durable. Rejects if the store refuses a write. */
  readonly durable?: () => Promise<void>;
  /**
   * The data key with which a session's texts are encrypted. `isNew`: the key may be made. Missing: the texts are not
   * encrypted.
   */
  readonly keyOf?: (session: string, isNew: boolean) => DataKey | undefined;
  /**
   * The data key of the session whose `ownerOf` is this name, as long as any session needs the texts of that session.
   */
  readonly keyOfOwner?: (owner: string) => DataKey | undefined;
  readonly disk?: ResultDisk;
  /** Missing: this is no cluster, and the files are enough. */
  readonly logged?: LoggedResults;
}

/**
 * The result store of one thread (see the file header). Several stores may share a directory, because the name of a
 * file has a hash of its content.
 */
export class ResultStore {
  readonly #directory: string;
  readonly #isSynced: boolean;
  readonly #settings: ResultStoreSettings;
  /** The writes of `shorten` and `fileOf` that are in flight. */
  readonly #writing = new Set<Promise<unknown>>();
  readonly #disk: ResultDisk;
  /** True once the directory's own name is durable. */
  #isNamed = false;

  constructor(directory: string, settings: ResultStoreSettings) {
    const { isSynced = true, disk = MACHINE_DISK } = settings;
    this.#directory = directory;
    this.#isSynced = isSynced;
    this.#settings = settings;
    this.#disk = disk;
  }

  /**
   * `text` shortened to its bounds. Returns at once if nothing is cut. Otherwise resolves when the whole text is
   * durable, without blocking this thread. Never throws or rejects: if the disk refuses, the shortened text says that
   * the rest is lost, and the session continues.
   */
  shorten(text: string, options: ResultStoreOptions): string | Promise<string> {
    const cut = this.#cut(text, options);
    return typeof cut === 'string' ? cut : this.#noted(this.#kept(cut));
  }

  /**
   * The file of this directory that a path names. Resolves when it is there, and to undefined if neither this disk
   * nor the log has it. Undefined at once if the path is read as it is. Never rejects.
   */
  fileOf(path: string): Promise<ResultFile | undefined> | undefined {
    const { logged } = this.#settings;
    const name = basename(path);
    const [, owner, hash] = NAMED.exec(name) ?? [];
    if (logged === undefined || owner === undefined || hash === undefined) return undefined;
    return this.#noted(this.#restored(name, () => logged.find(owner, hash)));
  }

  async #restored(name: string, find: () => string | undefined): Promise<ResultFile | undefined> {
    const file = join(this.#directory, name);
    const part = unfinished(file);
    try {
      const isHere = await this.#disk.has(file);
      const fileKey = this.fileKeyOf(file);
      if (isHere) return { path: file, fileKey };
      const text = find();
      if (text === undefined) return undefined;
      const contents = fileKey === undefined ? text : sealedFile(Buffer.from(fileKey, 'hex'), name, text);
      for (const step of this.#steps({ file, part, contents })) await this.#disk.perform(step);
      return { path: file, fileKey };
    } catch {
      // The disk refuses, or the copy of the log is damaged and is built again. The reader finds no file.
      await this.#disk.perform({ kind: 'remove', path: part }).catch(() => undefined);
      return undefined;
    }
  }

  #noted<T>(writing: Promise<T>): Promise<T> {
    this.#writing.add(writing);
    void writing.then(() => this.#writing.delete(writing));
    return writing;
  }

  /** The key of the file with this path, as hexadecimal digits; undefined if it is no encrypted text of this store. */
  fileKeyOf(path: string): string | undefined {
    const { keyOfOwner } = this.#settings;
    if (keyOfOwner === undefined || dirname(path) !== this.#directory) return undefined;
    const name = basename(path);
    const [, owner] = OWNED.exec(name) ?? [];
    return owner === undefined ? undefined : keyOfOwner(owner)?.forFile(name).toString('hex');
  }

  /** Removes all files of removed sessions. `owners`: their names from `ownerOf`. Rejects with the disk's error. */
  async removeOf(owners: ReadonlySet<string>): Promise<void> {
    await Promise.all(this.#writing);
    await this.#removeIf((owner) => owners.has(owner));
  }

  /**
   * Removes all files whose session is gone, by its name from `ownerOf`. In a cluster, the files of a node may be those of
   * sessions that were removed at another node. Rejects with the disk's error.
   */
  async removeGone(isGone: (owner: string) => boolean): Promise<void> {
    if (await this.#disk.has(this.#directory)) await this.#removeIf(isGone);
  }

  async #removeIf(isGone: (owner: string) => boolean): Promise<void> {
    let isChanged = false;
    for (const name of await this.#disk.list(this.#directory)) {
      const [, owner] = OWNED.exec(name) ?? [];
      if (owner === undefined || !isGone(owner)) continue;
      await this.#disk.perform({ kind: 'remove', path: join(this.#directory, name) });
      isChanged = true;
    }
    if (isChanged && this.#isSynced) await this.#disk.perform({ kind: 'syncDirectory', path: this.#directory });
  }

  /** Like `shorten`, for callers inside a transition. Such callers cannot wait, so the thread blocks on the disk. */
  shortenNow(text: string, options: ResultStoreOptions): string {
    const cut = this.#cut(text, options);
    if (typeof cut === 'string') return cut;
    try {
      for (const step of this.#steps(cut)) this.#disk.performNow(step);
      return this.#isLogged(cut) ? cut.short : cut.lost();
    } catch {
      attempt(() => this.#disk.performNow({ kind: 'remove', path: cut.part }));
      return cut.lost();
    }
  }

  async #kept(cut: Cut): Promise<string> {
    try {
      await this.#settings.durable?.();
      for (const step of this.#steps(cut)) await this.#disk.perform(step);
      // If the store refused the write with a new key, the key is forgotten, and no reader could decrypt the file.
      return this.#hasKeyOf(cut) && this.#isLogged(cut) ? cut.short : cut.lost();
    } catch {
      // The tool's effects have happened, so the turn must not fail because the middle of the result was lost.
      await this.#disk.perform({ kind: 'remove', path: cut.part }).catch(() => undefined);
      return cut.lost();
    }
  }

  #hasKeyOf({ session, key }: Cut): boolean {
    return key === undefined || this.#settings.keyOf?.(session, false)?.isSame(key) === true;
  }

  /** Puts the text into the log, without a wait: the caller appends the shortened text in this tick (R6). */
  #isLogged({ session, owner, hash, whole, isUnlogged }: Cut): boolean {
    const { logged, ownerOf } = this.#settings;
    // No record of a session that was removed meanwhile is appended.
    if (logged === undefined || isUnlogged === true || ownerOf(session) !== owner) return true;
    return logged.keep(owner, hash, whole);
  }

  /** The shortened text and the text to keep; a string if nothing is cut. */
  #cut(text: string, options: ResultStoreOptions): string | Cut {
    if (text.length * 3 <= Math.min(options.charactersMax, options.bytesMax)) return text;
    const { session, isUnlogged } = options;
    const owner = this.#settings.ownerOf(session);
    if (owner === undefined) return truncateResult(text, options).text;
    const key = this.#settings.keyOf?.(session, true);
    const hash = resultHash(text, key);
    const name = `tool_result_${owner}_${hash}.txt`;
    const file = join(this.#directory, name);
    const { text: short, whole } = truncateResult(text, { ...options, reference: file });
    if (whole === undefined) return short;
    const part = unfinished(file);
    const contents = key === undefined ? whole : sealedFile(key.forFile(name), name, whole);
    const lost = (): string => truncateResult(text, options).text;
    return { session, owner, key, hash, whole, isUnlogged, file, part, contents, short, lost };
  }

  /** The steps that make a text durable under its name, in this order (R1, R2). */
  *#steps({ file, part, contents }: Pick<Cut, 'file' | 'part' | 'contents'>): Generator<DiskStep> {
    yield { kind: 'makeDirectory', path: this.#directory };
    if (this.#isSynced && !this.#isNamed) yield { kind: 'syncDirectory', path: dirname(this.#directory) };
    this.#isNamed = true;
    yield { kind: 'write', path: part, text: contents };
    if (this.#isSynced) yield { kind: 'syncFile', path: part };
    yield { kind: 'move', path: part, to: file };
    if (this.#isSynced) yield { kind: 'syncDirectory', path: this.#directory };
  }
}

/** The end of a temporary name. */
const UNFINISHED = '.part';

function unfinished(file: string): string {
  return `${file}.${randomUUID()}${UNFINISHED}`;
}

/**
 * Removes the files that a killed process did not finish (R5). Call it before any result store of the directory is at
 * work. Rejects with the disk's error.
 */
export async function removeUnfinished(directory: string): Promise<void> {
  for (const name of await MACHINE_DISK.list(directory)) {
    if (OWNED.test(name) && name.endsWith(UNFINISHED)) await rm(join(directory, name), { force: true });
  }
}

/** The session's name in the name of a file, finished or not. */
const OWNED = /^tool_result_([\d-]+)_/;
/** The session's name and the hash in the name of a finished file. */
const NAMED = /^tool_result_([\d-]+)_([0-9a-f]{32})\.txt$/;

interface Cut extends Pick<ResultStoreOptions, 'session'> {
  readonly owner: string;
  readonly hash: string;
  readonly whole: string;
  readonly isUnlogged: boolean | undefined;
  /** Undefined if the text is not encrypted. */
  readonly key: DataKey | undefined;
  readonly file: string;
  /** The temporary name under which the text is first written. */
  readonly part: string;
  /** The whole text, or its encrypted bytes. */
  readonly contents: string | Buffer;
  readonly short: string;
  /** The shortened text to use if the whole text could not be kept. */
  readonly lost: () => string;
}

const DIRECTORY = { recursive: true, mode: PRIVATE_DIRECTORY_MODE } as const;
const NEW_FILE = { flag: 'wx', mode: PRIVATE_FILE_MODE } as const;

const MACHINE_DISK: ResultDisk = {
  async list(directory) {
    try {
      return await readdir(directory);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
      throw error;
    }
  },
  async has(path) {
    return access(path).then(
      () => true,
      () => false,
    );
  },
  async perform(step) {
    switch (step.kind) {
      case 'makeDirectory':
        await mkdir(step.path, DIRECTORY);
        return;
      case 'write':
        return writeFile(step.path, step.text, NEW_FILE);
      case 'move':
        return rename(step.path, step.to);
      case 'remove':
        return rm(step.path, { force: true });
      default: {
        if (isNamesOfWindows(step)) return;
        const file = await open(step.path, step.kind === 'syncFile' ? 'r+' : 'r');
        try {
          await file.sync();
        } finally {
          await file.close();
        }
      }
    }
  },
  performNow(step) {
    switch (step.kind) {
      case 'makeDirectory':
        mkdirSync(step.path, DIRECTORY);
        return;
      case 'write':
        writeFileSync(step.path, step.text, NEW_FILE);
        return;
      case 'move':
        renameSync(step.path, step.to);
        return;
      case 'remove':
        rmSync(step.path, { force: true });
        return;
      default: {
        if (isNamesOfWindows(step)) return;
        const file = openSync(step.path, step.kind === 'syncFile' ? 'r+' : 'r');
        try {
          fsyncSync(file);
        } finally {
          closeSync(file);
        }
      }
    }
  },
};

/** True for a sync of a directory on Windows. Windows cannot sync a directory, and does not need to. */
function isNamesOfWindows(step: DiskStep): boolean {
  return step.kind === 'syncDirectory' && process.platform === 'win32';
}

/** Ignores a failed removal: a leftover part costs only disk space. */
function attempt(remove: () => void): void {
  try {
    remove();
  } catch {
    // The disk has already refused, and that first refusal is the one to report.
  }
}
