/**
 * Where the whole text of a shortened result is kept, so that the model can read on with `read_file`: one file per text,
 * named by its content, beside the store (or in the system's temporary directory for a store in memory).
 */
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TruncationOptions, truncateResult } from '../src/tools/truncation.ts';

/** How to shorten; the reference is the shelf's own. */
export type ShelfOptions = Omit<TruncationOptions, 'reference'>;

/** What the shard needs of a shelf. */
export type Shelf = Pick<ResultShelf, 'shorten'>;

/** Writes a text under a path, whole or not at all. Throws the disk's error. */
export type WriteText = (file: string, text: string) => void;

/** See the head of the file. Belongs to one thread; several may share a directory, since names are content addresses. */
export class ResultShelf {
  readonly #directory: string;
  readonly #write: WriteText;

  /** `write`: the disk; a simulator gives one of its own. */
  constructor(directory: string, write: WriteText = writeWhole) {
    this.#directory = directory;
    this.#write = write;
  }

  /**
   * `text` within its bounds. A longer one is written whole before the short form is returned, since the short form names
   * the file. Never throws: when the disk refuses, the short form says that the rest is lost, and the session goes on.
   */
  shorten(text: string, options: ShelfOptions): string {
    if (text.length * 3 <= Math.min(options.charactersMax, options.bytesMax)) return text;
    const address = createHash('sha256').update(text).digest('hex').slice(0, 32);
    const file = join(this.#directory, `tool_result_${address}.txt`);
    const { text: short, whole } = truncateResult(text, { ...options, reference: file });
    if (whole === undefined) return short;
    try {
      this.#write(file, whole);
      return short;
    } catch {
      // What the tool did is done: a turn must not fail for the middle of its result.
      return truncateResult(text, options).text;
    }
  }
}

/** A reader never sees half a file: written beside, then renamed. */
function writeWhole(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const part = `${file}.${process.pid}.part`;
  try {
    writeFileSync(part, text);
    renameSync(part, file);
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
}
