/**
 * The state in which a fork begins (its seed): the conversation of another session up to one message, without running
 * work. Pure.
 *
 * A fork copies the messages, shown and hidden, with tasks, compressions, epoch and system text, and the agent with its
 * grants. It also copies the counters whose numbers appear in messages, so that a number means the same in both
 * sessions. It does not copy the mailbox, receipts, keys, children and running calls. In requests of the fork, a call
 * without a result gets the notice for a missing result.
 */

import { defined } from '../../base/defined.ts';
import { InvalidArgumentError } from '../../base/errors.ts';
import { withDeparture } from '../rules/eviction.ts';
import { settledMemory } from '../rules/memory.ts';
import { awaitedAtEnd } from '../rules/server-uses.ts';
import { type ForkSeed, SAME } from '../state/fork-seed.ts';
import { isSpoken, type LoggedMessage } from '../state/messages.ts';
import { addCallIds, type SessionState } from '../state/state.ts';
import { plainTasks, restoreTasks } from '../state/tasks.ts';
import { branchShown, everyMessage } from './branch.ts';
import { tasksOfAll, tasksOfBeginning } from './tasks.ts';

/**
 * The seed of a fork of this state. `at`: seq of the fork's last message. A round is an answer with the results of its
 * calls. A conversation cannot end inside a round, so a cut there moves to the end of the round. Throws
 * `InvalidArgumentError` (`message_not_found`) if the conversation has no message with the seq `at` now.
 */
export function forkSeed(state: SessionState, at?: number): ForkSeed {
  const { shown: all, hidden } = branchShown(state);
  const count = at === undefined ? all.length : cutBehind(all, at);
  const isWhole = count === all.length;
  const messages = isWhole ? all.slice() : all.slice(0, count);
  const last = isWhole ? state.nextMessageSeq - 1 : highestSeq(messages);
  const same = Object.fromEntries(SAME.map((member) => [member, state[member]])) as Pick<
    SessionState,
    (typeof SAME)[number]
  >;
  return {
    ...same,
    // A text with the parent's goals precedes the parent's window. It does not precede the fork's window, because the
    // fork has its own goals. So the fork cannot send the parent's thoughts (R21).
    thoughtFloor: state.prefix === undefined ? state.thoughtFloor : state.nextMessageSeq,
    // The answered part stays frozen, so that the fork's requests begin with bytes that a model has already read. After
    // a cut, that part ends before the last answer, because no request ended with that answer.
    sealedSeq: Math.min(state.sealedSeq, isWhole ? last : endOfRequest(messages)),
    // The cut may separate calls of the provider from their results.
    ...defined({ awaitedUses: awaitedAtEnd(messages) }),
    messages,
    hidden: isWhole ? hidden.slice() : hiddenUntil(hidden, messages),
    ...(state.goal === undefined ? {} : { goal: { ...state.goal } }),
    ...(state.memory === undefined ? {} : { memory: settledMemory(state.memory) }),
    tasks: plainTasks(
      isWhole ? tasksOfAll(state.tasks) : tasksOfBeginning(state.tasks, messages, state.nextMessageSeq),
    ),
    compactions: [...state.compactions],
  };
}

/** Copies a seed into an empty state. */
export function plantSeed(state: SessionState, seed: ForkSeed): void {
  const { messages, hidden, goal, memory, tasks, compactions, ...same } = seed;
  Object.assign(state, same);
  state.memory = memory;
  state.messages = messages.slice();
  state.hidden = hidden.slice();
  // A state that is folded only to read all messages has the messages of all branches in `messages`.
  if (state.keepsAll) [state.messages, state.hidden] = [everyMessage(state).slice(), []];
  state.goal = goal === undefined ? undefined : { ...goal };
  state.tasks = restoreTasks(tasks);
  // A seed that an earlier version stored lacks the times of its compressions.
  const made = compactions.map(([number, { task, at }]) => [number, { task, at: at ?? state.createdAt }] as const);
  state.compactions = new Map(made);
  const times = compactions.flatMap(([, { at }]) => at ?? []).sort((a, b) => a - b);
  state.departures = times.reduce<readonly number[]>(withDeparture, []);
  state.tokens = 0;
  state.promptCount = 0;
  state.spoken = [...state.messages, ...state.hidden].filter(isSpoken).length;
  for (const message of state.messages) {
    state.tokens += message.tokens;
    if (message.prompt === true) state.promptCount += 1;
  }
  addCallIds(state, state.messages);
  addCallIds(state, state.hidden);
}

/** The seq of the last message that the model did not write; 0 if there is none. */
function endOfRequest(messages: readonly LoggedMessage[]): number {
  return messages.findLast(({ type }) => type !== 'agent_message' && type !== 'tool_call')?.seq ?? 0;
}

/** The number of messages up to the end of the round that contains `at`. */
function cutBehind(messages: readonly LoggedMessage[], at: number): number {
  const index = messages.findIndex((message) => message.seq === at);
  const message = messages[index];
  if (message === undefined) {
    throw new InvalidArgumentError('message_not_found', `the conversation has no message ${at}`, { data: { at } });
  }
  const first = firstOfRound(messages, index);
  let end = first + 1;
  while (messages[end]?.inAnswer === true) end += 1;
  const calls = new Set<string>();
  for (const { type, toolUseId } of messages.slice(first, end)) {
    if (type === 'tool_call' && toolUseId !== undefined) calls.add(toolUseId);
  }
  let last = Math.max(end - 1, index);
  for (let place = end; place < messages.length && calls.size > 0; place += 1) {
    const { type, toolUseId } = messages[place] as LoggedMessage;
    if (type === 'tool_response' && toolUseId !== undefined && calls.delete(toolUseId)) last = Math.max(last, place);
  }
  return last + 1;
}

/** Index of the first message of the answer that a message belongs to. A result belongs to the answer with its call. */
function firstOfRound(messages: readonly LoggedMessage[], index: number): number {
  const message = messages[index];
  let first = index;
  if (message?.type === 'tool_response') {
    const call = messages.findIndex(({ type, toolUseId }) => type === 'tool_call' && toolUseId === message.toolUseId);
    if (call !== -1) first = call;
  }
  while (first > 0 && messages[first]?.inAnswer === true) first -= 1;
  return first;
}

/**
 * The hidden messages with seqs up to the last message before the cut. A system prompt does not count as the last
 * message, because it comes first no matter when it was written.
 */
function hiddenUntil(hidden: readonly LoggedMessage[], messages: readonly LoggedMessage[]): readonly LoggedMessage[] {
  const last = highestSeq(messages.filter((message) => message.prompt !== true));
  return hidden.filter((message) => message.seq <= last);
}

function highestSeq(messages: readonly LoggedMessage[]): number {
  let highest = 0;
  for (const message of messages) highest = Math.max(highest, message.seq);
  return highest;
}
