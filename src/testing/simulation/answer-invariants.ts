/**
 * Checks structured answers and replies to questions (I19, I24 of `invariants.ts`): does the value fit what was asked
 * for?
 */
import { callKey } from '../../session/decide/tools.ts';
import { endsOf } from './families/spawn-line.ts';
import { type Ledger, type Outcome, sessionOfKey } from './ledger.ts';
import { type FormName, formOfSchema, hasForm } from './messages/simulated-forms.ts';
import { isReply } from './questions/simulated-questions.ts';
import type { SessionStory } from './session-story.ts';
import type { Stories } from './store-reading.ts';

/**
 * Checks the structured answers of a session's log. `correctionsMax`: the maximum number of corrections of one turn.
 * Violations go to the ledger.
 */
export function checkAnswers(ledger: Ledger, story: SessionStory, correctionsMax: number): void {
  const { id, accepted, settled, exits, state, corrections } = story;
  for (const [pendingId, receipt] of settled) {
    const form = formOfSchema(accepted.get(pendingId)?.[0]?.output?.schema);
    if (form === undefined || receipt.status !== 'answered' || hasForm(form, receipt.output)) continue;
    ledger.violate('failed', `${id}/${pendingId} asked for a ${form} and was answered ${receipt.text} (I19)`);
  }
  const form = formOfSchema(state.form?.schema);
  for (const { reason, reply, output } of endsOf(exits)) {
    if (form === undefined || reason !== 'completed' || hasForm(form, output)) continue;
    ledger.violate('failed', `${id} owes a ${form} and replied ${JSON.stringify(reply)} (I19)`);
  }
  for (const [turn, count] of corrections) {
    if (count > correctionsMax)
      ledger.violate('failed', `turn ${turn} of ${id} was corrected ${count} times (I19, limits.answerCorrections)`);
  }
}

/** Checks the answer to a message, or the reply of a child, if a form was asked for. */
export function checkReceived(ledger: Ledger, what: string, form: FormName | undefined, outcome: Outcome): void {
  if (form === undefined || outcome.kind !== 'text') return;
  if (outcome.value !== undefined && hasForm(form, outcome.value)) return;
  ledger.violate('failed', `${what} asked for a ${form} and received ${outcome.text} (I19)`);
}

/**
 * Checks that every acknowledged reply to a question is the result of its call and has the form that was asked for
 * (I24). Violations go to the ledger.
 */
export function checkReplies(ledger: Ledger, stories: Stories): void {
  for (const [key, { form, value }] of ledger.personReplies) {
    const session = sessionOfKey(key);
    const story = stories.get(session);
    if (story === undefined || ledger.isDeleted(session)) continue;
    const seq = Number(key.slice(key.lastIndexOf('#') + 1));
    const results = story.calls.get(callKey(story.state, { seq }))?.results ?? [];
    const [result] = results;
    const isSame =
      value === undefined
        ? result?.success === false
        : result?.success === true && isReply(form, value, result.content);
    if (results.length !== 1 || !isSame) {
      const what = `${key} was answered ${JSON.stringify(value)}, stored is ${JSON.stringify(results)} (I24)`;
      ledger.violate('changed', what);
    }
  }
}
