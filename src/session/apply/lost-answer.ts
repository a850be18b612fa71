/** Keeps the text of a lost answer and counts its tokens. Changes the given state in place, as `apply` does. */
import type { AnswerDraft } from '../../base/answer-draft.ts';
import { defined } from '../../base/defined.ts';
import { addUsage, lostUsage } from '../../base/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { Fold } from './fold.ts';
import { turnName } from './turn.ts';

/**
 * A model call ended without an answer. An interrupted call may be recorded after the next turn has begun; then the
 * text is in the event alone.
 */
export function applyLost(fold: Fold, record: RecordOf<'lost'>): void {
  const { state } = fold;
  const { turn, attempt, reason, text, thinking, truncated, usage } = record;
  const isCurrent = state.turn === undefined || state.turn.id === turn;
  if (usage !== undefined) {
    const counted = lostUsage(usage);
    state.usage = addUsage(state.usage, counted);
    if (state.turn?.id === turn) state.turn.usage = addUsage(state.turn.usage, counted);
  }
  if (isCurrent && (text !== '' || thinking !== undefined)) {
    const draft: AnswerDraft = { turn: turnName(turn), text, ...defined({ thinking, truncated }), lost: reason };
    state.draft = draft;
  }
  if (fold.counts()) {
    fold.publish({
      type: 'llm.lost',
      turn: turnName(turn),
      attempt,
      reason,
      text,
      ...defined({ thinking, truncated, usage }),
    });
  }
}
