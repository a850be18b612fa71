/** Output of a child process of the tests. */
import { writeSync } from 'node:fs';

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Prints a line. The line is written before this function returns, however slowly the parent reads. A stream would hold
 * lines back while the pipe is full, and a kill would lose them. With a full pipe `writeSync` alone throws EAGAIN: Node
 * makes a pipe of its standard output non-blocking as soon as anything touches `process.stdout`.
 */
export function printLine(line: string): void {
  printText(`${line}\n`);
}

/** Prints a text in the same way, without a line end. */
export function printText(text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
      Atomics.wait(pause, 0, 0, 1);
    }
  }
}
