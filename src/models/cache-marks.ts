/**
 * Cache marks that came in with the content of messages: a session keeps what it was given, and a request may hold four (R16).
 * The newest stay as long as they are legal beside each other, the others are left out of the request. Pure.
 */
import { isRecord } from '../base/json.ts';
import type { ContentBlock } from '../base/messages.ts';
import type { RequestMessage } from './provider.ts';

/** Marks one request may hold. */
export const CACHE_MARKS_MAX = 4;

/** Messages are never changed once made: how many marks one holds, and what it is without them. */
const counts = new WeakMap<RequestMessage, number>();
const plain = new WeakMap<RequestMessage, RequestMessage>();

/**
 * The messages with their newest `marksMax` marks, of which none of an hour stands behind one of five minutes (R18); the same
 * list where nothing is left out.
 */
export function withNewestMarks(messages: readonly RequestMessage[], marksMax: number): readonly RequestMessage[] {
  let kept = 0;
  let isLong = false;
  let changed: RequestMessage[] | undefined;
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message === undefined || marksOf(message) === 0) continue;
    let next = message;
    if (kept >= marksMax) {
      next = withoutMarks(message);
    } else {
      const keeps = (mark: unknown): boolean => {
        const isHour = isRecord(mark) && mark['ttl'] === '1h';
        if (kept >= marksMax || !isLegal(mark) || (isLong && !isHour)) return false;
        kept += 1;
        isLong ||= isHour;
        return true;
      };
      next = filtered(message, keeps);
    }
    if (next === message) continue;
    changed ??= messages.slice();
    changed[index] = next;
  }
  return changed ?? messages;
}

/** The message without any mark; the same object for the same message. */
export function withoutMarks(message: RequestMessage): RequestMessage {
  if (marksOf(message) === 0) return message;
  let bare = plain.get(message);
  if (bare === undefined) {
    bare = filtered(message, () => false);
    plain.set(message, bare);
  }
  return bare;
}

/** How many marks a message holds, those of a result's parts too. */
export function marksOf(message: RequestMessage): number {
  if (typeof message.content === 'string') return 0;
  let count = counts.get(message);
  if (count === undefined) {
    count = message.content.reduce((sum, block) => sum + marksIn(block), 0);
    counts.set(message, count);
  }
  return count;
}

function marksIn(block: ContentBlock): number {
  const own = 'cache_control' in block ? 1 : 0;
  if (block.type !== 'tool_result' || typeof block.content !== 'object') return own;
  return block.content.reduce((sum: number, part) => sum + marksIn(part), own);
}

function isLegal(mark: unknown): boolean {
  if (!isRecord(mark) || mark['type'] !== 'ephemeral') return false;
  const { ttl } = mark;
  return ttl === undefined || ttl === '5m' || ttl === '1h';
}

/** The marks for which `keeps` is true, asked of the newest first. */
function filtered(message: RequestMessage, keeps: (mark: unknown) => boolean): RequestMessage {
  if (typeof message.content === 'string') return message;
  const content: ContentBlock[] = message.content.slice();
  for (let index = content.length - 1; index >= 0; index -= 1) {
    const block = content[index];
    if (block !== undefined && marksIn(block) > 0) content[index] = filteredBlock(block, keeps);
  }
  return { ...message, content };
}

function filteredBlock(block: ContentBlock, keeps: (mark: unknown) => boolean): ContentBlock {
  let next: ContentBlock = block;
  if ('cache_control' in block && !keeps(block.cache_control)) {
    const { cache_control: _dropped, ...rest } = block;
    next = rest as ContentBlock;
  }
  if (next.type !== 'tool_result' || typeof next.content !== 'object') return next;
  // What a result holds stands before its own mark.
  const parts: ContentBlock[] = (next.content as readonly ContentBlock[]).slice();
  for (let index = parts.length - 1; index >= 0; index -= 1) {
    const part = parts[index];
    if (part !== undefined) parts[index] = filteredBlock(part, keeps);
  }
  return { ...next, content: parts } as ContentBlock;
}
