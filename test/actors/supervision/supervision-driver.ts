/**
 * A host for a supervisor under test: it feeds inputs one at a time and moves the time by hand. The host answers starts
 * and stops as obedient children would, unless the test gives the answers.
 */

import { rowOf, rowsInOrder } from '../../../actors/supervision/child-table.ts';
import type {
  Child,
  ExitReason,
  SupervisorAction,
  SupervisorInput,
  SupervisorState,
} from '../../../actors/supervision/state.ts';
import { decideSupervision, supervisorState } from '../../../actors/supervision/supervisor.ts';
import type { ChildSpecInput } from '../../../actors/supervision/supervisor-options.ts';

export class SupervisionDriver {
  state: SupervisorState;
  now = 1_000_000;
  /** Every action so far, oldest first. */
  readonly log: SupervisorAction[] = [];

  constructor(specs: readonly ChildSpecInput[], options: unknown = {}) {
    this.state = supervisorState(specs, options);
  }

  /** Feeds one input; returns its actions. */
  reports(input: SupervisorInput): readonly SupervisorAction[] {
    const { state, actions } = decideSupervision(this.state, input, this.now);
    this.state = state;
    this.log.push(...actions);
    return actions;
  }

  /** Feeds one input, and then the answers of obedient children to all actions that follow. Returns all actions. */
  run(input: SupervisorInput): readonly SupervisorAction[] {
    const first = this.log.length;
    this.reports(input);
    for (let at = first; at < this.log.length; at += 1) {
      const answer = answerTo(this.log[at]);
      if (answer !== undefined) this.reports(answer);
    }
    return this.log.slice(first);
  }

  /** Starts the supervisor; all its children start. */
  begin(): this {
    this.run({ type: 'begin' });
    return this;
  }

  child(id: string): Child {
    const child = rowOf(this.state.children, id);
    if (child === undefined) throw new Error(`no child ${id}`);
    return child;
  }

  /** Ids of all children watched, in the order of start. */
  ids(): string[] {
    return rowsInOrder(this.state.children).map((child) => child.id);
  }

  /** The end of a child's present run, as an input. */
  exit(id: string, kind: ExitReason['kind'] = 'error'): SupervisorInput {
    return { type: 'childExited', id, run: this.child(id).run, reason: { kind } };
  }

  started(id: string): SupervisorInput {
    return { type: 'childStarted', id, run: this.child(id).run };
  }

  startFailed(id: string, kind: ExitReason['kind'] = 'error'): SupervisorInput {
    return { type: 'startFailed', id, run: this.child(id).run, reason: { kind } };
  }

  timer(id: string, timer: 'restart' | 'kill' = 'restart'): SupervisorInput {
    return { type: 'timer', timer, id, run: this.child(id).run };
  }
}

/** The answer of a child that obeys at once; timers and reports have none. */
export function answerTo(action: SupervisorAction | undefined): SupervisorInput | undefined {
  switch (action?.type) {
    case 'start':
    case 'restart':
      return { type: 'childStarted', id: action.id, run: action.run };
    case 'stop':
      return { type: 'childExited', id: action.id, run: action.run, reason: { kind: 'shutdown' } };
    case 'kill':
      return { type: 'childExited', id: action.id, run: action.run, reason: { kind: 'killed' } };
    default:
      return undefined;
  }
}

/**
 * Actions as short texts: `start a`, `stop b`, `escalate intensity`. A test can compare their order with a list of
 * texts.
 */
export function words(actions: readonly SupervisorAction[]): string[] {
  return actions.map(word);
}

function word(action: SupervisorAction): string {
  switch (action.type) {
    case 'escalate':
      return `escalate ${action.cause.kind}`;
    case 'stopped':
      return 'stopped';
    case 'report':
      return `report ${action.event} ${action.id}`;
    case 'refuse':
      return `refuse ${action.refusal} ${action.id}`;
    case 'scheduleRestart':
    case 'scheduleKill':
      return `${action.type} ${action.id} ${action.delayMs}`;
    case 'start':
    case 'restart':
    case 'stop':
    case 'kill':
      return `${action.type} ${action.id}`;
  }
}

/** Like `words`, but only starts and stops of children, and the end of the supervisor. */
export function moves(actions: readonly SupervisorAction[]): string[] {
  return words(actions).filter((each) => /^(?:start|restart|stop|kill|escalate|stopped)\b/u.test(each));
}
