/**
 * `SessionStore`: the state of one session for a view, built from the session's events. This file does not depend on
 * React.
 *
 * Owns: the newest view, and one reader of the session's events while the store is open. Does not own: the session.
 *  U1 A view is a new object exactly when one of its members has changed, so that views can be compared by identity.
 *  U2 Messages are read once; afterwards events change the list. Each message is in the list once.
 */
import { ClientError, type RemoteSession } from '../client/index.ts';
import type { Message, Pending, SessionEvent } from '../client/types.ts';

/**
 * `connecting`: the session was not read yet. `idle`: the session waits for a message. `working`: a turn is running.
 * `waiting`: a person must decide or answer. `failed`: the session cannot be read; `error` says why.
 */
export type SessionStatus = 'connecting' | 'idle' | 'working' | 'waiting' | 'failed';

/** A call that waits for a person. */
export interface PersonWait {
  readonly callId: string;
  readonly toolName: string;
  /** `approval`: call `approve`. `question`: call `answer` or `decline`. */
  readonly kind: 'approval' | 'question';
  /** The input of a call that needs an approval. */
  readonly input?: unknown;
  readonly question?: string;
  readonly choices?: readonly string[];
  /** JSON Schema of the answer; missing: the answer is a text. */
  readonly schema?: Readonly<Record<string, unknown>>;
}

/** A session as a view shows it. */
export interface SessionView {
  readonly status: SessionStatus;
  /** The log's messages, oldest first. */
  readonly messages: readonly Message[];
  /** Messages and results that wait in the mailbox. */
  readonly pending: readonly Pending[];
  /** The text of the answer that is being written; `''` between answers. */
  readonly text: string;
  /** The thoughts that the model wrote before the text in `text`. */
  readonly thinking: string;
  /** The calls that wait for a person, oldest first. */
  readonly waits: readonly PersonWait[];
  /** Why the last turn failed, or why the session cannot be read. */
  readonly error: { readonly code: string; readonly message: string } | undefined;
}

const EMPTY: SessionView = Object.freeze({
  status: 'connecting',
  messages: [],
  pending: [],
  text: '',
  thinking: '',
  waits: [],
  error: undefined,
});

/**
 * Empties the text of the running call. Used when the text comes again from its beginning, because the call is repeated
 * or the stream was lost.
 */
const UNWRITTEN = Object.freeze({ text: '', thinking: '' });

type Actions<Answer> = Pick<RemoteSession<Answer>, 'send' | 'interrupt' | 'approve' | 'answer' | 'decline'>;

/** See the head of the file. */
export class SessionStore<Answer> {
  readonly #session: RemoteSession<Answer>;
  readonly #listeners = new Set<() => void>();
  readonly actions: Actions<Answer>;
  #view = EMPTY;
  /** Ends the reader; undefined: the store is closed. */
  #reading: AbortController | undefined;
  /** True if the session did not exist when it was read. `send` then starts the reader again. */
  #isMissing = false;

  constructor(session: RemoteSession<Answer>) {
    this.#session = session;
    this.actions = {
      send: async (content, options) => {
        const receipt = await session.send(content, options);
        if (this.#isMissing && this.#reading !== undefined) this.#read(this.#reading.signal);
        return receipt;
      },
      interrupt: (reason, options) => session.interrupt(reason, options),
      approve: (callId, decision, options) => this.#decided(callId, session.approve(callId, decision, options)),
      answer: (callId, value, options) => this.#decided(callId, session.answer(callId, value, options)),
      decline: (callId, reason, options) => this.#decided(callId, session.decline(callId, reason, options)),
    };
  }

  /** The newest view (U1). */
  readonly view = (): SessionView => this.#view;

  /** Calls `listener` after each change, until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Starts to read; the returned function ends the reading. */
  open(): () => void {
    const reading = new AbortController();
    this.#reading = reading;
    this.#read(reading.signal);
    return () => {
      reading.abort();
      if (this.#reading === reading) this.#reading = undefined;
    };
  }

  #read(signal: AbortSignal): void {
    this.#isMissing = false;
    this.#follow(signal).catch((error: unknown) => {
      if (signal.aborted) return;
      if (error instanceof ClientError && error.code === 'unknown_session') {
        this.#isMissing = true;
        this.#put({ ...EMPTY, status: 'idle' });
        return;
      }
      const code = error instanceof ClientError ? error.code : 'protocol';
      this.#put({ status: 'failed', error: { code, message: error instanceof Error ? error.message : String(error) } });
    });
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const session = this.#session;
    // `seq` is read before the lists, so no event is missed. If a list already has the change of an event, the event
    // changes nothing.
    const { seq, state, phase } = await session.state({ signal });
    const [messages, pending] = await Promise.all([session.messages({ signal }), session.pending({ signal })]);
    const waits = phase === 'approval' || phase === 'question' ? await this.#waits(signal) : [];
    this.#put({ messages, pending, waits, status: statusOf(state, phase), error: undefined });
    const onReconnect = (): void => this.#put(UNWRITTEN);
    for await (const event of session.events({ after: seq, signal, onReconnect })) this.#take(event);
  }

  /** The calls that already wait for a person, read from the server's queue. */
  async #waits(signal: AbortSignal): Promise<readonly PersonWait[]> {
    const waiting = await this.#session.waiting({ signal });
    return waiting.map(({ callId, toolName, kind, input, question, choices, schema }) => ({
      callId,
      toolName,
      kind: kind === 'approval' ? 'approval' : 'question',
      ...(kind === 'approval' ? { input } : {}),
      ...(question === undefined ? {} : { question }),
      ...(choices === undefined ? {} : { choices }),
      ...(schema === undefined ? {} : { schema }),
    }));
  }

  async #decided(callId: string, decision: Promise<boolean>): Promise<boolean> {
    const holds = await decision;
    this.#put({ waits: without(this.#view.waits, callId) });
    return holds;
  }

  #take(event: SessionEvent): void {
    const { messages, pending, waits } = this.#view;
    switch (event.type) {
      case 'message.created':
      case 'message.updated': {
        const isAnswer = event.message.type === 'agent_message' || event.message.type === 'tool_call';
        this.#put({ messages: placed(messages, [event.message]), ...(isAnswer ? { text: '', thinking: '' } : {}) });
        return;
      }
      case 'message.removed':
        if (messages.some(({ seq }) => seq === event.messageSeq)) {
          this.#put({ messages: messages.filter(({ seq }) => seq !== event.messageSeq) });
        }
        return;
      case 'history.changed': {
        const removed = new Set(event.removed);
        const kept = messages.filter(({ seq }) => !removed.has(seq));
        this.#put({ messages: placed(placed(kept, event.created), event.updated) });
        return;
      }
      case 'pending.created': {
        const others = pending.filter(({ id }) => id !== event.pending.id);
        this.#put({ pending: [...others, event.pending], waits: without(waits, event.pending.toolUseId) });
        return;
      }
      case 'pending.removed':
        if (pending.some(({ id }) => id === event.pendingId)) {
          this.#put({ pending: pending.filter(({ id }) => id !== event.pendingId) });
        }
        return;
      case 'session.state':
        this.#put({
          status: statusOf(event.state, event.phase),
          ...(event.state === 'awaiting' ? { text: '', thinking: '' } : {}),
          ...(event.state === 'awaiting' && event.phase === undefined ? { waits: [], error: undefined } : {}),
        });
        return;
      case 'text.delta':
        this.#put({ text: this.#view.text + event.text });
        return;
      case 'thinking.delta':
        this.#put({ thinking: this.#view.thinking + event.text });
        return;
      case 'llm.retry':
      case 'session.recovered':
        this.#put(UNWRITTEN);
        return;
      case 'tool.started':
        this.#put({ waits: without(waits, event.toolUseId) });
        return;
      case 'approval.required': {
        const { toolUseId: callId, toolName, input } = event;
        this.#put({
          status: 'waiting',
          waits: [...without(waits, callId), { callId, toolName, kind: 'approval', input }],
        });
        return;
      }
      case 'question.asked': {
        if (event.asked !== 'human') return;
        const { toolUseId: callId, toolName, question, choices, schema } = event;
        const more = { ...(choices === undefined ? {} : { choices }), ...(schema === undefined ? {} : { schema }) };
        const wait: PersonWait = { callId, toolName, kind: 'question', question, ...more };
        this.#put({ status: 'waiting', waits: [...without(waits, callId), wait] });
        return;
      }
      case 'turn.finished':
        this.#put({ text: '', thinking: '', waits: [], error: undefined });
        return;
      case 'turn.failed':
        this.#put({
          text: '',
          thinking: '',
          waits: [],
          error: { code: event.error.code, message: event.error.message },
        });
        return;
      default:
        return;
    }
  }

  #put(change: Partial<SessionView>): void {
    const next = { ...this.#view, ...change };
    const names = Object.keys(next) as (keyof SessionView)[];
    if (names.every((name) => next[name] === this.#view[name])) return;
    this.#view = next;
    for (const listener of [...this.#listeners]) listener();
  }
}

function statusOf(state: string, phase: string | undefined): SessionStatus {
  if (phase === 'approval' || phase === 'question') return 'waiting';
  return state === 'idle' && phase !== 'preparing' ? 'idle' : 'working';
}

/** Returns the same list if no call with this id waits, so that the view does not change (U1). */
function without(waits: readonly PersonWait[], callId: string | undefined): readonly PersonWait[] {
  return waits.some((wait) => wait.callId === callId) ? waits.filter((wait) => wait.callId !== callId) : waits;
}

/** Adds messages to a list that ascends by number. A message with the same number is replaced (U2). */
function placed(messages: readonly Message[], added: readonly Message[]): readonly Message[] {
  if (added.length === 0) return messages;
  const last = messages.at(-1)?.seq ?? 0;
  if (added.length === 1 && (added[0]?.seq ?? 0) > last) return [...messages, ...added];
  const bySeq = new Map(messages.map((message) => [message.seq, message]));
  for (const message of added) bySeq.set(message.seq, message);
  return [...bySeq.values()].sort((one, other) => one.seq - other.seq);
}
