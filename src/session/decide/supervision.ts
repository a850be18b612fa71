/**
 * Decides what follows the end or the failure of a child (contract §7.8, Δ11; supervision in OTP's terms).
 * `actors/supervision/family-supervisor.ts` decides which child is restarted, and how often at most. This file carries
 * out those decisions in a session. Pure.
 */
import { defined } from '../../base/defined.ts';
import type { ErrorShape } from '../../base/errors.ts';
import { waitsToBegin } from '../rules/mailbox.ts';
import { type Exit, hasEnded } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { endRound } from './end-round.ts';

/**
 * Records the end of a child and reports it to the parent, in one batch (A6). If the child has completed its task
 * before, this end only frees its place among the working children.
 */
export function exitDecision(state: SessionState, exit: Exit): Decision {
  if (state.parent === undefined || hasEnded(state)) return NOTHING;
  const { reason, output, error } = exit;
  const reply = state.exit?.reason === 'completed' ? '' : exit.reply;
  const why = defined({ error });
  return {
    records: [{ type: 'exited', reason, reply, ...defined({ output }), ...why }],
    effects: [{ type: 'sendToParent', input: { type: 'childExited', child: state.id, reason, ...why } }],
  };
}

/** The records that drop waiting entries of a child that ends before it began: all active entries, or only its task. */
export function neverBegun(state: SessionState, entries: 'all' | 'task', reason: string): readonly SessionRecord[] {
  if (!waitsToBegin(state)) return NO_RECORDS;
  return state.mailbox
    .filter(({ kind, seed }) => (entries === 'all' ? kind === 'active' : seed !== undefined))
    .map(({ id }) => ({ type: 'dropped', id, reason }));
}

/**
 * Handles a failed turn. If the parent supervises this child, the supervisor decides what follows. Otherwise the
 * failure is reported, and the session takes waiting work. A supervised child takes no work before the decision,
 * because a restart would cancel that work.
 */
export function failureToParent(state: SessionState, error: ErrorShape, environment: Environment): Decision {
  const isSupervised = state.parent !== undefined && state.exit === undefined && environment.isSupervised?.() === true;
  return isSupervised ? { records: [], effects: [{ type: 'childFailed', error }] } : reportFailure(state, error, true);
}

/**
 * Ends a failed child. The failure is always reported to the parent as the child's exit, and with `reports` also to the
 * parent's model (Δ11). The child may still take waiting work afterwards. A session without a parent only takes
 * waiting work.
 */
export function reportFailure(state: SessionState, error: ErrorShape, reports: boolean): Decision {
  if (state.parent === undefined) return { records: [], effects: [WAKE] };
  const content = `I could not finish: my turn failed (${error.message}).`;
  const exit = exitDecision(state, { reason: 'failed', reply: '', error });
  const said: Effect = { type: 'sendToParent', input: { type: 'subagentSaid', child: state.id, content } };
  const records = [...neverBegun(state, 'task', 'failed'), ...exit.records];
  return { records, effects: [...(reports ? [said] : []), ...exit.effects, WAKE] };
}

/**
 * Restarts a child: running work ends, earlier messages leave the window, and the task becomes the first message and
 * starts a turn.
 */
export function decideRestart(state: SessionState, reason: string, environment: Environment): Decision {
  if (state.goal === undefined || state.goal.completed || state.exit !== undefined) {
    return { records: [], effects: [{ type: 'stale', what: 'restart' }] };
  }
  if (state.state !== 'idle') {
    const ended = endRound(state, environment, {
      firstId: state.nextPendingId,
      notice: `Ended by a restart: ${reason}`,
    });
    return {
      records: ended.records,
      effects: [...ended.effects, { type: 'again', input: { type: 'restart', reason } }],
    };
  }
  const seed = state.nextMessageSeq;
  // A waiting task entry stands for a message that leaves the window with the restart. A later half-step for that entry
  // would have no content.
  const stale = state.mailbox.filter((entry) => entry.seed !== undefined);
  return {
    records: [
      ...stale.map(({ id }): SessionRecord => ({ type: 'dropped', id, reason: 'restarted' })),
      { type: 'restarted', reason },
      {
        type: 'accepted',
        id: state.nextPendingId,
        entry: { type: 'user_message', content: state.goal.description, seed },
      },
    ],
    effects: [WAKE],
  };
}

/**
 * Delays the restart of this child after a transient fault (the supervisor's back-off). The wait is durable, and does
 * not count as a restart.
 */
export function decideRestartLater(
  input: Extract<Input, { type: 'restartLater' }>,
  environment: Environment,
): Decision {
  const { delayMs, error } = input;
  return {
    records: [{ type: 'restartScheduled', dueAt: environment.now + delayMs, error }],
    effects: [{ type: 'restartTimer', delayMs }],
  };
}

/**
 * A child's failure becomes the failure of this session, its parent. A running turn fails. An idle session gets a note.
 * The failure is then passed to the session's own parent.
 */
export function decideEscalation(
  state: SessionState,
  input: Extract<Input, { type: 'escalated' }>,
  environment: Environment,
): Decision {
  const name = state.children.get(input.child)?.name ?? input.child;
  const error: ErrorShape = {
    name: 'TurnFailedError',
    code: 'turn_failed',
    message: `sub-agent ${name} failed and was not restarted: ${input.error.message}`,
    data: { child: input.child, error: input.error },
  };
  const records: SessionRecord[] = [{ type: 'noted', content: `The turn was stopped: ${error.message}` }];
  const effects: Effect[] = [];
  if (state.state !== 'idle') {
    const ended = endRound(state, environment, {
      firstId: state.nextPendingId,
      notice: `Ended: ${error.message}`,
      error,
    });
    records.push(...ended.records);
    effects.push(...ended.effects);
  }
  const failure = failureToParent(state, error, environment);
  return {
    records: [...records, ...failure.records],
    effects: [...effects, ...failure.effects],
  };
}
