/**
 * The operations of `History` on the tasks of a conversation: one function per operation. Each gets the session's
 * address.
 */
import { z } from 'zod';
import { TASK_HISTORY_MAX } from '../../base/bounds.ts';
import { describeValue, InvalidArgumentError } from '../../base/errors.ts';
import { wellFormed } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { RequestMessage } from '../../models/provider.ts';
import type { TaskMove } from '../../session/decide/tasks.ts';
import type { TaskSummary } from '../../session/history/task-view.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import { checkTaskOptions, type TaskOptions } from './history-options.ts';

const taskSchema = z.number().int().min(0);

/** The session on which the operations work, and the way to reach it. */
export interface HistoryAddress {
  readonly link: ShardCaller;
  readonly address: { readonly session: string; readonly agent?: string };
}

/**
 * Begins a task below the active one and resolves with its id. The next turn is the first turn of the new task. During
 * a turn, the task becomes active when that turn has ended. `title`: the first 60 characters are kept. Rejects with
 * `InvalidArgumentError` (`invalid_argument`), and with `ConfigError`.
 */
export async function startTask(
  { link, address }: HistoryAddress,
  title: string | undefined,
  options: TaskOptions,
): Promise<number> {
  if (title !== undefined && typeof title !== 'string') {
    throw new InvalidArgumentError('invalid_argument', `a task's title must be a string, got ${describeValue(title)}`);
  }
  const named = checkTaskOptions('startTask', options);
  const given = title === undefined ? {} : { title: wellFormed(title) };
  return link.call('tasks.start', { ...address, ...given, ...named }, false);
}

/**
 * Makes the parent of the active task active. The model no longer sees the messages of the undone task, but nothing is
 * deleted. During a turn, the undo takes effect when the turn has ended. If the root is active, the undo fails and
 * writes nothing.
 */
export async function undo({ link, address }: HistoryAddress, options: TaskOptions): Promise<TaskMove> {
  return link.call('tasks.undo', { ...address, ...checkTaskOptions('undo', options) }, false);
}

/**
 * Makes any task but the root (0) active, on any branch; otherwise like `undo`. Any other id fails and writes nothing.
 */
export async function switchTo({ link, address }: HistoryAddress, id: number, options: TaskOptions): Promise<TaskMove> {
  const named = checkTaskOptions('switchTo', options);
  if (typeof id !== 'number')
    return { success: false, message: `Invalid task ID: ${typeof id === 'string' ? id : describeValue(id)}` };
  // The call is safe to repeat, because the result does not depend on the task that was active before.
  return link.call('tasks.switch', { ...address, id, ...named }, true);
}

/** The ids of the tasks begun below a task, ascending; 0 is the root. */
export async function children({ link, address }: HistoryAddress, id: number): Promise<readonly number[]> {
  parseOption(taskSchema, 'children.id', id);
  return link.call('tasks.children', { ...address, id }, true);
}

/** The last `limit` tasks, ascending by id. A bad limit rejects with `InvalidArgumentError` (`invalid_argument`). */
export async function taskHistory({ link, address }: HistoryAddress, limit = 10): Promise<readonly TaskSummary[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > TASK_HISTORY_MAX) {
    throw new InvalidArgumentError(
      'invalid_argument',
      `a limit must be an integer from 1 to ${TASK_HISTORY_MAX}, got ${describeValue(limit)}`,
    );
  }
  return link.call('tasks.history', { ...address, limit }, true);
}

/**
 * The messages of the active branch as a request would have them now, without transient messages and waiting entries.
 */
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
