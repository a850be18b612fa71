/**
 * Assembles an answer from the parts of the AI SDK's stream.
 *
 * Owns: the blocks received so far. Does not own: the stream, time.
 *
 * - B1 Texts and thoughts are in the order in which they start, other blocks in the order in which they arrive. Later
 *   metadata of a part replace earlier metadata, as in the AI SDK.
 * - B2 Unknown parts, and parts of a text that was not started, change nothing.
 * - B3 A call whose input is not JSON keeps the model's text as its input. So the call is refused, and the model is
 *   informed. If the token limit cut the input, the call is the last block of its answer, and its input becomes `{}`.
 * - B4 An answer exists only after `finish`. If the model failed, the answer is an error. It is also an error if the
 *   model stopped for an unknown reason with no content but thoughts.
 * - B5 An answer is bounded in blocks (`ANSWER_BLOCKS_MAX`) and in bytes (`STREAM_BYTES_MAX`).
 * - B6 A warning that the model ignores a part of the request ends the call: an accepted option must have an effect.
 */
import { ANSWER_BLOCKS_MAX, STREAM_BYTES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ModelInvalidRequestError } from '../../base/errors.ts';
import { isCallId } from '../../base/ids.ts';
import { isRecord, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import type { BlockOrigin, ContentBlock, Usage } from '../../base/messages.ts';
import { protocolError } from '../model-error.ts';
import type { ModelDelta, ModelResponse, StopReason } from '../provider.ts';
import { tokenCount } from '../usage.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A text or a thought that is being received, or any other block. */
interface Draft {
  readonly type: 'text' | 'thinking' | 'other';
  text: string;
  metadata: Fields | undefined;
  readonly block?: ContentBlock;
}

/** The content of the part `finish`. */
interface Finish {
  readonly reason: string;
  readonly usage: Usage;
}

/** The model that answers. */
export type AnswerSource = Pick<BlockOrigin, 'provider' | 'model'> & {
  /** True if the agent falls back to this model: then options may have no effect (B6). */
  readonly isFallback?: boolean;
};

/** Assembles one answer. `accept` throws `ModelError`, or the unchanged error of an `error` part. */
export class PartAssembly {
  readonly #source: AnswerSource;
  readonly #onDelta: (delta: ModelDelta) => void;
  readonly #drafts: Draft[] = [];
  readonly #open = new Map<string, Draft>();
  /** Texts of inputs that are not JSON, by the index of the call in `#drafts`. */
  readonly #unread = new Map<number, string>();
  #bytes = 0;
  #finish: Finish | undefined;
  #id: string | undefined;
  #model: string | undefined;

  constructor(source: AnswerSource, onDelta: (delta: ModelDelta) => void) {
    this.#source = source;
    this.#onDelta = onDelta;
  }

  /** True once the answer is complete. */
  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** The tokens counted; undefined before the end. */
  get usage(): Usage | undefined {
    return this.#finish?.usage;
  }

  /** Takes the next part. Parts after the end are ignored. */
  accept(part: unknown): void {
    if (this.finished || !isRecord(part)) return;
    switch (part['type']) {
      case 'stream-start':
        if (this.#source.isFallback !== true) refuseIgnored(part['warnings']);
        return;
      case 'text-start':
        return this.#start('text', part);
      case 'reasoning-start':
        return this.#start('thinking', part);
      case 'text-delta':
      case 'reasoning-delta':
        return this.#extend(part);
      case 'text-end':
      case 'reasoning-end':
        return this.#end(part);
      case 'tool-call':
        return this.#call(part);
      case 'tool-result':
        // The final result follows.
        if (part['preliminary'] === true) return;
        return this.#keep({ ...nameOf(part), output: { type: 'json', value: part['result'] } }, part);
      case 'file':
      case 'reasoning-file':
      case 'custom': {
        const { providerMetadata: _metadata, data, ...kept } = part;
        return this.#keep(data === undefined ? kept : { ...kept, data: encoded(data) }, part);
      }
      case 'response-metadata':
        if (typeof part['id'] === 'string') this.#id = part['id'];
        if (typeof part['modelId'] === 'string') this.#model = part['modelId'];
        return;
      case 'finish':
        this.#finish = { reason: reasonOf(part['finishReason']), usage: usageOf(part['usage']) };
        return;
      case 'error':
        throw part['error'];
      default:
    }
  }

  /** The answer. Throws `model_protocol` if the stream ended too soon or the model failed (B4). */
  response(): ModelResponse {
    const finish = this.#finish;
    if (finish === undefined) throw protocolError('the stream ended before its finish');
    const stop = this.#stopReason(finish.reason);
    const content = this.#drafts.flatMap((draft, place) => this.#built(draft, place, stop));
    const isEmpty = content.every(({ type }) => type === 'thinking');
    if (finish.reason === 'error' || (finish.reason === 'other' && isEmpty)) {
      throw protocolError(`the model stopped without an answer (${finish.reason})`);
    }
    return { content, stop_reason: stop, usage: finish.usage, ...defined({ model: this.#model, id: this.#id }) };
  }

  /** The stop reason. The blocks decide between `tool_use` and `end_turn`, because some providers do not say which. */
  #stopReason(reason: string): StopReason {
    if (reason === 'length') return 'max_tokens';
    if (reason === 'content-filter') return 'refusal';
    return this.#drafts.some(({ block }) => block?.type === 'tool_use') ? 'tool_use' : 'end_turn';
  }

  #start(type: 'text' | 'thinking', part: Fields): void {
    const draft: Draft = { type, text: '', metadata: metadataOf(part) };
    this.#open.set(`${type} ${String(part['id'])}`, draft);
    this.#add(draft, sizeOf(draft.metadata));
  }

  #extend(part: Fields): void {
    const draft = this.#openOf(part);
    if (draft === undefined) return;
    draft.metadata = metadataOf(part) ?? draft.metadata;
    const { delta } = part;
    if (typeof delta !== 'string' || delta === '') return;
    this.#count(Buffer.byteLength(delta));
    draft.text += delta;
    if (draft.type !== 'other') this.#onDelta({ type: draft.type, text: delta });
  }

  #end(part: Fields): void {
    const draft = this.#openOf(part);
    if (draft === undefined) return;
    draft.metadata = metadataOf(part) ?? draft.metadata;
    this.#count(sizeOf(draft.metadata));
    this.#open.delete(keyOf(part));
  }

  #openOf(part: Fields): Draft | undefined {
    return this.#open.get(keyOf(part));
  }

  #call(part: Fields): void {
    const { toolCallId: id, toolName: name, input, providerExecuted } = part;
    if (typeof name !== 'string') throw protocolError('a tool-call without a name');
    const text = typeof input === 'string' ? input : JSON.stringify(input ?? {});
    const size = Buffer.byteLength(text) + sizeOf(metadataOf(part));
    const parsed = parseInput(text);
    if (providerExecuted === true) {
      return this.#keep({ ...nameOf(part), input: parsed ?? text, providerExecuted }, part);
    }
    if (parsed === undefined) this.#unread.set(this.#drafts.length, text);
    const metadata = metadataOf(part);
    const callId = typeof id === 'string' ? id : '';
    // If the call has metadata, the provider may know the call by its id. Otherwise any id will do, such as the log's.
    const origin = metadata === undefined ? undefined : { ...this.#origin(metadata), id: callId };
    const block: ContentBlock = {
      type: 'tool_use',
      id: isCallId(callId) ? callId : '',
      name,
      input: parsed ?? {},
      ...defined({ origin }),
    };
    this.#add({ type: 'other', text: '', metadata: undefined, block }, size);
  }

  /** Keeps a part that no other type of block can hold, in the form that a prompt needs. */
  #keep(kept: Fields, part: Fields): void {
    const block: ContentBlock = {
      type: 'provider_part',
      part: plainPart(kept),
      origin: this.#origin(metadataOf(part)),
    };
    this.#add({ type: 'other', text: '', metadata: undefined, block }, sizeOf(block));
  }

  #add(draft: Draft, bytes: number): void {
    if (this.#drafts.length >= ANSWER_BLOCKS_MAX) {
      throw protocolError(`the answer has more than ${ANSWER_BLOCKS_MAX} blocks`);
    }
    this.#drafts.push(draft);
    this.#count(bytes);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > STREAM_BYTES_MAX) throw protocolError(`the answer has more than ${STREAM_BYTES_MAX} bytes`);
  }

  #origin(metadata: Fields | undefined): BlockOrigin {
    const { provider, model } = this.#source;
    return { provider, model, ...(metadata === undefined ? {} : { metadata: plainPart(metadata) }) };
  }

  #built(draft: Draft, place: number, stop: StopReason): readonly ContentBlock[] {
    const { type, text, metadata, block } = draft;
    if (type === 'thinking') {
      // A thought without text may stand for reasoning that the provider encrypted.
      if (text === '' && metadata === undefined) return [];
      return [{ type: 'thinking', thinking: text, signature: '', origin: this.#origin(metadata) }];
    }
    if (type === 'text') {
      if (text === '') return [];
      return [{ type: 'text', text, ...(metadata === undefined ? {} : { origin: this.#origin(metadata) }) }];
    }
    if (block === undefined) return [];
    const unread = this.#unread.get(place);
    const isCut = stop === 'max_tokens' && place === this.#drafts.length - 1;
    return [unread === undefined || isCut ? block : ({ ...block, input: unread } as ContentBlock)];
  }
}

function keyOf({ type, id }: Fields): string {
  return `${String(type).startsWith('text') ? 'text' : 'thinking'} ${String(id)}`;
}

function nameOf({ type, toolCallId, toolName }: Fields): Fields {
  return { type, toolCallId, toolName };
}

/** The metadata of a part; undefined if it has none. */
function metadataOf({ providerMetadata }: Fields): Fields | undefined {
  return isRecord(providerMetadata) && Object.keys(providerMetadata).length > 0 ? providerMetadata : undefined;
}

function sizeOf(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** A plain copy. Throws `model_protocol` for a value that JSON cannot hold. */
function plainPart(value: Fields): Readonly<Record<string, Json>> {
  try {
    return toPlainJson(value) as Readonly<Record<string, Json>>;
  } catch (error) {
    if (error instanceof NotPlainError)
      throw protocolError(`a part of the answer is not plain: ${error.message}`, error);
    throw error;
  }
}

/** The data of a file that the model made: bytes as base64, an address as a text. Version 4 names the kind of data. */
function encoded(data: unknown): unknown {
  if (data instanceof Uint8Array) return Buffer.from(data).toString('base64');
  if (data instanceof URL) return data.href;
  if (!isRecord(data)) return data;
  if (data['type'] === 'data') return { ...data, data: encoded(data['data']) };
  return data['type'] === 'url' ? { ...data, url: encoded(data['url']) } : data;
}

/** The input of a call; undefined if it is not JSON. If there is no input, some providers send an empty text. */
function parseInput(text: string): Json | undefined {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

const REASONS: ReadonlySet<unknown> = new Set(['stop', 'length', 'content-filter', 'tool-calls', 'error']);

function reasonOf(reason: unknown): string {
  const unified = isRecord(reason) ? reason['unified'] : undefined;
  return REASONS.has(unified) ? String(unified) : 'other';
}

/** The usage in the form of the Messages API, in which tokens of the cache are counted separately. */
function usageOf(value: unknown): Usage {
  const usage = isRecord(value) ? value : {};
  const input = isRecord(usage['inputTokens']) ? usage['inputTokens'] : {};
  const output = isRecord(usage['outputTokens']) ? usage['outputTokens'] : {};
  const read = tokenCount(input['cacheRead']);
  const written = tokenCount(input['cacheWrite']);
  const rest = (tokenCount(input['total']) ?? 0) - (read ?? 0) - (written ?? 0);
  const thought = tokenCount(output['reasoning']);
  return {
    input_tokens: tokenCount(input['noCache']) ?? Math.max(0, rest),
    output_tokens: tokenCount(output['total']) ?? 0,
    ...defined({ cache_read_input_tokens: read, cache_creation_input_tokens: written }),
    ...(thought === undefined ? {} : { output_tokens_details: { thinking_tokens: thought } }),
  };
}

/**
 * The only option that a provider may ignore. Every request has this limit, even if the agent gave none. The other
 * options are in a request only because an agent gave them.
 */
const SPARED = 'maxOutputTokens';

/** Throws if the provider warns that it leaves out a part of the request (B6). */
function refuseIgnored(warnings: unknown): void {
  if (!Array.isArray(warnings)) return;
  const ignored = warnings.find(
    (each) => isRecord(each) && each['type'] === 'unsupported' && each['feature'] !== SPARED,
  );
  if (!isRecord(ignored)) return;
  const { feature, details } = ignored;
  const why = typeof details === 'string' ? `: ${details}` : '';
  throw new ModelInvalidRequestError(`the model has no ${String(feature)}${why}`, {
    status: 400,
    data: { feature: String(feature) },
  });
}
