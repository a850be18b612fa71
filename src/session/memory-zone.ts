/**
 * What a summary takes from the oldest end of a conversation, and where the window begins after it (contract §6.4, §6.5 with Δ24).
 * Pure; the model that writes the summary is somebody else's business.
 */
import type { LoggedMessage } from './state.ts';

/** A run of the oldest messages that leave together. */
export interface MemoryZone {
  readonly from: number;
  /** Seq of the last message that leaves. */
  readonly to: number;
  /** Where the window begins then: what a client drops is below it. */
  readonly boundary: number;
}

/** Said, or thought aloud: what a window may begin with. */
function isSaid(message: LoggedMessage): boolean {
  if (message.prompt === true) return false;
  if (message.type === 'tool_response') return false;
  return message.type !== 'tool_call' || (message.toolName === 'think' && message.phantom !== true);
}

/** The first boundary of a session: its oldest message that was said; undefined while none was. */
export function firstBoundary(messages: readonly LoggedMessage[]): number | undefined {
  return messages.find(isSaid)?.seq;
}

/** Tokens of the messages at or above a boundary. */
function tokensAbove(messages: readonly LoggedMessage[], boundary: number): number {
  let tokens = 0;
  for (const message of messages) if (message.seq >= boundary) tokens += message.tokens;
  return tokens;
}

/** Whether a summary is due: more than the budget stands above the boundary; exactly the budget does not. */
export function isSummaryDue(messages: readonly LoggedMessage[], boundary: number, budget: number): boolean {
  return tokensAbove(messages, boundary) > budget;
}

/**
 * The zone above a boundary: the oldest messages whose tokens fit `budget`, at least one, drawn back to where no call waits for
 * its response and no answer is cut in two, or on to the next such place where there is none before. Undefined where nothing may
 * leave: a round is open from the first message on, or no message that was said would remain.
 */
export function memoryZone(
  messages: readonly LoggedMessage[],
  boundary: number,
  budget: number,
): MemoryZone | undefined {
  const above = messages.filter((message) => message.seq >= boundary && message.prompt !== true);
  const fitting = fittingCount(above, budget);
  let end: number | undefined;
  for (const place of wholePlaces(above)) {
    if (place > fitting && end !== undefined) break;
    // The window begins with something said: what stands between leaves as well, and is in the zone.
    if (place < above.length && isSaid(above[place] as LoggedMessage)) end = place;
  }
  const first = above[0];
  const last = end === undefined ? undefined : above[end - 1];
  const next = end === undefined ? undefined : above[end];
  if (first === undefined || last === undefined || next === undefined) return undefined;
  return { from: first.seq, to: last.seq, boundary: next.seq };
}

/** How many of the oldest messages fit, the first always. */
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

/** Counts of messages behind which nothing is torn apart, ascending. */
function wholePlaces(messages: readonly LoggedMessage[]): readonly number[] {
  const places: number[] = [];
  const open = new Set<string>();
  messages.forEach((message, index) => {
    if (index > 0 && open.size === 0 && message.inAnswer === undefined) places.push(index);
    if (message.toolUseId === undefined) return;
    if (message.type === 'tool_call') open.add(message.toolUseId);
    else open.delete(message.toolUseId);
  });
  return places;
}
