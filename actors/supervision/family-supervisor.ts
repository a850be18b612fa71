/**
 * Handles failures of sub-agents: turns the supervisor's decisions into inputs for the sessions of one family.
 *
 * Owns: one supervisor state for each parent whose agent asked for supervision, made at the first failure. Does not
 * own: the sessions. These stop and start in the batch that contains the failure, so each answer reaches the supervisor
 * at once. Restarts are counted in memory, as in OTP, so the count begins at zero when a process starts.
 */
import type { ErrorShape } from '../../src/base/errors.ts';
import type { Input } from '../../src/session/state/inputs.ts';
import type { SessionActor } from '../session-actor.ts';
import { SUPERVISOR_DEFAULTS, type SupervisorOptionsInput, subAgentSpec } from './child-spec.ts';
import { rowOf } from './child-table.ts';
import type { SupervisorAction, SupervisorInput, SupervisorState } from './state.ts';
import { decideSupervision, supervisorState } from './supervisor.ts';

/** An input for one session of the family. */
export interface FamilyOrder {
  readonly session: string;
  readonly input: Input;
}

interface Outcome {
  readonly restarted: string[];
  readonly stopped: string[];
  readonly later: { readonly id: string; readonly delayMs: number }[];
  hasEscalated: boolean;
}

/** See the file header. */
export class FamilySupervisor {
  readonly #states = new Map<string, SupervisorState>();
  readonly #monotonic: () => number;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** The inputs that follow from the failure of a child's turn, in order. */
  failed(
    parent: SessionActor,
    child: string,
    error: ErrorShape,
    options: SupervisorOptionsInput,
  ): readonly FamilyOrder[] {
    const policy = options.onChildFailure ?? SUPERVISOR_DEFAULTS.onChildFailure;
    const fail = (reports: boolean): FamilyOrder => ({ session: child, input: { type: 'fail', error, reports } });
    if (policy === 'report' || policy === 'ignore') return [fail(policy === 'report')];
    const outcome = this.#drive(parent, options, (state) => {
      const run = rowOf(state.children, child)?.run ?? 0;
      const kind = error.retryable === true ? 'transientFault' : 'error';
      return { type: 'childExited', id: child, run, reason: { kind, message: error.message } };
    });
    const reason = `sub-agent ${parent.state.children.get(child)?.name ?? child} failed: ${error.message}`;
    if (outcome.hasEscalated) {
      return [
        fail(false),
        ...outcome.stopped.map((session): FamilyOrder => ({ session, input: { type: 'interrupt', reason } })),
        { session: parent.id, input: { type: 'escalated', child, error } },
      ];
    }
    const later = outcome.later.map(
      ({ id, delayMs }): FamilyOrder => ({ session: id, input: { type: 'restartLater', delayMs, error } }),
    );
    const orders = [...this.#restarts(outcome, reason), ...later];
    return orders.length === 0 ? [fail(true)] : orders;
  }

  /** The inputs that follow when a child's back-off is over. */
  due(parent: SessionActor, child: string, options: SupervisorOptionsInput): readonly FamilyOrder[] {
    const outcome = this.#drive(parent, options, (state) => {
      const run = rowOf(state.children, child)?.run ?? 0;
      return { type: 'timer', timer: 'restart', id: child, run };
    });
    const orders = this.#restarts(outcome, 'its back-off is over');
    if (orders.length > 0) return orders;
    // The process has restarted, so the supervisor does not know of the wait. The child's log does.
    return [{ session: child, input: { type: 'restart', reason: 'its back-off is over' } }];
  }

  /** Called when the parent is gone. */
  forget(parent: string): void {
    this.#states.delete(parent);
  }

  #restarts(outcome: Outcome, reason: string): readonly FamilyOrder[] {
    return outcome.restarted.map((session) => ({ session, input: { type: 'restart', reason } }));
  }

  /** Gives the supervisor one input and performs all its actions at once. */
  #drive(
    parent: SessionActor,
    options: SupervisorOptionsInput,
    inputOf: (state: SupervisorState) => SupervisorInput,
  ): Outcome {
    const outcome: Outcome = { restarted: [], stopped: [], later: [], hasEscalated: false };
    let state = this.#current(parent, options);
    const queue: SupervisorInput[] = [inputOf(state)];
    for (let input = queue.shift(); input !== undefined; input = queue.shift()) {
      const decision = decideSupervision(state, input, this.#monotonic());
      state = decision.state;
      for (const action of decision.actions) {
        const answer = this.#act(action, outcome);
        if (answer !== undefined) queue.push(answer);
      }
    }
    if (outcome.hasEscalated) this.#states.delete(parent.id);
    else this.#states.set(parent.id, state);
    return outcome;
  }

  /** The supervisor state of a family, in which every child that has not ended is marked as running. */
  #current(parent: SessionActor, options: SupervisorOptionsInput): SupervisorState {
    let state = this.#states.get(parent.id);
    const feed = (input: SupervisorInput): void => {
      if (state === undefined) return;
      const decision = decideSupervision(state, input, this.#monotonic());
      state = decision.state;
      for (const action of decision.actions) {
        if (action.type === 'start') feed({ type: 'childStarted', id: action.id, run: action.run });
      }
    };
    if (state === undefined) {
      state = supervisorState([], options);
      feed({ type: 'begin' });
    }
    for (const child of parent.state.children.values()) {
      const isKnown = rowOf(state.children, child.id) !== undefined;
      if (child.exited === undefined && !isKnown) feed({ type: 'addChild', spec: subAgentSpec(child.id, 'restart') });
      else if (child.exited !== undefined && isKnown) feed({ type: 'removeChild', id: child.id });
    }
    return state;
  }

  /** Performs one action. Returns the child's answer, which is immediate here. */
  #act(action: SupervisorAction, outcome: Outcome): SupervisorInput | undefined {
    switch (action.type) {
      case 'restart':
        outcome.restarted.push(action.id);
        return { type: 'childStarted', id: action.id, run: action.run };
      case 'stop':
        outcome.stopped.push(action.id);
        return { type: 'childExited', id: action.id, run: action.run, reason: { kind: 'shutdown' } };
      case 'scheduleRestart':
        outcome.later.push({ id: action.id, delayMs: action.delayMs });
        return undefined;
      case 'escalate':
        outcome.hasEscalated = true;
        return undefined;
      default:
        return undefined;
    }
  }
}
