/**
 * Finds the memory zone of a conversation: the oldest messages, which are summed up and then leave the window. Also
 * finds where the window begins afterwards (contract §6.4, §6.5 with Δ24). Pure.
 */
import type { LoggedMessage } from '../state/messages.ts';
import { continuesAnswer } from './answer.ts';
import { windowStart } from './eviction.ts';

/** The oldest messages, which leave the window together. */
export interface MemoryZone {
  /** The lowest and the highest seq of the messages that leave. */
  readonly from: number;
  readonly to: number;
  /** Seq at which the window begins afterwards. Clients drop all messages below it. */
  readonly boundary: number;
}

/**
 * True for a said message: a text, or a call of `think` that the model made. False for system prompts, results and all
 * other calls. A window may begin only with a said message.
 */
function isSaid(message: LoggedMessage): boolean {
  if (message.prompt === true) return false;
  if (message.type === 'tool_response') return false;
  return message.type !== 'tool_call' || (message.toolName === 'think' && message.phantom !== true);
}

/** The first boundary of a session: the seq of its oldest said message; undefined while there is none. */
export function firstBoundary(messages: readonly LoggedMessage[]): number | undefined {
  return messages.find(isSaid)?.seq;
}

/**
 * The zone from a boundary on: the oldest messages whose tokens fit `budget`, at least one. The zone never ends between
 * a call and its response, or inside an answer. Instead, its end moves back to the nearest safe position, or forward if
 * no safe position precedes it. Undefined if no message may leave, because a round is open from the first message on,
 * or because no said message would remain. `next`: the seq of a message about to be logged, which then remains.
 */
export function memoryZone(
  messages: readonly LoggedMessage[],
  boundary: number,
  budget: number,
  next?: number,
): MemoryZone | undefined {
  const start = windowStart(messages, boundary);
  const above = messages.slice(start).filter((message) => message.prompt !== true);
  const fitting = fittingCount(above, budget);
  let end: number | undefined;
  const waiting = openCalls(messages.slice(0, start));
  for (const place of wholePlaces(above, waiting)) {
    if (place > fitting && end !== undefined) break;
    // The window must begin with a said message, so other messages before it belong to the zone.
    const follows = above[place];
    if (follows === undefined ? next !== undefined : isSaid(follows)) end = place;
  }
  const boundaryThen = end === undefined ? undefined : (above[end]?.seq ?? next);
  if (boundaryThen === undefined) return undefined;
  const seqs = above.slice(0, end).map(({ seq }) => seq);
  return { from: Math.min(...seqs), to: Math.max(...seqs), boundary: boundaryThen };
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
 * The indexes at which the list can be split safely, ascending. The length of the list is included if no call is open
 * at the end. `waiting`: ids of calls before the list that have no response yet. Such calls exist if an edit inserted a
 * said message after a call.
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

/** Updates the set of open calls: a call is open until its response. */
function follow(open: Set<string>, { type, toolUseId }: LoggedMessage): void {
  if (toolUseId === undefined) return;
  if (type === 'tool_call') open.add(toolUseId);
  else open.delete(toolUseId);
}
