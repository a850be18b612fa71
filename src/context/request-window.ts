/**
 * The messages of a session's requests, rendered incrementally: the cost of a half-step depends only on new messages.
 *
 * Owns: the rendering of the sealed messages (those of an answered request of this epoch). Does not own: the messages,
 * which belong to the session's state; the header (model, system prompt, tools), which belongs to the agent.
 * Invariants:
 *  W1 `sealed` plus the rendering of the other messages (`fresh`) equals `renderMessages` of all messages;
 *  W2 within an epoch `sealed` only grows, at its end (A8).
 */

import { messagesShown } from '../session/history/transient.ts';
import type { TransientMessage } from '../session/state/edit-request.ts';
import type { LoggedMessage } from '../session/state/messages.ts';
import type { CompactionCall, SessionState } from '../session/state/state.ts';
import { compactionMessages, instructionMessage } from './compaction-request.ts';
import { prefixOf, type RenderOptions, renderMessages } from './render.ts';
import type { RenderedMessage } from './request-draft.ts';

/** The messages of a model call. */
export interface RenderedWindow {
  readonly epoch: number;
  /** The number of leading messages that have not changed since the last call of `next` in this epoch. */
  readonly keep: number;
  /** The messages after the first `keep`. */
  readonly append: readonly RenderedMessage[];
  /** Every message of the request; costs a copy of the list. */
  readonly all: () => readonly RenderedMessage[];
}

/**
 * See the head of the file. Each running session has a window. It is dropped when the session was idle for some time,
 * and can be rebuilt from the state.
 */
export class RequestWindow {
  /** How the messages are rendered. */
  readonly options: RenderOptions;
  #epoch = -1;
  #sealed: RenderedMessage[] = [];
  #sealedSeq = 0;
  #fresh: readonly RenderedMessage[] = [];
  #freshSeq = 0;

  constructor(options: RenderOptions) {
    this.options = options;
  }

  /** The request's messages for the current state. */
  next(state: SessionState): RenderedWindow {
    if (this.#epoch !== state.epoch) this.#reset(state.epoch);
    const keep = this.#advance(state);
    this.#fresh = this.#render(state, this.#sealedSeq, Number.POSITIVE_INFINITY);
    this.#freshSeq = state.nextMessageSeq - 1;
    const sealed = this.#sealed;
    const sealedCount = sealed.length;
    const fresh = this.#fresh;
    return {
      epoch: state.epoch,
      keep,
      append: keep === sealedCount ? fresh : [...sealed.slice(keep), ...fresh],
      all: () => [...sealed.slice(0, sealedCount), ...fresh],
    };
  }

  /**
   * The request for a summary: the messages of `next`, followed by the instruction. If `compaction.tail` leaves out the
   * newest messages, no other request begins like this one. The window then gets a negative epoch, so that no later
   * request reuses it.
   */
  forSummary(state: SessionState, compaction: CompactionCall): RenderedWindow {
    if (compaction.tail !== undefined) {
      const append = compactionMessages(state, compaction, this.options);
      return { epoch: -state.epoch, keep: 0, append, all: () => append };
    }
    const { keep, epoch } = this.next(state);
    const sealed = this.#sealed;
    const fresh = this.#render(state, this.#sealedSeq, Number.POSITIVE_INFINITY, (messages) => [
      ...messages,
      instructionMessage(state, compaction, state.messages.at(-1)),
    ]);
    const all = [...sealed, ...fresh];
    return { epoch, keep, append: all.slice(keep), all: () => all };
  }

  #reset(epoch: number): void {
    this.#epoch = epoch;
    this.#sealed = [];
    this.#sealedSeq = 0;
    this.#fresh = [];
    this.#freshSeq = 0;
  }

  /**
   * Seals the messages of an answered request. Returns the number of leading messages that were sent before and have
   * not changed. The fresh messages of that request are reused, unless more messages are sealed than that request had.
   */
  #advance(state: SessionState): number {
    const sentBefore = this.#sealed.length;
    if (state.sealedSeq <= this.#sealedSeq) return sentBefore;
    const unchanged = this.#freshSeq === state.sealedSeq;
    const grown = unchanged ? this.#fresh : this.#render(state, this.#sealedSeq, state.sealedSeq);
    for (const message of grown) this.#sealed.push(message);
    this.#sealedSeq = state.sealedSeq;
    return unchanged ? this.#sealed.length : sentBefore;
  }

  #render(
    state: SessionState,
    after: number,
    through: number,
    extend?: (messages: readonly LoggedMessage[]) => readonly LoggedMessage[],
  ): readonly RenderedMessage[] {
    const { messages } = state;
    let start = messages.length;
    while (start > 0 && (messages[start - 1]?.seq ?? 0) > after) start -= 1;
    let end = messages.length;
    while (end > start && (messages[end - 1]?.seq ?? 0) > through) end -= 1;
    const slice = start === 0 && end === messages.length ? messages : messages.slice(start, end);
    const isStart = this.#sealed.length === 0;
    const prefix = isStart ? prefixOf(state) : undefined;
    return renderMessages(
      extend === undefined ? slice : extend(slice),
      this.options,
      isStart,
      state.thoughtFloor,
      prefix,
      this.#sealed,
    );
  }
}

/**
 * The request of a session with transient messages. The request is rendered completely, because transient messages may
 * be anywhere. It has no thoughts if the model binds thoughts, because the messages before the thoughts have changed
 * (R21). Pure.
 */
export function wholeWindow(
  state: SessionState,
  transients: readonly TransientMessage[],
  options: RenderOptions,
): RenderedWindow {
  const messages = messagesShown(state, transients);
  const thoughtFloor = transients.length === 0 ? state.thoughtFloor : Number.POSITIVE_INFINITY;
  const all = renderMessages(messages, options, true, thoughtFloor, prefixOf(state));
  return { epoch: state.epoch, keep: 0, append: all, all: () => all };
}
