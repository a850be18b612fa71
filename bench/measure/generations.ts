/**
 * W6: 10,000 children of one parent; each does the work of 20 turns. A child answers its spawner once, so its 20 turns are
 * one task with as many model calls and messages. It makes 39 calls of the tool one after another, then replies: 40
 * half-steps, 80 messages.
 */

import type { RunContext } from '../names.ts';
import { numbers, type Row } from '../report/figures.ts';
import { measureFamily } from '../shared-work.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN } from '../systems/system.ts';
import { warmUp } from '../warm-up.ts';
import { repeat } from './repeat.ts';

const TURNS_EACH = 20;
const CALLS_EACH = TURNS_EACH * HALF_STEPS_A_TURN - 1;
const CHILDREN: Readonly<Record<RunContext['scale'], number>> = { quick: 500, full: 10_000, long: 10_000 };
const CHECKED = 10;

/** Rate: half-steps/s; `wallMs` is the figure of the target. */
export function measureGenerations(context: RunContext): Promise<readonly Row[]> {
  return withTroupe({ isolation: isolationOf(context) }, async (system) => {
    await warmUp(context, system);
    const count = CHILDREN[context.scale];
    const questions = numbers(count).map((index) => ({ a: index, b: count, times: CALLS_EACH }));
    const repetitions = await repeat(1, async (repetition) => {
      const measured = await measureFamily(system, questions, repetition);
      for (const index of numbers(CHECKED)) {
        const session = `${repetition.label}parent:${index + 1}`;
        // The prompt and the goal of the child may add messages.
        const found = await system.messages(session);
        if (found < (CALLS_EACH + 1) * 2) throw new Error(`${session} has ${found} messages`);
      }
      return { ...measured, rate: (measured.halfSteps / measured.wallMs) * 1_000 };
    });
    return [{ variant: '', repetitions: repetitions.map((each) => ({ ...each, replies: count })) }];
  });
}
