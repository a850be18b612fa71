/**
 * Server-sent events from bytes, however they are cut.
 * Owns: the bytes of the line and the event that are not complete yet. Does not own: what events mean.
 *
 * - E1 Any cutting of the same bytes gives the same events, UTF-8 sequences and line ends split anywhere included.
 * - E2 An event that its blank line has not ended is no event: the end of the stream discards it.
 * - E3 A line and a stream are bounded; bytes that are not UTF-8 are an error, not replacement characters.
 *
 * Source: WHATWG HTML, "Server-sent events", parsing an event stream. `id` and `retry` have no use here.
 */
import { STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX } from '../../base/bounds.ts';
import { protocolError } from '../model-error.ts';

/** One event: its name (`message` when the stream gives none) and its data lines joined by newlines. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Turns chunks into events. Throws `ModelError` `model_protocol` for what E3 forbids; it is of no use after that. */
export class EventStreamParser {
  readonly #decoder: InstanceType<typeof TextDecoder> = new TextDecoder('utf-8', { fatal: true });
  /** Pieces of a line without its end. */
  #pending: string[] = [];
  #pendingLength = 0;
  /** A carriage return that ended a chunk: alone or half of a line end, the next character tells. */
  #heldReturn = false;
  #bytes = 0;
  #name = '';
  #data: string[] = [];
  #dataLength = 0;

  /** The events these bytes complete, in order. */
  push(chunk: Uint8Array): readonly StreamEvent[] {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > STREAM_BYTES_MAX) {
      throw protocolError(`the stream is longer than ${STREAM_BYTES_MAX} bytes`);
    }
    return this.#take(this.#decode(chunk));
  }

  /** The events that the end of the stream completes: none but where a lone carriage return was held back. */
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

  /** All line ends as `\n`; a carriage return in the last place is held back. */
  #normalise(decoded: string): string {
    if (!this.#heldReturn && !decoded.includes('\r')) return decoded;
    let text = this.#heldReturn ? `\r${decoded}` : decoded;
    this.#heldReturn = text.endsWith('\r');
    if (this.#heldReturn) text = text.slice(0, -1);
    return text.replace(/\r\n?/g, '\n');
  }

  /** Pieces are joined once a line ends: joining at each chunk would copy a long line over and over. */
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
