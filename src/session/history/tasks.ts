/**
 * Tasks: the branches of a conversation. Each user turn begins a task below the active one. Undoing a task makes its
 * parent active, so the next task is a sibling of the undone task. Changes the given state in place, as `apply` does;
 * otherwise pure.
 *
 * Owns: each task's parent, the active task, and the seqs from which on each task was active (its starts). Does not
 * own: the messages; `branch.ts` determines which of them are shown. Invariants:
 *  B1 ids count from 1 and are never given twice; 0 is the root, before any task;
 *  B2 a task's parent is fixed when the task begins: the task with the preceding id, unless `parents` says otherwise;
 *  B3 a message belongs to the task of the last start at or below the message's seq, unless the message itself names a
 *     task. So messages need not store their task, and a turn adds only three numbers;
 *  B4 during a turn no task becomes active: a request made during a turn is kept in `wished` and carried out when the
 *     turn has ended.
 */

import { TASK_STARTS_SPARE, TASK_TITLES_MAX } from '../../base/bounds.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { Tasks, Wish } from '../state/tasks.ts';

/** The number of values in one start. */
const STRIDE = 3;

/**
 * Begins the task of a turn. If the active task is fresh (it has had no turn yet), it becomes the task of this turn.
 * `seq`: seq of the next message. `at`: epoch ms.
 */
export function beginTurnTask(tasks: Tasks, seq: number, at: number): void {
  if (tasks.isFresh) {
    tasks.isFresh = false;
    return;
  }
  const task = tasks.current + 1;
  if (tasks.active !== tasks.current) tasks.parents.set(task, tasks.active);
  tasks.current = task;
  tasks.active = task;
  tasks.starts.push(seq, task, at);
}

/** Adds a task below `parent`, with the next id. The task is not active yet. */
export function addTask(tasks: Tasks, task: number, parent: number, title: string | undefined): void {
  if (task !== tasks.current + 1) throw new Error(`B1: task ${task} behind task ${tasks.current}`);
  tasks.current = task;
  if (parent !== task - 1) tasks.parents.set(task, parent);
  if (title === undefined) return;
  tasks.titles.set(task, title);
  if (tasks.titles.size <= TASK_TITLES_MAX) return;
  const oldest = tasks.titles.keys().next();
  if (oldest.done !== true) tasks.titles.delete(oldest.value);
}

/** Makes a task the active one, from message `seq` on. */
export function enterTask(tasks: Tasks, wish: Wish, seq: number, at: number): void {
  tasks.active = wish.task;
  tasks.isFresh = wish.cause === 'start';
  tasks.wished = undefined;
  tasks.starts.push(seq, wish.task, wish.cause === 'start' ? at : 0);
}

/**
 * Takes over the tasks that added messages name, if the session had no tasks. Each of these tasks is the parent of the
 * next. `highest`: the highest of their ids.
 */
export function adoptTasks(tasks: Tasks, highest: number, seq: number, at: number): void {
  if (tasks.current > 0 || highest < 1) return;
  tasks.current = highest;
  tasks.active = highest;
  tasks.starts.push(seq, highest, at);
}

/** The task that will be active when the running turn has ended. */
export function nextActive(tasks: Tasks): number {
  return tasks.wished?.task ?? tasks.active;
}

/** The parent of a task; 0 for the first task, and for the root itself. */
export function parentOf(tasks: Tasks, task: number): number {
  return task <= 0 ? 0 : (tasks.parents.get(task) ?? task - 1);
}

/** The tasks from a given task up to the root, both included. */
export interface Chain {
  has(task: number): boolean;
}

/**
 * The chain of a task. The cost depends on the number of branches, not on the number of tasks, because an imported
 * history may name any number of tasks. A parent has a lower id than its child (B2). The walk ends at a parent without
 * a lower id, so that a cycle cannot make the walk endless.
 */
export function chainOf(tasks: Tasks, task: number): Chain {
  const branches = [...tasks.parents.keys()].sort((a, b) => a - b);
  /** The chain as lines of consecutive ids: the first and the last id of each line, the newest line first. */
  const lines: (readonly [number, number])[] = [];
  let last = task;
  for (let index = branches.length - 1; index >= 0 && last > 0; index -= 1) {
    const first = branches[index] ?? 0;
    if (first > last) continue;
    lines.push([first, last]);
    const parent = parentOf(tasks, first);
    last = parent < first ? parent : 0;
  }
  lines.push([0, last]);
  return {
    has(id) {
      let low = 0;
      let high = lines.length - 1;
      // Find the first line, from the newest, that begins at or below the task.
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((lines[middle]?.[0] ?? 0) <= id) high = middle;
        else low = middle + 1;
      }
      const line = lines[low];
      return line !== undefined && id >= line[0] && id <= line[1];
    },
  };
}

/** The tasks begun below a task, ascending. */
export function childrenOf(tasks: Tasks, task: number): readonly number[] {
  const found: number[] = [];
  if (task >= 0 && task < tasks.current && !tasks.parents.has(task + 1)) found.push(task + 1);
  for (const [child, parent] of tasks.parents) if (parent === task) found.push(child);
  return found.sort((a, b) => a - b);
}

/** The task that a message belongs to; undefined if it belongs to none, so that every branch shows it. */
export function taskOf(tasks: Tasks, message: LoggedMessage): number | undefined {
  const given = message.history?.taskId;
  if (given !== undefined) return given;
  // A system message belongs to the whole session.
  if (message.prompt === true) return undefined;
  const { starts } = tasks;
  let low = 0;
  let high = starts.length / STRIDE;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle * STRIDE] ?? 0) <= message.seq) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? undefined : starts[(low - 1) * STRIDE + 1];
}

/** The times (epoch ms) at which tasks began, by task id, as far as they are remembered. */
export function startTimes(tasks: Tasks): ReadonlyMap<number, number> {
  const times = new Map<number, number>();
  const { starts } = tasks;
  for (let index = 0; index < starts.length; index += STRIDE) {
    const at = starts[index + 2] ?? 0;
    if (at > 0) times.set(starts[index + 1] ?? 0, at);
  }
  return times;
}

/**
 * Forgets starts that no message in memory belongs to, except the newest starts. Does nothing unless there are many
 * more starts than messages.
 */
export function trimStarts(tasks: Tasks, lists: readonly (readonly LoggedMessage[])[]): void {
  const { starts } = tasks;
  const count = lists.reduce((sum, list) => sum + list.length, 0);
  const newest = starts.length / STRIDE - TASK_STARTS_SPARE;
  if (newest <= count) return;
  const seqs = lists.flatMap((list) => list.map((message) => message.seq)).sort((a, b) => a - b);
  const kept: number[] = [];
  let at = 0;
  for (let index = 0; index < newest; index += 1) {
    const from = starts[index * STRIDE] ?? 0;
    const to = starts[(index + 1) * STRIDE] ?? Number.POSITIVE_INFINITY;
    while ((seqs[at] ?? Number.POSITIVE_INFINITY) < from) at += 1;
    if ((seqs[at] ?? Number.POSITIVE_INFINITY) < to) kept.push(...starts.slice(index * STRIDE, (index + 1) * STRIDE));
  }
  tasks.starts = [...kept, ...starts.slice(newest * STRIDE)];
}

/** True if there are many more starts than messages, so that `trimStarts` is due. */
export function areStartsMany(tasks: Tasks, messages: number): boolean {
  return tasks.starts.length > STRIDE * 2 * (messages + TASK_STARTS_SPARE);
}

/** A copy of the tasks without the waiting request (`wished`). It shares nothing with the original. */
export function tasksOfAll(tasks: Tasks): Tasks {
  return { ...copyTasks(tasks), wished: undefined };
}

/**
 * The tasks for a fork that begins with only the first messages of a conversation. Tasks that began later are left out.
 * The active task is the newest task of these messages, so that its branch shows all of them. System prompts, which
 * belong to no task, do not count. `nextSeq`: seq of the fork's next message.
 */
export function tasksOfBeginning(tasks: Tasks, messages: readonly LoggedMessage[], nextSeq: number): Tasks {
  let last = 0;
  let active = 0;
  for (const message of messages) {
    const task = taskOf(tasks, message);
    if (task === undefined) continue;
    last = Math.max(last, message.seq);
    active = Math.max(active, task);
  }
  const starts: number[] = [];
  let current = active;
  for (let index = 0; index < tasks.starts.length && (tasks.starts[index] ?? 0) <= last; index += STRIDE) {
    starts.push(...tasks.starts.slice(index, index + STRIDE));
    current = Math.max(current, tasks.starts[index + 1] ?? 0);
  }
  // The fork's next messages must belong to this branch too, even if no new turn begins (B3).
  if (active !== (starts.at(-2) ?? 0)) starts.push(nextSeq, active, 0);
  const isKnown = ([task]: readonly [number, unknown]): boolean => task <= current;
  return {
    current,
    active,
    starts,
    parents: new Map([...tasks.parents].filter(isKnown)),
    titles: new Map([...tasks.titles].filter(isKnown)),
    isFresh: false,
    wished: undefined,
  };
}

/** A copy that shares nothing with the original. */
function copyTasks(tasks: Tasks): Tasks {
  return {
    ...tasks,
    starts: tasks.starts.slice(),
    parents: new Map(tasks.parents),
    titles: new Map(tasks.titles),
  };
}

const TITLE_CHARACTERS_MAX = 60;

const ELLIPSIS = '...';

/** The stored form of a title: white space is joined, and at most 60 code points are kept. */
export function shortTitle(text: string): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  if (characters.length <= TITLE_CHARACTERS_MAX) return characters.join('');
  return characters.slice(0, TITLE_CHARACTERS_MAX - ELLIPSIS.length).join('') + ELLIPSIS;
}
