/**
 * Keeps each session's request on a model thread, so that a call sends only new messages.
 * Owns: the mirrored contexts. Does not own: the content of a request, when an epoch opens.
 *
 * - C1 A context is exactly the last delta applied to the previous context: its messages are the first `keep` of the
 *   old messages, followed by `append`.
 * - C2 A delta is applied only to its own epoch with at least `keep` messages. A delta with a header and `keep` 0
 *   always applies.
 * - C3 There are at most `MIRRORED_CONTEXTS_MAX` contexts; the one whose last delta is oldest is dropped first. Only
 *   the order of deltas and forgets decides which context is dropped. So an index on another thread that sees the same
 *   deltas and forgets knows the contexts of the mirror.
 */
import { MIRRORED_CONTEXTS_MAX } from '../../base/bounds.ts';
import type { ContextDelta, RequestHeader } from '../pool.ts';
import type { ModelRequest, RequestMessage } from '../provider.ts';
import { RecentMap } from '../recent-map.ts';

interface Context {
  readonly epoch: number;
  readonly header: RequestHeader;
  readonly messages: readonly RequestMessage[];
}

/** The mirror itself. Pure: no I/O, no clock. */
export class ContextMirror {
  readonly #contexts: RecentMap<Context>;

  /** `sizeMax`: the most contexts held at once. */
  constructor(sizeMax: number = MIRRORED_CONTEXTS_MAX) {
    this.#contexts = new RecentMap(sizeMax);
  }

  /** The number of contexts held. */
  get size(): number {
    return this.#contexts.size;
  }

  /** True when a delta of this epoch that keeps `keep` messages can be applied. */
  holds(session: string, epoch: number, keep: number): boolean {
    return fits(this.#contexts.get(session), epoch, keep);
  }

  /** The whole request after a delta. When the delta does not fit (C2), returns undefined and changes nothing. */
  apply(session: string, delta: ContextDelta): ModelRequest | undefined {
    const { epoch, keep, append } = delta;
    const known = this.#contexts.get(session);
    const held = fits(known, epoch, keep) ? known : undefined;
    const header = delta.header ?? held?.header;
    if (header === undefined || (held === undefined && keep > 0)) return undefined;
    // The list is a new one each time, because a call that is being cancelled may still read the old list.
    const messages = held === undefined ? append.slice() : firstOf(held.messages, keep).concat(append);
    this.#contexts.put(session, { epoch, header, messages });
    return delta.container === undefined
      ? { ...header, messages }
      : { ...header, container: delta.container, messages };
  }

  /** Drops a session's context. */
  forget(session: string): void {
    this.#contexts.delete(session);
  }
}

/** The sender's index of a mirror on another thread, without the messages (C3). */
export class MirrorIndex {
  readonly #contexts: RecentMap<{ readonly epoch: number; readonly length: number }>;

  /** `sizeMax`: the `sizeMax` of the mirror. */
  constructor(sizeMax: number = MIRRORED_CONTEXTS_MAX) {
    this.#contexts = new RecentMap(sizeMax);
  }

  /** True if the mirror's own `holds` is true. */
  holds(session: string, epoch: number, keep: number): boolean {
    const context = this.#contexts.get(session);
    return context !== undefined && context.epoch === epoch && context.length >= keep;
  }

  /** Notes a delta as sent. When the mirror would not apply it, returns false and changes nothing. */
  note(session: string, delta: ContextDelta): boolean {
    const holds = this.holds(session, delta.epoch, delta.keep);
    if (!holds && (delta.keep > 0 || delta.header === undefined)) return false;
    const length = delta.keep + delta.append.length;
    this.#contexts.put(session, { epoch: delta.epoch, length });
    return true;
  }

  /** Notes that a `forget` was sent to the mirror. */
  forget(session: string): void {
    this.#contexts.delete(session);
  }

  /** Notes that the mirror was lost with its thread. */
  clear(): void {
    this.#contexts.clear();
  }
}

function fits(context: Context | undefined, epoch: number, keep: number): context is Context {
  return context !== undefined && context.epoch === epoch && context.messages.length >= keep;
}

/** The first messages of a list; the list itself if all are kept, which is usual. The caller makes the copy. */
function firstOf(messages: readonly RequestMessage[], keep: number): readonly RequestMessage[] {
  return keep === messages.length ? messages : messages.slice(0, keep);
}
