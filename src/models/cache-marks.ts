/**
 * Limits the cache marks (`cache_control`) that came with the content of messages. A session keeps all marks it was
 * given, but a request may hold only four (R16). A request keeps the newest marks that are legal together, and leaves
 * out the others. Pure.
 */
import { isRecord } from '../base/json.ts';
import type { ContentBlock } from '../base/messages.ts';
import type { RequestMessage } from './provider.ts';

/** The most marks that one request may hold. */
export const CACHE_MARKS_MAX = 4;

/** Messages never change once made, so these maps cache a message's number of marks, and the message without marks. */
const counts = new WeakMap<RequestMessage, number>();
const plain = new WeakMap<RequestMessage, RequestMessage>();

/**
 * The messages with their newest `marksMax` marks, such that no one-hour mark follows a five-minute mark (R18). Returns
 * the same list if no mark is left out. `endsLong`: a one-hour mark follows these messages.
 */
export function withNewestMarks(
  messages: readonly RequestMessage[],
  marksMax: number,
  endsLong = false,
): readonly RequestMessage[] {
  let kept = 0;
  let isLong = endsLong;
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

/** The message without any mark; the same message always gives the same object. */
export function withoutMarks(message: RequestMessage): RequestMessage {
  if (marksOf(message) === 0) return message;
  let bare = plain.get(message);
  if (bare === undefined) {
    bare = filtered(message, () => false);
    plain.set(message, bare);
  }
  return bare;
}

/** The number of marks in a message, including those inside the parts of a result. */
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

/** The message with the marks for which `keeps` is true; `keeps` is called with the newest mark first. */
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
  // The result's own mark is newer than the marks of its parts, so the parts are visited after it.
  const parts: ContentBlock[] = (next.content as readonly ContentBlock[]).slice();
  for (let index = parts.length - 1; index >= 0; index -= 1) {
    const part = parts[index];
    if (part !== undefined) parts[index] = filteredBlock(part, keeps);
  }
  return { ...next, content: parts } as ContentBlock;
}
