/**
 * P10: that nothing large is hidden in what it costs to be watched, and to be watchable. The same work with and without a reader on one
 * runtime, twice each in the order 1 2 2 1: what grows meanwhile, a store or a load beside the measurement, is the same in both sums.
 * Processor time is that of this process. What a hundredth is, these sums cannot tell: that is `watched.ts`.
 */
import { anthropic } from '../../src/index.ts';
import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { numbers } from '../report/figures.ts';
import { startStage } from '../stage.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import type { TroupeOptions, TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { FULL_SIZE, manySessions } from '../workloads.ts';
import { measureOnce } from './repeat.ts';
import { withUntold } from './untold.ts';
import { OF_ALL, OF_ONE, turnsOf, type Watch, type Watched } from './watchers.ts';

type Size = Watched['size'];

/** W5 in small: four of them are over before the machine is another one. */
const HTTP_SIZE: Size = { sessions: 100, turnsEach: 3 };
/** Targets of one in a hundred take more repetitions than those of one in ten. */
const FINE: Repetitions = { quick: 2, full: 7, long: 7 };
const COARSE: Repetitions = { quick: 1, full: 3, long: 3 };
const HTTP: Repetitions = { quick: 2, full: 9, long: 9 };

type Repetitions = Readonly<Record<RunContext['scale'], number>>;
type Half = (label: string) => Promise<Figures>;

/** W2: nobody reads, against the same without what it tells; then one session of 1,000, and all of them. */
export async function measureOverhead(context: RunContext): Promise<readonly Row[]> {
  const options: TroupeOptions = { isolation: isolationOf(context) };
  return withTroupe(options, async (system) => {
    const unread = await withUntold(({ withTroupe: withCopy }) =>
      withCopy(options, async (copy) => {
        await warmBoth(context, system, copy);
        const [whole, without] = [drain(system, FULL_SIZE), drain(copy, FULL_SIZE)];
        return { variant: 'no reader', repetitions: await compared('unread', FINE[context.scale], whole, without) };
      }),
    );
    await warmWatched(context, system, FULL_SIZE);
    return [
      unread,
      ...(await rowsOf(system, FULL_SIZE, OF_ONE, FINE[context.scale])),
      ...(await rowsOf(system, FULL_SIZE, OF_ALL, COARSE[context.scale])),
    ];
  });
}

/** W5: the half-step that a service has, through the official SDK over loopback HTTP. troupe always asks for a stream. */
export async function measureHttpOverhead(context: RunContext): Promise<readonly Row[]> {
  const server = startStage('./systems/fake-server', []);
  try {
    const provider = anthropic({ apiKey: 'bench', baseURL: `http://127.0.0.1:${Number(await server.line())}` });
    return await withTroupe({ isolation: isolationOf(context), provider }, async (system) => {
      await warmWatched(context, system, HTTP_SIZE);
      return rowsOf(system, HTTP_SIZE, OF_ALL, HTTP[context.scale]);
    });
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

async function warmBoth(context: RunContext, system: TroupeSystem, copy: TroupeSystem): Promise<void> {
  await warmUp(context, system);
  await warmUp(context, copy);
}

async function warmWatched(context: RunContext, system: TroupeSystem, size: Size): Promise<void> {
  await warmUp(context, system, {
    pass: size,
    label: 'watched',
    also: async ({ label }) => {
      const watches = Object.values({ ...OF_ONE, ...OF_ALL });
      for (const [kind, watch] of watches.entries()) await watched(system, size, watch)(`${label}${kind}-`);
      return watches.length * turnsOf(size);
    },
  });
}

async function rowsOf(
  system: TroupeSystem,
  size: Size,
  watches: Readonly<Record<string, Watch>>,
  count: number,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [variant, watch] of Object.entries(watches)) {
    const label = variant.replaceAll(' ', '-');
    rows.push({
      variant,
      repetitions: await compared(label, count, watched(system, size, watch), drain(system, size)),
    });
  }
  return rows;
}

/**
 * What `measured` costs, and what that is of what `beside` does: processor time a half-step, and rate. Each repetition has both twice, in
 * turn first, last, and in the middle.
 */
async function compared(name: string, count: number, measured: Half, beside: Half): Promise<readonly Figures[]> {
  const repetitions: Figures[] = [];
  for (const index of numbers(count)) {
    const [outer, inner] = index % 2 === 0 ? [measured, beside] : [beside, measured];
    const label = `${name}-${index}`;
    const first = await outer(`${label}a-`);
    const within = meanOf(await inner(`${label}b-`), await inner(`${label}c-`));
    const around = meanOf(first, await outer(`${label}d-`));
    repetitions.push(outer === measured ? against(around, within) : against(within, around));
  }
  return repetitions;
}

function against(figures: Figures, beside: Figures): Figures {
  const value = (of: Figures, name: string): number => of[name] ?? Number.NaN;
  const ratio = (name: string): number => value(figures, name) / value(beside, name);
  const besideUs = value(beside, 'cpuUs');
  const addedUs = value(figures, 'cpuUs') - besideUs;
  return { ...figures, besideUs, addedUs, cpuRatio: ratio('cpuUs'), rateRatio: ratio('rate') };
}

function meanOf(one: Figures, other: Figures): Figures {
  return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, (value + (other[name] ?? value)) / 2]));
}

function drain(system: TroupeSystem, size: Size): Half {
  return (label) => measureOnce(label, (repetition) => manySessions(system, size, repetition));
}

function watched(system: TroupeSystem, size: Size, watch: Watch): Half {
  return async (label) => {
    const watcher = watch(system);
    const { caughtUp } = await watcher.expect({ label, size });
    const figures = await measureOnce(label, ({ timed }) =>
      manySessions(system, size, {
        label,
        timed: (work) =>
          timed(async () => {
            const value = await work();
            await caughtUp;
            return value;
          }),
      }),
    );
    return { ...figures, ...(await watcher.end()) };
  };
}
