/**
 * Where the whole text of a shortened result is kept, so that the model can read on with `read_file`: one file per text,
 * named by its content, beside the store (or in the system's temporary directory for a store in memory).
 */
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TruncationOptions, truncateResult } from '../src/tools/truncation.ts';

/** How to shorten; the reference is the shelf's own. */
export type ShelfOptions = Omit<TruncationOptions, 'reference'>;

/** See the head of the file. Belongs to one thread; several may share a directory, since names are content addresses. */
export class ResultShelf {
  readonly #directory: string;
  #isMade = false;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * `text` within its bounds. A longer one is written whole before the short form is returned, since the short form names
   * the file. Throws the disk's error.
   */
  shorten(text: string, options: ShelfOptions): string {
    const reference = (): string => {
      const address = createHash('sha256').update(text).digest('hex').slice(0, 32);
      return join(this.#directory, `tool_result_${address}.txt`);
    };
    if (text.length * 3 <= Math.min(options.charactersMax, options.bytesMax)) return text;
    const file = reference();
    const { text: short, whole } = truncateResult(text, { ...options, reference: file });
    if (whole !== undefined) this.#write(file, whole);
    return short;
  }

  #write(file: string, text: string): void {
    if (!this.#isMade) mkdirSync(this.#directory, { recursive: true });
    this.#isMade = true;
    // A reader never sees half a file: written beside, then renamed.
    const part = `${file}.${process.pid}.part`;
    writeFileSync(part, text);
    renameSync(part, file);
  }
}
