/**
 * The oldest messages of a conversation that a summary takes, and where the window begins afterwards (contract §6.4,
 * §6.5 with Δ24). Pure. The model that writes the summary is not handled here.
 */
import type { LoggedMessage } from '../state/messages.ts';
import { continuesAnswer } from './answer.ts';

/** A run of the oldest messages that leave together. */
export interface MemoryZone {
  readonly from: number;
  /** Seq of the last message that leaves. */
  readonly to: number;
  /** Seq at which the window begins afterwards. A client drops everything below it. */
  readonly boundary: number;
}

/**
 * True for any message except system messages, results, and calls other than the model's own `think`. A window may
 * begin with such a message.
 */
function isSaid(message: LoggedMessage): boolean {
  if (message.prompt === true) return false;
  if (message.type === 'tool_response') return false;
  return message.type !== 'tool_call' || (message.toolName === 'think' && message.phantom !== true);
}

/** The first boundary of a session: its oldest said message; undefined while there is none. */
export function firstBoundary(messages: readonly LoggedMessage[]): number | undefined {
  return messages.find(isSaid)?.seq;
}

/**
 * The zone above a boundary: the oldest messages whose tokens fit `budget`, at least one. It never ends where a call
 * waits for its response or inside an answer. If it would, its end moves back to the nearest other position, or forward
 * if there is none before. Undefined if no message may leave, because a round is open from the first message on or no
 * said message would remain. `next`: the seq of a message about to be said, which remains even if no other does.
 */
export function memoryZone(
  messages: readonly LoggedMessage[],
  boundary: number,
  budget: number,
  next?: number,
): MemoryZone | undefined {
  const above = messages.filter((message) => message.seq >= boundary && message.prompt !== true);
  const fitting = fittingCount(above, budget);
  let end: number | undefined;
  const waiting = openCalls(messages.filter((message) => message.seq < boundary));
  for (const place of wholePlaces(above, waiting)) {
    if (place > fitting && end !== undefined) break;
    // The window begins with a said message: the messages before it also leave, and belong to the zone.
    const follows = above[place];
    if (follows === undefined ? next !== undefined : isSaid(follows)) end = place;
  }
  const first = above[0];
  const last = end === undefined ? undefined : above[end - 1];
  const boundaryThen = end === undefined ? undefined : (above[end]?.seq ?? next);
  if (first === undefined || last === undefined || boundaryThen === undefined) return undefined;
  return { from: first.seq, to: last.seq, boundary: boundaryThen };
}

/** The number of oldest messages that fit; the first one always counts. */
function fittingCount(messages: readonly LoggedMessage[], budget: number): number {
  let tokens = 0;
  let count = 0;
  for (const message of messages) {
    tokens += message.tokens;
    if (count > 0 && tokens > budget) break;
    count += 1;
  }
  return count;
}

/**
 * The numbers of messages after which the list can be split safely, ascending. The full length is included if nothing
 * is open at the end. `waiting`: calls before the list that have no response yet; an edit may have put a said message
 * behind them.
 */
function wholePlaces(messages: readonly LoggedMessage[], waiting: ReadonlySet<string>): readonly number[] {
  const places: number[] = [];
  const open = new Set(waiting);
  messages.forEach((message, index) => {
    const isWhole = message.inAnswer === undefined && !continuesAnswer(messages[index - 1], message);
    if (index > 0 && open.size === 0 && isWhole) places.push(index);
    follow(open, message);
  });
  if (open.size === 0 && messages.length > 0) places.push(messages.length);
  return places;
}

/** The calls among these messages that wait for their response. */
function openCalls(messages: readonly LoggedMessage[]): ReadonlySet<string> {
  const open = new Set<string>();
  for (const message of messages) follow(open, message);
  return open;
}

/** A call is open until its response. */
function follow(open: Set<string>, { type, toolUseId }: LoggedMessage): void {
  if (toolUseId === undefined) return;
  if (type === 'tool_call') open.add(toolUseId);
  else open.delete(toolUseId);
}
