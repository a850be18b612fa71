/**
 * W8: 10,000 sessions interrupted by a kill, half of them in their first model call and half in their second. A new
 * process opens them, with the file warm in the page cache. Each repetition opens a copy of the same store.
 */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { runStage, startStage } from '../stage.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';

const SESSIONS: Readonly<Record<RunContext['scale'], number>> = { quick: 1_000, full: 10_000, long: 10_000 };
const REPETITIONS = 3;

/** Figures: ms from the start of `open`. */
export function measureInterrupted(context: RunContext): Promise<readonly Row[]> {
  const isolation = isolationOf(context);
  const count = String(SESSIONS[context.scale]);
  return withDirectory(async (directory) => {
    const killed = join(directory, 'killed');
    const stage = startStage('./stages/interrupt', [isolation, killed, count]);
    await stage.line();
    stage.process.kill('SIGKILL');
    await stage.ended();
    const repetitions: Figures[] = [];
    for (let index = 0; index < REPETITIONS; index += 1) {
      const copy = join(directory, `copy${index}`);
      await cp(killed, copy, { recursive: true });
      repetitions.push(await runStage('./stages/recover', [isolation, copy, count]));
    }
    return [{ variant: '', repetitions }];
  });
}
