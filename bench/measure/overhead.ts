/**
 * P10: what it costs to be watched. W2 without a reader and with one that reads the events of all sessions, in turn on one runtime.
 */
import type { Figures, Row } from '../figures.ts';
import { numbers } from '../figures.ts';
import type { RunContext } from '../names.ts';
import { isolationOf, withTroupe } from '../open-system.ts';
import type { TroupeSystem } from '../troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { FULL_SIZE, manySessions, type Repetition } from '../workloads.ts';
import { measureOnce } from './repeat.ts';

const PAIRS: Readonly<Record<RunContext['scale'], number>> = { quick: 3, full: 7, long: 7 };

/** Rows `no reader` and `reader of all sessions`; the latter also as ratios to the repetition it took turns with. */
export function measureOverhead(context: RunContext): Promise<readonly Row[]> {
  return withTroupe({ isolation: isolationOf(context) }, async (system) => {
    await warmUp(context, system, { also: ({ label }) => warmReader(system, label) });
    const [alone, watched]: [Figures[], Figures[]] = [[], []];
    for (const index of numbers(PAIRS[context.scale])) {
      const steps = [
        async () => alone.push(await measureOnce(`a${index}-`, (repetition) => drain(system, repetition))),
        async () => watched.push(await drainWatched(system, `b${index}-`)),
      ];
      // Whoever is second finds the store larger: they take turns in that, too.
      for (const step of index % 2 === 0 ? steps : steps.reverse()) await step();
    }
    return [
      { variant: 'no reader', repetitions: alone },
      { variant: 'reader of all sessions', repetitions: watched.map((each, index) => besides(each, alone[index])) },
    ];
  });
}

/** The figures with what they are of those of their pair: processor time a half-step, and rate. */
function besides(watched: Figures, alone: Figures | undefined): Figures {
  const ratio = (name: string): number => (watched[name] ?? Number.NaN) / (alone?.[name] ?? Number.NaN);
  return { ...watched, cpuRatio: ratio('cpuUs'), rateRatio: ratio('rate') };
}

async function warmReader(system: TroupeSystem, label: string): Promise<number> {
  await drainWatched(system, label);
  return FULL_SIZE.sessions * FULL_SIZE.turnsEach;
}

async function drainWatched(system: TroupeSystem, label: string): Promise<Figures> {
  const events = system.runtime.events();
  let seen = 0;
  let gaps = 0;
  const reading = (async () => {
    for await (const event of events) {
      seen += 1;
      if (event.type === 'gap') gaps += 1;
    }
  })();
  const figures = await measureOnce(label, (repetition) => drain(system, repetition));
  await events.return?.();
  await reading;
  if (seen === 0) throw new Error('the reader was told nothing');
  return { ...figures, events: seen, gaps };
}

function drain(system: TroupeSystem, repetition: Repetition): ReturnType<typeof manySessions> {
  return manySessions(system, FULL_SIZE, repetition);
}
