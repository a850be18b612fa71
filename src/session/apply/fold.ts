/**
 * The fold of one transition's records into a state: the operations that all parts of `apply` share.
 *
 * Owns: how a message is appended, how an event is counted and published, how a session changes its state, how a
 * receipt settles, how an epoch opens. Does not own: the meaning of a record (the other files of this folder). A fold
 * is used for one transition and dropped. It stores nothing itself and changes the given state.
 */
import { RECEIPTS_REMEMBERED_MAX } from '../../base/bounds.ts';
import type { Draft } from '../../base/draft.ts';
import type { EventBody, SessionStateName } from '../../events/event.ts';
import { prefixText } from '../rules/goals.ts';
import { withShown } from '../rules/memory.ts';
import type { MessageDraft } from '../rules/promotion.ts';
import { withWaiting } from '../rules/waiting-calls.ts';
import type { ReadContent } from '../state/messages.ts';
import { isSpoken, type LoggedMessage, publicMessage } from '../state/messages.ts';
import type { ReceiptState, RunningTurn, SessionState } from '../state/state.ts';

/** The observer of a fold. It must not change the state. */
export interface Observer {
  /** Called for each durable event, in order. `seq`: the event's number. */
  readonly event?: ((body: EventBody, seq: number) => void) | undefined;
  /** Called when the receipt of an accepted entry reaches a final state. */
  readonly settled?: ((pendingId: number, receipt: ReceiptState) => void) | undefined;
  /** Called when a user's entry was promoted into the log. */
  readonly promoted?: ((pendingId: number) => void) | undefined;
  /**
   * Called with the logged messages, in order, of one new history message: an answer, a result, or a message that an
   * embedder added.
   */
  readonly said?: ((logged: readonly [LoggedMessage, ...LoggedMessage[]]) => void) | undefined;
  /**
   * Called for events that cause a notice (a webhook): a turn ended, or a call waits for a person. `turn`: the turn
   * that ended, which is no longer in the state.
   */
  readonly announced?: ((event: AnnouncedEvent, seq: number, turn?: RunningTurn) => void) | undefined;
}

/** An event that causes a notice. */
export type AnnouncedEvent = Extract<
  EventBody,
  { type: 'turn.finished' | 'turn.failed' | 'approval.required' | 'question.asked' }
>;

/** The operations that all parts of `apply` share (see the head of the file). */
export class Fold {
  readonly state: SessionState;
  /** Epoch ms of the transition. */
  readonly at: number;
  readonly observer: Observer | undefined;
  /** Reads contents that are only in the log; missing if all contents are in the state. */
  readonly readContent: ReadContent | undefined;

  constructor(state: SessionState, at: number, observer: Observer | undefined, readContent?: ReadContent) {
    this.state = state;
    this.at = at;
    this.observer = observer;
    this.readContent = readContent;
  }

  /**
   * Counts a durable event (S5). True if there is a subscriber. Only then does the caller build and publish the event.
   */
  counts(): boolean {
    this.state.eventSeq += 1;
    return this.observer?.event !== undefined;
  }

  /** Publishes the event just counted. */
  publish(body: EventBody): void {
    this.observer?.event?.(body, this.state.eventSeq);
  }

  /** Counts a durable event and publishes it. Used where events are so rare that they may always be built. */
  countAndPublish(body: EventBody): void {
    if (this.counts()) this.publish(body);
  }

  /**
   * Counts an announced event (S5). True if there is an observer. Only then does the caller build the event for
   * `announce`.
   */
  countsAnnounced(): boolean {
    return this.counts() || this.observer?.announced !== undefined;
  }

  /** Publishes the event just counted, and announces it. `turn`: the turn that ended. */
  announce(event: AnnouncedEvent, turn?: RunningTurn): void {
    this.publish(event);
    this.observer?.announced?.(event, this.state.eventSeq, turn);
  }

  /** Passes the last `count` messages together to `Observer.said`, as one history message. */
  said(count: number): void {
    if (count === 0 || this.observer?.said === undefined) return;
    const [first, ...others] = this.state.messages.slice(-count);
    if (first !== undefined) this.observer.said([first, ...others]);
  }

  /** Appends a message and publishes it. */
  append(draft: MessageDraft): LoggedMessage {
    const message = this.place(draft);
    if (this.counts()) this.publish({ type: 'message.created', message: publicMessage(message) });
    return message;
  }

  /** Appends a draft. The draft itself becomes the message, because copying each draft would double the work. */
  place(draft: MessageDraft): LoggedMessage {
    const { state } = this;
    // A call that the provider has not run yet may be followed only by results (R52). So any other message opens an
    // epoch, whose requests leave the call out.
    if (state.awaitedUses !== undefined && draft.type !== 'tool_response') this.openEpoch();
    // This compares the last message, not the last seq, because the message with the last seq may have bounced.
    const followsAnswered = state.sealedSeq > 0 && (state.messages.at(-1)?.seq ?? 0) <= state.sealedSeq;
    const message = draft as Draft<LoggedMessage>;
    message.seq = state.nextMessageSeq;
    message.at = this.at;
    if (followsAnswered) message.opens = true;
    state.nextMessageSeq += 1;
    state.messages.push(message);
    state.tokens += message.tokens;
    countSpoken(state, message, 1);
    if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.add(message.toolUseId);
    return message;
  }

  /** Changes the session's state and publishes the new state. */
  enter(next: SessionStateName): void {
    this.state.state = next;
    if (this.counts()) this.publish({ type: 'session.state', state: next });
    if (next !== 'idle') return;
    // Effect B of the contract: the interrupt flag applies only to the turn that has ended.
    this.state.interruptRequested = false;
    this.state.interruptReason = undefined;
    endRunLoop(this.state);
  }

  /**
   * Opens an epoch: from here on, a request need not begin with the bytes of the previous request (A8).
   *
   * If the model binds its thoughts, requests of the new epoch leave out all thoughts so far, even in an open round.
   * These thoughts belong to a request that is no longer sent: the model refuses them (R21) and does not require them
   * (R20). The same is true for the thoughts of an answer whose call is in flight now. Calls of the provider's own
   * tools without a result are left out for every model.
   */
  openEpoch(): void {
    const { current } = this.state;
    this.state.epoch += 1;
    this.state.sealedSeq = 0;
    this.state.thoughtFloor = this.state.nextMessageSeq;
    this.state.awaitedUses = undefined;
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

/** Counts a message of a user or an agent that was added to the log (`by` 1) or removed from it (`by` -1). */
export function countSpoken(state: SessionState, message: Pick<LoggedMessage, 'type'>, by: 1 | -1): void {
  if (state.spoken !== undefined && isSpoken(message)) state.spoken += by;
}

/** Clears the parts of the state that end with a turn: the held boundary, and the calls that wait for a decision. */
export function endRunLoop(state: SessionState): void {
  state.held = undefined;
  const { approvals } = state;
  if (approvals !== undefined && approvals.waiting.length > 0) state.approvals = withWaiting(approvals, () => false);
}

/** Removes the oldest entry if the map is beyond its bound. The map must grow by one entry at a time. */
export function forgetOldest<K, V>(map: Map<K, V>, sizeMax: number): void {
  if (map.size <= sizeMax) return;
  const oldest = map.keys().next();
  if (oldest.done !== true) map.delete(oldest.value);
}
