/**
 * Decides which blocks that another vendor's model wrote may be sent to a provider, and in which form. Pure.
 *
 * Every block that comes from `troupe/ai-model` has the member `origin` (`BlockOrigin`). Claude's blocks and a user's
 * blocks have none.
 *
 * - A text and a call are sent to every model. Their `origin` is sent only to the model it names.
 * - A `thinking` block and a `provider_part` block are sent only to the model that their `origin` names. A thought
 *   without an `origin` is Claude's, and is sent to Claude only.
 * - A message that has no block left is omitted from the request.
 * - An answer that an embedder gives or edits has no origins: its parts may no longer be those that the model made.
 */
import type { BlockOrigin, ContentBlock } from './messages.ts';

/** The origin of a block; undefined if Claude or a user wrote it. */
export function originOf(block: ContentBlock): BlockOrigin | undefined {
  return 'origin' in block ? (block.origin as BlockOrigin | undefined) : undefined;
}

/** True if this model of this provider wrote the block. */
export function isFrom(block: ContentBlock, { provider, model }: Pick<BlockOrigin, 'provider' | 'model'>): boolean {
  const origin = originOf(block);
  return origin !== undefined && origin.provider === provider && origin.model === model;
}

/** A message of a request. */
interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly ContentBlock[];
}

/** The message as the Messages API accepts it: without origins. Undefined if no block of the message may be sent. */
export function withoutOrigins(message: Message): Message | undefined {
  const { role, content } = message;
  if (typeof content === 'string' || !content.some((block) => 'origin' in block)) return message;
  const kept = content.flatMap(withoutOrigin);
  return kept.length === 0 ? undefined : { role, content: kept };
}

/**
 * The block without its `origin`. The list is empty if only the model that the `origin` names may receive the block.
 */
export function withoutOrigin(block: ContentBlock): readonly ContentBlock[] {
  if (!('origin' in block)) return [block];
  if (block.type === 'thinking' || block.type === 'provider_part') return [];
  const { origin: _origin, ...rest } = block;
  return [rest as ContentBlock];
}
