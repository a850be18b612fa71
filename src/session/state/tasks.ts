/**
 * The form of a session's tasks in its state and in a snapshot. Tasks form the branches of the conversation. Plain
 * data; `history/tasks.ts` interprets it.
 */

/** The tasks of a session. Part of its state. */
export interface Tasks {
  /** The highest task id ever given; 0 before the first task. */
  current: number;
  active: number;
  /**
   * Triples that say when a task became active: seq of its first message, task id, and epoch ms at which the task
   * began. The time is 0 if the session only returned to the task. The list is flat to save memory, because every turn
   * adds a triple. The triples ascend by seq. Of several triples with the same seq, the last one counts.
   */
  starts: number[];
  /** The parents of tasks whose parent is not the preceding task. */
  parents: Map<number, number>;
  titles: Map<number, string>;
  /** True if the active task has had no turn yet, so that the next turn is its first. */
  isFresh: boolean;
  /** The request to activate a task when the running turn ends. */
  wished: Wish | undefined;
}

/** Why a task becomes active. */
export type ActivationCause = 'undo' | 'switch' | 'start';

/** An activation that waits for the end of a turn. */
export interface Wish {
  readonly task: number;
  readonly cause: ActivationCause;
}

/** `Tasks` as plain data. */
export interface PlainTasks extends Omit<Tasks, 'parents' | 'titles' | 'wished'> {
  readonly parents: readonly (readonly [number, number])[];
  readonly titles: readonly (readonly [number, string])[];
  readonly wished?: Wish;
}

/** No tasks yet. */
export function noTasks(): Tasks {
  return {
    current: 0,
    active: 0,
    starts: [],
    parents: new Map(),
    titles: new Map(),
    isFresh: false,
    wished: undefined,
  };
}

/** The form of the tasks in a snapshot. `restoreTasks(plainTasks(t))` equals `t`. */
export function plainTasks({ wished, ...tasks }: Tasks): PlainTasks {
  return {
    ...tasks,
    parents: [...tasks.parents],
    titles: [...tasks.titles],
    ...(wished === undefined ? {} : { wished }),
  };
}

/** The tasks of a snapshot; none if it was written before tasks existed. Shares nothing with the snapshot. */
export function restoreTasks(plain: PlainTasks | undefined): Tasks {
  if (plain === undefined) return noTasks();
  const { parents, titles, starts, wished } = plain;
  return { ...plain, starts: starts.slice(), parents: new Map(parents), titles: new Map(titles), wished };
}
