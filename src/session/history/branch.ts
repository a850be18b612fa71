/**
 * The messages that the active branch shows: messages of the tasks from the active one up to the root (the chain), and
 * messages without a task. Messages that a compression on that chain archived are not shown. Every message that is not
 * shown is hidden: it stays in memory and reappears with its branch. Changes the given state in place, as `apply` does;
 * otherwise pure.
 *
 * Invariants:
 *  V1 `messages` and `hidden` have no message in common, and each is in the order of the conversation;
 *  V2 all parts of an answer are in the same list;
 *  V3 `tokens` and `promptCount` count only `messages` (S6); requests have no hidden messages;
 *  V4 the ids of hidden calls stay in `callIds`. Otherwise a model could repeat such an id, and the id would exist
 *     twice when the branch reappears (R05).
 */
import { HIDDEN_MESSAGES_MAX } from '../../base/bounds.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { placeOf } from './logged-form.ts';
import { chainOf, taskOf } from './tasks.ts';

/** The outcome of a change of branch. */
export interface BranchChange {
  /** Messages that returned to the conversation. */
  readonly shown: readonly LoggedMessage[];
  /** Messages that left the conversation. */
  readonly hidden: readonly LoggedMessage[];
}

/** The messages that a branch shows and those that it hides, each in the order of the conversation. */
export interface BranchShown {
  readonly shown: readonly LoggedMessage[];
  readonly hidden: readonly LoggedMessage[];
}

/**
 * Moves messages between `messages` and `hidden`, so that `messages` has exactly the messages that the active branch
 * shows. Apart from sorting, the time is linear in the length of both lists.
 */
export function showBranch(state: SessionState): BranchChange {
  if (state.keepsAll) return { shown: [], hidden: [] };
  const isShown = visibility(state);
  const [kept, leaving] = divide(state.messages, isShown);
  const [returning, staying] = divide(state.hidden, isShown);
  if (leaving.length + returning.length === 0) return { shown: returning, hidden: leaving };
  state.messages = returning.length === 0 ? kept : inPlace(kept, returning);
  state.hidden = leaving.length === 0 ? staying : inPlace(staying, leaving);
  for (const message of leaving) count(state, message, -1);
  for (const message of returning) count(state, message, 1);
  forgetOldest(state);
  return { shown: returning, hidden: leaving };
}

/** The messages that the active branch shows and those it hides, even if the state keeps all messages in one list. */
export function branchShown(state: SessionState): BranchShown {
  if (!state.keepsAll) return { shown: state.messages, hidden: state.hidden };
  const [shown, hidden] = divide(everyMessage(state), visibility(state));
  return { shown, hidden };
}

/** Every message in memory, of all branches, in the order of the conversation. */
export function everyMessage(state: SessionState): readonly LoggedMessage[] {
  return state.hidden.length === 0 ? state.messages : inPlace(state.messages, state.hidden);
}

/**
 * Messages in the order of their seqs, for reading page by page. Shortened results are left out, because the whole
 * results are listed.
 */
export function bySeq(messages: readonly LoggedMessage[]): readonly LoggedMessage[] {
  let last = 0;
  const isListed = messages.every((message) => {
    const isNext = message.seq > last && message.shortens === undefined;
    last = message.seq;
    return isNext;
  });
  if (isListed) return messages;
  return messages.filter((message) => message.shortens === undefined).sort((a, b) => a.seq - b.seq);
}

function visibility(state: SessionState): (message: LoggedMessage) => boolean {
  const chain = chainOf(state.tasks, state.tasks.active);
  const { compactions } = state;
  const isApplied = (number: number): boolean => {
    const task = compactions.get(number)?.task;
    return task === undefined || chain.has(task);
  };
  return (message) => {
    const task = taskOf(state.tasks, message);
    if (task !== undefined && !chain.has(task)) return false;
    return message.archivedBy === undefined || !message.archivedBy.some(isApplied);
  };
}

/** Divides messages into shown and hidden messages. Later parts of an answer go into the list of its first part. */
function divide(
  messages: readonly LoggedMessage[],
  isShown: (message: LoggedMessage) => boolean,
): readonly [LoggedMessage[], LoggedMessage[]] {
  const yes: LoggedMessage[] = [];
  const no: LoggedMessage[] = [];
  let target = yes;
  for (const message of messages) {
    if (message.inAnswer !== true) target = isShown(message) ? yes : no;
    target.push(message);
  }
  return [yes, no];
}

/**
 * Merges two lists in the order of the conversation. Messages with equal positions are parts of one answer and come
 * from the same list, so the stable sort keeps their order.
 */
function inPlace(some: readonly LoggedMessage[], others: readonly LoggedMessage[]): LoggedMessage[] {
  return [...some, ...others].sort((a, b) => placeOf(a) - placeOf(b));
}

function count(state: SessionState, message: LoggedMessage, sign: 1 | -1): void {
  state.tokens += sign * message.tokens;
  if (message.prompt === true) state.promptCount += sign;
}

/** Removes the oldest hidden messages beyond the bound. All parts of an answer are removed together. */
function forgetOldest(state: SessionState): void {
  const { hidden } = state;
  let gone = hidden.length - HIDDEN_MESSAGES_MAX;
  if (gone <= 0) return;
  while (hidden[gone]?.inAnswer === true) gone += 1;
  for (const message of hidden.slice(0, gone)) {
    state.hiddenFloor = Math.max(state.hiddenFloor, message.seq + 1);
    if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.delete(message.toolUseId);
  }
  state.hidden = hidden.slice(gone);
}
