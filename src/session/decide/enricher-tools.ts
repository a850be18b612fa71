/**
 * Changes that enrichers make to a session, except goals and skills: its name, and the memories (messages from earlier
 * conversations) shown to its model. Pure.
 */
import { SESSION_NAME_CHARACTERS_MAX } from '../../base/bounds.ts';
import { ContentError, LimitError } from '../../base/errors.ts';
import { mailboxRefusal } from '../rules/mailbox.ts';
import { type Decision, NO_RECORDS, refuse } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/** Names the session. The same name again changes nothing. */
export function decideRename(state: SessionState, given: string): Decision {
  const name = given.trim();
  if (name === '') return refuse(new ContentError('Name cannot be blank'));
  if (name.length > SESSION_NAME_CHARACTERS_MAX) {
    return refuse(
      new LimitError(`a name has at most ${SESSION_NAME_CHARACTERS_MAX} characters, got ${name.length}`, {
        data: { limit: 'name', value: name.length },
      }),
    );
  }
  const result: Effect = { type: 'result', value: { name } };
  return { records: state.name === name ? NO_RECORDS : [{ type: 'named', name }], effects: [result] };
}

/** Puts a memory into the mailbox, unless it is already in the window or in the mailbox (Δ44). */
export function decideSurface(
  state: SessionState,
  { id, content }: Extract<Input, { type: 'surface' }>,
  environment: Environment,
): Decision {
  if (isSurfaced(state, id)) return refuse(new ContentError(`message ${id} is before the model already`));
  const full = mailboxRefusal(state, Buffer.byteLength(content), environment);
  if (full !== undefined) return refuse(full);
  const record: SessionRecord = {
    type: 'accepted',
    id: state.nextPendingId,
    entry: { type: 'from_mneme', content, source: { type: 'recall', name: id } },
  };
  return { records: [record], effects: [{ type: 'result', value: { surfaced: id } }] };
}

function isSurfaced(state: SessionState, id: string): boolean {
  return (
    surfacedIds(state).includes(id) ||
    state.mailbox.some((entry) => entry.type === 'from_mneme' && entry.source.name === id) ||
    state.messages.some((message) => `${state.id}#${message.seq}` === id)
  );
}

/** Ids of the memories in the window, oldest first. */
export function surfacedIds(state: SessionState): readonly string[] {
  return state.messages.flatMap(({ type, phantom, source }) =>
    type === 'tool_call' && phantom === true && source?.type === 'recall' && source.name !== undefined
      ? [source.name]
      : [],
  );
}
