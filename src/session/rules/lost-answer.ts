/**
 * Answers that are lost: a model call streamed a part of its answer, and then ended without one. The text is kept for
 * people and never becomes a message. The tokens that the provider reported count, because they are paid for. Pure.
 */

import { defined } from '../../base/defined.ts';
import { usageOf } from '../../base/messages.ts';
import { type Decision, NOTHING } from '../state/decision.ts';
import type { Environment } from '../state/inputs.ts';
import type { LostAnswer } from '../state/records.ts';

/** Records a lost answer. What happens to its half-step is decided by other inputs. */
export function decideLostAnswer(lost: LostAnswer, { agent: { models } }: Environment): Decision {
  const { halfStep, attempt, turn, reason, text, thinking, truncated, usage } = lost;
  if (text === '' && thinking === undefined && usage === undefined) return NOTHING;
  const counted = usage === undefined || models === undefined ? usage : usageOf(models.name, usage);
  return {
    records: [
      { type: 'lost', halfStep, attempt, turn, reason, text, ...defined({ thinking, truncated, usage: counted }) },
    ],
    effects: [],
  };
}
