/** A part of a measurement that needs a separate process: to be killed, or to be new. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { workerUrl } from '../src/threads/worker-url.ts';

/** A running stage. */
export interface Stage {
  readonly process: ChildProcess;
  /** The next line that the stage prints. Rejects if the stage ends first. */
  line(): Promise<string>;
  /** Resolves when the stage has ended, also after a failure. */
  ended(): Promise<void>;
}

/**
 * Starts a module by its path from here (`./stages/reopen`, without extension) with these arguments. Its errors are
 * printed. Node has its default flags: with others, it does not use its own compiled code, and starts slower.
 */
export function startStage(stem: string, words: readonly string[]): Stage {
  const path = fileURLToPath(workerUrl(stem, import.meta.url));
  const child = spawn(process.execPath, [path, ...words], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  const lines: string[] = [];
  let rest = '';
  let wake = (): void => undefined;
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = `${rest}${chunk}`.split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
    wake();
  });
  return {
    process: child,
    async line() {
      while (lines.length === 0 && child.exitCode === null && child.signalCode === null) {
        const printed = new Promise<void>((resolve) => {
          wake = resolve;
        });
        await Promise.race([printed, closed]);
      }
      const line = lines.shift();
      if (line !== undefined) return line;
      throw new Error(`${stem} ended without a word (${child.exitCode ?? child.signalCode})`);
    },
    async ended() {
      await closed;
    },
  };
}

/** Runs a stage to its end and reads the one line it prints as JSON. Rejects when it fails. */
export async function runStage(stem: string, words: readonly string[]): Promise<Readonly<Record<string, number>>> {
  const stage = startStage(stem, words);
  stage.process.stdin?.end();
  const line = await stage.line();
  await stage.ended();
  if (stage.process.exitCode !== 0) throw new Error(`${stem} failed (${stage.process.exitCode})`);
  return JSON.parse(line) as Readonly<Record<string, number>>;
}
