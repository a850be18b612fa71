/**
 * The window of a conversation (contract §6.2) and the eviction of old messages from it. A window that moved by one
 * message per turn would change the beginning of every request. So old messages leave in batches, whose size is a
 * fraction of the token budget (`evictionFraction`). Each batch opens an epoch; within an epoch the beginning of a
 * request is byte-stable (A8). Pure.
 *
 * The last part of the file decides which old history may be removed: messages that left the window of the active
 * branch long ago. Messages that only other branches show stay. A branch that becomes active later lacks the removed
 * messages.
 */
import { DEPARTURES_MAX } from '../../base/bounds.ts';
import { chainOf, taskOf } from '../history/tasks.ts';
import type { Environment } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { continuesAnswer } from './answer.ts';

/**
 * The newest messages whose tokens fit `budget`, oldest first: a contiguous suffix that stops at the first overflow. It
 * always contains the newest message, even if that alone exceeds the budget.
 */
export function viewport(messages: readonly LoggedMessage[], budget: number): readonly LoggedMessage[] {
  let total = 0;
  let start = messages.length;
  while (start > 0) {
    const tokens = messages[start - 1]?.tokens ?? 0;
    if (start < messages.length && total + tokens > budget) break;
    total += tokens;
    start -= 1;
  }
  return start === 0 ? messages : messages.slice(start);
}

/**
 * The index at which the window begins if messages below `seq` leave; the number of messages if all leave. The message
 * with exactly this seq is preferred, because after an edit messages need not be in the order of seqs.
 */
export function windowStart(messages: readonly LoggedMessage[], seq: number): number {
  const named = messages.findIndex((message) => message.seq === seq);
  const start = named === -1 ? messages.findIndex((message) => message.seq >= seq) : named;
  return start === -1 ? messages.length : start;
}

/** Token limit of the window: the budget minus the part reserved for pinned messages (§6.6). */
export function windowBudget(tokenBudget: number, pinnedFraction: number): number {
  return tokenBudget - Math.floor(tokenBudget * pinnedFraction);
}

/**
 * The record of an eviction. If messages can be pinned to goals, the record has the token limit of the pins.
 */
export function evictionRecord(state: SessionState, { agent, settings }: Environment, below: number): SessionRecord {
  if (state.goals === undefined && (state.goal === undefined || state.goal.completed)) {
    return { type: 'evicted', below };
  }
  const pinTokens = agent.tokenBudget - windowBudget(agent.tokenBudget, settings.mneme.pinnedBudgetFraction);
  return { type: 'evicted', below, pinTokens };
}

/**
 * The seq below which messages leave, or `undefined` while everything fits. `incomingTokens`: the tokens that the
 * half-step is about to promote. The window never begins between a call and its response, or inside one answer. If
 * possible it begins at a user's message, so that the request need not open with the model's text. The newest message
 * always stays; this may be a message that is about to be promoted.
 */
export function planEviction(
  state: SessionState,
  environment: Environment,
  incomingTokens: number,
): number | undefined {
  const { messages } = state;
  const budget = windowBudget(environment.agent.tokenBudget, environment.settings.mneme.pinnedBudgetFraction);
  let total = state.tokens + incomingTokens;
  if (total <= budget) return undefined;
  const batch = Math.floor(environment.agent.tokenBudget * environment.settings.mneme.evictionFraction);
  const keepMin = incomingTokens > 0 ? 0 : 1;
  let cut = 0;
  while (total > budget && cut < messages.length - keepMin) {
    let evicted = 0;
    do {
      evicted += messages[cut]?.tokens ?? 0;
      cut += 1;
    } while (cut < messages.length - keepMin && evicted + (messages[cut]?.tokens ?? 0) <= batch);
    total -= evicted;
  }
  // If no message precedes the newest one, an eviction would remove nothing and only open an epoch.
  if (cut === 0) return undefined;
  return cutAt(messages, { cut, batch, seqWhenAll: keepMin === 0 ? state.nextMessageSeq : undefined });
}

/**
 * The seq of the best position to cut near index `cut`. A position is safe if no call is open there and no answer is
 * divided. These positions are tried in order: the next safe user message within another `batch` tokens, the next safe
 * position, the end if `seqWhenAll` allows it, the last safe position before `cut`.
 */
function cutAt(
  messages: readonly LoggedMessage[],
  near: { readonly cut: number; readonly batch: number; readonly seqWhenAll: number | undefined },
): number | undefined {
  const { cut, batch, seqWhenAll } = near;
  const open = new Set<string>();
  let before = 0;
  let after: number | undefined;
  let passed = 0;
  for (const [index, message] of messages.entries()) {
    const isWhole = message.inAnswer === undefined && !continuesAnswer(messages[index - 1], message);
    if (open.size === 0 && isWhole) {
      if (index < cut) before = index;
      else if (message.type === 'user_message') return message.seq;
      else after ??= index;
    }
    if (after !== undefined) {
      passed += message.tokens;
      // A more distant user message does not justify removing all messages before it.
      if (passed > batch) break;
    }
    if (message.toolUseId === undefined) continue;
    if (message.type === 'tool_call') open.add(message.toolUseId);
    else open.delete(message.toolUseId);
  }
  // No round is open at the end, so all messages may leave. The messages promoted next stay.
  if (after === undefined && open.size === 0 && seqWhenAll !== undefined) return seqWhenAll;
  const chosen = messages[after ?? before];
  return chosen === undefined || chosen === messages[0] ? undefined : chosen.seq;
}

// ---- old history ------------------------------------------------------------------------------------------------

/** The members of a state that a removal changes. */
export type Remaining = Pick<
  SessionState,
  'messages' | 'hidden' | 'hiddenFloor' | 'callIds' | 'removed' | 'departures'
>;

/**
 * Adds a time to the times at which messages left the window. Beyond the bound, every second time is forgotten, but
 * never the first or the new one. So the first removal comes when it is due. A later removal may come late, because
 * the time of a departure between two remembered ones is forgotten.
 */
export function withDeparture(departures: readonly number[], at: number): readonly number[] {
  if (departures.at(-1) === at) return departures;
  const all = [...departures, at];
  return all.length <= DEPARTURES_MAX ? all : all.filter((_, index) => index % 2 === 0 || index === all.length - 1);
}

/** The first time at which messages that still exist left the window; undefined if there are no such messages. */
export function firstDeparture({ departures, removed }: SessionState): number | undefined {
  return departures.find((at) => removed === undefined || at >= removed.before);
}

/** True if an earlier removal has already removed everything that left the window before `before`. */
export function isRemovedBefore({ removed }: Pick<SessionState, 'removed'>, before: number): boolean {
  return removed !== undefined && before <= removed.before;
}

/**
 * The members of a state after a removal: without messages that the active branch archived before `removed.before`.
 */
export function withoutArchived(state: SessionState, removed: NonNullable<SessionState['removed']>): Remaining {
  const { before } = removed;
  const chain = chainOf(state.tasks, state.tasks.active);
  const isShown = (task: number | undefined): boolean => task === undefined || chain.has(task);
  const isOld = (message: LoggedMessage): boolean => {
    if (message.archivedBy === undefined || !isShown(taskOf(state.tasks, message))) return false;
    return message.archivedBy.some((number) => {
      const made = state.compactions.get(number);
      return made !== undefined && made.at < before && isShown(made.task);
    });
  };
  const gone: LoggedMessage[] = [];
  const kept = (messages: readonly LoggedMessage[]): LoggedMessage[] => {
    let leaves = false;
    return messages.filter((message) => {
      // The parts of an answer stay or leave together.
      if (message.inAnswer !== true) leaves = isOld(message);
      if (leaves) gone.push(message);
      return !leaves;
    });
  };
  const hidden = kept(state.hidden);
  // A state with `keepsAll` has the archived messages in `messages`.
  const messages = state.keepsAll ? kept(state.messages) : state.messages;
  const callIds = new Set(state.callIds);
  for (const { type, toolUseId } of gone)
    if (type === 'tool_call' && toolUseId !== undefined) callIds.delete(toolUseId);
  const hiddenFloor = gone.reduce((floor, { seq }) => Math.max(floor, seq + 1), state.hiddenFloor);
  const departures = state.departures.filter((at) => at >= before);
  return { messages, hidden, hiddenFloor, callIds, removed, departures };
}
