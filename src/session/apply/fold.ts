/**
 * The fold of one turn's records into a state: what the parts of `apply` do in the same way, each record in its own file.
 *
 * Owns: how a message is put at the end, how an event is counted and told, how a session changes its state, how a receipt
 * settles, how an epoch opens. Does not own: what a record means (`apply-*.ts`). Used within one call and dropped: it keeps
 * nothing, and changes the state it was given.
 */
import { RECEIPTS_REMEMBERED_MAX } from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import type { EventBody, SessionStateName } from '../../events/event.ts';
import { prefixText } from '../rules/goals.ts';
import { withShown } from '../rules/memory.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import type { ReadContent } from '../state/messages.ts';
import { type LoggedMessage, publicMessage } from '../state/messages.ts';
import type { ReceiptState, SessionState } from '../state/state.ts';

/** Who listens while records are folded. Neither may change the state. */
export interface Observer {
  /** A durable event, in order; `seq` is its number. */
  readonly event?: ((body: EventBody, seq: number) => void) | undefined;
  /** An accepted entry reached a final state. */
  readonly settled?: ((pendingId: number, receipt: ReceiptState) => void) | undefined;
  /** An accepted entry was promoted into the log. */
  readonly promoted?: ((pendingId: number) => void) | undefined;
  /** Something was said: an answer, a result, or what an embedder added. The logged messages of it, first one first. */
  readonly said?: ((logged: readonly [LoggedMessage, ...LoggedMessage[]]) => void) | undefined;
}

/** See the head of the file. */
export class Fold {
  readonly state: SessionState;
  /** Epoch ms of the turn. */
  readonly at: number;
  readonly observer: Observer | undefined;
  /** For contents that only the log has; missing where no state has such. */
  readonly readContent: ReadContent | undefined;

  constructor(state: SessionState, at: number, observer: Observer | undefined, readContent?: ReadContent) {
    this.state = state;
    this.at = at;
    this.observer = observer;
    this.readContent = readContent;
  }

  /** Counts a durable event (S5). True when somebody listens: only then is it built, for `tell`. */
  counts(): boolean {
    this.state.eventSeq += 1;
    return this.observer?.event !== undefined;
  }

  /** Tells the event just counted. */
  tell(body: EventBody): void {
    this.observer?.event?.(body, this.state.eventSeq);
  }

  /** Counts a durable event and tells it: for records that are rare enough to build it always. */
  telling(body: EventBody): void {
    if (this.counts()) this.tell(body);
  }

  /** Tells of the last `count` messages as one thing that was said. */
  said(count: number): void {
    if (count === 0 || this.observer?.said === undefined) return;
    const [first, ...others] = this.state.messages.slice(-count);
    if (first !== undefined) this.observer.said([first, ...others]);
  }

  /** Puts a message at the end and tells of it. */
  append(draft: MessageDraft): LoggedMessage {
    const message = this.place(draft);
    if (this.counts()) this.tell({ type: 'message.created', message: publicMessage(message) });
    return message;
  }

  /** Gives a draft its place: the draft itself becomes the message, a copy of each would be as much again. */
  place(draft: MessageDraft): LoggedMessage {
    const { state } = this;
    // The last message still there decides, not the last number given: what a bounce removed may have stood between.
    const followsAnswered = state.sealedSeq > 0 && (state.messages.at(-1)?.seq ?? 0) <= state.sealedSeq;
    const message = draft as Draft<LoggedMessage>;
    message.seq = state.nextMessageSeq;
    message.at = this.at;
    if (followsAnswered) message.opens = true;
    state.nextMessageSeq += 1;
    state.messages.push(message);
    state.tokens += message.tokens;
    if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.add(message.toolUseId);
    return message;
  }

  /** Changes the session's state and tells of it. */
  enter(next: SessionStateName): void {
    this.state.state = next;
    if (this.counts()) this.tell({ type: 'session.state', state: next });
    if (next !== 'idle') return;
    // Effect B: the flag is one-shot and never leaks into the next turn.
    this.state.interruptRequested = false;
    endRunLoop(this.state);
  }

  /**
   * From here on the request need not begin with what was sent before (A8). What was thought so far was thought about what is sent
   * no more: it stays behind, even in a round that is still open, as a model that binds its thoughts refuses them (R21) and does
   * not ask for them (R20). Nor does it want those of an answer that is still to come from a call that went out before.
   */
  openEpoch(): void {
    const { current } = this.state;
    this.state.epoch += 1;
    this.state.sealedSeq = 0;
    this.state.thoughtFloor = this.state.nextMessageSeq;
    if (current !== undefined) current.outdated = true;
    if (this.state.memory !== undefined) this.state.memory = withShown(this.state.memory);
    if (this.state.goals !== undefined) this.state.prefix = prefixText(this.state);
  }

  /** Gives an accepted entry its final state. */
  settle(pendingId: number, receipt: ReceiptState): void {
    const { state } = this;
    state.receipts.set(pendingId, receipt);
    state.settled.push(pendingId);
    if (state.settled.length > RECEIPTS_REMEMBERED_MAX) {
      const oldest = state.settled.shift();
      if (oldest !== undefined) state.receipts.delete(oldest);
    }
    this.observer?.settled?.(pendingId, receipt);
  }
}

/** The turn is over: nothing is held, and nobody is asked any more. */
export function endRunLoop(state: SessionState): void {
  state.held = undefined;
  const { approvals } = state;
  if (approvals !== undefined && approvals.waiting.length > 0) state.approvals = { ...approvals, waiting: [] };
}

/** Holds a map that grows by one entry at a time to its bound. */
export function forgetOldest<K, V>(map: Map<K, V>, sizeMax: number): void {
  if (map.size <= sizeMax) return;
  const oldest = map.keys().next();
  if (oldest.done !== true) map.delete(oldest.value);
}
