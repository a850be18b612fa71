/**
 * Checks and records changes of goals (contract §1.4, §11.5). A mailbox entry announces each change to the model and
 * joins the next half-step. Pure.
 */
import { GOAL_DESCRIPTION_CHARACTERS_MAX, GOALS_ACTIVE_MAX, PINS_MAX } from '../../base/bounds.ts';
import { ConfigError, ContentError, LimitError, type TroupeError } from '../../base/errors.ts';
import type { GoalChange } from '../../base/goals.ts';
import { textOf } from '../../base/messages.ts';
import { activeCount, goalOf, isActive, publicGoal, withCompleted } from '../rules/goal-book.ts';
import { bookOf } from '../rules/goals.ts';
import { mailboxRefusal } from '../rules/mailbox.ts';
import { type Decision, refuse } from '../state/decision.ts';
import type { GoalBook, GoalNode } from '../state/goals.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/**
 * Decides a change of goals. The result is the changed goal; for `attach`, the number of links between messages and
 * goals.
 */
export function decideGoal(state: SessionState, change: GoalChange, environment: Environment): Decision {
  const refusal = refusalOf(state, change, environment);
  if (refusal !== undefined) return refuse(refusal);
  const book = bookOf(state);
  switch (change.action) {
    case 'create':
      return create(state, book, change);
    case 'update': {
      const { id, description } = change;
      const goal = openGoal(book, id);
      return {
        records: [
          { type: 'goalUpdated', id, description },
          entry(state, id, `Goal updated: ${description} (id: ${id})`),
        ],
        effects: [{ type: 'result', value: publicGoal(book, { ...goal, description }) }],
      };
    }
    case 'complete':
      return complete(state, book, openGoal(book, change.id), environment.now);
    case 'attach':
      return attach(state, change);
  }
}

function create(state: SessionState, book: GoalBook, change: Extract<GoalChange, { action: 'create' }>): Decision {
  const { description, parentId } = change;
  const id = book.next;
  const isPart = parentId !== undefined;
  const of = isPart ? { parentId } : {};
  return {
    records: [
      { type: 'goalCreated', id, description, ...of },
      entry(state, id, `${isPart ? 'Sub-goal' : 'Goal'} created: ${description} (id: ${id})`),
    ],
    effects: [{ type: 'result', value: { id, description, status: 'active', ...of, subGoals: [] } }],
  };
}

function complete(state: SessionState, book: GoalBook, goal: GoalNode, now: number): Decision {
  const done = withCompleted(book, goal.id, now);
  const pins = done.released === 1 ? '1 orphaned pin' : `${done.released} orphaned pins`;
  const released = done.released === 0 ? '' : ` (released ${pins})`;
  const completed = openGoal(done.book, goal.id);
  return {
    records: [
      { type: 'goalDone', id: goal.id },
      entry(state, goal.id, `Goal completed: ${goal.description} (id: ${goal.id})${released}`),
    ],
    effects: [{ type: 'result', value: publicGoal(done.book, completed) }],
  };
}

function attach(state: SessionState, change: Extract<GoalChange, { action: 'attach' }>): Decision {
  const wanted = new Set(change.messages);
  const messages = state.messages
    .filter((message) => wanted.has(message.seq))
    .map((message) => ({ seq: message.seq, text: textOf(message.content) }));
  const goals = [...new Set(change.goals)];
  return {
    records: [{ type: 'pinned', messages, goals }],
    effects: [{ type: 'result', value: { links: messages.length * goals.length } }],
  };
}

/** The goal with this id, whose existence `refusalOf` has checked. */
function openGoal(book: GoalBook, id: number): GoalNode {
  const goal = goalOf(book, id);
  if (goal === undefined) throw new Error(`goal ${id} was checked but does not exist`);
  return goal;
}

/**
 * The entry that announces the change to the model. It is a background entry: it joins the next half-step and starts
 * none.
 */
function entry(state: SessionState, goal: number, content: string): SessionRecord {
  return {
    type: 'accepted',
    id: state.nextPendingId,
    entry: { type: 'from_melete_goal', content, source: { type: 'goal', name: String(goal) } },
  };
}

function refusalOf(state: SessionState, change: GoalChange, environment: Environment): TroupeError | undefined {
  // The entry has the bytes of the goal's description (a sentence or two) plus a few words.
  const bytes = 'description' in change ? Buffer.byteLength(change.description) : 0;
  const full = change.action === 'attach' ? undefined : mailboxRefusal(state, bytes, environment);
  if (full !== undefined) return full;
  const book = bookOf(state);
  if (change.action === 'attach') return attachProblem(state, book, change);
  if (change.action !== 'complete') {
    const problem = descriptionProblem(change.description);
    if (problem !== undefined) return problem;
  }
  if (change.action !== 'create') return openProblem(book, change.id);
  if (activeCount(book) >= GOALS_ACTIVE_MAX) {
    return new LimitError(`Too many open goals: ${GOALS_ACTIVE_MAX}. Complete one first.`, {
      data: { limit: 'goals' },
    });
  }
  return change.parentId === undefined ? undefined : parentProblem(book, change.parentId);
}

function descriptionProblem(description: string): TroupeError | undefined {
  if (description.trim() === '') return new ContentError('Description cannot be blank');
  if (description.length <= GOAL_DESCRIPTION_CHARACTERS_MAX) return undefined;
  return new LimitError(
    `a goal's description has at most ${GOAL_DESCRIPTION_CHARACTERS_MAX} characters, got ${description.length}`,
    { data: { limit: 'goalDescription', value: description.length } },
  );
}

function openProblem(book: GoalBook, id: number): TroupeError | undefined {
  const goal = goalOf(book, id);
  if (goal === undefined) return new ConfigError(`Goal not found: ${id}`, { data: { key: 'id' } });
  if (!isActive(goal)) return new ConfigError(`Goal already completed: ${id}`, { data: { key: 'id' } });
  return undefined;
}

function parentProblem(book: GoalBook, id: number): TroupeError | undefined {
  const data = { key: 'parentId' };
  const parent = goalOf(book, id);
  if (parent === undefined) {
    return new ConfigError(`The parent of a goal must belong to the same session: no goal ${id}`, { data });
  }
  if (parent.parentId !== undefined) return new ConfigError('Goals cannot nest deeper than two levels', { data });
  if (!isActive(parent)) return new ConfigError(`Goal already completed: ${id}`, { data });
  return undefined;
}

/** Why messages cannot be attached to goals: one error that lists all problems; undefined if there is none. */
function attachProblem(
  state: SessionState,
  book: GoalBook,
  { messages, goals }: Extract<GoalChange, { action: 'attach' }>,
): TroupeError | undefined {
  const known = new Set(state.messages.map((message) => message.seq));
  const lost = messages.filter((seq) => !known.has(seq));
  const absent = goals.filter((id) => goalOf(book, id) === undefined);
  const done = goals.filter((id) => {
    const goal = goalOf(book, id);
    return goal !== undefined && !isActive(goal);
  });
  const problems = [
    ...(messages.length === 0 ? ['messages cannot be empty'] : []),
    ...(goals.length === 0 ? ['goals cannot be empty'] : []),
    ...(lost.length === 0 ? [] : [`Messages not found: ${lost.join(', ')}`]),
    ...(done.length === 0 ? [] : [`Goals already completed: ${done.join(', ')}`]),
    ...(absent.length === 0 ? [] : [`Goals not found: ${absent.join(', ')}`]),
  ];
  if (problems.length > 0) return new ConfigError(problems.join('; '), { data: { key: 'attach' } });
  const pinned = new Set([...book.pins.map((pin) => pin.seq), ...messages]);
  if (pinned.size <= PINS_MAX) return undefined;
  return new LimitError(`Too many pinned messages: ${PINS_MAX}. Complete a goal first.`, { data: { limit: 'pins' } });
}
