/**
 * Tasks: the branches of a conversation. Each user turn begins one below the task that is active; undoing one makes its parent
 * active, and what is begun then is its sibling. Pure but linear, as `apply`.
 *
 * Owns: which task is whose parent, which is active, and from which message on each was. Does not own: the messages; which of
 * them are shown is the business of `branch.ts`.
 * Invariants:
 *  B1 ids count from 1 and are never given twice; 0 is the root, before any task;
 *  B2 a task's parent is fixed when it begins: the task before it, unless `parents` says otherwise;
 *  B3 a message's task is that of the last start at or below its seq, unless it says otherwise itself: nothing is stored with
 *     a message, and a turn adds three numbers;
 *  B4 during a turn nothing becomes active: what is asked for then is `wished`, and happens when the turn has ended.
 */

import { TASK_STARTS_SPARE, TASK_TITLES_MAX } from '../../base/bounds.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { Tasks, Wish } from '../state/tasks.ts';

/** Numbers one start is made of. */
const STRIDE = 3;

/** A turn begins: its task is a new one, or the one that was just begun for it. `seq`: of the next message. */
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

/** Gives the next id to a task below `parent`. It is not active yet. */
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

/** The first messages with tasks of their own come into a session that had none: their tasks are one line. */
export function adoptTasks(tasks: Tasks, highest: number, seq: number, at: number): void {
  if (tasks.current > 0 || highest < 1) return;
  tasks.current = highest;
  tasks.active = highest;
  tasks.starts.push(seq, highest, at);
}

/** What is active once the running turn has ended. */
export function nextActive(tasks: Tasks): number {
  return tasks.wished?.task ?? tasks.active;
}

/** The parent of a task; 0 for the first, and for the root itself. */
export function parentOf(tasks: Tasks, task: number): number {
  return task <= 0 ? 0 : (tasks.parents.get(task) ?? task - 1);
}

/** The tasks from one up to the root, both included. */
export interface Chain {
  has(task: number): boolean;
}

/**
 * The chain of a task. Costs the branches on it, not the tasks: an imported history may name any number. A parent is below its
 * child (B2); a map that says otherwise, round in a circle perhaps, ends the walk.
 */
export function chainOf(tasks: Tasks, task: number): Chain {
  const branches = [...tasks.parents.keys()].sort((a, b) => a - b);
  /** First and last task of each unbroken line, the newest line first. */
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
      // The first line, from the newest, that begins at or below the task.
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

/** The tasks begun below one, ascending. */
export function childrenOf(tasks: Tasks, task: number): readonly number[] {
  const found: number[] = [];
  if (task >= 0 && task < tasks.current && !tasks.parents.has(task + 1)) found.push(task + 1);
  for (const [child, parent] of tasks.parents) if (parent === task) found.push(child);
  return found.sort((a, b) => a - b);
}

/** The task a message belongs to; undefined: none, it is shown on every branch. */
export function taskOf(tasks: Tasks, message: LoggedMessage): number | undefined {
  const given = message.history?.taskId;
  if (given !== undefined) return given;
  // A system message stands for the whole session.
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

/** When tasks began, epoch ms, by id: as far back as is remembered. */
export function startTimes(tasks: Tasks): ReadonlyMap<number, number> {
  const times = new Map<number, number>();
  const { starts } = tasks;
  for (let index = 0; index < starts.length; index += STRIDE) {
    const at = starts[index + 2] ?? 0;
    if (at > 0) times.set(starts[index + 1] ?? 0, at);
  }
  return times;
}

/** Forgets the starts no message in memory belongs to, but for the newest, when there are many more than messages. */
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

/** Many more starts than messages: time for `trimStarts`. */
export function areStartsMany(tasks: Tasks, messages: number): boolean {
  return tasks.starts.length > STRIDE * 2 * (messages + TASK_STARTS_SPARE);
}

/** The tasks as they are, but for what is asked of the turn under way. Shares nothing with these. */
export function tasksOfAll(tasks: Tasks): Tasks {
  return { ...copyTasks(tasks), wished: undefined };
}

/**
 * The tasks of a conversation's first messages, of which all are shown: those begun later never were. Active is the newest task
 * one of them belongs to, so that they are its branch (by place, not by seq: a system prompt, or a result that was filled in,
 * stands far before messages with lower numbers). `nextSeq`: of the message that will be behind them.
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
  // What comes next without a turn of its own is on the branch too (B3).
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

/** Tasks that share nothing with these. */
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

/** A title as it is kept: blanks run together, and at most 60 characters (code points) of it. */
export function shortTitle(text: string): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  if (characters.length <= TITLE_CHARACTERS_MAX) return characters.join('');
  return characters.slice(0, TITLE_CHARACTERS_MAX - ELLIPSIS.length).join('') + ELLIPSIS;
}
