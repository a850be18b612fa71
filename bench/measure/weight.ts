/**
 * W13: the weight of the built package. Each time is taken in a new process (`stages/weigh`): the import of zod and lmdb
 * alone, the import of the package, and `open(':memory:')` after the import. The size is that of the tarball as npm lists
 * it.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { LIBRARIES, type RunContext } from '../names.ts';
import { type Figures, numbers, type Row } from '../report/figures.ts';
import { runStage } from '../stage.ts';
import { isolationOf } from '../systems/open-system.ts';

const REPETITIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 3, full: 11, long: 11 };
const BYTES_A_MB = 1_000_000;

const packed = z.object({ size: z.number(), unpackedSize: z.number(), entryCount: z.number() });

/** Rows `zod and lmdb`, `import`, `open`, `package`; isolated: `open` alone. */
export async function measureWeight(context: RunContext): Promise<readonly Row[]> {
  const isolation = isolationOf(context);
  const variants = isolation === 'inline' ? [LIBRARIES, 'import', 'open'] : ['open'];
  const taken = new Map(variants.map((variant) => [variant, [] as Figures[]]));
  // The variants take turns, so that other work on the machine affects all of them.
  for (const _ of numbers(REPETITIONS[context.scale])) {
    for (const [variant, figures] of taken) figures.push(await runStage('./stages/weigh', [variant, isolation]));
  }
  const rows = [...taken].map(([variant, repetitions]): Row => ({ variant, repetitions }));
  return isolation === 'inline' ? [...rows, { variant: 'package', repetitions: [await packageSize()] }] : rows;
}

async function packageSize(): Promise<Figures> {
  // From `bench/dist/bench/measure`.
  const project = join(fileURLToPath(new URL('.', import.meta.url)), '../../../..');
  const words = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = await promisify(execFile)('npm', words, { cwd: project });
  // npm 11 and later print an object by the names of the packages.
  const [first] = Object.values(JSON.parse(stdout) as object);
  const { size, unpackedSize, entryCount } = packed.parse(first);
  return { tarballMb: size / BYTES_A_MB, unpackedMb: unpackedSize / BYTES_A_MB, files: entryCount };
}
