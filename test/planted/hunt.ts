/**
 * Runs simulation seeds until the first violation, from several starting points, with the bug that `register.mjs`
 * planted. A separate program, because a bug is planted while a process loads. Arguments: `--starts <a,b,c>`,
 * `--seeds <n>` from each of them at most, and `--simulation cluster`. Prints one `HuntReport` as JSON.
 */
import { parseArgs } from 'node:util';
import type { Violation } from '../../src/testing/simulation/ledger.ts';
import { simulate } from '../../src/testing/simulation/simulate.ts';
import type { Hunt, HuntReport } from './hunting.ts';
import { PLANTED_MARK } from './planted-bug.ts';

type Simulation = (options: { readonly seed: number }) => Promise<{ readonly violations: readonly Violation[] }>;

/** The simulation of a cluster is loaded only for its own bugs. */
async function simulationOf(name: string | undefined): Promise<Simulation> {
  if (name === undefined) return simulate;
  return (await import('../cluster/simulation/cluster-simulation.ts')).simulateCluster;
}

async function hunt(simulation: Simulation, start: number, seeds: number): Promise<Hunt> {
  for (let seed = start; seed < start + seeds; seed += 1) {
    const { violations } = await simulation({ seed });
    const [first] = violations;
    if (first !== undefined) return { start, seed, kind: first.kind, what: first.what };
  }
  return { start, seed: null, kind: null, what: null };
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    starts: { type: 'string', default: '1' },
    simulation: { type: 'string' },
  },
});
const hunts: Hunt[] = [];
const simulation = await simulationOf(values.simulation);
for (const start of values.starts.split(',').map(Number)) {
  hunts.push(await hunt(simulation, start, Number(values.seeds)));
}
const mark: unknown = Reflect.get(globalThis, Symbol.for(PLANTED_MARK));
const report: HuntReport = { planted: typeof mark === 'string' ? mark : null, hunts };
// Handles that a planted bug left open must not keep the process alive.
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
