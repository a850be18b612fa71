/**
 * The conversation of a session, built from pages of its log and from its events.
 *
 * Owns: messages, the mailbox, the answer in flight. Does not own: the decision which messages a mode shows.
 *
 *  C1 Messages ascend by `seq`; each appears once, even if it arrives twice.
 *  C2 There are at most `MESSAGES_MAX` messages, and for a while up to a tenth more. New messages displace the oldest.
 *     Once the bound is reached, `hasRoom` is false, and the caller adds no earlier messages.
 *  C3 The streamed text is the answer in flight. It is dropped when the message of the answer arrives, when the model
 *     call is retried, or when the turn ends.
 *  C4 A message that an edit removes is removed here. A message that another branch or a summary hides stays here,
 *     marked as not shown to the model.
 *  C5 A lost answer is shown until the model answers or streams again. It never replaces text that another turn
 *   streams.
 */
import type { AnswerDraft, LossReason } from '../../base/answer-draft.ts';
import type { Message, Pending } from '../../base/messages.ts';
import { MESSAGES_MAX, PENDING_MAX, STREAMED_CHARACTERS_MAX } from '../bounds.ts';
import { type ObservedEvent, readQuestion, type WaitingCall } from '../wire.ts';

/** The answer in flight. */
export interface StreamedAnswer {
  readonly text: string;
  readonly thinking: string;
  /** Why the answer will not be completed; missing while it is being written. */
  readonly lost?: LossReason;
}

const NOTHING_STREAMED: StreamedAnswer = Object.freeze({ text: '', thinking: '' });

/** See the head of the file. */
export class Conversation {
  readonly #messagesMax: number;
  #messages: Message[] = [];
  readonly #pending: Map<number, Pending> = new Map();
  readonly #waiting: Map<string, WaitingCall> = new Map();
  #streamed: StreamedAnswer = NOTHING_STREAMED;
  /** The turn whose answer was streamed most recently. */
  #turn = '';
  #evictedBelow = 0;
  readonly #hidden: Set<number> = new Set();
  #hasEarlier = false;
  #version = 0;
  #seen = 0;

  constructor(messagesMax: number = MESSAGES_MAX) {
    this.#messagesMax = messagesMax;
  }

  get version(): number {
    return this.#version;
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  get streamed(): StreamedAnswer {
    return this.#streamed;
  }

  /** The seq below which messages are no longer shown to the model. */
  get evictedBelow(): number {
    return this.#evictedBelow;
  }

  /**
   * True when the model does not see this message, because it left the window, or because another branch or a summary
   * hides it (C4).
   */
  isHidden(seq: number): boolean {
    return seq < this.#evictedBelow || this.#hidden.has(seq);
  }

  /** True if the log has messages before the first message here. */
  get hasEarlier(): boolean {
    return this.#hasEarlier;
  }

  /** False once the bound is reached. Then the caller must not add earlier messages (C2). */
  get hasRoom(): boolean {
    return this.#messages.length < this.#messagesMax;
  }

  /** The mailbox, in the order of entry numbers. */
  pending(): readonly Pending[] {
    return [...this.#pending.values()].sort((a, b) => a.id - b.id);
  }

  /**
   * The calls that wait for a person's decision or answer. A question to a parent counts, because a person may answer
   * it.
   */
  waiting(): readonly WaitingCall[] {
    return [...this.#waiting.values()];
  }

  /** Adds a page of the log. */
  addPage(messages: readonly Message[]): void {
    const known = new Map(this.#messages.map((message) => [message.seq, message]));
    for (const message of messages) if (!known.has(message.seq)) known.set(message.seq, message);
    this.#messages = [...known.values()].sort((a, b) => a.seq - b.seq);
    this.#trim();
    this.#hasEarlier = (this.#messages[0]?.seq ?? 1) > 1;
    this.#version += 1;
  }

  /** Notes that the log has nothing before the first message here. */
  setBegun(): void {
    this.#hasEarlier = false;
    this.#version += 1;
  }

  /** Shows the current draft of the session. */
  setDraft({ text, thinking = '', lost }: AnswerDraft): void {
    this.#streamed = lost === undefined ? { text, thinking } : { text, thinking, lost };
    this.#version += 1;
  }

  /** Replaces the whole mailbox. */
  setPending(entries: readonly Pending[]): void {
    this.#pending.clear();
    for (const entry of entries.slice(0, PENDING_MAX)) this.#pending.set(entry.id, entry);
    this.#version += 1;
  }

  /**
   * Notes that the pages and the mailbox that were read cover the events up to this seq. From these events, `apply`
   * then takes only data that pages and mailbox lack.
   */
  setSeen(seq: number): void {
    this.#seen = Math.max(this.#seen, seq);
  }

  /**
   * Sets the calls that wait now. They are read separately, because their events may be older than the replayed events.
   */
  setWaiting(calls: readonly WaitingCall[]): void {
    this.#waiting.clear();
    for (const call of calls) this.#waiting.set(call.callId, call);
    this.#version += 1;
  }

  /** Applies an event of the session. */
  apply(event: ObservedEvent): void {
    const isOld = event.seq !== undefined && event.seq <= this.#seen;
    if (event.type === 'approval.required' || event.type === 'question.asked') {
      this.#waiting.set(event.toolUseId, announcedCall(event));
      this.#version += 1;
      return;
    }
    if (this.#waiting.size > 0 && this.#settles(event)) this.#version += 1;
    if (event.type === 'eviction') {
      this.#evictedBelow = Math.max(this.#evictedBelow, event.below);
      this.#version += 1;
      return;
    }
    if (this.#hides(event)) this.#version += 1;
    if (isOld) return;
    if (event.seq !== undefined) this.#seen = event.seq;
    if (this.#take(event)) this.#version += 1;
  }

  /**
   * Forgets the waiting calls that an event settles: calls that began or ended, or all calls once the turn is over.
   * True if a call may have been forgotten.
   */
  #settles(event: ObservedEvent): boolean {
    if (event.type === 'tool.started' || event.type === 'tool.finished') return this.#waiting.delete(event.toolUseId);
    if (event.type !== 'session.state' || event.state !== 'idle') return false;
    this.#waiting.clear();
    return true;
  }

  /**
   * Marks the messages that a change of branch or a summary hides, and unmarks those that return with their branch.
   * Pages do not contain these marks, so old events must be applied too.
   */
  #hides(event: ObservedEvent): boolean {
    if (event.type === 'compaction.applied') for (const seq of event.archived) this.#hidden.add(seq);
    else if (isBranchChange(event)) {
      for (const seq of event.removed) this.#hidden.add(seq);
      for (const { seq } of event.created) this.#hidden.delete(seq);
    } else return false;
    this.#forgetHidden();
    return true;
  }

  /** Once there are too many marks, forgets the marks of messages before the first message here. */
  #forgetHidden(): void {
    if (this.#hidden.size <= this.#messagesMax * 2) return;
    const first = this.#messages[0]?.seq ?? 0;
    for (const seq of this.#hidden) if (seq < first) this.#hidden.delete(seq);
  }

  /**
   * Applies an edit of several messages: takes out the removed messages, replaces the changed ones, and adds the new
   * ones.
   */
  #change({ removed, updated, created }: Pick<HistoryChanged, 'removed' | 'updated' | 'created'>): void {
    const gone = new Set(removed);
    const changed = new Map(updated.map((message) => [message.seq, message]));
    if (gone.size + changed.size > 0) {
      this.#messages = this.#messages.flatMap((each) => (gone.has(each.seq) ? [] : [changed.get(each.seq) ?? each]));
    }
    this.#add(created);
  }

  /**
   * Adds messages of an event. A message from the part of the log before the first message here is left out, because
   * the page of that part will bring it.
   */
  #add(messages: readonly Message[]): void {
    const first = this.#messages[0]?.seq ?? 0;
    const { hasEarlier } = this;
    this.addPage(messages.filter(({ seq }) => !hasEarlier || seq >= first));
    this.#hasEarlier ||= hasEarlier;
  }

  /** Applies a new event. Returns false only if it certainly changed nothing. */
  #take(event: ObservedEvent): boolean {
    switch (event.type) {
      case 'message.created':
        this.#append(event.message);
        return true;
      case 'message.updated':
        this.#messages = this.#messages.map((each) => (each.seq === event.message.seq ? event.message : each));
        return true;
      case 'message.removed':
        this.#messages = this.#messages.filter((each) => each.seq !== event.messageSeq);
        return true;
      case 'history.changed':
        this.#change(isBranchChange(event) ? { ...event, removed: [] } : event);
        return true;
      case 'compaction.applied':
        this.#add(event.created);
        return true;
      case 'pending.created':
        if (this.#pending.size < PENDING_MAX) this.#pending.set(event.pending.id, event.pending);
        return true;
      case 'pending.removed':
        return this.#pending.delete(event.pendingId);
      case 'text.delta':
        return this.#stream(event.turn, { ...this.#written, text: this.#written.text + event.text });
      case 'thinking.delta':
        return this.#stream(event.turn, { ...this.#written, thinking: this.#written.thinking + event.text });
      case 'llm.lost':
        if (event.text === '' && event.thinking === undefined) return false;
        // The call of an earlier turn may end after a later turn has begun to stream.
        if (this.#written !== NOTHING_STREAMED && this.#turn !== event.turn) return false;
        this.#streamed = { text: event.text, thinking: event.thinking ?? '', lost: event.reason };
        return true;
      case 'llm.retry':
      case 'turn.finished':
      case 'turn.failed':
        // A lost answer stays visible. It explains the retry, or it is the only text of the turn.
        this.#streamed = this.#streamed.lost === undefined ? NOTHING_STREAMED : this.#streamed;
        return true;
      default:
        return false;
    }
  }

  #append(message: Message): void {
    if (message.type === 'agent_message' || message.type === 'tool_call') this.#streamed = NOTHING_STREAMED;
    const last = this.#messages.at(-1);
    if (last !== undefined && message.seq <= last.seq) {
      this.addPage([message]);
      return;
    }
    this.#messages.push(message);
    this.#trim();
  }

  /**
   * The answer that is being written. A lost answer does not count, because the next answer does not continue its text.
   */
  get #written(): StreamedAnswer {
    return this.#streamed.lost === undefined ? this.#streamed : NOTHING_STREAMED;
  }

  #stream(turn: string, streamed: StreamedAnswer): boolean {
    this.#turn = turn;
    if (streamed.text.length + streamed.thinking.length > STREAMED_CHARACTERS_MAX) return false;
    this.#streamed = streamed;
    return true;
  }

  /**
   * Keeps the messages within their bound. A tenth more may accumulate before messages are removed, because removing
   * one message per new message would move all other messages each time.
   */
  #trim(): void {
    if (this.#messages.length <= this.#messagesMax * 1.1) return;
    this.#messages = this.#messages.slice(-this.#messagesMax);
    this.#hasEarlier = true;
  }
}

type HistoryChanged = Extract<ObservedEvent, { type: 'history.changed' }>;

/** Operations that change the branch of tasks. They hide messages or show them again, and remove no message. */
const BRANCH_CHANGES: ReadonlySet<string> = new Set(['undo', 'switch', 'startTask']);

function isBranchChange(event: ObservedEvent): event is HistoryChanged {
  return event.type === 'history.changed' && BRANCH_CHANGES.has(event.operation);
}

type Announcement = Extract<ObservedEvent, { type: 'approval.required' | 'question.asked' }>;

/** The call that an event announces, in the form of the queue of waiting calls. */
function announcedCall(event: Announcement): WaitingCall {
  const { session, toolUseId: callId, toolName, at } = event;
  if (event.type === 'approval.required')
    return { session, callId, toolName, kind: 'approval', input: event.input, at };
  return { session, callId, toolName, kind: 'question', input: {}, ...readQuestion(event), at };
}
