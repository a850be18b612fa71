/**
 * Plans the edits of an `upgrade` function as one edit: all are applied, or none. Pure. Throws `InvalidArgumentError`,
 * `LimitError` or `SessionBusyError`; then nothing has changed.
 */
import { InvalidArgumentError } from '../../base/errors.ts';
import type { EditRequest } from '../state/edit-request.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';
import type { EditPlan } from './edit-draft.ts';
import { draftOf, planOn } from './edit-plan.ts';

/** The operation that the events of the edit name. */
const OPERATION = 'upgrade';

/** Plans these edits, in order, as one edit. Throws as the head of the file says. */
export function planUpgrade(state: SessionState, edits: readonly EditRequest[], environment: Environment): EditPlan {
  const draft = draftOf(state, environment);
  for (const edit of edits) planOn(draft, edit, environment);
  const plan = draft.plan(OPERATION, undefined);
  const { record } = plan;
  if (record === undefined) return plan;
  const removed = new Set(record.removed ?? []);
  // Every edit is planned on the given history, so a second edit of a message would undo the first edit of it.
  const known = new Set(removed);
  for (const { seq, message } of [...(record.updated ?? []), ...(record.annotated ?? [])]) {
    if (known.has(seq)) throw editedTwice(message.id);
    known.add(seq);
  }
  return removed.size === 0 ? plan : { ...plan, record: { ...record, removed: [...removed] } };
}

function editedTwice(id: string): InvalidArgumentError {
  return new InvalidArgumentError('invalid_argument', `message ${JSON.stringify(id)} has more than one edit`, {
    data: { id },
  });
}
