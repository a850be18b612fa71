/**
 * Reads the acts for the audit log from a step (one transition) of a session. Pure.
 *
 * An act is read from the records of the step, so the act is written if and only if the records are. The author of the
 * act comes from the input. An act contains no text of messages. A decision has the call and the verdict, an edit has
 * the operation and the number of its messages, and a task has its number. A task that begins with a turn has no
 * record, and thus no act.
 */
import type { AuditAct, AuditDetails } from '../base/audit/audit-entry.ts';
import { defined } from '../base/defined.ts';
import { questionOf } from './rules/waiting-calls.ts';
import type { Input } from './state/inputs.ts';
import type { RecordOf, SessionRecord } from './state/records.ts';
import type { SessionState } from './state/state.ts';

const NO_ACTS: readonly AuditAct[] = [];

/** The causes of decisions about calls that the input does not name, by the type of the input. */
const ENDED_BY: { readonly [Type in Input['type']]?: string } = {
  approve: 'denied_with_another',
  approvalsExpired: 'expired',
  send: 'message',
  parentSaid: 'parent',
  parentEnded: 'parent_ended',
};

/** The acts of a step. `state`: the session before the step's records were folded. */
export function auditActs(state: SessionState, input: Input, records: readonly SessionRecord[]): readonly AuditAct[] {
  let acts: AuditAct[] | undefined;
  for (const record of records) {
    const act = actOf(state, input, record);
    if (act === undefined) continue;
    acts ??= [];
    acts.push(act);
  }
  return acts ?? NO_ACTS;
}

function actOf(state: SessionState, input: Input, record: SessionRecord): AuditAct | undefined {
  const session = state.id;
  switch (record.type) {
    case 'decided':
      return decided(state, input, record);
    case 'edited':
      return edited(state, input, record);
    case 'accepted': {
      const { letter, type } = record.entry;
      if (letter === undefined) return undefined;
      const by = input.type === 'resendLetter' ? input.by : undefined;
      return { action: 'dead_letter.resent', session, ...defined({ by }), details: { letter, as: type } };
    }
    case 'letterDropped': {
      const { by, cause } = input.type === 'dropLetter' ? input : {};
      const details = { letter: record.id, ...defined({ cause }) };
      return { action: 'dead_letter.dropped', session, ...defined({ by }), details };
    }
    case 'taskStarted': {
      const { by } = input.type === 'startTask' ? input : {};
      return { action: 'task.started', session, ...defined({ by }), details: { task: record.id } };
    }
    case 'taskActivated': {
      const { by } = input.type === 'undo' || input.type === 'switchTask' ? input : {};
      return {
        action: 'task.activated',
        session,
        ...defined({ by }),
        details: { task: record.id, cause: record.cause },
      };
    }
    case 'forked': {
      const { by } = input.type === 'forked' ? input : {};
      const { session: from, at } = record.origin;
      return { action: 'session.forked', session, ...defined({ by }), details: { from, ...defined({ at }) } };
    }
    case 'historyRemoved': {
      const { before, firstEvent } = record;
      return { action: 'history.removed', session, details: { cause: 'retention', before, firstEvent } };
    }
    default:
      return undefined;
  }
}

function decided(state: SessionState, input: Input, record: RecordOf<'decided'>): AuditAct {
  const { callId, allow, by } = record;
  const question = questionOf(state, callId);
  const tool = state.openCalls.get(callId)?.name ?? '';
  const named = input.type === 'approve' || input.type === 'answer' ? input.callId : undefined;
  const isNamed = named !== undefined && named === (question?.id ?? callId);
  const cause = isNamed ? undefined : (ENDED_BY[input.type] ?? 'ended');
  const who = { session: state.id, ...defined({ by }) };
  if (question === undefined) {
    return { action: 'approval.decided', ...who, details: { callId, tool, allow, ...defined({ cause }) } };
  }
  return { action: 'question.answered', ...who, details: { callId, tool, answered: allow, ...defined({ cause }) } };
}

/**
 * The act of an edit that comes from a request, from a message that replaces an earlier message, or from an upgrade.
 * Edits that the runtime makes itself, such as a rollback, are no acts.
 */
function edited(state: SessionState, input: Input, record: RecordOf<'edited'>): AuditAct | undefined {
  const facts = factsOf(record);
  const session = state.id;
  switch (input.type) {
    case 'edit':
      return { action: 'history.edited', session, ...defined({ by: input.by }), details: facts };
    case 'send': {
      const by = input.entry.source?.name;
      return {
        action: 'history.edited',
        session,
        ...defined({ by }),
        details: { ...facts, cause: 'replaced' },
      };
    }
    case 'upgraded':
      return { action: 'history.edited', session, details: { ...facts, cause: 'upgrade' } };
    default:
      return undefined;
  }
}

function factsOf({ operation, added, updated, annotated, removed }: RecordOf<'edited'>): AuditDetails {
  return {
    operation,
    added: added?.length ?? 0,
    updated: (updated?.length ?? 0) + (annotated?.length ?? 0),
    removed: removed?.length ?? 0,
  };
}
