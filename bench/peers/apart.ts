/**
 * Runs `measure.ts` in a separate process and process group, since a peer may start a server, which must not outlive
 * it. This file owns that group. It kills the group when the process ends or takes too long, or when this program is
 * interrupted.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NODE_FLAGS } from '../machine.ts';
import type { Entry } from './catalogue.ts';
import { tidy } from './install.ts';

/** The paths and programs of a measurement. */
export interface Bench {
  readonly node: string;
  /** `measure.js` as built. */
  readonly measure: string;
  /** The folder of the peers. */
  readonly folder: string;
  readonly scale: 'full' | 'quick';
}

/** The output of a process, or the reason why it failed. */
export type Outcome = { readonly text: string } | { readonly failure: string };

const LONGEST_MS = 900_000;
/** Turns of the two runs whose difference counts syncs. The difference leaves out the syncs of opening and closing. */
const SYNC_TURNS = [10, 60] as const;

/** One run of `measure.ts`: its output, or the first line of its error. */
export async function runApart(
  bench: Bench,
  { system, variant }: Entry,
  work: string,
  before: readonly string[] = [],
): Promise<Outcome> {
  const words = [...before, bench.node, ...NODE_FLAGS, bench.measure, system, variant, work, bench.scale, bench.folder];
  const child = spawn(words[0] ?? bench.node, words.slice(1), {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, MASTRA_TELEMETRY_DISABLED: '1' },
  });
  const killGroup = (): void => kill(child.pid);
  const timer = setTimeout(killGroup, LONGEST_MS);
  const interrupted = (): void => {
    killGroup();
    process.exit(130);
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  let text = '';
  let complaints = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    complaints += chunk;
  });
  // Waits for the process alone, since a server that it started may hold its pipes open.
  await once(child, 'exit');
  killGroup();
  await Promise.all([child.stdout, child.stderr].map((stream) => (stream.closed ? undefined : once(stream, 'close'))));
  clearTimeout(timer);
  process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
  if (child.exitCode === 0) return { text };
  return { failure: tidy(reasonIn(complaints) ?? `ended with ${child.exitCode ?? child.signalCode}`) };
}

/**
 * Syncs for each turn, over turns of new sessions one after another; `undefined` if `strace` is missing or the system
 * fails.
 */
export async function countSyncs(bench: Bench, entry: Entry): Promise<number | undefined> {
  if (spawnSync('strace', ['-V']).status !== 0) return undefined;
  const directory = mkdtempSync(join(tmpdir(), 'troupe-syncs-'));
  try {
    const counts: number[] = [];
    for (const turns of SYNC_TURNS) {
      const path = join(directory, String(turns));
      const strace = ['strace', '-f', '--seccomp-bpf', '-qq', '-o', path, '-e', 'trace=fsync,fdatasync'];
      const outcome = await runApart(bench, entry, `turns:${turns}`, strace);
      if ('failure' in outcome) return undefined;
      counts.push(readFileSync(path, 'utf8').match(/\bf(data)?sync\(/g)?.length ?? 0);
    }
    const [few = 0, many = 0] = counts;
    return (many - few) / (SYNC_TURNS[1] - SYNC_TURNS[0]);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Kills a group, unless it has already ended. */
function kill(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** The line that names the error, among the lines of its stack. */
function reasonIn(complaints: string): string | undefined {
  const lines = complaints.split('\n').map((line) => line.trim());
  return lines.find((line) => /^(\w*Error|Assertion|#\s+Assertion)\b/.test(line)) ?? lines.find((line) => line !== '');
}
