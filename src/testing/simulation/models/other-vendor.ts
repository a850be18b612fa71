/**
 * The model of another vendor: a simulated language model of the AI SDK behind the production provider for such models.
 * Each request is checked in three ways. The request must have no option that the production provider refuses. It must
 * pass the strict fake of OpenAI's Responses API. Its thoughts and its metadata must come from this model.
 *
 * Owns: the parts that the model has given. They outlive processes, as in a real provider. Does not own: the content of
 * an answer.
 */
import { CancelledError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/json.ts';
import { createAiModelProvider } from '../../../models/ai-model/ai-model.ts';
import { refusedRequest } from '../../../models/ai-model/options.ts';
import type {
  AssistantPart,
  CallOptions,
  LanguageModel,
  StreamResult,
} from '../../../models/ai-model/specification.ts';
import type { GenerateContext, ModelProvider, ModelRequest } from '../../../models/provider.ts';
import { checkResponsesRequest } from '../../wires/open-ai.ts';
import { OpenAiItems } from '../../wires/open-ai-items.ts';
import { streamedCall } from '../families/drafts.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Block, ModelSurroundings, RawResponse } from '../simulated-model.ts';
import type { SimulatedProcess } from '../world.ts';
import { SOUTH, SOUTH_MODEL } from './agent-models.ts';
import type { ProviderTroubles, Trouble } from './provider-troubles.ts';
import { metadataOf, responsesBody, VENDOR } from './responses-body.ts';

/** The parts of the simulation that the model needs. */
export interface VendorParts {
  readonly surroundings: ModelSurroundings;
  readonly troubles: ProviderTroubles;
  readonly random: SeededRandom;
  /** Makes the blocks of an answer. */
  readonly answer: (process: SimulatedProcess, request: ModelRequest) => RawResponse;
  /** Notes a request in the ledger. */
  readonly note: (request: ModelRequest, session: string, provider: string) => void;
}

/** A call of the language model. */
interface VendorCall {
  readonly process: SimulatedProcess;
  readonly request: ModelRequest;
  readonly session: string;
}

type Part = Readonly<Record<string, unknown>>;

const THOUGHT_SHARE = 0.5;
const LATENCY_MS = 6_000;

/** See the head of the file. */
export class OtherVendor {
  readonly #parts: VendorParts;
  readonly #items = new OpenAiItems();
  /** The texts of thoughts that were given, by the id of their item. */
  readonly #thoughts = new Map<string, string>();
  readonly #given = new Set<string>();
  #count = 0;

  constructor(parts: VendorParts) {
    this.#parts = parts;
  }

  /** The provider of a process or a thread. Its calls end when the process dies. */
  providerOf(process: SimulatedProcess): ModelProvider {
    const clock = this.#parts.surroundings.world.clockOf(process);
    const provider = (call: VendorCall | undefined): ModelProvider =>
      createAiModelProvider(this.#modelOf(call), { name: SOUTH }, clock);
    const { name, refuses } = provider(undefined);
    return {
      name,
      ...(refuses === undefined ? {} : { refuses }),
      generate: (request: ModelRequest, context: GenerateContext) => {
        if (!process.isAlive) return new Promise(() => undefined);
        return provider({ process, request, session: context.session }).generate(request, context);
      },
    };
  }

  #modelOf(call: VendorCall | undefined): LanguageModel {
    return {
      specificationVersion: 'v4',
      provider: `${SOUTH}.responses`,
      modelId: SOUTH_MODEL,
      supportedUrls: {},
      doStream: (options: CallOptions & { readonly abortSignal: AbortSignal }): Promise<StreamResult> => {
        if (call === undefined) throw new Error('a model without a call');
        return this.#stream(call, options);
      },
    };
  }

  async #stream(call: VendorCall, options: CallOptions & { readonly abortSignal: AbortSignal }): Promise<StreamResult> {
    const { surroundings, troubles, random, note } = this.#parts;
    const { world } = surroundings;
    const { process, request, session } = call;
    note(request, session, SOUTH);
    this.#check(call, options);
    const latencyMs = random.between(5, LATENCY_MS);
    const { abortSignal: signal } = options;
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new CancelledError('aborted')), { once: true });
    });
    aborted.catch(() => undefined);
    const pause = (): Promise<void> => Promise.race([world.sleep(process, latencyMs * 0.3), aborted]);
    await pause();
    const trouble = troubles.of(SOUTH, process);
    if (trouble !== undefined) throw this.#failure(session, trouble);
    const parts = this.#answerParts(process, request);
    const deltas = parts
      .filter(({ type }) => type === 'text-delta')
      .map(({ delta }) => ({ type: 'text', text: delta }));
    surroundings.ledger.streamed(session, streamedCall(deltas, undefined));
    const stream = new ReadableStream<unknown>({
      start: async (controller) => {
        try {
          for (const part of parts) {
            controller.enqueue(part);
            if (String(part['type']).endsWith('-end')) await pause();
          }
          controller.close();
        } catch (error) {
          // A cancelled stream takes no error.
          if (!signal.aborted) controller.error(error);
        }
      },
    });
    return { stream };
  }

  /** The AI SDK's error for a failed request. */
  #failure(session: string, { status, message, retryAfterMs }: Trouble): Error {
    const { trace, ledger } = this.#parts.surroundings;
    trace(`${SOUTH} fails with ${status} for ${session}`);
    if (status === 401) ledger.keyRefused(session);
    const headers = retryAfterMs === undefined ? {} : { 'retry-after-ms': String(retryAfterMs) };
    const isRetryable = status === 429 || status >= 500;
    return Object.assign(new Error(message), { statusCode: status, responseHeaders: headers, isRetryable });
  }

  #check({ request, session }: VendorCall, options: CallOptions): void {
    const { ledger } = this.#parts.surroundings;
    const illegal = (what: string): void => ledger.violate('illegal', `request of ${session} to ${SOUTH}: ${what}`);
    const refused = refusedRequest(request, { version: 'v4', model: SOUTH_MODEL });
    if (refused !== undefined) illegal(`it has the option ${refused.key}`);
    const body = responsesBody(SOUTH_MODEL, options);
    checkResponsesRequest({ body }, this.#items, (rule, path, message) => illegal(`${rule} ${path}: ${message}`));
    for (const { role, content } of options.prompt) {
      if (role !== 'assistant') continue;
      for (const part of content) {
        const fault = this.#foreign(part);
        if (fault !== undefined) illegal(`${fault} (I21)`);
      }
    }
  }

  /** Why this model cannot have given this part of an answer; undefined if the model may have given the part. */
  #foreign(part: AssistantPart): string | undefined {
    const { type, text, providerOptions: options }: Part = { ...part };
    const { itemId } = metadataOf(part);
    if (type === 'reasoning') {
      const known = this.#thoughts.get(String(itemId));
      return known === text ? undefined : `the thought ${JSON.stringify(text)} is not its own`;
    }
    if (options === undefined) return undefined;
    const isOwn = isRecord(options) && Object.keys(options).join() === VENDOR && this.#given.has(String(itemId));
    return isOwn ? undefined : `metadata ${JSON.stringify(options)} is not its own`;
  }

  /** The parts of the stream of an answer. */
  #answerParts(process: SimulatedProcess, request: ModelRequest): readonly Part[] {
    const { answer, random, troubles } = this.#parts;
    const { content, stop_reason: stop, usage } = answer(process, request);
    const number = this.#next();
    // For a malformed answer the stream ends without its last part.
    if (!Array.isArray(content) || stop === null) return [{ type: 'stream-start', warnings: [] }];
    const items = this.#items.answer(false);
    const parts: Part[] = [{ type: 'stream-start', warnings: [] }];
    const blocks = (content as readonly Block[]).filter(({ type }) => type === 'text' || type === 'tool_use');
    if (random.chance(THOUGHT_SHARE)) {
      const id = `rs_${number}`;
      const encrypted = `sealed ${number}`;
      const text = random.chance(0.7) ? `hm of ${SOUTH} ${number}` : '';
      items.reasoning(id, encrypted);
      this.#thoughts.set(id, text);
      const metadata = { [VENDOR]: { itemId: id, reasoningEncryptedContent: encrypted } };
      parts.push({ type: 'reasoning-start', id, providerMetadata: metadata });
      if (text !== '') parts.push({ type: 'reasoning-delta', id, delta: text });
      parts.push({ type: 'reasoning-end', id, providerMetadata: metadata });
    }
    for (const [place, block] of blocks.entries()) {
      const isCall = block.type === 'tool_use';
      const id = `${isCall ? 'fc' : 'msg'}_${number}_${place}`;
      const metadata = { [VENDOR]: { itemId: id } };
      this.#given.add(id);
      if (isCall) {
        const callId = `call_${number}_${place}`;
        items.item(id, callId);
        const input = JSON.stringify(block['input']);
        parts.push({
          type: 'tool-call',
          toolCallId: callId,
          toolName: block['name'],
          input,
          providerMetadata: metadata,
        });
        continue;
      }
      items.item(id);
      parts.push({ type: 'text-start', id, providerMetadata: metadata });
      parts.push({ type: 'text-delta', id, delta: String(block['text']) });
      parts.push({ type: 'text-end', id, providerMetadata: metadata });
    }
    const declines = stop === 'refusal' || troubles.declines(process);
    return [...parts, finishOf(declines ? 'content-filter' : (REASONS[stop] ?? 'stop'), usage)];
  }

  #next(): number {
    this.#count += 1;
    return this.#count;
  }
}

/** The AI SDK's reasons for the end of an answer, except the usual one, `stop`. */
const REASONS: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool-calls',
};

function finishOf(unified: string, usage: unknown): Part {
  const given: Readonly<Record<string, unknown>> = isRecord(usage) ? usage : {};
  return {
    type: 'finish',
    finishReason: { unified, raw: unified },
    usage: { inputTokens: { total: given['input_tokens'] }, outputTokens: { total: given['output_tokens'] } },
  };
}
