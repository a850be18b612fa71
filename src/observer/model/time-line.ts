/**
 * The time line of a session, built from its events: the stretches in which each half-step, tool call and child waited
 * and worked.
 *
 * Owns: spans, turns, the entries that wait now. Does not own: the scale, the drawing.
 *
 *  L1 The stretches of a span follow each other without a hole. Only the last stretch may be open.
 *  L2 A durable event is applied once: an event whose number was already seen is ignored.
 *  L3 There are at most `SPANS_MAX` spans. Beyond this number the oldest spans are removed, and `left` counts them. A
 *   turn is removed with its last span.
 *  L4 The waiting of a half-step begins when its oldest message was accepted, or when the last result of its tool calls
 *     arrived. Its work is the time of its model call in flight. A pause before another attempt is waiting.
 */
import type { Pending } from '../../base/messages.ts';
import { PENDING_MAX, SPANS_MAX } from '../bounds.ts';
import type { ObservedEvent } from '../wire.ts';
import { tokensOf } from './session-tree.ts';
import {
  close,
  endLast,
  type OpenSpan,
  type Outcome,
  push,
  type Span,
  type Stretch,
  type StretchKind,
  turnTo,
} from './stretches.ts';

/**
 * A turn, from the first half-step after idle until the session is idle again. `number`: the number of the turn in this
 * time line.
 */
export interface Turn {
  readonly number: number;
  /** Epoch ms of the claim that began the turn. */
  readonly from: number;
  readonly to: number | undefined;
  readonly outcome: Outcome;
  /** Why the turn ended, in the words of the provider or the error. */
  readonly reason: string;
  readonly tokens: number;
}

/** A change of a child: it began to work, or became idle. `at`: epoch ms. */
export interface ChildState {
  readonly at: number;
  readonly isWorking: boolean;
}

/** An entry that waits in the mailbox now. */
export interface WaitingEntry {
  readonly id: number;
  readonly at: number;
  readonly label: string;
}

type OpenTurn = { -readonly [Key in keyof Turn]: Turn[Key] };

/** See the head of the file. */
export class TimeLine {
  readonly #spansMax: number;
  #spans: OpenSpan[] = [];
  #turns: OpenTurn[] = [];
  /** Open spans by tool call and by child. */
  readonly #open: Map<string, OpenSpan> = new Map();
  readonly #waiting: Map<number, Pending> = new Map();
  #step: OpenSpan | undefined;
  #lastStep: OpenSpan | undefined;
  #turn: OpenTurn | undefined;
  #turnCount = 0;
  #stepCount = 0;
  #left = 0;
  #seen = 0;
  #liveAfter = Number.POSITIVE_INFINITY;
  #version = 0;
  #newestAt = 0;
  /** The token usage of the answer in flight, as text. */
  #answerTokens = '';

  constructor(spansMax: number = SPANS_MAX) {
    this.#spansMax = spansMax;
  }

  get version(): number {
    return this.#version;
  }

  /** All spans, in order of their beginning. */
  get spans(): readonly Span[] {
    return this.#spans;
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  /** Number of spans that were removed because of the bound. */
  get left(): number {
    return this.#left;
  }

  /** The seq of the newest durable event that was applied. */
  get seen(): number {
    return this.#seen;
  }

  /** Epoch ms of the newest event. The drawing must not end before this time. */
  get newestAt(): number {
    return this.#newestAt;
  }

  /** True while a span is open or an entry waits, so that the drawing must be updated. */
  get isMoving(): boolean {
    return this.#step !== undefined || this.#open.size > 0 || this.#waiting.size > 0;
  }

  /** The entries that wait in the mailbox now, oldest first. */
  waiting(): readonly WaitingEntry[] {
    return [...this.#waiting.values()].map((entry) => ({ id: entry.id, at: entry.at, label: labelOf(entry) }));
  }

  /** Sets the current mailbox, for a time line that does not begin at the first event. */
  setWaiting(entries: readonly Pending[]): void {
    for (const entry of entries) if (this.#waiting.size < PENDING_MAX) this.#waiting.set(entry.id, entry);
    this.#version += 1;
  }

  /** Notes that events after this seq arrive live. So the page sees all changes of children that these events spawn. */
  setLiveAfter(seq: number): void {
    this.#liveAfter = seq;
  }

  /** Replaces the stretches of a child's span by its whole history, oldest first. */
  setChildHistory(child: string, states: readonly ChildState[]): void {
    const span = this.#spans.find((each) => each.session === child);
    const from = span?.stretches[0]?.from;
    if (span === undefined || from === undefined) return;
    const end = span.outcome === 'open' ? undefined : span.stretches.at(-1)?.to;
    span.stretches.splice(0, span.stretches.length, { kind: 'wait', from, to: undefined });
    for (const { at, isWorking } of states) turnTo(span, isWorking ? 'work' : 'wait', Math.max(at, from));
    if (end !== undefined) endLast(span, end);
    this.#version += 1;
  }

  /** Applies an event of the session. */
  apply(event: ObservedEvent): void {
    if (event.seq !== undefined) {
      if (event.seq <= this.#seen) return;
      this.#seen = event.seq;
    }
    this.#version += 1;
    const { at } = event;
    this.#newestAt = Math.max(this.#newestAt, at);
    switch (event.type) {
      case 'pending.created':
        if (this.#waiting.size < PENDING_MAX) this.#waiting.set(event.pending.id, event.pending);
        return;
      case 'pending.removed':
        return this.#taken(event.pendingId, event.reason === 'promoted', at);
      case 'session.state':
        if (event.phase === 'paused' || event.phase === 'retrying') return;
        return this.#entered(event.state, at);
      case 'message.created':
        if (event.message.usage !== undefined) {
          this.#answerTokens = `${tokensOf(event.message.usage).toLocaleString('en')} tokens`;
        }
        return;
      case 'llm.retry':
        return this.#retried(event, at);
      case 'tool.started':
        return this.#began('tool', event.toolUseId, event.toolName, 'work', at);
      case 'approval.required':
        return this.#waitsForReply(event.toolUseId, event.toolName, 'waits for a person', at);
      case 'question.asked': {
        const note = event.asked === 'parent' ? 'asks its parent' : 'asks a person';
        return this.#waitsForReply(event.toolUseId, event.toolName, note, at);
      }
      case 'tool.finished':
        return this.#toolFinished(event, at);
      case 'child.spawned':
        return this.#began(
          'child',
          event.child,
          event.name ?? event.child,
          this.#isLive(event.seq) ? 'wait' : 'unseen',
          at,
        );
      case 'child.state':
        return this.#childEntered(event.child, event.state, at);
      case 'child.exited':
        return this.#ended(`child ${event.child}`, outcomeOf(event.reason), event.reason, at);
      case 'turn.finished':
        return this.#turnEnded(outcomeOf(event.reason), event.reason, tokensOf(event.usage), at);
      case 'turn.failed':
        return this.#turnEnded('failed', event.error.message, 0, at);
      default:
        return;
    }
  }

  /** Applies a child's change of state that the page read from the child's own events. */
  childEntered(child: string, state: string, at: number): void {
    this.#childEntered(child, state, at);
  }

  #entered(state: 'idle' | 'awaiting' | 'executing', at: number): void {
    if (state === 'awaiting') {
      this.#turn ??= this.#turnBegan(at);
      if (this.#step !== undefined) return;
      this.#stepCount += 1;
      this.#answerTokens = '';
      this.#step = this.#add(
        { key: `step ${this.#stepCount}`, kind: 'half-step', label: `half-step ${this.#stepCount}` },
        at,
        'work',
      );
      return;
    }
    const step = this.#step;
    if (step === undefined) return;
    this.#step = undefined;
    this.#lastStep = step;
    close(step, at, 'done');
    step.note = joined(this.#answerTokens, step.note);
  }

  /** Removes an entry from the mailbox. A promoted entry gives the start of its half-step's waiting (L4). */
  #taken(id: number, isPromoted: boolean, at: number): void {
    const entry = this.#waiting.get(id);
    this.#waiting.delete(id);
    const step = this.#step;
    if (entry === undefined || !isPromoted || step === undefined) return;
    const work = step.stretches.at(-1);
    const wait = step.stretches.length > 1 ? step.stretches[0] : undefined;
    // Only entries promoted by the claim itself count; a half-step that continues promotes nothing.
    if (work === undefined || work.from !== at) return;
    const isAnswer = entry.type === 'tool_response';
    const from = wait === undefined || (isAnswer ? entry.at > wait.from : entry.at < wait.from) ? entry.at : wait.from;
    if (from >= at) return;
    step.stretches.splice(0, step.stretches.length, { kind: 'wait', from, to: at }, work);
  }

  #retried({ attempt, waitMs, status, code }: Extract<ObservedEvent, { type: 'llm.retry' }>, at: number): void {
    const step = this.#step;
    if (step === undefined) return;
    endLast(step, at);
    push(step, { kind: 'wait', from: at, to: at + waitMs });
    push(step, { kind: 'work', from: at + waitMs, to: undefined });
    const why = [code, status].filter((each) => each !== undefined).join(', ');
    step.note = `attempt ${attempt} failed${why === '' ? '' : ` (${why})`}`;
  }

  #waitsForReply(callId: string, name: string, note: string, at: number): void {
    const key = `tool ${callId}`;
    if (!this.#open.has(key)) this.#began('tool', callId, name, 'wait', at);
    const span = this.#open.get(key);
    if (span === undefined) return;
    turnTo(span, 'wait', at);
    span.note = note;
  }

  #toolFinished(
    event: { readonly toolUseId: string; readonly success: boolean; readonly ms?: number },
    at: number,
  ): void {
    const span = this.#open.get(`tool ${event.toolUseId}`);
    if (span === undefined) return;
    const from = span.stretches[0]?.from ?? at;
    // `ms` is the duration of the call itself. For the rest of the time the call was queued or waited for a person.
    if (event.ms !== undefined) {
      const begun = Math.min(at, Math.max(from, at - event.ms));
      const stretches: Stretch[] = begun > from ? [{ kind: 'wait', from, to: begun }] : [];
      span.stretches.splice(0, span.stretches.length, ...stretches, { kind: 'work', from: begun, to: at });
    }
    span.note = '';
    this.#ended(`tool ${event.toolUseId}`, event.success ? 'done' : 'failed', '', at);
  }

  #isLive(seq: number | undefined): boolean {
    return seq === undefined || seq > this.#liveAfter;
  }

  #childEntered(child: string, state: string, at: number): void {
    const span = this.#open.get(`child ${child}`);
    if (span === undefined) return;
    this.#version += 1;
    turnTo(span, state === 'idle' ? 'wait' : 'work', at);
  }

  #began(kind: 'tool' | 'child', id: string, name: string, first: StretchKind, at: number): void {
    const key = `${kind} ${id}`;
    if (this.#open.has(key)) return;
    const span = this.#add(
      { key, kind, label: name === '' ? kind : name },
      at,
      first,
      kind === 'child' ? id : undefined,
    );
    this.#open.set(key, span);
  }

  #ended(key: string, outcome: Outcome, note: string, at: number): void {
    const span = this.#open.get(key);
    if (span === undefined) return;
    this.#open.delete(key);
    close(span, at, outcome);
    span.note = joined(span.note, note);
  }

  #turnBegan(at: number): OpenTurn {
    this.#turnCount += 1;
    const turn: OpenTurn = { number: this.#turnCount, from: at, to: undefined, outcome: 'open', reason: '', tokens: 0 };
    this.#turns.push(turn);
    return turn;
  }

  #turnEnded(outcome: Outcome, reason: string, tokens: number, at: number): void {
    const turn = this.#turn;
    this.#turn = undefined;
    for (const key of [...this.#open.keys()]) {
      if (key.startsWith('tool ')) this.#ended(key, outcome === 'done' ? 'done' : 'cancelled', '', at);
    }
    if (turn === undefined) return;
    Object.assign(turn, { to: at, outcome, reason, tokens });
    const last = this.#lastStep;
    if (outcome !== 'done' && last !== undefined && last.turn === turn.number) last.outcome = outcome;
  }

  #add(
    what: Pick<Span, 'key' | 'kind' | 'label'>,
    at: number,
    first: StretchKind,
    session: string | undefined = undefined,
  ): OpenSpan {
    const span: OpenSpan = {
      ...what,
      session,
      turn: this.#turn?.number ?? 0,
      stretches: [{ kind: first, from: at, to: undefined }],
      outcome: 'open',
      note: '',
    };
    this.#spans.push(span);
    if (this.#spans.length > this.#spansMax) this.#forget();
    return span;
  }

  /**
   * Removes the oldest spans (L3). A tenth is removed at once, because removing one span per new span would move all
   * other spans each time.
   */
  #forget(): void {
    const count = Math.max(1, Math.floor(this.#spansMax / 10));
    const gone = new Set(this.#spans.slice(0, count));
    this.#spans = this.#spans.slice(count);
    this.#left += count;
    for (const [key, span] of this.#open) if (gone.has(span)) this.#open.delete(key);
    const first = this.#spans.find((span) => span.turn !== 0)?.turn ?? 0;
    this.#turns = this.#turns.filter((turn) => turn.number >= first);
  }
}

function labelOf(entry: Pending): string {
  const { name, type } = entry.source;
  if (entry.type === 'user_message') return 'message';
  return name === undefined ? type : `${type} ${name}`;
}

function outcomeOf(reason: string): Outcome {
  if (reason === 'cancelled') return 'cancelled';
  return reason === 'failed' ? 'failed' : 'done';
}

function joined(first: string, second: string): string {
  return [first, second].filter((text) => text !== '').join(' · ');
}
