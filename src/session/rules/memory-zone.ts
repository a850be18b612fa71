/**
 * What a summary takes from the oldest end of a conversation, and where the window begins after it (contract §6.4, §6.5 with Δ24).
 * Pure; the model that writes the summary is somebody else's business.
 */
import type { LoggedMessage } from '../state/messages.ts';

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

/**
 * The zone above a boundary: the oldest messages whose tokens fit `budget`, at least one, drawn back to where no call waits for
 * its response and no answer is cut in two, or on to the next such place where there is none before. Undefined where nothing may
 * leave: a round is open from the first message on, or no message that was said would remain. `next`: the seq of something that
 * is about to be said, which remains where nothing else does.
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
  for (const place of wholePlaces(above)) {
    if (place > fitting && end !== undefined) break;
    // The window begins with something said: what stands between leaves as well, and is in the zone.
    const follows = above[place];
    if (follows === undefined ? next !== undefined : isSaid(follows)) end = place;
  }
  const first = above[0];
  const last = end === undefined ? undefined : above[end - 1];
  const boundaryThen = end === undefined ? undefined : (above[end]?.seq ?? next);
  if (first === undefined || last === undefined || boundaryThen === undefined) return undefined;
  return { from: first.seq, to: last.seq, boundary: boundaryThen };
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

/** Counts of messages behind which nothing is torn apart, ascending; all of them where nothing is open at the end. */
function wholePlaces(messages: readonly LoggedMessage[]): readonly number[] {
  const places: number[] = [];
  const open = new Set<string>();
  messages.forEach((message, index) => {
    if (index > 0 && open.size === 0 && message.inAnswer === undefined) places.push(index);
    if (message.toolUseId === undefined) return;
    if (message.type === 'tool_call') open.add(message.toolUseId);
    else open.delete(message.toolUseId);
  });
  if (open.size === 0 && messages.length > 0) places.push(messages.length);
  return places;
}
