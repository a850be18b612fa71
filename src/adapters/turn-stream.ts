/**
 * Follows a turn, beginning with the message that starts it, and emits the messages of a protocol. The adapters that
 * answer a browser share this file.
 *
 * Owns: one reader of a session's events. Does not own: the session, the turn.
 * D1 The reader of events starts before the message is sent, so that no delta of the answer is missed.
 * D2 The reader is closed when the turn ends, when `return` is called, when the signal fires, and after a failure.
 * D3 Closing the reader cancels nothing: the session continues.
 */
import { z } from 'zod';
import { BODY_ISSUES_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { type ErrorShape, errorShape } from '../base/errors.ts';
import type { UserContent } from '../base/messages.ts';
import type { SessionEvent } from '../events/event.ts';
import { Receipt, type SendOptions, type Session } from '../index.ts';
import { type Piece, TurnStory } from './turn-story.ts';

/** The message that an adapter follows: the receipt of an accepted message, or a message that is still to be sent. */
export type TurnSource = Receipt | UserContent | ({ readonly content: UserContent } & SendOptions);

/** Translates the pieces of a turn to the messages of a protocol. */
export interface Writer<T> {
  take(piece: Piece): readonly T[];
}

/** A turn that is being read. */
interface Reading {
  readonly receipt: Receipt;
  readonly events: AsyncIterableIterator<SessionEvent>;
}

/** The messages of a protocol, one by one. `return` stops the reading. */
export class TurnStream<T> implements AsyncIterableIterator<T, undefined> {
  readonly receipt: Receipt;
  readonly #events: AsyncIterableIterator<SessionEvent>;
  readonly #story: TurnStory;
  readonly #writer: Writer<T>;
  readonly #signal: AbortSignal | undefined;
  #waiting: T[];
  #isOver = false;

  constructor(
    { receipt, events }: Reading,
    parts: { readonly first: T; readonly writer: Writer<T>; readonly signal: AbortSignal | undefined },
  ) {
    this.receipt = receipt;
    this.#events = events;
    this.#story = new TurnStory(receipt.pendingId);
    this.#writer = parts.writer;
    this.#signal = parts.signal;
    this.#waiting = [parts.first];
  }

  /** The next message. Rejects once if the events cannot be read. */
  async next(): Promise<IteratorResult<T, undefined>> {
    for (;;) {
      const word = this.#waiting.shift();
      if (word !== undefined) return { done: false, value: word };
      if (this.#isOver) return { done: true, value: undefined };
      await this.#read();
    }
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#isOver = true;
    this.#waiting = [];
    await this.#events.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #read(): Promise<void> {
    try {
      const { done, value } = await this.#events.next();
      if (this.#isOver) return;
      const isEnd = done === true;
      if (isEnd && this.#signal?.aborted === true) {
        this.#isOver = true;
        return;
      }
      const pieces = isEnd ? this.#story.finish() : this.#story.take(value);
      for (const piece of pieces) this.#waiting.push(...this.#writer.take(piece));
      if (!this.#story.isOver) return;
      this.#isOver = true;
      await this.#events.return?.();
    } catch (error) {
      this.#isOver = true;
      throw error;
    }
  }
}

/**
 * Reads the turn of a receipt's message, or sends a message and reads its turn. Rejects as `session.send` does; the
 * reader is then closed.
 */
export async function followTurn(session: Session, source: TurnSource, signal?: AbortSignal): Promise<Reading> {
  if (source instanceof Receipt) return followReceipt(session, source, signal);
  const { content, options } = messageOf(source);
  const { seq: after } = await session.state();
  const events = session.events({ after, ...defined({ signal }) });
  try {
    const receipt = await session.send(content, options);
    if (receipt.seq > after) return { receipt, events };
    // The message had already been accepted, so its turn may have begun, or have ended.
    await events.return?.();
    return followReceipt(session, receipt, signal);
  } catch (error) {
    await events.return?.();
    throw error;
  }
}

function followReceipt(session: Session, receipt: Receipt, signal: AbortSignal | undefined): Reading {
  const events = session.events({
    after: Math.max(0, receipt.seq - 1),
    ...defined({ signal }),
  });
  return { receipt, events };
}

function messageOf(source: Exclude<TurnSource, Receipt>): {
  readonly content: UserContent;
  readonly options: SendOptions;
} {
  if (typeof source === 'string' || !('content' in source)) return { content: source, options: {} };
  const { content, ...options } = source;
  return { content, options };
}

/**
 * Describes the problems of a body. Only the first are described, because a body with many bad parts has many problems.
 */
export function problemsOf({ issues }: z.ZodError): string {
  const first = z.prettifyError(new z.ZodError(issues.slice(0, BODY_ISSUES_MAX)));
  return issues.length > BODY_ISSUES_MAX ? `${first}\nand ${issues.length - BODY_ISSUES_MAX} more` : first;
}

/**
 * Encodes a protocol's messages as server-sent events. `last`: texts that follow the messages. `fail`: returns the
 * texts to send instead of `last` if the reading fails.
 */
export function eventStream<T>(
  words: TurnStream<T>,
  ends: { readonly last: readonly string[]; readonly fail: (error: ErrorShape) => readonly string[] },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const end = (texts: readonly string[]): void => {
        for (const text of texts) controller.enqueue(encoder.encode(sse(text)));
        controller.close();
      };
      try {
        const { done, value } = await words.next();
        if (done === true) end(ends.last);
        else controller.enqueue(encoder.encode(sse(JSON.stringify(value))));
      } catch (thrown) {
        end(ends.fail(errorShape(thrown)));
      }
    },
    async cancel() {
      await words.return();
    },
  });
}

/** Headers of every response that streams a turn. */
export const STREAM_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
});

/** One server-sent event. */
export function sse(data: string): string {
  return `data: ${data}\n\n`;
}
