/** Starts, undoes and switches tasks (branches of a conversation). A failure is returned and writes nothing. Pure. */

import { TASK_BRANCHES_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import { chainOf, nextActive, parentOf, shortTitle, taskOf } from '../history/tasks.ts';
import { type Decision, refuse } from '../state/decision.ts';
import type { MailboxEntry } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { exitDecision } from './supervision.ts';

/** The outcome of an undo or a switch. */
export type TaskMove =
  | { readonly success: true; readonly taskId: number }
  | { readonly success: false; readonly message: string };

/** Begins a task below the active task. During a turn, the parent is the task that will be active after the turn. */
export function decideStartTask(state: SessionState, title: string | undefined): Decision {
  const id = state.tasks.current + 1;
  const short = title === undefined ? '' : shortTitle(title);
  return {
    records: [{ type: 'taskStarted', id, parent: nextActive(state.tasks), ...(short === '' ? {} : { title: short }) }],
    effects: [{ type: 'result', value: id }],
  };
}

/** Returns to the parent of the active task. */
export function decideUndo(state: SessionState): Decision {
  const from = nextActive(state.tasks);
  if (from === 0) return failed('Already at root task');
  return activate(state, parentOf(state.tasks, from), 'undo');
}

/** Activates any existing task. The root is not a task. */
export function decideSwitch(state: SessionState, id: number): Decision {
  if (!Number.isInteger(id) || id < 1 || id > state.tasks.current) return failed(`Invalid task ID: ${id}`);
  return activate(state, id, 'switch');
}

function failed(message: string): Decision {
  return { records: [], effects: [{ type: 'result', value: { success: false, message } satisfies TaskMove }] };
}

function activate(state: SessionState, id: number, cause: 'undo' | 'switch'): Decision {
  const { tasks } = state;
  const value: TaskMove = { success: true, taskId: id };
  if (id === nextActive(tasks)) return { records: [], effects: [{ type: 'result', value }] };
  if (id !== tasks.current && tasks.parents.size >= TASK_BRANCHES_MAX) {
    return refuse(
      new LimitError(`the session has ${TASK_BRANCHES_MAX} branches`, {
        data: { limit: 'taskBranches', value: tasks.parents.size },
      }),
    );
  }
  const activated = { type: 'taskActivated', id, cause } as const;
  const left = taskLeftBehind(state, id);
  if (left === undefined) return { records: [activated], effects: [{ type: 'result', value }] };
  // The new branch does not show the message of the child's task, so a half-step for it would have no content.
  const exit = exitDecision(state, { reason: 'cancelled', reply: '' });
  return {
    records: [activated, { type: 'dropped', id: left.id, reason: 'its message is of another branch' }, ...exit.records],
    effects: [...exit.effects, { type: 'result', value }],
  };
}

/** The waiting entry of a child's task, if the branch of `id` does not show the task's message; otherwise undefined. */
function taskLeftBehind({ mailbox, messages, tasks, turn }: SessionState, id: number): MailboxEntry | undefined {
  // During a turn no task becomes active (B4), and the entry that started the turn is already promoted.
  if (turn !== undefined) return undefined;
  const entry = mailbox.find(({ seed }) => seed !== undefined);
  const message = entry && messages.find(({ seq }) => seq === entry.seed);
  const task = message && taskOf(tasks, message);
  return task === undefined || chainOf(tasks, id).has(task) ? undefined : entry;
}
