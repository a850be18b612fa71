/**
 * Files of JSON lines that outlive a kill. Each line is one append. A kill may cut a line off between two pages of the
 * file; such a line does not count, because its writer died before the reported action began.
 */
import { appendFileSync, closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { LIFE_VARIABLE, SIDE_VARIABLE } from './protocol.ts';

/** The number of this process's life, from its environment. */
export function currentLife(): number {
  return Number(process.env[LIFE_VARIABLE] ?? 0);
}

/** The path of a side file. */
export function sidePath(file: string): string {
  return join(process.env[SIDE_VARIABLE] ?? '.', file);
}

/** Appends one line; the kernel has it when this returns. It begins a new line, whatever was cut off before. */
export function appendLine(path: string, line: unknown): void {
  appendFileSync(path, `\n${JSON.stringify(line)}\n`);
}

/** Reads a growing file of lines; each call of `next` returns the lines since the last call. */
export class LineReader<T> {
  readonly #path: string;
  #offset = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Whole lines not read yet; empty while there is no file. */
  next(): readonly T[] {
    const text = this.#readRest();
    const end = text.lastIndexOf('\n');
    if (end === -1) return [];
    this.#offset += Buffer.byteLength(text.slice(0, end + 1));
    return text
      .slice(0, end)
      .split('\n')
      .flatMap((line) => parsed<T>(line));
  }

  #readRest(): string {
    let file: number;
    try {
      file = openSync(this.#path, 'r');
    } catch {
      return '';
    }
    try {
      const buffer = Buffer.alloc(Math.max(0, fstatSync(file).size - this.#offset));
      return buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, this.#offset));
    } finally {
      closeSync(file);
    }
  }
}

/** The value of a line; none if the line is empty or was cut off. */
function parsed<T>(line: string): readonly T[] {
  if (!line.startsWith('{') || !line.endsWith('}')) return [];
  return [JSON.parse(line) as T];
}
