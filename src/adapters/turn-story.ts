/**
 * Reduces the events of one turn to the few kinds of pieces that a chat window needs. The turn is the turn that
 * consumes a given message. The adapters translate the pieces to their protocols. Pure.
 *
 * Owns: the record of the parts of the current answer that were already emitted. Does not own: the session, the reader
 * of its events.
 * C1 Nothing is emitted before the message is promoted, because until then the session may be busy with the answer to
 *    another message.
 * C2 The text of an answer is emitted whole: the durable message supplies the parts that the deltas did not. A reader
 *    that begins during a model call gets all deltas of that call.
 * C3 A call is emitted once, and before its result; the result is emitted once. The last piece is an `end`, and there
 *   is no other `end`.
 */
import { defined } from '../base/defined.ts';
import type { ErrorShape } from '../base/errors.ts';
import { type Message, type Pending, textOf, type Usage } from '../base/messages.ts';
import type { SessionEvent } from '../events/event.ts';
import { shownText } from '../events/view-modes.ts';

/** One piece of a turn. */
export type Piece =
  /** A half-step begins: the model is called, and then the tools that it calls. */
  | { readonly type: 'step' }
  | { readonly type: 'text' | 'thinking'; readonly delta: string }
  /** Marks the end of a text: the next piece does not continue the text. */
  | { readonly type: 'break' }
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly input: unknown }
  | {
      readonly type: 'result';
      readonly id: string;
      readonly name: string;
      readonly text: string;
      readonly success: boolean;
    }
  /** A fact outside the conversation: `retry`, `child`, `delivery`, `progress`, `gap`. */
  | { readonly type: 'note'; readonly name: string; readonly data: Readonly<Record<string, unknown>> }
  | {
      readonly type: 'end';
      readonly how: 'finished' | 'cancelled' | 'failed';
      readonly turn?: string;
      readonly reason: string;
      readonly usage?: Usage;
      readonly error?: ErrorShape;
    };

/** See the head of the file. */
export class TurnStory {
  readonly #pendingId: number;
  #isPromoted = false;
  #isOver = false;
  /** The emitted text of the current answer. */
  #written = '';
  readonly #calls = new Map<string, string>();
  readonly #answered = new Set<string>();

  /** `pendingId`: the id in the message's receipt. */
  constructor(pendingId: number) {
    this.#pendingId = pendingId;
  }

  /** True once the end was emitted. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Returns the pieces that the next event adds. Events must come in the session's order, each once. */
  take(event: SessionEvent): readonly Piece[] {
    if (this.#isOver) return [];
    if (!this.#isPromoted) return this.#await(event);
    switch (event.type) {
      case 'session.state':
        return event.state === 'awaiting' && event.phase === undefined ? this.#step() : [];
      case 'text.delta':
        if (event.text === '') return [];
        this.#written += event.text;
        return [{ type: 'text', delta: event.text }];
      case 'thinking.delta':
        return event.text === '' ? [] : [{ type: 'thinking', delta: event.text }];
      case 'message.created':
        return this.#logged(event.message);
      case 'pending.created':
        return this.#result(event.pending);
      case 'llm.retry': {
        this.#written = '';
        const { attempt, waitMs, status } = event;
        return [{ type: 'break' }, note('retry', { attempt, waitMs, ...defined({ status }) })];
      }
      case 'tool.progress':
        return [note('progress', { toolUseId: event.toolUseId, data: event.data })];
      case 'child.spawned':
        return [note('child', { child: event.child, name: event.name ?? '', state: 'spawned' })];
      case 'child.exited':
        return [note('child', { child: event.child, name: event.name ?? '', state: event.reason })];
      case 'gap':
        return [note('gap', { from: event.from, to: event.to })];
      case 'turn.finished': {
        const { turn, reason, usage } = event;
        return this.#end({ type: 'end', how: reason === 'cancelled' ? 'cancelled' : 'finished', turn, reason, usage });
      }
      case 'turn.failed': {
        const { turn, error } = event;
        return this.#end({ type: 'end', how: 'failed', turn, reason: error.code, error });
      }
      default:
        return [];
    }
  }

  /**
   * Called after the last event. Emits an `end` if the turn had none: the session was deleted, or the runtime was
   * closed.
   */
  finish(): readonly Piece[] {
    return this.#isOver ? [] : this.#end({ type: 'end', how: 'cancelled', reason: 'closed' });
  }

  #await(event: SessionEvent): readonly Piece[] {
    if (event.type !== 'pending.removed' || event.pendingId !== this.#pendingId) return [];
    if (event.reason !== 'promoted') return this.#end({ type: 'end', how: 'cancelled', reason: event.reason });
    this.#isPromoted = true;
    return [{ type: 'step' }];
  }

  #step(): readonly Piece[] {
    this.#written = '';
    return [{ type: 'break' }, { type: 'step' }];
  }

  #logged(message: Message): readonly Piece[] {
    const { type, source, toolUseId } = message;
    if (type === 'agent_message') return this.#rest(textOf(message.content));
    if (toolUseId === undefined) return [];
    if (source !== undefined && source.type !== 'tool') {
      if (type !== 'tool_response') return [];
      return [note('delivery', { from: source.type, name: source.name ?? '', text: textOf(message.content) })];
    }
    if (type === 'tool_call') {
      const name = message.toolName ?? '';
      this.#calls.set(toolUseId, name);
      return [{ type: 'break' }, { type: 'call', id: toolUseId, name, input: message.input ?? {} }];
    }
    return this.#result({ toolUseId, content: message.content, success: message.success ?? true });
  }

  /** Returns the part of an answer's text that the deltas did not supply (C2). */
  #rest(text: string): readonly Piece[] {
    const written = this.#written;
    this.#written = '';
    if (text.startsWith(written)) {
      const delta = text.slice(written.length);
      return delta === '' ? [{ type: 'break' }] : [{ type: 'text', delta }, { type: 'break' }];
    }
    // Some deltas in the middle were missed, so the whole text is emitted as a separate text.
    return [{ type: 'break' }, { type: 'text', delta: text }, { type: 'break' }];
  }

  #result({
    toolUseId,
    content,
    success = true,
  }: Pick<Pending, 'toolUseId' | 'content' | 'success'>): readonly Piece[] {
    const name = toolUseId === undefined ? undefined : this.#calls.get(toolUseId);
    if (toolUseId === undefined || name === undefined || this.#answered.has(toolUseId)) return [];
    this.#answered.add(toolUseId);
    return [{ type: 'result', id: toolUseId, name, text: shownText(content), success }];
  }

  #end(end: Extract<Piece, { readonly type: 'end' }>): readonly Piece[] {
    this.#isOver = true;
    return [{ type: 'break' }, end];
  }
}

function note(name: string, data: Readonly<Record<string, unknown>>): Piece {
  return { type: 'note', name, data };
}
