/** Where and when: what stands beside every figure. */
import { spawnSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { HeadResult } from './report/results-file.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const GIB = 1_024 ** 3;

/**
 * Flags of every measured process, whoever is measured. Node's young heap of 16 MB is full of what a thousand turns have in flight, and
 * collecting it is then a quarter of the time; a service that drains gives more.
 */
export const NODE_FLAGS: readonly string[] = ['--expose-gc', '--max-semi-space-size=64'];

/** The head of a report. */
export function describeRun(run: Pick<HeadResult, 'seed' | 'command' | 'notes'>): HeadResult {
  const processors = cpus();
  return {
    date: new Date().toISOString(),
    commit: commit(),
    node: process.version,
    machine: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryGib: Math.round(totalmem() / GIB),
    load: load(),
    durability: "'flush': acknowledged after fdatasync; validation, supervision and events as they are by default",
    transport:
      'model in the process, no latency, no HTTP; W5, W5s: Messages API over loopback HTTP, server in another process',
    ...run,
  };
}

/** The head as lines. */
export function headLines(head: HeadResult): readonly string[] {
  return [
    `date: ${head.date.slice(0, 16).replace('T', ' ')} UTC; commit: ${head.commit}; Node ${head.node} ${NODE_FLAGS.join(' ')}`,
    `machine: ${head.machine}, ${head.cores} cores, ${head.memoryGib} GiB; load ${head.load.toFixed(1)} at the start`,
    `durability: ${head.durability}`,
    `transport: ${head.transport}`,
    `seed: ${head.seed}; command: ${head.command}`,
    ...head.notes,
  ];
}

/** Runnable tasks of the last minute: beside each figure, since a busy machine gives a low one. */
export function load(): number {
  return loadavg()[0] ?? 0;
}

function commit(): string {
  const git = (...words: readonly string[]): string =>
    spawnSync('git', [...words], { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const hash = git('rev-parse', '--short', 'HEAD');
  if (hash === '') return 'unknown';
  return git('status', '--porcelain', '--', 'src', 'actors') === '' ? hash : `${hash} and changes`;
}
