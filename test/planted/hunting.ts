/** Hunts in child processes. A bug is planted while a process loads its code, so each hunt has a separate process. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { PlantedBug } from './planted-bug.ts';

/** The result from one starting point. */
export interface Hunt {
  readonly start: number;
  /** The seed of the first violation; null if no seed had one. */
  readonly seed: number | null;
  readonly kind: string | null;
  readonly what: string | null;
}

/** The report of a hunting process when it ends. */
export interface HuntReport {
  /** The bug that the process's code really had; null if it had none. */
  readonly planted: string | null;
  readonly hunts: readonly Hunt[];
}

/** The bug to hunt for, and the seeds to try. */
export interface HuntPlan {
  /** If missing, the unchanged code runs. */
  readonly bug?: string;
  readonly starts: readonly number[];
  /** Seeds from each start, at most. */
  readonly seeds: number;
  /** The bug says which. */
  readonly simulation?: PlantedBug['simulation'] | undefined;
}

/** If a hunt takes longer, the bug makes the simulator itself run for ever. */
const HUNT_MS = 20 * 60_000;

/** Runs one process. Rejects when it does not finish, or when its code has a different bug. */
export async function huntOnce({ bug, starts, seeds, simulation }: HuntPlan): Promise<readonly Hunt[]> {
  const { TROUPE_PLANTED: _outer, ...environment } = process.env;
  const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(
    process.execPath,
    [
      ...['--import', path('./register.mjs'), path('./hunt.ts')],
      ...['--starts', starts.join(','), '--seeds', String(seeds)],
      ...(simulation === undefined ? [] : ['--simulation', simulation]),
    ],
    {
      env: bug === undefined ? environment : { ...environment, TROUPE_PLANTED: bug },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: HUNT_MS,
    },
  );
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (code !== 0) throw new Error(`the hunt for ${bug ?? 'nothing'} ended with ${String(code)}: ${errors}`);
  const report = JSON.parse(output) as HuntReport;
  if (report.planted !== (bug ?? null))
    throw new Error(`the hunt for ${bug ?? 'nothing'} had ${report.planted} planted`);
  return report.hunts;
}
