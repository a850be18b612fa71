/** Interleaves the rounds of all systems, so that other work on the machine affects all of them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { CATALOG } from './catalog.ts';
import { load, NODE_FLAGS } from './machine.ts';
import type { Scale, SystemName, WorkloadName } from './names.ts';
import { parseRows, type RoundResult, type RowResult, type WorkloadResult } from './report/results-file.ts';

/** The workload to measure, and the paths of its program and of the loop's driver. */
export interface RoundsPlan {
  readonly workload: WorkloadName;
  readonly systems: readonly SystemName[];
  readonly rounds: number;
  readonly scale: Scale;
  /** The compiled `run.js`. */
  readonly built: string;
  readonly loopFolder: string;
  readonly seed: number;
}

/** Measures one workload. Rejects if a process fails, since a run with a wrong answer has no figures. */
export async function measureWorkload(plan: RoundsPlan): Promise<WorkloadResult> {
  const { title, unit } = CATALOG[plan.workload];
  const rounds: RoundResult[] = [];
  for (let round = 0; round < plan.rounds; round += 1) {
    for (const system of plan.systems) {
      const before = load();
      rounds.push({ system, round, load: before, rows: await runApart(plan, system) });
    }
  }
  return { workload: plan.workload, title, unit, rounds };
}

/** Runs one measurement in a separate process. */
async function runApart(plan: RoundsPlan, system: SystemName): Promise<readonly RowResult[]> {
  const words = [...NODE_FLAGS, plan.built, system, plan.workload, plan.scale, plan.loopFolder, String(plan.seed)];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  await once(child, 'close');
  if (child.exitCode === 0) return parseRows(text);
  throw new Error(`${system} could not run ${plan.workload} (${child.exitCode ?? child.signalCode})`);
}
