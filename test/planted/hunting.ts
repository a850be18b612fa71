/** Hunts in child processes: a bug is planted while a process loads its code, so each hunt has one of its own. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** What one starting point led to. */
export interface Hunt {
  readonly start: number;
  /** The seed of the first violation; null: none of the seeds had one. */
  readonly seed: number | null;
  readonly kind: string | null;
  readonly what: string | null;
}

/** What a hunting process says at its end. */
export interface HuntReport {
  /** The bug that its code really had; null: none. */
  readonly planted: string | null;
  readonly hunts: readonly Hunt[];
}

/** What to hunt for, and where. */
export interface HuntPlan {
  /** Missing: the code as it is. */
  readonly bug?: string;
  readonly starts: readonly number[];
  /** Seeds from each start, at most. */
  readonly seeds: number;
}

/** A hunt that takes longer has met a bug that makes the simulator itself go on for ever. */
const HUNT_MS = 20 * 60_000;

/** Runs one process. Rejects when it does not come to its end, or its code has another bug than the one asked for. */
export async function huntOnce({ bug, starts, seeds }: HuntPlan): Promise<readonly Hunt[]> {
  const { TROUPE_PLANTED: _outer, ...environment } = process.env;
  const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(
    process.execPath,
    ['--import', path('./register.mjs'), path('./hunt.ts'), '--starts', starts.join(','), '--seeds', String(seeds)],
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
