/** The program in a separate process, as built, which is what a user runs; and directories for it to work on. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const MAIN = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url));

/** The end of a process. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running program. */
export interface Program {
  readonly process: ChildProcess;
  /** Its output on stdout so far. */
  readonly stdout: () => string;
  /** Resolves once stdout holds a text, or the process ended. */
  readonly wrote: (text: string) => Promise<void>;
  readonly ended: Promise<Ended>;
}

/**
 * Starts the program without a key, unless `environment` has one. It is killed with the test. `main`: default, the
 * program built here.
 */
export function startProgram(
  line: readonly string[],
  directory: string,
  environment: Readonly<Record<string, string>> = {},
  main: string = MAIN,
): Program {
  const { ANTHROPIC_API_KEY: _key, ANTHROPIC_AUTH_TOKEN: _token, ...inherited } = process.env;
  const child = spawn(process.execPath, [main, ...line], {
    cwd: directory,
    env: { ...inherited, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  const looks = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    stdout += piece;
    for (const look of looks) look();
  });
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    stderr += piece;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return {
    process: child,
    stdout: () => stdout,
    wrote: (text) => {
      const found = new Promise<void>((resolve) => {
        const look = (): void => {
          if (!stdout.includes(text)) return;
          looks.delete(look);
          resolve();
        };
        looks.add(look);
        look();
      });
      return Promise.race([found, ended.then(() => undefined)]);
    },
    ended,
  };
}

/** Runs the program to its end. */
export function runProgram(...parameters: Parameters<typeof startProgram>): Promise<Ended> {
  return startProgram(...parameters).ended;
}

/** An empty directory, removed after the test. */
export async function emptyDirectory(): Promise<string> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'troupe-cli-')));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** A directory with files of these texts. */
export async function directoryWith(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const directory = await emptyDirectory();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  return directory;
}

/** Texts of `count` small modules in three folders, no two alike. */
export function modules(count: number): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  for (let index = 0; index < count; index += 1) {
    const body = Array.from({ length: 5 + (index % 40) }, (_, line) => `  total += ${line};`).join('\n');
    files[`part-${index % 3}/module-${index}.ts`] =
      `/** Module number ${index}. It adds. */\nimport { helper } from './module-${index % 3}.ts';\n\nexport function sum${index}(): number {\n  let total = helper;\n${body}\n  return total;\n}\n`;
  }
  return files;
}
