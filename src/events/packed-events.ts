/**
 * Events as they cross from thread to thread: the members of those that come with every half-step as one flat list of values. A list of
 * values is cloned in a quarter of the time of the objects it stands for, whose names would be written and looked up again each time.
 * Both sides are of one process and one version. Pure.
 *
 *  P1 What is unpacked equals what was packed, in its order, with shapes of its own.
 *  P2 What has no row here, or a member that its row does not know, crosses as it is.
 */
import type { Draft } from '../base/draft.ts';
import {
  MESSAGE_TYPES,
  type Message,
  type MessageType,
  PENDING_TYPES,
  type Pending,
  type PendingType,
  type Source,
  type Usage,
} from '../base/messages.ts';
import type { SessionEvent, SessionStateName } from './event.ts';

/** Values in the order of the events they belong to. Read by `unpackEvents` alone. */
export type PackedEvents = readonly unknown[];

/** What the next values are. A number holds one of these in its lowest bits, and above it which optional members follow. */
const WHOLE = 0;
/** Session and time of what follows. */
const PLACE = 1;
/** Number of the next durable event; those behind it count on. */
const NUMBER = 2;
const STATE = 3;
const CREATED = 4;
const ACCEPTED = 5;
const REMOVED = 6;
const TOOL_STARTED = 7;
const TOOL_FINISHED = 8;
const TURN_FINISHED = 9;
const TEXT = 10;
const THOUGHT = 11;
const CODE_MASK = 15;

const OWN_TIME = 16;
const TOOL_USE_ID = 32;
const TOOL_NAME = 64;
const INPUT = 128;
const SUCCESS = 256;
const SOURCE = 512;
const SOURCE_NAME = 1_024;
const USAGE = 2_048;
const DELIVER = 4_096;
const MS = 8_192;
/** The type of a message or an entry, above all of those. */
const TYPE_SHIFT = 16;

/**
 * True only where `Known` names every member of `T`: a member that is new must get a place here, and where a session shows its
 * messages and entries (`publicMessage`, `publicEntry`), or it would be lost on the way.
 */
type Covers<T, Known extends keyof T> = Exclude<keyof T, Known> extends never ? true : never;
const MESSAGE_IS_WHOLE: Covers<
  Message,
  'seq' | 'type' | 'content' | 'at' | 'tokens' | 'toolUseId' | 'toolName' | 'input' | 'success' | 'source' | 'usage'
> = true;
const PENDING_IS_WHOLE: Covers<
  Pending,
  'id' | 'type' | 'kind' | 'content' | 'at' | 'source' | 'toolUseId' | 'success' | 'deliver'
> = true;
const SOURCE_IS_WHOLE: Covers<Source, 'type' | 'name'> = true;
const USAGE_IS_WHOLE: Covers<
  Usage,
  'input_tokens' | 'output_tokens' | 'cache_creation_input_tokens' | 'cache_read_input_tokens'
> = true;
void [MESSAGE_IS_WHOLE, PENDING_IS_WHOLE, SOURCE_IS_WHOLE, USAGE_IS_WHOLE];

/** Packs events that were told together. They are not changed, and what they hold is not copied. */
export function packEvents(events: readonly SessionEvent[]): PackedEvents {
  const packing = new Packing();
  for (const event of events) packing.event(event);
  return packing.values;
}

/** The events that were packed. */
export function unpackEvents(packed: PackedEvents): readonly SessionEvent[] {
  return new Unpacking(packed).events();
}

class Packing {
  readonly values: unknown[] = [];
  #session: string | undefined;
  #at = 0;
  #next = 0;

  event(event: SessionEvent): void {
    const { session, at, seq } = event;
    if (seq === undefined || event.rendered !== undefined) {
      this.#ephemeral(event);
      return;
    }
    const before = this.values.length;
    if (session !== this.#session || at !== this.#at) this.values.push(PLACE, session, at);
    if (seq !== this.#next) this.values.push(NUMBER, seq);
    if (!this.#durable(event)) {
      this.values.length = before;
      this.values.push(WHOLE, event);
      return;
    }
    this.#session = session;
    this.#at = at;
    this.#next = seq + 1;
  }

  #ephemeral(event: SessionEvent): void {
    const isText = event.type === 'text.delta';
    if ((!isText && event.type !== 'thinking.delta') || event.rendered !== undefined || event.seq !== undefined) {
      this.values.push(WHOLE, event);
      return;
    }
    const { session, at, text, turn } = event;
    if (session !== this.#session || at !== this.#at) {
      this.values.push(PLACE, session, at);
      this.#session = session;
      this.#at = at;
    }
    this.values.push(isText ? TEXT : THOUGHT, text, turn);
  }

  /** False for one that has no row. */
  #durable(event: SessionEvent): boolean {
    switch (event.type) {
      case 'session.state':
        if (event.phase !== undefined) return false;
        this.values.push(STATE, event.state);
        return true;
      case 'message.created':
        this.#message(event.message, event.at);
        return true;
      case 'pending.created':
        this.#pending(event.pending, event.at);
        return true;
      case 'pending.removed':
        this.values.push(REMOVED, event.pendingId, event.reason);
        return true;
      case 'tool.started':
        this.values.push(TOOL_STARTED, event.toolUseId, event.toolName);
        return true;
      case 'tool.finished':
        this.values.push(event.ms === undefined ? TOOL_FINISHED : TOOL_FINISHED | MS);
        this.values.push(event.toolUseId, event.toolName, event.success);
        if (event.ms !== undefined) this.values.push(event.ms);
        return true;
      case 'turn.finished':
        if (event.outcome !== undefined || event.healedToolCallIds !== undefined) return false;
        this.values.push(TURN_FINISHED, event.turn, event.reason);
        this.#usage(event.usage);
        return true;
      default:
        return false;
    }
  }

  #message(message: Message, told: number): void {
    const { type, at, toolUseId, toolName, input, success, source, usage } = message;
    const { values } = this;
    const headAt = values.length;
    let head = CREATED | (MESSAGE_TYPES.indexOf(type) << TYPE_SHIFT);
    values.push(head, message.seq, message.content, message.tokens);
    if (at !== told) {
      head |= OWN_TIME;
      values.push(at);
    }
    if (toolUseId !== undefined) {
      head |= TOOL_USE_ID;
      values.push(toolUseId);
    }
    if (toolName !== undefined) {
      head |= TOOL_NAME;
      values.push(toolName);
    }
    if (input !== undefined) {
      head |= INPUT;
      values.push(input);
    }
    if (success !== undefined) {
      head |= SUCCESS;
      values.push(success);
    }
    if (source !== undefined) head |= this.#source(source);
    if (usage !== undefined) {
      head |= USAGE;
      this.#usage(usage);
    }
    values[headAt] = head;
  }

  #pending(pending: Pending, told: number): void {
    const { type, at, toolUseId, success, deliver } = pending;
    const { values } = this;
    const headAt = values.length;
    let head = ACCEPTED | (PENDING_TYPES.indexOf(type) << TYPE_SHIFT);
    values.push(head, pending.id, pending.kind, pending.content);
    if (at !== told) {
      head |= OWN_TIME;
      values.push(at);
    }
    if (toolUseId !== undefined) {
      head |= TOOL_USE_ID;
      values.push(toolUseId);
    }
    if (success !== undefined) {
      head |= SUCCESS;
      values.push(success);
    }
    if (deliver !== undefined) {
      head |= DELIVER;
      values.push(deliver);
    }
    head |= this.#source(pending.source);
    values[headAt] = head;
  }

  /** The bits that say what was written of it. */
  #source({ type, name }: Source): number {
    if (name === undefined) {
      this.values.push(type);
      return SOURCE;
    }
    this.values.push(type, name);
    return SOURCE | SOURCE_NAME;
  }

  #usage(usage: Usage): void {
    const { cache_creation_input_tokens: created, cache_read_input_tokens: read } = usage;
    this.values.push(usage.input_tokens, usage.output_tokens, created, read);
  }
}

class Unpacking {
  readonly #values: PackedEvents;
  #index = 0;
  #session = '';
  #at = 0;
  #next = 0;

  constructor(values: PackedEvents) {
    this.#values = values;
  }

  events(): readonly SessionEvent[] {
    const events: SessionEvent[] = [];
    while (this.#index < this.#values.length) {
      const head = this.#take<number>();
      if (head === PLACE) {
        this.#session = this.#take();
        this.#at = this.#take();
      } else if (head === NUMBER) this.#next = this.#take();
      else if (head === WHOLE) events.push(this.#take());
      else if (head === TEXT || head === THOUGHT) events.push(this.#delta(head));
      else events.push(this.#durable(head));
    }
    return events;
  }

  /** The next value; who packed it says what it is. */
  #take<T>(): T {
    const value = this.#values[this.#index];
    this.#index += 1;
    return value as T;
  }

  #delta(head: number): SessionEvent {
    const type = head === TEXT ? 'text.delta' : 'thinking.delta';
    return { session: this.#session, at: this.#at, type, text: this.#take(), turn: this.#take() };
  }

  #durable(head: number): SessionEvent {
    const [session, at, seq] = [this.#session, this.#at, this.#next];
    this.#next = seq + 1;
    switch (head & CODE_MASK) {
      case STATE:
        return { session, at, seq, type: 'session.state', state: this.#take<SessionStateName>() };
      case CREATED:
        return { session, at, seq, type: 'message.created', message: this.#message(head) };
      case ACCEPTED:
        return { session, at, seq, type: 'pending.created', pending: this.#pending(head) };
      case REMOVED:
        return { session, at, seq, type: 'pending.removed', pendingId: this.#take(), reason: this.#take() };
      case TOOL_STARTED:
        return { session, at, seq, type: 'tool.started', toolUseId: this.#take(), toolName: this.#take() };
      case TOOL_FINISHED: {
        const [toolUseId, toolName] = [this.#take<string>(), this.#take<string>()];
        const success = this.#take<boolean>();
        const finished = { session, at, seq, type: 'tool.finished', toolUseId, toolName, success } as const;
        return (head & MS) === 0 ? finished : Object.assign(finished, { ms: this.#take<number>() });
      }
      case TURN_FINISHED: {
        const [turn, reason] = [this.#take<string>(), this.#take<string>()];
        return { session, at, seq, type: 'turn.finished', turn, reason, usage: this.#usage() };
      }
      default:
        throw new Error(`no packed event begins with ${head}`);
    }
  }

  #message(head: number): Message {
    const type = MESSAGE_TYPES[head >> TYPE_SHIFT] as MessageType;
    const seq = this.#take<number>();
    const content = this.#take<Message['content']>();
    const tokens = this.#take<number>();
    const at = (head & OWN_TIME) === 0 ? this.#at : this.#take<number>();
    const message: Draft<Message> = { seq, type, content, at, tokens };
    if ((head & TOOL_USE_ID) !== 0) message.toolUseId = this.#take();
    if ((head & TOOL_NAME) !== 0) message.toolName = this.#take();
    if ((head & INPUT) !== 0) message.input = this.#take();
    if ((head & SUCCESS) !== 0) message.success = this.#take();
    if ((head & SOURCE) !== 0) message.source = this.#source(head);
    if ((head & USAGE) !== 0) message.usage = this.#usage();
    return message;
  }

  #pending(head: number): Pending {
    const type = PENDING_TYPES[head >> TYPE_SHIFT] as PendingType;
    const id = this.#take<number>();
    const kind = this.#take<Pending['kind']>();
    const content = this.#take<Pending['content']>();
    const at = (head & OWN_TIME) === 0 ? this.#at : this.#take<number>();
    const toolUseId = (head & TOOL_USE_ID) === 0 ? undefined : this.#take<string>();
    const success = (head & SUCCESS) === 0 ? undefined : this.#take<boolean>();
    const deliver = (head & DELIVER) === 0 ? undefined : this.#take<NonNullable<Pending['deliver']>>();
    const pending: Draft<Pending> = { id, type, kind, content, at, source: this.#source(head) };
    if (toolUseId !== undefined) pending.toolUseId = toolUseId;
    if (success !== undefined) pending.success = success;
    if (deliver !== undefined) pending.deliver = deliver;
    return pending;
  }

  #source(head: number): Source {
    const type = this.#take<Source['type']>();
    return (head & SOURCE_NAME) === 0 ? { type } : { type, name: this.#take() };
  }

  #usage(): Usage {
    const [input_tokens, output_tokens] = [this.#take<number>(), this.#take<number>()];
    const [created, read] = [this.#take<number | undefined>(), this.#take<number | undefined>()];
    const usage: Draft<Usage> = { input_tokens, output_tokens };
    if (created !== undefined) usage.cache_creation_input_tokens = created;
    if (read !== undefined) usage.cache_read_input_tokens = read;
    return usage;
  }
}
