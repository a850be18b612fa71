/**
 * Assembles one answer from the events of its stream.
 * Owns: the blocks and counters received so far. Does not own: bytes, sockets, time.
 *
 * - B1 Events come in the order of the protocol, with the index of the block they belong to. Anything else is
 *   `model_protocol`.
 * - B2 Unknown event types and delta types change nothing. A block of unknown type is kept unchanged, or left out if an
 *   unknown delta makes it impossible to rebuild.
 * - B3 A call whose input is not JSON keeps the model's text as its input. So the call is refused, and the model is
 *   informed. If the token limit cut the input, the input becomes `{}`. A cut call is the last block of an answer that
 *   stopped at the limit.
 * - B4 An answer exists only after `message_stop`.
 * - B5 A block other than text and thinking is kept with all members of its start, because it is sent back unchanged
 *   (R20). The members of the message that the lists below name are kept as well.
 */
import { defined } from '../../base/defined.ts';
import { isRecord } from '../../base/json.ts';
import type { ContentBlock, Usage } from '../../base/messages.ts';
import { TextBuffer } from '../../base/text-buffer.ts';
import { modelErrorOf, protocolError } from '../model-error.ts';
import type { ModelDelta, ModelResponse } from '../provider.ts';
import { readUsage, tokenCount } from '../usage.ts';
import { errorCodeOf } from './error.ts';
import { readFacts } from './response-check.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A block that is being received. */
interface OpenBlock {
  /** The characters with which the API begins each event that has a piece of this block's text, up to that piece. */
  readonly textDelta: string;
  readonly start: Fields & { readonly type: string };
  readonly text: TextBuffer;
  signature: string;
  readonly input: TextBuffer;
  readonly citations: unknown[];
  /** Members of the start block that a delta has replaced. */
  readonly final: Record<string, unknown>;
  rebuildable: boolean;
}

/** Members of the message that the end of the stream may add or replace. */
const MESSAGE_FIELDS = ['context_management', 'input_transformations'] as const;
/** Members of a `message_delta` that belong to the message. `stop_reason` is read separately. */
const DELTA_FIELDS = ['stop_sequence', 'stop_details', 'container'] as const;
const COMPACTION_FIELDS = ['content', 'encrypted_content'] as const;
const STOPS_THAT_CUT: ReadonlySet<string> = new Set(['max_tokens', 'model_context_window_exceeded']);
const EVENTS: ReadonlySet<string> = new Set([
  ...['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop'],
  ...['message_delta', 'message_stop', 'error', 'message'],
]);

/** Assembles one answer. `accept` throws `ModelError`; the assembly is unusable after that. */
export class ResponseAssembly {
  readonly #onDelta: (delta: ModelDelta) => void;
  readonly #onUsage: ((usage: Usage) => void) | undefined;
  readonly #content: ContentBlock[] = [];
  /** The newest value of each member of the usage. */
  readonly #usage: Record<string, unknown> = {};
  /** The members of `MESSAGE_FIELDS` and `DELTA_FIELDS` so far. */
  readonly #facts: Record<string, unknown> = {};
  #open: OpenBlock | undefined;
  /** The number of blocks started, including those left out (B2). */
  #started = 0;
  /** Calls whose input could not be parsed: their index in `#content`, and the text. */
  readonly #unread = new Map<number, string>();
  #message: Fields | undefined;
  #stopReason: string | undefined;
  #finished = false;

  constructor(onDelta: (delta: ModelDelta) => void, onUsage?: (usage: Usage) => void) {
    this.#onDelta = onDelta;
    this.#onUsage = onUsage;
  }

  /** True once the answer is complete. */
  get finished(): boolean {
    return this.#finished;
  }

  /** The tokens counted so far; undefined before the answer begins. */
  get usage(): Usage | undefined {
    return this.#message === undefined ? undefined : readUsage(this.#usage);
  }

  /** Takes the next event: its name and its data. Events after the end are ignored. */
  accept(name: string, data: string): void {
    if (this.#finished) return;
    if (name === 'content_block_delta' && this.#extendText(data)) return;
    if (!EVENTS.has(name)) return;
    const event = parseEvent(name, data);
    const type = name === 'error' ? 'error' : event['type'];
    if (type === 'error') throw streamError(event);
    if (typeof type !== 'string' || !EVENTS.has(type)) return;
    if (this.#message === undefined && type !== 'message_start') {
      throw protocolError(`${type} before message_start`);
    }
    if (type === 'message_start') this.#startMessage(event);
    else if (type === 'content_block_start') this.#startBlock(event);
    else if (type === 'content_block_delta') this.#extendBlock(event);
    else if (type === 'content_block_stop') this.#stopBlock(event);
    else if (type === 'message_delta') this.#endMessage(event);
    else if (type === 'message_stop') this.#finish();
  }

  /** The answer. Throws `model_protocol` when the stream ended before `message_stop` (B4). */
  response(): ModelResponse {
    if (!this.#finished || this.#stopReason === undefined) {
      throw protocolError('the stream ended before message_stop');
    }
    const message = this.#message ?? {};
    return {
      content: this.#content,
      stop_reason: this.#stopReason,
      usage: readUsage(this.#usage),
      ...(typeof message['model'] === 'string' ? { model: message['model'] } : {}),
      ...(typeof message['id'] === 'string' ? { id: message['id'] } : {}),
      ...readFacts(this.#facts),
    };
  }

  #startMessage(event: Fields): void {
    if (this.#message !== undefined) throw protocolError('a second message_start');
    if (!isRecord(event['message'])) throw protocolError('message_start without a message');
    this.#message = event['message'];
    this.#note(event['message'], MESSAGE_FIELDS);
    this.#note(event['message'], DELTA_FIELDS);
    this.#count(event['message']['usage']);
  }

  #startBlock(event: Fields): void {
    if (this.#stopReason !== undefined) throw protocolError('content_block_start after message_delta');
    if (this.#open !== undefined) throw protocolError('content_block_start inside a block');
    if (event['index'] !== this.#started) {
      throw protocolError(`content_block_start of index ${String(event['index'])}, expected ${this.#started}`);
    }
    const start = event['content_block'];
    if (!isRecord(start) || typeof start['type'] !== 'string') {
      throw protocolError('content_block_start without a block');
    }
    this.#started += 1;
    this.#open = {
      textDelta: textDeltaOf(this.#started - 1),
      start: start as OpenBlock['start'],
      text: new TextBuffer(stringOf(start['type'] === 'thinking' ? start['thinking'] : start['text'])),
      signature: stringOf(start['signature']),
      input: new TextBuffer(),
      citations: Array.isArray(start['citations']) ? [...start['citations']] : [],
      final: {},
      rebuildable: true,
    };
  }

  /**
   * Takes a piece of text in the form that the API sends, without parsing the event: most events of a stream are such
   * pieces. Returns false for every other form. The caller then parses the event.
   */
  #extendText(data: string): boolean {
    const block = this.#open;
    if (block?.start.type !== 'text' || !data.startsWith(block.textDelta)) return false;
    const from = block.textDelta.length;
    const end = data.indexOf('"', from);
    if (end === -1 || !isDeltaEnd(data, end + 1)) return false;
    const text = data.slice(from, end);
    if (!isPlain(text)) return false;
    block.text.add(text);
    this.#onDelta({ type: 'text', text });
    return true;
  }

  #extendBlock(event: Fields): void {
    const block = this.#blockOf(event, 'content_block_delta');
    const delta = event['delta'];
    if (!isRecord(delta)) throw protocolError('content_block_delta without a delta');
    switch (delta['type']) {
      case 'text_delta': {
        const text = expectPiece(block, delta, 'text', 'text');
        block.text.add(text);
        this.#onDelta({ type: 'text', text });
        break;
      }
      case 'thinking_delta': {
        const text = expectPiece(block, delta, 'thinking', 'thinking');
        block.text.add(text);
        if (text !== '') this.#onDelta({ type: 'thinking', text });
        break;
      }
      case 'signature_delta':
        block.signature += expectPiece(block, delta, 'thinking', 'signature');
        break;
      case 'input_json_delta':
        block.input.add(expectPiece(block, delta, undefined, 'partial_json'));
        break;
      case 'citations_delta':
        block.citations.push(delta['citation']);
        break;
      case 'compaction_delta':
        if (block.start.type !== 'compaction')
          throw protocolError(`compaction_delta in a block of type ${block.start.type}`);
        // A compaction delta holds final values, not pieces.
        for (const key of COMPACTION_FIELDS) if (delta[key] !== undefined) block.final[key] = delta[key];
        break;
      default:
        block.rebuildable = false;
    }
  }

  #stopBlock(event: Fields): void {
    const block = this.#blockOf(event, 'content_block_stop');
    this.#open = undefined;
    const built = this.#build(block);
    if (built !== undefined) this.#content.push(built);
  }

  #build(block: OpenBlock): ContentBlock | undefined {
    switch (block.start.type) {
      case 'text':
        return {
          type: 'text',
          text: block.text.toString(),
          ...(block.citations.length > 0 ? { citations: block.citations } : {}),
        };
      case 'thinking':
        return { type: 'thinking', thinking: block.text.toString(), signature: block.signature };
      case 'redacted_thinking':
        if (typeof block.start['data'] !== 'string') throw protocolError('redacted_thinking without data');
        return { type: 'redacted_thinking', data: block.start['data'] };
      case 'tool_use': {
        const { id, name } = block.start;
        if (typeof name !== 'string') throw protocolError('tool_use without a name');
        // A call without an id gets one when it is stored (§5.1).
        const known = { type: 'tool_use', id: typeof id === 'string' ? id : '', name } as const;
        return { ...block.start, ...known, input: this.#readInput(block) };
      }
      default:
        return this.#keepOpaque(block);
    }
  }

  /**
   * Keeps a block of an unknown type (B2). The cast is safe, because this library never reads the members of such a
   * block.
   */
  #keepOpaque(block: OpenBlock): ContentBlock | undefined {
    if (!block.rebuildable) return undefined;
    const input = block.input.isEmpty ? {} : { input: this.#readInput(block) };
    return { ...block.start, ...block.final, ...input } as unknown as ContentBlock;
  }

  #readInput(block: OpenBlock): unknown {
    if (block.input.isEmpty) return isRecord(block.start['input']) ? block.start['input'] : {};
    const text = block.input.toString();
    try {
      return JSON.parse(text);
    } catch {
      // Only the end of the stream shows whether the token limit cut the call (B3).
      this.#unread.set(this.#content.length, text);
      return {};
    }
  }

  #blockOf(event: Fields, what: string): OpenBlock {
    if (this.#open === undefined || event['index'] !== this.#started - 1) {
      throw protocolError(`${what} of index ${String(event['index'])}, which is not open`);
    }
    return this.#open;
  }

  #endMessage(event: Fields): void {
    if (this.#open !== undefined) throw protocolError('message_delta inside a block');
    const delta = event['delta'];
    if (isRecord(delta) && typeof delta['stop_reason'] === 'string') {
      this.#stopReason = delta['stop_reason'];
    }
    if (isRecord(delta)) this.#note(delta, DELTA_FIELDS);
    this.#note(event, MESSAGE_FIELDS);
    this.#count(event['usage']);
  }

  #note(holder: Fields, keys: readonly string[]): void {
    for (const key of keys) if (holder[key] !== undefined && holder[key] !== null) this.#facts[key] = holder[key];
  }

  /** Counters are cumulative: a later value replaces an earlier one; a missing, null or absurd value does not. */
  #count(usage: unknown): void {
    if (!isRecord(usage)) return;
    for (const [key, value] of Object.entries(usage)) if (isUsageValue(value)) this.#usage[key] = value;
    this.#onUsage?.(readUsage(this.#usage));
  }

  #finish(): void {
    if (this.#open !== undefined) throw protocolError('message_stop inside a block');
    if (this.#stopReason === undefined) throw protocolError('message_stop before a stop reason');
    const isCut = STOPS_THAT_CUT.has(this.#stopReason);
    for (const [place, text] of this.#unread) {
      const block = this.#content[place];
      if (block === undefined || (isCut && place === this.#content.length - 1)) continue;
      this.#content[place] = { ...block, input: text } as ContentBlock;
    }
    this.#finished = true;
  }
}

/**
 * True for a value of the usage that can be kept. A number must be a count; texts, lists and objects are checked where
 * the usage is read.
 */
function isUsageValue(value: unknown): boolean {
  return typeof value === 'number' ? tokenCount(value) !== undefined : value !== undefined && value !== null;
}

/**
 * The beginning of an event with a piece of text of this block. All streams share these strings: a separate string
 * for each answer would have left the processor's cache before the answer's next event.
 */
function textDeltaOf(index: number): string {
  return TEXT_DELTAS[index] ?? textDelta(index);
}

function textDelta(index: number): string {
  return `{"type":"content_block_delta","index":${index},"delta":{"type":"text_delta","text":"`;
}

/** The beginnings for the first eight blocks. Few answers have more blocks. */
const TEXT_DELTAS: readonly string[] = Array.from({ length: 8 }, (_, index) => textDelta(index));

/** True if the data ends here with the two brackets of a delta. The API puts blanks between them. */
function isDeltaEnd(data: string, at: number): boolean {
  if (data.charCodeAt(at) !== CLOSING_BRACE) return false;
  let next = at + 1;
  while (data.charCodeAt(next) === BLANK) next += 1;
  return data.charCodeAt(next) === CLOSING_BRACE && next === data.length - 1;
}

const CLOSING_BRACE = 0x7d;
const BLANK = 0x20;

/** True for a JSON text that equals its value: it has no escapes, and no control characters, which JSON forbids. */
function isPlain(text: string): boolean {
  return !NOT_PLAIN.test(text);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids control characters inside a text
const NOT_PLAIN = /[\\\u0000-\u001f]/u;

function parseEvent(name: string, data: string): Fields {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch (error) {
    if (name === 'error') return {};
    throw protocolError(`the data of a ${name} event is not JSON`, error);
  }
  if (isRecord(event)) return event;
  throw protocolError(`the data of a ${name} event is not an object`);
}

/** An error inside a stream that began well becomes the error of the matching HTTP status. */
function streamError(event: Fields): Error {
  const error = isRecord(event['error']) ? event['error'] : {};
  const type = stringOf(error['type']);
  return modelErrorOf({
    ...defined({ errorCode: errorCodeOf(error) }),
    type: type === '' ? 'api_error' : type,
    message: stringOf(error['message']) || 'the model server reported an error inside the stream',
  });
}

function expectPiece(block: OpenBlock, delta: Fields, blockType: string | undefined, key: string): string {
  const piece = delta[key];
  if (typeof piece !== 'string') throw protocolError(`${String(delta['type'])} without ${key}`);
  if (blockType !== undefined && block.start.type !== blockType) {
    throw protocolError(`${String(delta['type'])} in a block of type ${block.start.type}`);
  }
  return piece;
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
