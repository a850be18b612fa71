/**
 * P10: what it costs to be watched, and to be watchable. The same work with and without a reader, in turn on one runtime, as pairs: what
 * a machine does beside the measurement lasts longer than a pair, and is in both of its halves. Processor time is that of this process.
 */
import { anthropic } from '../../src/index.ts';
import type { Figures, Row } from '../figures.ts';
import { numbers } from '../figures.ts';
import type { RunContext } from '../names.ts';
import { isolationOf, withTroupe } from '../open-system.ts';
import { startStage } from '../stage.ts';
import type { TroupeOptions, TroupeSystem } from '../troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { FULL_SIZE, manySessions } from '../workloads.ts';
import { measureOnce } from './repeat.ts';
import { withUntold } from './untold.ts';
import { OF_ALL, OF_ONE, turnsOf, type Watch, type Watched } from './watchers.ts';

type Size = Watched['size'];

/** W5 in small: a pair is over before the machine is another one. */
const HTTP_SIZE: Size = { sessions: 100, turnsEach: 3 };
/** Targets of one in a hundred take more pairs than those of one in ten. */
const FINE_PAIRS: Pairs = { quick: 5, full: 25, long: 25 };
const PAIRS: Pairs = { quick: 3, full: 9, long: 9 };
const HTTP_PAIRS: Pairs = { quick: 5, full: 21, long: 21 };

type Pairs = Readonly<Record<RunContext['scale'], number>>;
type Half = (label: string) => Promise<Figures>;

/** W2: nobody reads, against the same without what it tells; then one session of 1,000, and all of them. */
export async function measureOverhead(context: RunContext): Promise<readonly Row[]> {
  const options: TroupeOptions = { isolation: isolationOf(context) };
  return withTroupe(options, async (system) => {
    const unread = await withUntold(({ withTroupe: withCopy }) =>
      withCopy(options, async (copy) => {
        await warmBoth(context, system, copy);
        const pairs = numbers(FINE_PAIRS[context.scale]).map((index) => ({ index, label: `u${index}-` }));
        const repetitions: Figures[] = [];
        for (const { index, label } of pairs) {
          repetitions.push(await pair(index, label, drain(system, FULL_SIZE), drain(copy, FULL_SIZE)));
        }
        return { variant: 'no reader', repetitions };
      }),
    );
    await warmWatched(context, system, FULL_SIZE);
    return [
      unread,
      ...(await rowsOf(system, FULL_SIZE, OF_ONE, FINE_PAIRS[context.scale])),
      ...(await rowsOf(system, FULL_SIZE, OF_ALL, PAIRS[context.scale])),
    ];
  });
}

/** W5: the half-step that a service has, through the official SDK over loopback HTTP. troupe always asks for a stream. */
export async function measureHttpOverhead(context: RunContext): Promise<readonly Row[]> {
  const server = startStage('./fake-server', []);
  try {
    const provider = anthropic({ apiKey: 'bench', baseURL: `http://127.0.0.1:${Number(await server.line())}` });
    return await withTroupe({ isolation: isolationOf(context), provider }, async (system) => {
      await warmWatched(context, system, HTTP_SIZE);
      return rowsOf(system, HTTP_SIZE, OF_ALL, HTTP_PAIRS[context.scale]);
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
  pairs: number,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [variant, watch] of Object.entries(watches)) {
    const repetitions: Figures[] = [];
    for (const index of numbers(pairs)) {
      const label = `${variant.replaceAll(' ', '-')}-${index}-`;
      repetitions.push(await pair(index, label, watched(system, size, watch), drain(system, size)));
    }
    rows.push({ variant, repetitions });
  }
  return rows;
}

/**
 * Both halves, in turn first: whoever is second finds the store larger. What the first costs, and what that is of the second:
 * processor time a half-step, and rate.
 */
async function pair(index: number, label: string, measured: Half, beside: Half): Promise<Figures> {
  const isFirst = index % 2 === 0;
  const early = isFirst ? undefined : await beside(`a${label}`);
  const figures = await measured(`b${label}`);
  const other = early ?? (await beside(`a${label}`));
  const ratio = (name: string): number => (figures[name] ?? Number.NaN) / (other[name] ?? Number.NaN);
  const addedUs = (figures['cpuUs'] ?? Number.NaN) - (other['cpuUs'] ?? Number.NaN);
  return { ...figures, addedUs, cpuRatio: ratio('cpuUs'), rateRatio: ratio('rate') };
}

function drain(system: TroupeSystem, size: Size): Half {
  return (label) => measureOnce(label, (repetition) => manySessions(system, size, repetition));
}

function watched(system: TroupeSystem, size: Size, watch: Watch): Half {
  return async (label) => {
    const watcher = watch({ system, label, size });
    const figures = await measureOnce(label, ({ timed }) =>
      manySessions(system, size, {
        label,
        timed: (work) =>
          timed(async () => {
            const value = await work();
            await watcher.caughtUp;
            return value;
          }),
      }),
    );
    return { ...figures, ...(await watcher.end()) };
  };
}
