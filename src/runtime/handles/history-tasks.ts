/** The tasks of a conversation as its embedder moves among them: one function an operation, over a session's address. */
import { z } from 'zod';
import { TASK_HISTORY_MAX } from '../../base/bounds.ts';
import { describeValue, InvalidArgumentError } from '../../base/errors.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/settings.ts';
import type { RequestMessage } from '../../models/provider.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import type { TaskSummary } from '../../session/history/task-view.ts';
import type { ShardCaller } from '../protocol/protocol.ts';

const taskSchema = z.number().int().min(0);

/** Which session is meant, and how it is reached. */
interface HistoryAddress {
  readonly link: ShardCaller;
  readonly address: { readonly session: string; readonly agent?: string };
}

/**
 * Begins a task below the active one and resolves with its id; the next turn is its first. During a turn it becomes active
 * when that has ended. `title`: 60 characters of it are kept. Throws `InvalidArgumentError` (`invalid_argument`).
 */
export async function startTask({ link, address }: HistoryAddress, title?: string): Promise<number> {
  if (title !== undefined && typeof title !== 'string') {
    throw new InvalidArgumentError('invalid_argument', `a task's title must be a string, got ${describeValue(title)}`);
  }
  return link.call('tasks.start', { ...address, ...(title === undefined ? {} : { title: wellFormed(title) }) }, false);
}

/**
 * Makes the parent of the active task active: what was said since is not shown to the model any more, and nothing is deleted.
 * During a turn it takes effect when that has ended. At the root it fails, and writes nothing.
 */
export function undo({ link, address }: HistoryAddress): Promise<TaskMove> {
  return link.call('tasks.undo', address, false);
}

/** Makes any task active, on whatever branch; as `undo`. An id that is no task fails, and writes nothing. */
export function switchTo({ link, address }: HistoryAddress, id: number): Promise<TaskMove> {
  if (typeof id !== 'number')
    return Promise.resolve({
      success: false,
      message: `Invalid task ID: ${typeof id === 'string' ? id : describeValue(id)}`,
    });
  // Safe to ask again: where it leads does not depend on where it starts.
  return link.call('tasks.switch', { ...address, id }, true);
}

/** Ids of the tasks begun below one, ascending; 0 is the root. */
export async function children({ link, address }: HistoryAddress, id: number): Promise<readonly number[]> {
  parseOption(taskSchema, 'children.id', id);
  return link.call('tasks.children', { ...address, id }, true);
}

/** The last `limit` tasks, ascending by id. Throws `InvalidArgumentError` (`invalid_argument`) for a bad limit. */
export async function taskHistory({ link, address }: HistoryAddress, limit = 10): Promise<readonly TaskSummary[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > TASK_HISTORY_MAX) {
    throw new InvalidArgumentError(
      'invalid_argument',
      `a limit must be an integer from 1 to ${TASK_HISTORY_MAX}, got ${describeValue(limit)}`,
    );
  }
  return link.call('tasks.history', { ...address, limit }, true);
}

/** The messages a request would have now: those of the active branch, as a model is sent them. */
export function activeMessages({ link, address }: HistoryAddress): Promise<readonly RequestMessage[]> {
  return link.call('tasks.messages', address, true);
}

/** The highest id given to a task; 0 before the first. */
export async function currentTaskId({ link, address }: HistoryAddress): Promise<number> {
  return (await link.call('tasks.ids', address, true)).current;
}

/** The active task; 0 is the root. */
export async function activeTaskId({ link, address }: HistoryAddress): Promise<number> {
  return (await link.call('tasks.ids', address, true)).active;
}
