/**
 * Calls of the provider's own tools that still wait for their results (R52, R38). The provider runs such a call only
 * after the calls beside it were answered, or after a pause, and its result begins the next answer. Until then a request
 * may hold nothing behind the call but the results of the calls beside it. Pure.
 */
import { type ContentBlock, isServerResult, isServerUse } from '../../base/messages.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The ids of the provider's calls without a result after an answer with these blocks; undefined if there are none.
 * `earlier`: the ids that waited before it.
 */
export function awaitedUses(
  content: readonly ContentBlock[],
  earlier: readonly string[] = [],
): readonly string[] | undefined {
  if (earlier.length === 0 && !content.some(isServerUse)) return undefined;
  const open = new Set(earlier);
  for (const block of content) {
    if (isServerUse(block)) open.add(useId(block));
    else if (isServerResult(block)) open.delete(resultId(block));
  }
  return open.size === 0 ? undefined : [...open];
}

/** The same for the end of a conversation, of which nothing else is known. */
export function awaitedAtEnd(messages: readonly LoggedMessage[]): readonly string[] | undefined {
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message?.blocks !== undefined) return awaitedUses(message.blocks);
    if (message?.type !== 'tool_response' && message?.inAnswer !== true) return undefined;
  }
  return undefined;
}

/** True if these blocks of an answer hold the result of a provider's call that is in an earlier answer. */
export function answersEarlierUse(content: readonly ContentBlock[]): boolean {
  const own = new Set<string>();
  return content.some((block) => {
    if (isServerUse(block)) own.add(useId(block));
    return isServerResult(block) && !own.has(resultId(block));
  });
}

/** The id of a call of the provider. */
export function useId(use: object): string {
  return String('id' in use ? use.id : '');
}

/** The id of the provider's call that this result answers. */
export function resultId(result: object): string {
  return String('tool_use_id' in result ? result.tool_use_id : '');
}

/**
 * True if the next request of the turn asks the provider to run its calls. It then takes the results of the session's
 * own calls and nothing else.
 */
export function asksProvider({ awaitedUses: awaited, state }: Pick<SessionState, 'awaitedUses' | 'state'>): boolean {
  return awaited !== undefined && state === 'executing';
}

/** True if the turn in which the provider's calls waited has ended, so that no request may hold them again. */
export function leavesUses({ awaitedUses: awaited, state }: Pick<SessionState, 'awaitedUses' | 'state'>): boolean {
  return awaited !== undefined && state === 'idle';
}
