/** The circumstances of a run, which are printed beside its figures. */
import { spawnSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { measureDisk } from '../src/cli/bench/disk.ts';
import type { HeadResult } from './report/results-file.ts';
import { withDirectory } from './systems/open-system.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const GIB = 1_024 ** 3;
/** Longest measurement of the device; 200 syncs end it earlier. */
const DEVICE_SECONDS = 1;

/**
 * Flags of every measured process, of every system. None of them changes how Node runs: `--expose-gc` lets a
 * measurement collect garbage before it reads memory. A larger young heap would help `inline` alone (NOTES.md, "Cold,
 * second, warm").
 */
export const NODE_FLAGS: readonly string[] = ['--expose-gc'];

/** The head of a report. Measures the device for at most a second, in a directory like those of the stores. */
export async function describeRun(run: Pick<HeadResult, 'seed' | 'command' | 'notes'>): Promise<HeadResult> {
  const processors = cpus();
  const device = await withDirectory((directory) => measureDisk(directory, DEVICE_SECONDS));
  return {
    date: new Date().toISOString(),
    commit: commit(),
    node: process.version,
    flags: NODE_FLAGS,
    machine: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryGib: Math.round(totalmem() / GIB),
    load: load(),
    syncMs: device.flushMs,
    durability:
      "'flush': a message is acknowledged after fdatasync; validation, supervision and events have their defaults",
    transport:
      'the model is in the process, without latency or HTTP; W5, W5s, W12: Messages API over loopback HTTP, server in another process',
    ...run,
    notes: [
      ...run.notes,
      ...(device.isMemory
        ? ['the stores are in memory and nothing was synced to a device; set TMPDIR to a directory on a device']
        : []),
    ],
  };
}

/** Runnable tasks of the last minute. They are printed beside each figure, since a busy machine gives low rates. */
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
