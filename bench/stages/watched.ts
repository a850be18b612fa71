/**
 * `watched <inline|isolated> <W2|W5> <no reader, or a kind of reader> <quick|full>`: this process has one kind of reader from its start to
 * its end. Warms up, repeats the work on new sessions, and prints the median of each figure: `cpuUs` is processor time a half-step.
 */
import { anthropic } from '../../src/index.ts';
import { measureOnce } from '../measure/repeat.ts';
import { OF_ALL, OF_ONE, type Watched, type Watcher } from '../measure/watchers.ts';
import { NO_READER } from '../names.ts';
import { type Figures, median } from '../report/figures.ts';
import { manySessions } from '../shared-work.ts';
import { startStage } from '../stage.ts';
import { withTroupe } from '../systems/open-system.ts';
import type { TroupeOptions, TroupeSystem } from '../systems/troupe-system.ts';

/** Repetitions before the code is compiled, and measured repetitions. */
const REPETITIONS = { W2: { warm: 6, measured: 7 }, W5: { warm: 4, measured: 7 } };
const SIZES = {
  W2: { full: { sessions: 1_000, turnsEach: 3 }, quick: { sessions: 300, turnsEach: 3 } },
  W5: { full: { sessions: 200, turnsEach: 3 }, quick: { sessions: 60, turnsEach: 3 } },
};

const [isolationWord, workloadWord, variant = NO_READER, scaleWord] = process.argv.slice(2);
const isolation = isolationWord === 'isolated' ? 'isolated' : 'inline';
const workload = workloadWord === 'W5' ? 'W5' : 'W2';
const size: Watched['size'] = SIZES[workload][scaleWord === 'quick' ? 'quick' : 'full'];
const watch = { ...OF_ONE, ...OF_ALL }[variant];
if (watch === undefined && variant !== NO_READER) throw new Error(`no reader is called ${variant}`);

const figures = workload === 'W5' ? await throughHttp() : await measure({ isolation });
process.stdout.write(`${JSON.stringify(figures)}\n`);

async function throughHttp(): Promise<Figures> {
  const server = startStage('./systems/fake-server', []);
  try {
    const baseURL = `http://127.0.0.1:${Number(await server.line())}`;
    return await measure({ isolation, provider: anthropic({ apiKey: 'bench', baseURL, listModels: false }) });
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

function measure(options: TroupeOptions): Promise<Figures> {
  return withTroupe(options, async (system) => {
    const watcher = watch?.(system);
    const { warm, measured } = REPETITIONS[workload];
    for (let index = 0; index < warm; index += 1) await repetition(system, watcher, `w${index}-`);
    const repetitions: Figures[] = [];
    for (let index = 0; index < measured; index += 1) {
      repetitions.push(await repetition(system, watcher, `r${index}-`));
    }
    return { ...medians(repetitions), ...(await watcher?.end()) };
  });
}

/** The work on new sessions, until the reader has read all events, since the cost would leave out unread ones. */
async function repetition(system: TroupeSystem, watcher: Watcher | undefined, label: string): Promise<Figures> {
  const expected = await watcher?.expect({ label, size });
  return measureOnce(label, ({ timed }) =>
    manySessions(system, size, {
      label,
      timed: (work) =>
        timed(async () => {
          const value = await work();
          await expected?.caughtUp;
          return value;
        }),
    }),
  );
}

function medians(repetitions: readonly Figures[]): Figures {
  const names = Object.keys(repetitions[0] ?? {});
  return Object.fromEntries(names.map((name) => [name, median(repetitions.flatMap((each) => each[name] ?? []))]));
}
