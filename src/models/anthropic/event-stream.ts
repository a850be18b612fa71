/**
 * Parses server-sent events from bytes, however the bytes are split into chunks.
 * Owns: the bytes of the incomplete line and event. Does not own: the meaning of events.
 *
 * - E1 Any split of the same bytes gives the same events, even inside a UTF-8 sequence or a line end.
 * - E2 An event that no blank line has ended is discarded at the end of the stream.
 * - E3 A line and a stream are bounded. Bytes that are not UTF-8 are an error, not replacement characters.
 * - E4 A chunk usually has whole events. Then no text is kept, and no object is made for an event.
 *
 * Source: WHATWG HTML, "Server-sent events", parsing an event stream. `id` and `retry` are not used here.
 */
import { isUtf8 } from 'node:buffer';
import { STREAM_BYTES_MAX, STREAM_LINE_BYTES_MAX } from '../../base/bounds.ts';
import { protocolError } from '../model-error.ts';

/** Receives one event: its name (`message` when the stream gives none) and its data lines joined by newlines. */
export type OnStreamEvent = (name: string, data: string) => void;

const DATA_FIELD = 'data: ';
const EVENT_FIELD = 'event: ';
const BYTE_ORDER_MARK = 0xfe_ff;

/**
 * Turns chunks into events, passed to `onEvent` in order. Throws `ModelError` `model_protocol` for input that E3
 * forbids, and whatever `onEvent` throws; the parser is unusable after that.
 */
export class EventStreamParser {
  readonly #onEvent: OnStreamEvent;
  /** Decodes the first chunk that ends inside a UTF-8 sequence, and all chunks after it. Undefined until then. */
  #decoder: InstanceType<typeof TextDecoder> | undefined;
  #isStart = true;
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
  #data: string | undefined;

  constructor(onEvent: OnStreamEvent) {
    this.#onEvent = onEvent;
  }

  /** Takes the next bytes. */
  push(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > STREAM_BYTES_MAX) {
      throw protocolError(`the stream is longer than ${STREAM_BYTES_MAX} bytes`);
    }
    this.#take(this.#decode(chunk));
  }

  /** Ends the stream: a carriage return that was held back is a line end. */
  end(): void {
    const rest = this.#decode(undefined);
    const ending = this.#heldReturn ? '\n' : '';
    this.#heldReturn = false;
    this.#take(rest + ending);
  }

  #decode(chunk: Uint8Array | undefined): string {
    if (this.#decoder === undefined) {
      if (chunk === undefined) return '';
      // Checking and decoding whole characters costs a fraction of what a streaming decoder costs.
      if (isUtf8(chunk)) return bufferOf(chunk).toString('utf8');
      this.#decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    }
    try {
      return chunk === undefined ? this.#decoder.decode() : this.#decoder.decode(chunk, { stream: true });
    } catch (error) {
      throw protocolError('the stream is not valid UTF-8', error);
    }
  }

  #take(decoded: string): void {
    const text = this.#normalise(this.#withoutMark(decoded));
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      if (this.#pending.length > 0) this.#line(this.#joined(text.slice(start, end)));
      else if (end === start) this.#dispatch();
      // The two usual kinds of lines are cut once. Others are cut into field and value.
      else if (text.startsWith(DATA_FIELD, start)) this.#addData(text.slice(start + DATA_FIELD.length, end));
      else if (text.startsWith(EVENT_FIELD, start)) this.#name = text.slice(start + EVENT_FIELD.length, end);
      else this.#line(text.slice(start, end));
      start = end + 1;
    }
    this.#keep(start === 0 ? text : text.slice(start));
  }

  /** A byte order mark at the start of the stream is not part of its first line. */
  #withoutMark(decoded: string): string {
    if (!this.#isStart || decoded === '') return decoded;
    this.#isStart = false;
    return decoded.charCodeAt(0) === BYTE_ORDER_MARK ? decoded.slice(1) : decoded;
  }

  /** Converts all line ends to `\n`; a carriage return in the last position is held back. */
  #normalise(decoded: string): string {
    if (!this.#heldReturn && !decoded.includes('\r')) return decoded;
    let text = this.#heldReturn ? `\r${decoded}` : decoded;
    this.#heldReturn = text.endsWith('\r');
    if (this.#heldReturn) text = text.slice(0, -1);
    return text.replace(/\r\n?/g, '\n');
  }

  /**
   * The whole line. The pieces of the line are joined only now, because joining at each chunk would copy a long line
   * repeatedly.
   */
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

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon === -1 ? line : line.slice(0, colon);
    const from = line.charCodeAt(colon + 1) === 0x20 ? colon + 2 : colon + 1;
    const value = colon === -1 ? '' : line.slice(from);
    if (field === 'event') this.#name = value;
    if (field === 'data') this.#addData(value);
  }

  #addData(value: string): void {
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    this.#checkLength(this.#data.length);
  }

  #dispatch(): void {
    const name = this.#name;
    const data = this.#data;
    this.#name = '';
    this.#data = undefined;
    if (data !== undefined) this.#onEvent(name === '' ? 'message' : name, data);
  }
}

function bufferOf(chunk: Uint8Array): Buffer {
  return Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
