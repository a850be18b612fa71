/**
 * The goals of a session and the messages pinned to them, as one value, the book (contract §1.4, §1.6). Pure: each
 * change returns a new book.
 *
 * Invariants:
 *  G1 two levels: a goal with a parent has no parts;
 *  G2 a completed goal has no open part, and keeps the time of its completion;
 *  G3 each pin has an open goal; a message has at most one pin.
 */

import { GOALS_MAX, PIN_TEXT_CHARACTERS_MAX, PREFIX_GOAL_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { Goal, SubGoal } from '../../base/goals.ts';
import type { GoalBook, GoalNode, Pin } from '../state/goals.ts';
import { estimateTokens } from '../state/tokens.ts';

/** A book without goals. */
export const EMPTY_BOOK: GoalBook = Object.freeze({ goals: [], pins: [], next: 1, pinTokens: 0 });

/** The goal with this id. */
export function goalOf(book: GoalBook, id: number): GoalNode | undefined {
  return book.goals.find((goal) => goal.id === id);
}

/** The number of open goals. */
export function activeCount(book: GoalBook): number {
  return book.goals.filter(isActive).length;
}

/** A book with one more goal, under the next id. Beyond the bound the oldest completed goal is forgotten. */
export function withGoal(book: GoalBook, goal: Omit<GoalNode, 'id'>): GoalBook {
  const goals = [...book.goals, { id: book.next, ...goal }];
  if (goals.length > GOALS_MAX) {
    const oldest = goals.find((each) => !isActive(each));
    if (oldest !== undefined) {
      const kept = goals.filter((each) => each.id !== oldest.id && each.parentId !== oldest.id);
      return { ...book, goals: kept, next: book.next + 1 };
    }
  }
  return { ...book, goals, next: book.next + 1 };
}

/** A book with a new description for one goal. */
export function withDescription(book: GoalBook, id: number, description: string): GoalBook {
  return { ...book, goals: book.goals.map((goal) => (goal.id === id ? { ...goal, description } : goal)) };
}

/**
 * A book in which a goal and its open parts are completed at the same time. Pins without an open goal are released, and
 * `released` counts them.
 */
export function withCompleted(
  book: GoalBook,
  id: number,
  at: number,
): { readonly book: GoalBook; readonly released: number } {
  const goals = book.goals.map((goal) =>
    isActive(goal) && (goal.id === id || goal.parentId === id) ? { ...goal, completedAt: at } : goal,
  );
  const active = new Set(goals.filter(isActive).map((goal) => goal.id));
  const pins = book.pins.filter((pin) => pin.goals.some((goal) => active.has(goal)));
  return { book: { ...book, goals, pins }, released: book.pins.length - pins.length };
}

/** A book with messages pinned to goals. A message that has a pin keeps it, with more goals. */
export function withPins(
  book: GoalBook,
  messages: readonly { readonly seq: number; readonly text: string }[],
  goals: readonly number[],
): GoalBook {
  const pins = new Map(book.pins.map((pin) => [pin.seq, pin]));
  for (const { seq, text } of messages) {
    const known = pins.get(seq);
    const linked = [...new Set([...(known?.goals ?? []), ...goals])];
    pins.set(seq, known === undefined ? pinOf(seq, text, linked) : { ...known, goals: linked });
  }
  return { ...book, pins: [...pins.values()].sort((a, b) => a.seq - b.seq) };
}

/** A book without the pins of these removed messages. */
export function withoutPinsOf(book: GoalBook, seqs: readonly number[]): GoalBook {
  const pins = book.pins.filter((pin) => !seqs.includes(pin.seq));
  return pins.length === book.pins.length ? book : { ...book, pins };
}

/** A book with `message` pinned to `goal`. Earlier pins that belong only to that goal are removed. */
export function withOnlyPin(book: GoalBook, goal: number, message: { seq: number; text: string }): GoalBook {
  const others = book.pins.filter((pin) => pin.goals.some((each) => each !== goal));
  return withPins({ ...book, pins: others }, [message], [goal]);
}

function pinOf(seq: number, text: string, goals: readonly number[]): Pin {
  const shown = cut(text, PIN_TEXT_CHARACTERS_MAX, `message ${seq}`);
  return { seq, text: shown, tokens: estimateTokens(shown), goals };
}

/** A text of at most `charactersMax` code points, with an ellipsis if it was cut; `blank` if it is empty. */
function cut(text: string, charactersMax: number, blank: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return blank;
  const characters = [...trimmed.slice(0, 2 * charactersMax + 2)];
  return characters.length <= charactersMax ? trimmed : `${characters.slice(0, charactersMax - 1).join('')}…`;
}

/** The public form of the goals: roots by age, each with its parts. */
export function goalSummary(book: GoalBook): readonly Goal[] {
  return book.goals
    .filter((goal) => goal.parentId === undefined)
    .map((goal) => ({ ...brief(goal), subGoals: partsOf(book, goal.id).map(brief) }));
}

/** The public form of a single goal. */
export function publicGoal(book: GoalBook, goal: GoalNode): Goal {
  const { parentId } = goal;
  const subGoals = partsOf(book, goal.id).map(brief);
  return parentId === undefined ? { ...brief(goal), subGoals } : { ...brief(goal), parentId, subGoals };
}

function brief(goal: GoalNode): SubGoal {
  return { id: goal.id, description: goal.description, status: isActive(goal) ? 'active' : 'completed' };
}

function partsOf(book: GoalBook, id: number): readonly GoalNode[] {
  return book.goals.filter((goal) => goal.parentId === id);
}

/** True if the goal is open. */
export function isActive(goal: GoalNode): boolean {
  return goal.completedAt === undefined;
}

/**
 * The text before a window that begins at message `firstSeq` (§6.7, Δ26). It lists the open goals. Under each it lists
 * the pinned messages that have left the window, the newest that fit the budget. Undefined if no goal is open.
 */
export function goalsText(book: GoalBook, firstSeq: number): string | undefined {
  const roots = book.goals.filter((goal) => goal.parentId === undefined && isActive(goal));
  if (roots.length === 0) return undefined;
  const pins = pinsShown(book, firstSeq);
  const shown = new Set<number>();
  const sections = roots.map((root) => rootText(book, root, pins, shown));
  return ['Current Goals\n=============', ...sections].join('\n\n');
}

function rootText(book: GoalBook, root: GoalNode, pins: readonly Pin[], shown: Set<number>): string {
  const lines = [`### ${cut(root.description, PREFIX_GOAL_CHARACTERS_MAX, '')}`];
  const ids = new Set([root.id]);
  for (const part of partsOf(book, root.id)) {
    lines.push(`- [${isActive(part) ? ' ' : 'x'}] ${part.description}`);
    if (isActive(part)) ids.add(part.id);
  }
  const own = pins.filter((pin) => pin.goals.some((goal) => ids.has(goal)));
  if (own.length > 0) lines.push('');
  for (const pin of own) {
    lines.push(shown.has(pin.seq) ? `  📌 message ${pin.seq}` : `  📌 message ${pin.seq}: ${pin.text}`);
    shown.add(pin.seq);
  }
  return lines.join('\n');
}

/**
 * The newest pins of messages before the window that fit the token limit, ascending. The newest one is always included.
 */
function pinsShown(book: GoalBook, firstSeq: number): readonly Pin[] {
  const shown: Pin[] = [];
  let tokens = 0;
  for (const pin of [...book.pins].reverse()) {
    if (pin.seq >= firstSeq) continue;
    tokens += pin.tokens;
    if (shown.length > 0 && tokens > book.pinTokens) break;
    shown.push(pin);
  }
  return shown.reverse();
}
