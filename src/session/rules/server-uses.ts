/**
 * Calls of the provider's own tools (server uses) that still wait for their results (R52, R38). The provider may run
 * such a call only after the session's own calls of the same answer have results, or after a pause. The next answer
 * then begins with the call's result. Until then a request may have nothing after the provider's call except results of
 * the session's calls. Pure.
 */
import { type ContentBlock, isServerResult, isServerUse } from '../../base/messages.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The ids of the provider's calls without a result after an answer with these blocks; undefined if there are none.
 * `earlier`: the ids that waited before the answer.
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

/** The ids of the provider's calls without a result in the last answer, found from the messages alone. */
export function awaitedAtEnd(messages: readonly LoggedMessage[]): readonly string[] | undefined {
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index];
    if (message?.blocks !== undefined) return awaitedUses(message.blocks);
    if (message?.type !== 'tool_response' && message?.inAnswer !== true) return undefined;
  }
  return undefined;
}

/** True if these blocks of an answer include the result of a provider's call in an earlier answer. */
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
 * True if the next request of the turn asks the provider to run its waiting calls. Such a request may add only results
 * of the session's own calls.
 */
export function asksProvider({ awaitedUses: awaited, state }: Pick<SessionState, 'awaitedUses' | 'state'>): boolean {
  return awaited !== undefined && state === 'executing';
}

/** True if the turn ended while calls of the provider still waited. No later request may have these calls. */
export function leavesUses({ awaitedUses: awaited, state }: Pick<SessionState, 'awaitedUses' | 'state'>): boolean {
  return awaited !== undefined && state === 'idle';
}
