/**
 * Reads server-sent events. The client, the observer page and the command line use it.
 *
 * The text may come in pieces that are cut anywhere. Source of the format: the HTML standard, "Server-sent events".
 *
 * Owns: the unfinished line and the unfinished event. Both are bounded.
 *  P1 An event is handed over once the blank line after it has arrived. Its data lines are then joined by newlines.
 *  P2 An event without an id gets the last id that the stream sent.
 */
import { STREAM_EVENT_CHARACTERS_MAX, STREAM_LINE_CHARACTERS_MAX } from './bounds.ts';

/** One event of a stream. `type`: `message` if the server names no type. */
export interface StreamEvent {
  readonly type: string;
  readonly data: string;
  readonly id: string;
}

/** The error when a line or an event of a stream is longer than any valid line or event. */
export class StreamTooLongError extends Error {
  override readonly name: string = 'StreamTooLongError';
}

const LINE_END = /\r\n|\n|\r/g;

/** See the head of the file. */
export class StreamParser {
  readonly #onEvent: (event: StreamEvent) => void;
  #rest = '';
  #type = '';
  #data: string[] = [];
  #characters = 0;
  #id = '';
  #isBegun = false;

  /** `onEvent` must not throw. */
  constructor(onEvent: (event: StreamEvent) => void) {
    this.#onEvent = onEvent;
  }

  /** Takes the next piece. Throws `StreamTooLongError`. */
  push(piece: string): void {
    let text = this.#rest + piece;
    // The text that was searched before has no line end, except perhaps a carriage return as its last character.
    LINE_END.lastIndex = Math.max(0, this.#rest.length - 1);
    if (!this.#isBegun && text !== '') {
      this.#isBegun = true;
      if (text.startsWith('\uFEFF')) text = text.slice(1);
    }
    let start = 0;
    for (let found = LINE_END.exec(text); found !== null; found = LINE_END.exec(text)) {
      // A carriage return as the last character may be half of a line end, so it is examined again with the next piece.
      if (found[0] === '\r' && LINE_END.lastIndex === text.length) break;
      this.#line(text.slice(start, found.index));
      start = LINE_END.lastIndex;
    }
    this.#rest = text.slice(start);
    if (this.#rest.length > STREAM_LINE_CHARACTERS_MAX)
      throw new StreamTooLongError('a line of the stream is too long');
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'event') this.#type = value;
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'data') {
      this.#data.push(value);
      this.#characters += value.length;
      if (this.#characters > STREAM_EVENT_CHARACTERS_MAX)
        throw new StreamTooLongError('an event of the stream is too long');
    }
  }

  #dispatch(): void {
    const data = this.#data;
    const type = this.#type === '' ? 'message' : this.#type;
    this.#data = [];
    this.#type = '';
    this.#characters = 0;
    if (data.length > 0) this.#onEvent({ type, data: data.join('\n'), id: this.#id });
  }
}

/**
 * The events of a response's body, until it ends. Rejects as the body's reader does, and with `StreamTooLongError`.
 * `onPiece`: called for each piece that arrives. Comments count too, because they show that the server is alive.
 */
export async function* streamEvents(
  body: ReadableStream<Uint8Array>,
  onPiece: () => void = () => undefined,
): AsyncGenerator<StreamEvent, undefined> {
  const decoder = new TextDecoder();
  const arrived: StreamEvent[] = [];
  const parser = new StreamParser((event) => arrived.push(event));
  const reader = body.getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      onPiece();
      parser.push(decoder.decode(piece.value, { stream: true }));
      yield* arrived.splice(0);
    }
    return undefined;
  } finally {
    // Closes the connection if the caller leaves the stream early. If the connection failed, that was already reported.
    await reader.cancel().catch(() => undefined);
  }
}
