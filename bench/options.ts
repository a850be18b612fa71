/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util';
import { CATALOG } from './catalog.ts';
import { type Scale, SYSTEMS, type SystemName, type WorkloadName } from './names.ts';

/** The options of a run. */
export interface BenchOptions {
  readonly workloads: readonly WorkloadName[];
  readonly systems: readonly SystemName[];
  /** If missing, the number in the catalog. */
  readonly rounds: number | undefined;
  readonly scale: Scale;
  readonly seed: number;
  readonly isJson: boolean;
  readonly writes: boolean;
  /** The words of the command line. */
  readonly words: readonly string[];
}

const WORKLOADS = Object.keys(CATALOG) as readonly WorkloadName[];

/** The text for an invalid command line. */
export const USAGE: string = [
  'usage: npm run bench -- [--quick] [--scale] [--rounds n] [--seed n] [--only names] [--systems names] [--json] [--write]',
  `  workloads: ${WORKLOADS.join(', ')}`,
  `  systems: ${SYSTEMS.join(', ')}`,
].join('\n');

/** Parses a command line; `undefined` if it is invalid. */
export function readOptions(words: readonly string[]): BenchOptions | undefined {
  let parsed: ReturnType<typeof parseWords>;
  try {
    parsed = parseWords(words);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
  const { values } = parsed;
  const usual = WORKLOADS.filter((name) => isUsual(name, values));
  const workloads = values.only === undefined ? usual : choose(values.only, WORKLOADS);
  const systems = choose(values.systems, SYSTEMS).filter((name) => !(values.quick && name === 'memory'));
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  if (rounds !== undefined && (!Number.isInteger(rounds) || rounds < 1)) return undefined;
  const seed = Number(values.seed);
  if (!Number.isInteger(seed) || seed < 0) return undefined;
  if (workloads.length === 0 || systems.length === 0) return undefined;
  return {
    workloads,
    systems,
    rounds,
    scale: values.quick ? 'quick' : 'full',
    seed,
    isJson: values.json,
    writes: values.write,
    words,
  };
}

/** True if the workload runs when none is named. */
function isUsual(name: WorkloadName, { quick, scale }: { readonly quick: boolean; readonly scale: boolean }): boolean {
  const { when } = CATALOG[name];
  if (when === 'scale') return scale;
  return when === 'always' || (when === 'full' && !quick);
}

function parseWords(words: readonly string[]) {
  return parseArgs({
    args: [...words],
    options: {
      quick: { type: 'boolean', default: false },
      scale: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      systems: { type: 'string' },
      json: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
  });
}

function choose<T extends string>(given: string | undefined, all: readonly T[]): readonly T[] {
  if (given === undefined) return all;
  const names = given.split(',');
  return names.every((name) => all.some((each) => each === name)) ? all.filter((name) => names.includes(name)) : [];
}
