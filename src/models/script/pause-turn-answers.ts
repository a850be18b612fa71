/**
 * Remembers the answers that paused (`pause_turn`), so that a request that resumes such an answer can be distinguished
 * from a prefill (R12, R38).
 * Owns: fingerprints of paused answers, at most `PAUSE_TURN_ANSWERS_MAX`. Does not own: whether resuming is allowed.
 */
import { createHash } from 'node:crypto';
import { PAUSE_TURN_ANSWERS_MAX } from '../../base/bounds.ts';
import { stableText } from '../../base/json.ts';
import type { ModelRequest, ModelResponse } from '../provider.ts';

type Blocks = readonly unknown[];

/** Paused answers by content: the assistant blocks at the end of the request plus the blocks of the answer. */
export class PauseTurnAnswers {
  readonly #fingerprints = new Set<string>();

  /** Notes an answer, if it paused. */
  note(request: Pick<ModelRequest, 'messages'>, response: ModelResponse): void {
    if (response.stop_reason !== 'pause_turn') return;
    const blocks = [...trailingBlocks(request), ...response.content];
    this.#fingerprints.add(fingerprint(blocks));
    if (this.#fingerprints.size <= PAUSE_TURN_ANSWERS_MAX) return;
    const oldest = this.#fingerprints.values().next();
    if (oldest.done !== true) this.#fingerprints.delete(oldest.value);
  }

  /** True if these blocks, apart from cache marks, are exactly a noted answer that paused. */
  has(blocks: Blocks): boolean {
    return this.#fingerprints.size > 0 && this.#fingerprints.has(fingerprint(blocks));
  }
}

/** The blocks of the assistant messages at the end of a request. */
export function trailingBlocks(request: Pick<ModelRequest, 'messages'>): Blocks {
  const start = request.messages.findLastIndex((message) => message.role !== 'assistant') + 1;
  return request.messages
    .slice(start)
    .flatMap<unknown>(({ content }) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content));
}

function fingerprint(blocks: Blocks): string {
  return createHash('sha256').update(stableText(blocks, 'cache_control')).digest('base64');
}
