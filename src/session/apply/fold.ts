/**
 * The fold of one transition's records into a state: the operations that all parts of `apply` share.
 *
 * Owns: how a message is appended, how an event is counted and published, how a session changes its state, how a
 * receipt settles, how an epoch opens. Does not own: the meaning of a record (the other files of this folder). It is
 * used within one call and dropped: it keeps nothing, and changes the state it was given.
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
  /** A durable event, in order; `seq` is its number. */
  readonly event?: ((body: EventBody, seq: number) => void) | undefined;
  /** Called when an accepted entry reached a final state. */
  readonly settled?: ((pendingId: number, receipt: ReceiptState) => void) | undefined;
  /** Called when an accepted entry was promoted into the log. */
  readonly promoted?: ((pendingId: number) => void) | undefined;
  /**
   * Called with the logged messages, in order, of an utterance: an answer, a result, or a message that an embedder
   * added.
   */
  readonly said?: ((logged: readonly [LoggedMessage, ...LoggedMessage[]]) => void) | undefined;
  /**
   * Called for the events that others outside wait for: a turn ended, a call waits for a person. `turn`: the turn that
   * ended, which is no longer in the state.
   */
  readonly announced?: ((event: AnnouncedEvent, seq: number, turn?: RunningTurn) => void) | undefined;
}

/** An event that others outside wait for. */
export type AnnouncedEvent = Extract<
  EventBody,
  { type: 'turn.finished' | 'turn.failed' | 'approval.required' | 'question.asked' }
>;

/** See the head of the file. */
export class Fold {
  readonly state: SessionState;
  /** Epoch ms of the transition. */
  readonly at: number;
  readonly observer: Observer | undefined;
  /** Reads contents that are only in the log; missing if no state has such contents. */
  readonly readContent: ReadContent | undefined;

  constructor(state: SessionState, at: number, observer: Observer | undefined, readContent?: ReadContent) {
    this.state = state;
    this.at = at;
    this.observer = observer;
    this.readContent = readContent;
  }

  /**
   * Counts a durable event (S5). True if there is a subscriber: only then is the event built and passed to `publish`.
   */
  counts(): boolean {
    this.state.eventSeq += 1;
    return this.observer?.event !== undefined;
  }

  /** Publishes the event just counted. */
  publish(body: EventBody): void {
    this.observer?.event?.(body, this.state.eventSeq);
  }

  /** Counts a durable event and publishes it: for records so rare that the event is always built. */
  countAndPublish(body: EventBody): void {
    if (this.counts()) this.publish(body);
  }

  /** Counts an announced event (S5). True if there is a subscriber: only then is the event built for `announce`. */
  countsAnnounced(): boolean {
    return this.counts() || this.observer?.announced !== undefined;
  }

  /** Publishes the event just counted, and announces it. `turn`: the turn that it ends. */
  announce(event: AnnouncedEvent, turn?: RunningTurn): void {
    this.publish(event);
    this.observer?.announced?.(event, this.state.eventSeq, turn);
  }

  /** Publishes the last `count` messages together, as one utterance. */
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

  /** Appends a draft. The draft itself becomes the message, since a copy of each would double the work. */
  place(draft: MessageDraft): LoggedMessage {
    const { state } = this;
    // Behind a call that the provider has not run yet, a request may hold results alone (R52). The epoch leaves the
    // call behind.
    if (state.awaitedUses !== undefined && draft.type !== 'tool_response') this.openEpoch();
    // The last message that is still present decides. The last seq given may belong to a bounced message that was
    // removed.
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

  /** Changes the session's state and publishes it. */
  enter(next: SessionStateName): void {
    this.state.state = next;
    if (this.counts()) this.publish({ type: 'session.state', state: next });
    if (next !== 'idle') return;
    // Effect B: the flag applies to this turn only and is cleared before the next.
    this.state.interruptRequested = false;
    this.state.interruptReason = undefined;
    endRunLoop(this.state);
  }

  /**
   * From here on, a request need not begin with the bytes of the previous request (A8). Thoughts so far belong to a
   * request that is no longer sent. They stay behind, even in a round that is still open. A model that binds its
   * thoughts refuses them (R21) and does not require them (R20). The same holds for thoughts of a coming answer whose
   * call left before this epoch. The provider's calls that have no result stay behind as well.
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

/** Counts a message of a user or an agent that entered the log, or left it. */
export function countSpoken(state: SessionState, message: Pick<LoggedMessage, 'type'>, by: 1 | -1): void {
  if (state.spoken !== undefined && isSpoken(message)) state.spoken += by;
}

/** The turn has ended: nothing is held, and no approval is pending. */
export function endRunLoop(state: SessionState): void {
  state.held = undefined;
  const { approvals } = state;
  if (approvals !== undefined && approvals.waiting.length > 0) state.approvals = withWaiting(approvals, () => false);
}

/** Keeps a map that grows by one entry at a time within its bound. */
export function forgetOldest<K, V>(map: Map<K, V>, sizeMax: number): void {
  if (map.size <= sizeMax) return;
  const oldest = map.keys().next();
  if (oldest.done !== true) map.delete(oldest.value);
}
