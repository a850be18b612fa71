/**
 * The chosen session: its conversation, its time line, why it waits, and its model request.
 *
 * Owns: one event stream of the session, and the state built from the events. Does not own: the tree, other sessions.
 *  C1 No callback runs after `close`.
 *  C2 First the session is read, then the stream is opened. The stream begins before the newest event that was read.
 *  C3 The reason why the session waits is requested at most once per `ASK_INTERVAL_MS`. At most one request for the
 *     session's model request is in flight.
 */
import { type Signal, signal } from '@preact/signals';
import { ASK_INTERVAL_MS, BATCH_EVENTS_MAX, MESSAGES_PAGE, REPLAY_EVENTS_MAX } from '../bounds.ts';
import { type Api, ApiError } from '../client/api.ts';
import { type EventStream, openStream, type StreamState } from '../client/event-stream.ts';
import { nextFrame } from '../client/next-frame.ts';
import { Conversation } from '../model/conversation.ts';
import { type FrameBatch, frameBatch } from '../model/frame-batch.ts';
import { TimeLine } from '../model/time-line.ts';
import { type ObservedEvent, type RequestReport, readEvent, type SessionDetail } from '../wire.ts';
import { ChildHistories } from './child-histories.ts';

/** The status of the reading of a session. */
export type ChosenStatus =
  | { readonly kind: 'loading' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly message: string };

/** A request and its result. */
export type Asked<T> =
  | { readonly kind: 'not asked' }
  | { readonly kind: 'asking'; readonly last: T | undefined }
  | { readonly kind: 'answered'; readonly value: T; readonly at: number }
  | { readonly kind: 'failed'; readonly message: string };

/** The parts of the page that the chosen session needs. */
export interface ChosenParts {
  readonly id: string;
  readonly api: Api;
  /** Called with the result of each reading. */
  readonly onDetail: (detail: SessionDetail) => void;
  /** Called with the error of the last turn. */
  readonly onTrouble: (trouble: string) => void;
  /** Called when a request was refused because the token is missing. */
  readonly onUnauthorised: () => void;
}

/** Events that may change the reason why the session waits. */
const MOVES: ReadonlySet<string> = new Set<ObservedEvent['type']>([
  'session.state',
  'approval.required',
  'question.asked',
]);

/** See the head of the file. */
export class ChosenSession {
  readonly id: string;
  readonly status: Signal<ChosenStatus> = signal<ChosenStatus>({ kind: 'loading' });
  readonly stream: Signal<StreamState> = signal<StreamState>({ kind: 'connecting' });
  readonly explanation: Signal<{ readonly reason: string; readonly detail: string } | undefined> = signal(undefined);
  readonly request: Signal<Asked<RequestReport>> = signal<Asked<RequestReport>>({ kind: 'not asked' });
  readonly isLoadingEarlier: Signal<boolean> = signal(false);
  /** A number that grows with each change of this state. */
  readonly version: Signal<number> = signal(0);
  /** Number of events that are missing here, because the server no longer had them or because they were dropped. */
  readonly missed: Signal<number> = signal(0);
  /** The time line begins after the event with this seq. */
  readonly replayedAfter: Signal<number> = signal(0);
  readonly conversation: Conversation = new Conversation();
  readonly timeLine: TimeLine = new TimeLine();
  /** The states of children before they were watched. */
  readonly histories: ChildHistories;
  readonly #parts: ChosenParts;
  readonly #batch: FrameBatch<ObservedEvent>;
  #connection: EventStream | undefined;
  #isClosed = false;
  #explainTimer: ReturnType<typeof setTimeout> | undefined;
  #explainAgain = false;
  /** The number of requests so far for the reason why the session waits. */
  #explainsAsked = 0;

  constructor(parts: ChosenParts) {
    this.id = parts.id;
    this.#parts = parts;
    this.histories = new ChildHistories(parts.api, (child, states) => {
      this.timeLine.setChildHistory(child, states);
      this.version.value += 1;
    });
    this.#batch = frameBatch<ObservedEvent>({
      itemsMax: BATCH_EVENTS_MAX,
      schedule: nextFrame,
      take: (events, lost) => this.#take(events, lost),
    });
  }

  /** Reads the session and opens its stream. Never rejects: `status` reports failures. */
  async open(): Promise<void> {
    const { api, id } = this.#parts;
    this.#connection?.close();
    this.status.value = { kind: 'loading' };
    try {
      const detail = await api.session(id);
      const isAsking = detail.phase === 'approval' || detail.phase === 'question';
      const [viewport, pending, waiting] = await Promise.all([
        api.viewport(id),
        api.pending(id),
        isAsking ? api.waiting(id) : undefined,
      ]);
      if (this.#isClosed) return;
      this.conversation.setWaiting(waiting?.calls.filter(({ session }) => session === id) ?? []);
      this.conversation.setSeen(detail.seq);
      this.conversation.setPending(pending);
      this.timeLine.setWaiting(pending);
      this.timeLine.setLiveAfter(detail.seq);
      await this.#readTail(viewport.at(-1)?.seq ?? 0);
      if (this.#isClosed) return;
      // `detail` may have the text of an answer that broke off (a lost answer). Only that text is taken from `detail`:
      // for an answer in flight, the event stream begins with its whole text.
      if (detail.draft?.lost !== undefined) this.conversation.setDraft(detail.draft);
      this.#parts.onDetail(detail);
      this.version.value += 1;
      this.status.value = { kind: 'ready' };
      this.#listen(Math.max(0, detail.seq - REPLAY_EVENTS_MAX));
      this.explain();
    } catch (thrown) {
      this.#failed(thrown);
    }
  }

  /** Ends the stream and the timers. A reading in flight changes nothing after this. */
  close(): void {
    this.#isClosed = true;
    this.histories.close();
    clearTimeout(this.#explainTimer);
    this.#connection?.close();
  }

  /** Reads the session again, after a failure. */
  retryOpen(): void {
    this.open().catch((error: unknown) => this.#failed(error));
  }

  /** Reconnects the stream now. */
  retry(): void {
    this.#connection?.retry();
  }

  /** Requests the reason why the session is not running, at most once per `ASK_INTERVAL_MS`. */
  explain(): void {
    if (this.#explainTimer !== undefined) {
      this.#explainAgain = true;
      return;
    }
    this.#explainTimer = setTimeout(() => {
      this.#explainTimer = undefined;
      if (this.#explainAgain) this.explain();
    }, ASK_INTERVAL_MS);
    this.#explainAgain = false;
    this.#explainsAsked += 1;
    const asked = this.#explainsAsked;
    // A slow answer must not replace the answer to a later request.
    const show = (explanation: { readonly reason: string; readonly detail: string }): void => {
      if (!this.#isClosed && asked === this.#explainsAsked) this.explanation.value = explanation;
    };
    this.#parts.api.explain(this.id).then(show, (error: unknown) => {
      show({ reason: 'unknown', detail: messageOf(error) });
    });
  }

  /** Reads the model request as it would be sent now. */
  async askRequest(): Promise<void> {
    const before = this.request.value;
    if (before.kind === 'asking') return;
    this.request.value = { kind: 'asking', last: before.kind === 'answered' ? before.value : undefined };
    try {
      const value = await this.#parts.api.request(this.id);
      if (!this.#isClosed) this.request.value = { kind: 'answered', value, at: Date.now() };
    } catch (error) {
      if (!this.#isClosed) this.request.value = { kind: 'failed', message: messageOf(error) };
    }
  }

  /** Reads the page of messages before the first message shown. Rejects with the error of the request. */
  async readEarlier(): Promise<void> {
    const first = this.conversation.messages[0]?.seq ?? 1;
    if (this.isLoadingEarlier.value || first <= 1) return;
    this.isLoadingEarlier.value = true;
    try {
      const after = Math.max(0, first - 1 - MESSAGES_PAGE);
      const { messages } = await this.#parts.api.messages(this.id, after, first - 1 - after);
      this.conversation.addPage(messages.filter((message) => message.seq < first));
      if (after === 0) this.conversation.setBegun();
      this.version.value += 1;
    } finally {
      this.isLoadingEarlier.value = false;
    }
  }

  /** Applies a child's state from the child's own events. */
  childEntered(child: string, state: string, at: number): void {
    this.timeLine.childEntered(child, state, at);
  }

  /** Reads from one page before the newest message in the window to the end of the log. */
  async #readTail(newest: number): Promise<void> {
    let after = Math.max(0, newest - MESSAGES_PAGE);
    const isBegun = after === 0;
    for (;;) {
      const { messages, isLast } = await this.#parts.api.messages(this.id, after);
      this.conversation.addPage(messages);
      const last = messages.at(-1)?.seq;
      if (isLast || last === undefined || this.#isClosed) break;
      after = last;
    }
    if (isBegun && this.conversation.messages.length < MESSAGES_PAGE) this.conversation.setBegun();
  }

  #listen(after: number): void {
    this.replayedAfter.value = after;
    const path = `sessions/${encodeURIComponent(this.id)}/events?mode=debug&after=${after}`;
    this.#connection = openStream({
      address: () => this.#parts.api.stream(path),
      onEvent: ({ data }) => {
        const event = readEvent(data);
        if (event !== undefined) this.#batch.add(event);
      },
      onState: (state) => {
        if (this.#isClosed) return;
        if (state.kind === 'refused') this.#failed(state.error);
        this.stream.value = state;
      },
    });
  }

  #take(events: readonly ObservedEvent[], lost: number): void {
    if (this.#isClosed) return;
    if (lost > 0) this.missed.value += lost;
    let isMoved = false;
    for (const event of events) {
      if (event.type === 'gap') this.missed.value += Math.max(0, event.to - event.from + 1);
      if (MOVES.has(event.type)) isMoved = true;
      this.conversation.apply(event);
      this.timeLine.apply(event);
    }
    this.version.value += 1;
    const last = this.timeLine.turns.at(-1);
    if (last?.outcome === 'failed') this.#parts.onTrouble(last.reason);
    if (isMoved) this.explain();
  }

  #failed(thrown: unknown): void {
    if (this.#isClosed) return;
    if (thrown instanceof ApiError && thrown.status === 401) this.#parts.onUnauthorised();
    const isGone = thrown instanceof ApiError && thrown.status === 404;
    this.status.value = isGone ? { kind: 'gone' } : { kind: 'failed', message: messageOf(thrown) };
  }
}

/** The message of an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
