/**
 * Hand-over: 1,000 sessions at work move from process to process. Each process takes the directory over from the one
 * before. It is started and loaded earlier, as in a rolling deploy.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { RunContext } from '../names.ts';
import { latencies, type Row } from '../report/figures.ts';
import { type Stage, startStage } from '../stage.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';

const SESSIONS = 1_000;
const HAND_OVERS: Readonly<Record<RunContext['scale'], number>> = { quick: 2, full: 20, long: 100 };
/** The time for which a process has the directory before the next one takes it. */
const AT_WORK_MS = 1_000;

/**
 * Figures, over all hand-overs: `p50` and `p99` of the gap, from the last message that the former process accepted to the
 * first one that the next accepted; `openedMs`, the median of its part until `open` resolved.
 */
export function measureHandOver(context: RunContext): Promise<readonly Row[]> {
  const isolation = isolationOf(context);
  return withDirectory(async (directory) => {
    const words = [isolation, directory, String(SESSIONS)];
    let owner = await loaded(words);
    await takeOver(owner);
    const gaps: number[] = [];
    const opened: number[] = [];
    for (let index = 0; index < HAND_OVERS[context.scale]; index += 1) {
      const next = await loaded(words);
      await delay(AT_WORK_MS);
      const { openedAt = 0, firstAt = 0 } = await takeOver(next);
      const { lastAt = 0 } = await factsOf(owner);
      await owner.ended();
      gaps.push(firstAt - lastAt);
      opened.push(openedAt - lastAt);
      owner = next;
    }
    owner.process.kill('SIGKILL');
    await owner.ended();
    return [{ variant: '', repetitions: [{ ...latencies(gaps), openedMs: latencies(opened).p50 }] }];
  });
}

/** A process that is ready to take the directory over. */
async function loaded(words: readonly string[]): Promise<Stage> {
  const stage = startStage('./stages/hand-over', words);
  await factsOf(stage);
  return stage;
}

/** Resolves when the process has the directory and has accepted its first message. */
function takeOver(stage: Stage): Promise<Readonly<Record<string, number>>> {
  stage.process.stdin?.end('take over\n');
  return factsOf(stage);
}

async function factsOf(stage: Stage): Promise<Readonly<Record<string, number>>> {
  return JSON.parse(await stage.line()) as Readonly<Record<string, number>>;
}
