/**
 * Handles failures of sub-agents: turns the supervisor's decisions into inputs for the sessions of one family.
 *
 * Owns: one supervisor state for each parent whose agent asked for `restart` or `escalate`. A state is made at the
 * first failure or the first end of a back-off. Does not own: the sessions. Sessions stop and start in the batch that
 * contains the failure, so the supervisor gets each answer at once, before the session has acted. Restarts are counted
 * in memory, as in OTP. The count begins at zero when a process starts, after an escalation, and after `forget`.
 *
 * A child that has ended is not supervised, even if it works again (`revival.ts`): its end was reported, and a restart
 * would repeat its task. A failure of its later work is reported to its parent.
 */
import type { ErrorShape } from '../../src/base/errors.ts';
import type { Input } from '../../src/session/state/inputs.ts';
import type { SessionActor } from '../session-actor.ts';
import { rowOf, rowsInOrder } from './child-table.ts';
import type { SupervisorAction, SupervisorInput, SupervisorState } from './state.ts';
import { decideSupervision, supervisorState } from './supervisor.ts';
import { SUPERVISOR_DEFAULTS, type SupervisorOptionsInput, subAgentSpec } from './supervisor-options.ts';

/** An input for one session of the family. */
export interface FamilyOrder {
  readonly session: string;
  readonly input: Input;
}

/** The actions that the sessions must carry out after one input. */
interface Outcome {
  readonly restarted: string[];
  readonly later: { readonly id: string; readonly delayMs: number }[];
  /** Missing: the supervisor did not give up. Otherwise all its children, in the order in which they stop. */
  escalated?: readonly string[];
}

/** The supervisors of all families of a shard (see the file header). */
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
    if (outcome.escalated !== undefined) {
      const siblings = outcome.escalated.filter((id) => id !== child);
      return [
        fail(false),
        ...siblings.map((session): FamilyOrder => ({ session, input: { type: 'interrupt', reason } })),
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
    // The supervisor was made after the wait had begun, because the process has restarted or the parent was forgotten.
    // The child's log still has the wait.
    return [{ session: child, input: { type: 'restart', reason: 'its back-off is over' } }];
  }

  /** Forgets a parent that was deleted, or that is read again from its log after a fault. */
  forget(parent: string): void {
    this.#states.delete(parent);
  }

  #restarts(outcome: Outcome, reason: string): readonly FamilyOrder[] {
    return outcome.restarted.map((session) => ({ session, input: { type: 'restart', reason } }));
  }

  /** Gives the supervisor one input and all assumed answers that follow, and notes its actions in the outcome. */
  #drive(
    parent: SessionActor,
    options: SupervisorOptionsInput,
    inputOf: (state: SupervisorState) => SupervisorInput,
  ): Outcome {
    const outcome: Outcome = { restarted: [], later: [] };
    const current = this.#current(parent, options);
    const state = this.#feed(current, inputOf(current), outcome);
    if (outcome.escalated === undefined) this.#states.set(parent.id, state);
    else this.#states.delete(parent.id);
    return outcome;
  }

  /**
   * The supervisor state of a family. Children that are not in the state yet are added as running, and children that
   * have ended are removed.
   */
  #current(parent: SessionActor, options: SupervisorOptionsInput): SupervisorState {
    const known = this.#states.get(parent.id);
    let state = known ?? this.#feed(supervisorState([], options), { type: 'begin' });
    for (const child of parent.state.children.values()) {
      const isKnown = rowOf(state.children, child.id) !== undefined;
      if (child.exited === undefined && !isKnown) {
        state = this.#feed(state, { type: 'addChild', spec: subAgentSpec(child.id, 'restart') });
      } else if (child.exited !== undefined && isKnown) {
        state = this.#feed(state, { type: 'removeChild', id: child.id });
      }
    }
    return state;
  }

  /**
   * Feeds an input and the assumed answers to the actions that follow from it. `outcome`: missing if the sessions have
   * nothing to do, because they have started or ended already.
   */
  #feed(before: SupervisorState, first: SupervisorInput, outcome?: Outcome): SupervisorState {
    let state = before;
    const queue: SupervisorInput[] = [first];
    for (let input = queue.shift(); input !== undefined; input = queue.shift()) {
      const decision = decideSupervision(state, input, this.#monotonic());
      state = decision.state;
      for (const action of decision.actions) {
        const answer = answerTo(action);
        if (answer !== undefined) queue.push(answer);
        if (outcome !== undefined) note(outcome, action, state);
      }
    }
    return state;
  }
}

/** The assumed answer of a child to an action. The assumption holds, because its session obeys in the same batch. */
function answerTo(action: SupervisorAction): SupervisorInput | undefined {
  switch (action.type) {
    case 'start':
    case 'restart':
      return { type: 'childStarted', id: action.id, run: action.run };
    case 'stop':
      return { type: 'childExited', id: action.id, run: action.run, reason: { kind: 'shutdown' } };
    default:
      return undefined;
  }
}

/**
 * Notes an action that a session must carry out. A `stop` is not noted: its child restarts after the same input, or the
 * supervisor gives up.
 */
function note(outcome: Outcome, action: SupervisorAction, { children }: SupervisorState): void {
  if (action.type === 'restart') outcome.restarted.push(action.id);
  if (action.type === 'scheduleRestart') outcome.later.push({ id: action.id, delayMs: action.delayMs });
  if (action.type !== 'escalate') return;
  // The supervisor asks only running children to stop. A child in back-off must stop, too. Otherwise its session would
  // restart after the back-off.
  outcome.escalated = rowsInOrder(children)
    .map(({ id }) => id)
    .reverse();
}
