/**
 * Parses server-sent events from bytes, however the bytes are split into chunks.
 * Owns: the bytes of the incomplete line and event. Does not own: the meaning of events.
 *
 * - E1 Any split of the same bytes gives the same events, even inside a UTF-8 sequence or a line end.
 * - E2 An event that no blank line ended is not an event: the end of the stream discards it.
 * - E3 A line and a stream are bounded. Bytes that are not UTF-8 are an error, not replacement characters.
 *
 * Source: WHATWG HTML, "Server-sent events", parsing an event stream. `id` and `retry` are not used here.
 */
import { STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX } from '../../base/bounds.ts';
import { protocolError } from '../model-error.ts';

/** One event: its name (`message` when the stream gives none) and its data lines joined by newlines. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/**
 * Turns chunks into events. Throws `ModelError` `model_protocol` for input that E3 forbids; the parser is unusable
 * after that.
 */
export class EventStreamParser {
  readonly #decoder: InstanceType<typeof TextDecoder> = new TextDecoder('utf-8', { fatal: true });
  /** The pieces of a line that has not ended. */
  #pending: string[] = [];
  #pendingLength = 0;
  /**
   * True if a carriage return ended the last chunk. The next character decides whether the carriage return is a whole
   * line end or half of one.
   */
  #heldReturn = false;
  #bytes = 0;
  #name = '';
  #data: string[] = [];
  #dataLength = 0;

  /** The events that these bytes complete, in order. */
  push(chunk: Uint8Array): readonly StreamEvent[] {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > STREAM_BYTES_MAX) {
      throw protocolError(`the stream is longer than ${STREAM_BYTES_MAX} bytes`);
    }
    return this.#take(this.#decode(chunk));
  }

  /** The events that the end of the stream completes: none, unless a lone carriage return was held back. */
  end(): readonly StreamEvent[] {
    const rest = this.#decode(undefined);
    const ending = this.#heldReturn ? '\n' : '';
    this.#heldReturn = false;
    return this.#take(rest + ending);
  }

  #decode(chunk: Uint8Array | undefined): string {
    try {
      return chunk === undefined ? this.#decoder.decode() : this.#decoder.decode(chunk, { stream: true });
    } catch (error) {
      throw protocolError('the stream is not valid UTF-8', error);
    }
  }

  #take(decoded: string): readonly StreamEvent[] {
    const text = this.#normalise(decoded);
    const events: StreamEvent[] = [];
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      const event = this.#line(this.#joined(text.slice(start, end)));
      if (event !== undefined) events.push(event);
      start = end + 1;
    }
    this.#keep(start === 0 ? text : text.slice(start));
    return events;
  }

  /** Converts all line ends to `\n`; a carriage return in the last position is held back. */
  #normalise(decoded: string): string {
    if (!this.#heldReturn && !decoded.includes('\r')) return decoded;
    let text = this.#heldReturn ? `\r${decoded}` : decoded;
    this.#heldReturn = text.endsWith('\r');
    if (this.#heldReturn) text = text.slice(0, -1);
    return text.replace(/\r\n?/g, '\n');
  }

  /** Pieces are joined once a line ends: joining at each chunk would copy a long line repeatedly. */
  #joined(last: string): string {
    if (this.#pending.length === 0) return last;
    this.#pending.push(last);
    const line = this.#pending.join('');
    this.#pending = [];
    this.#pendingLength = 0;
    return line;
  }

  #keep(rest: string): void {
    if (rest === '') return;
    this.#pending.push(rest);
    this.#pendingLength += rest.length;
    this.#checkLength(this.#pendingLength);
  }

  #checkLength(length: number): void {
    if (length > STREAM_LINE_BYTES_MAX) {
      throw protocolError(`a line of the stream is longer than ${STREAM_LINE_BYTES_MAX} bytes`);
    }
  }

  #line(line: string): StreamEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined;
    const field = colon === -1 ? line : line.slice(0, colon);
    const from = line.charCodeAt(colon + 1) === 0x20 ? colon + 2 : colon + 1;
    const value = colon === -1 ? '' : line.slice(from);
    if (field === 'event') this.#name = value;
    if (field === 'data') {
      this.#data.push(value);
      this.#dataLength += value.length;
      this.#checkLength(this.#dataLength);
    }
    return undefined;
  }

  #dispatch(): StreamEvent | undefined {
    const name = this.#name;
    const data = this.#data;
    this.#name = '';
    if (data.length === 0) return undefined;
    this.#data = [];
    this.#dataLength = 0;
    return { name: name === '' ? 'message' : name, data: data.join('\n') };
  }
}
