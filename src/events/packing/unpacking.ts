/** Reads packed events. Pure; see `packed-form.ts`. */
import type { Draft } from '../../base/draft.ts';
import {
  MESSAGE_TYPES,
  type Message,
  PENDING_TYPES,
  type Pending,
  SOURCE_TYPES,
  type Source,
  type Usage,
} from '../../base/messages.ts';
import { type PublishedEvent, REMOVAL_REASONS, SESSION_STATES, type SessionEvent } from '../event.ts';
import { CODE, CODE_MASK, FLAG, type PackedEvents, SOURCE_SHIFT, TYPE_SHIFT, WORD_MASK } from './packed-form.ts';

/** The events that were packed. */
export function unpackEvents(packed: PackedEvents): readonly PublishedEvent[] {
  return new Unpacking(packed).events();
}

class Unpacking {
  readonly #values: PackedEvents;
  #index = 0;
  #session = '';
  #at = 0;
  #next = 0;
  #toolUseId = '';
  #toolName = '';
  #content: Message['content'] = '';

  constructor(values: PackedEvents) {
    this.#values = values;
  }

  events(): readonly PublishedEvent[] {
    const events: PublishedEvent[] = [];
    while (this.#index < this.#values.length) {
      const head = this.#take<number>();
      const code = head & CODE_MASK;
      if (code === CODE.place) this.#place(head);
      else if (code === CODE.whole) events.push(this.#take());
      else if (code === CODE.text || code === CODE.thought) events.push(this.#delta(code));
      else events.push(this.#durable(head));
    }
    return events;
  }

  /** The next value. The packing side decides its type. */
  #take<T>(): T {
    const value = this.#values[this.#index];
    this.#index += 1;
    return value as T;
  }

  #place(head: number): void {
    this.#session = this.#take();
    if ((head & FLAG.time) !== 0) this.#at = this.#take();
    if ((head & FLAG.number) !== 0) this.#next = this.#take();
  }

  #delta(code: number): SessionEvent {
    const type = code === CODE.text ? 'text.delta' : 'thinking.delta';
    return { session: this.#session, at: this.#at, type, text: this.#take(), turn: this.#take() };
  }

  #durable(head: number): SessionEvent {
    const [session, at, seq] = [this.#session, this.#at, this.#next];
    this.#next = seq + 1;
    switch (head & CODE_MASK) {
      case CODE.state:
        return { session, at, seq, type: 'session.state', state: wordOf(SESSION_STATES, head, TYPE_SHIFT) };
      case CODE.created:
        return { session, at, seq, type: 'message.created', message: this.#message(head) };
      case CODE.accepted:
        return { session, at, seq, type: 'pending.created', pending: this.#pending(head) };
      case CODE.removed: {
        const reason = wordOf(REMOVAL_REASONS, head, TYPE_SHIFT);
        return { session, at, seq, type: 'pending.removed', pendingId: this.#take(), reason };
      }
      case CODE.toolStarted: {
        this.#call(head);
        return { session, at, seq, type: 'tool.started', toolUseId: this.#toolUseId, toolName: this.#toolName };
      }
      case CODE.toolFinished: {
        this.#call(head);
        const [toolUseId, toolName, success] = [this.#toolUseId, this.#toolName, (head & FLAG.success) !== 0];
        if ((head & FLAG.ms) === 0) return { session, at, seq, type: 'tool.finished', toolUseId, toolName, success };
        return { session, at, seq, type: 'tool.finished', toolUseId, toolName, success, ms: this.#take() };
      }
      case CODE.turnFinished: {
        const [turn, reason] = [this.#take<string>(), this.#take<string>()];
        return { session, at, seq, type: 'turn.finished', turn, reason, usage: this.#usage(head) };
      }
      default:
        throw new Error(`no packed event begins with ${head}`);
    }
  }

  #message(head: number): Message {
    const type = wordOf(MESSAGE_TYPES, head, TYPE_SHIFT);
    this.#call(head);
    const [seq, tokens] = [this.#take<number>(), this.#take<number>()];
    const content = this.#contentOf(head);
    const at = this.#timeOf(head);
    const message: Draft<Message> = { seq, type, content, at, tokens };
    const source = this.#source(head);
    if (names(head)) message.toolUseId = this.#toolUseId;
    if ((head & (FLAG.toolName | FLAG.sameToolName)) !== 0) message.toolName = this.#toolName;
    if ((head & FLAG.input) !== 0) message.input = this.#take();
    if ((head & FLAG.ended) !== 0) message.success = (head & FLAG.success) !== 0;
    if (source !== undefined) message.source = source;
    if ((head & FLAG.usage) !== 0) message.usage = this.#usage(head);
    if ((head & FLAG.key) !== 0) message.key = this.#take();
    return message;
  }

  #pending(head: number): Pending {
    const type = wordOf(PENDING_TYPES, head, TYPE_SHIFT);
    this.#call(head);
    const id = this.#take<number>();
    const kind = (head & FLAG.background) === 0 ? 'active' : 'background';
    const content = this.#contentOf(head);
    const at = this.#timeOf(head);
    const source = this.#source(head) ?? { type: 'user' };
    const pending: Draft<Pending> = { id, type, kind, content, at, source };
    if (names(head)) pending.toolUseId = this.#toolUseId;
    if ((head & FLAG.ended) !== 0) pending.success = (head & FLAG.success) !== 0;
    if ((head & FLAG.deliver) !== 0) pending.deliver = this.#take();
    if ((head & FLAG.key) !== 0) pending.key = this.#take();
    return pending;
  }

  /**
   * Reads the call that a head names. Later heads refer to this call by the flags `sameToolUseId` and `sameToolName`.
   */
  #call(head: number): void {
    if ((head & FLAG.toolUseId) !== 0) this.#toolUseId = this.#take();
    if ((head & FLAG.toolName) !== 0) this.#toolName = this.#take();
  }

  #contentOf(head: number): Message['content'] {
    if ((head & FLAG.sameContent) === 0) this.#content = this.#take();
    return this.#content;
  }

  #timeOf(head: number): number {
    return (head & FLAG.time) === 0 ? this.#at : this.#take();
  }

  #source(head: number): Source | undefined {
    if (((head >> SOURCE_SHIFT) & WORD_MASK) === 0) return undefined;
    const type = wordOf(SOURCE_TYPES, head, SOURCE_SHIFT);
    return (head & FLAG.sourceName) === 0 ? { type } : { type, name: this.#take() };
  }

  #usage(head: number): Usage {
    if ((head & FLAG.usageMore) !== 0) return this.#take();
    const usage: Draft<Usage> = { input_tokens: this.#take(), output_tokens: this.#take() };
    if ((head & FLAG.usageCreated) !== 0) usage.cache_creation_input_tokens = this.#take();
    if ((head & FLAG.usageRead) !== 0) usage.cache_read_input_tokens = this.#take();
    return usage;
  }
}

function names(head: number): boolean {
  return (head & (FLAG.toolUseId | FLAG.sameToolUseId)) !== 0;
}

function wordOf<T>(list: readonly T[], head: number, shift: number): T {
  const found = list[((head >> shift) & WORD_MASK) - 1];
  if (found === undefined) throw new Error(`a packed event begins with ${head}, which has no enumerated value`);
  return found;
}
