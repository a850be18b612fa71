/** The public form of a session's tasks. Pure. It shares no objects with the state. */
import { textOf } from '../../base/messages.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { chainOf, childrenOf, parentOf, shortTitle, startTimes, taskOf } from './tasks.ts';

/** One task of `taskHistory`. Times are epoch ms. */
export interface TaskSummary {
  readonly taskId: number;
  readonly parentTaskId: number;
  /** The task's title; without a title the user's first text; without a text `Task <id>`. At most 60 characters. */
  readonly summary: string;
  /**
   * `current`: the active task; `past`: a task between the active task and the root; `undone`: a task on another
   * branch.
   */
  readonly status: 'current' | 'past' | 'undone';
  /** True if more than one task was begun below this task. */
  readonly hasBranches: boolean;
  /** When the task began; null if the time is no longer remembered. */
  readonly startedAt: number | null;
  /** When the next task began; null for the newest task, or if the time is no longer remembered. */
  readonly endedAt: number | null;
}

/** The last `limit` tasks, ascending by id. */
export function taskHistory(state: SessionState, limit: number): readonly TaskSummary[] {
  const { tasks } = state;
  const chain = chainOf(tasks, tasks.active);
  const times = startTimes(tasks);
  const first = Math.max(1, tasks.current - limit + 1);
  const texts = firstTexts(state, first);
  const found: TaskSummary[] = [];
  for (let taskId = first; taskId <= tasks.current; taskId += 1) {
    found.push({
      taskId,
      parentTaskId: parentOf(tasks, taskId),
      summary: tasks.titles.get(taskId) ?? texts.get(taskId) ?? `Task ${taskId}`,
      status: taskId === tasks.active ? 'current' : chain.has(taskId) ? 'past' : 'undone',
      hasBranches: childrenOf(tasks, taskId).length > 1,
      startedAt: times.get(taskId) ?? null,
      endedAt: times.get(taskId + 1) ?? null,
    });
  }
  return found;
}

/** The first text by the user in each task from `first` on, shortened. */
function firstTexts(state: SessionState, first: number): ReadonlyMap<number, string> {
  const texts = new Map<number, string>();
  for (const message of [...state.messages, ...state.hidden]) {
    if (!isRealUser(message)) continue;
    const task = taskOf(state.tasks, message);
    if (task === undefined || task < first || texts.has(task)) continue;
    const text = shortTitle(textOf(message.content));
    if (text !== '') texts.set(task, text);
  }
  return texts;
}

function isRealUser({ type, source, history }: LoggedMessage): boolean {
  return (
    type === 'user_message' && (source === undefined || source.type === 'user') && history?.systemInjected !== true
  );
}
