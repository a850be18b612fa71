/**
 * Any language model of the AI SDK (`LanguageModelV3`, `LanguageModelV4`) as a provider.
 * Owns: the timer and the stream of each call. Does not own: HTTP, keys and the vendor's wire format, which are the
 * language model's; retries, which are the runtime's.
 *
 * - M1 A call is one `doStream`. The language model must not retry, and the AI SDK's models do not.
 * - M2 Every failure is a `ModelError` whose class follows from its cause (`error.ts`), or `CancelledError` after the
 *   signal.
 * - M3 A call fails when its answer begins too late, pauses too long or ends too late (`data.phase`: `ttfb`, `idle`,
 *   `total`).
 * - M4 A request with an option that the specification has no place for is refused. Such a request is sent without the
 *   option only if the option is for another model (`transport.fits`).
 * - M5 Metadata, thoughts and parts of an answer carry the name of this provider and its model (`BlockOrigin`). Content
 *   with these names is sent to no other model.
 */
import { z } from 'zod';
import {
  MODEL_CALL_MS_MAX,
  MODEL_ENDING_MS_MAX,
  MODEL_FIRST_BYTE_MS_MAX,
  MODEL_IDLE_MS_MAX,
  ORIGIN_NAME_CHARACTERS_MAX,
  PROVIDER_OPTIONS_CHARACTERS_MAX,
} from '../../base/bounds.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { ConfigError, describeValue, ModelError, ModelInvalidRequestError } from '../../base/errors.ts';
import { isRecord, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { DeadlineLimits } from '../call-deadline.ts';
import { withData } from '../model-error.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse, RequestRefusal } from '../provider.ts';
import { runTimed, type TimedCall } from '../timed-call.ts';
import { PartAssembly } from './answer.ts';
import { aiModelError } from './error.ts';
import { refusedRequest } from './options.ts';
import { type PromptReader, promptOf } from './prompt.ts';
import type { LanguageModel, PartOptions } from './specification.ts';

/** The options of `aiModel()`. */
export interface AiModelOptions {
  /** Options of the language model's provider, sent verbatim with every call: `{ openai: { store: false } }`. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  /**
   * The name of the provider, in events and in the log. Metadata that the provider wants back is sent only to a model
   * under the same name. So do not change a name that a log contains. Default: the language model's `provider`.
   */
  readonly name?: string;
  /**
   * False: images and files of a tool's result are sent in the next user message. Default: false for chat completions,
   * for Gemma and for Gemini before version 3, otherwise true.
   */
  readonly mediaInResults?: boolean;
  /** The milliseconds that a call may take in total. Default 600,000. */
  readonly timeoutMs?: number;
  /** Milliseconds until the answer begins. Default 120,000. */
  readonly firstByteTimeoutMs?: number;
  /** Milliseconds of silence inside an answer. Default 90,000. */
  readonly idleTimeoutMs?: number;
}

const isMember = (value: unknown): boolean => isRecord(value);

const optionsSchema = z.strictObject({
  providerOptions: z
    .record(z.string(), z.custom<Readonly<Record<string, Json>>>(isMember, 'must be an object'))
    .optional(),
  name: z.string().trim().min(1).max(ORIGIN_NAME_CHARACTERS_MAX).optional(),
  mediaInResults: z.boolean().optional(),
  timeoutMs: z.number().int().positive().optional(),
  firstByteTimeoutMs: z.number().int().positive().optional(),
  idleTimeoutMs: z.number().int().positive().optional(),
});

/**
 * A provider that calls this language model. Agents name the model by its `modelId`. If `open` is given the provider as
 * a value, the provider runs on the host thread. If `open` is given the URL of a module whose default export is the
 * provider, it runs on the model threads.
 *
 * Throws `ConfigError` for a value that is not a `LanguageModelV3` or `LanguageModelV4`, and for a bad or unknown
 * option. Calls of the provider reject with the errors of `ModelProvider.generate`. A request with an option that the
 * specification has no place for rejects with `ModelInvalidRequestError`. If the provider is a value, `open` refuses
 * such an option.
 *
 * ```ts
 * import { openai } from '@ai-sdk/openai';
 * export default aiModel(openai('gpt-5.5'), { providerOptions: { openai: { store: false } } });
 * ```
 */
export function aiModel(languageModel: LanguageModel, options: AiModelOptions = {}): ModelProvider {
  return createAiModelProvider(languageModel, options, systemClock);
}

/** The provider of `aiModel`. `clock` times its calls. Throws as `aiModel` does. */
export function createAiModelProvider(
  languageModel: LanguageModel,
  options: AiModelOptions,
  clock: Clock,
): ModelProvider {
  const model = checkModel(languageModel);
  const caller = new AiModelCaller(model, options, clock);
  return {
    name: caller.name,
    generate: (request, context) => caller.generate(request, context),
    refuses: (request) => refusedRequest(request, { version: model.specificationVersion, model: model.modelId }),
  };
}

const VERSIONS: ReadonlySet<unknown> = new Set(['v3', 'v4']);

function checkModel(value: unknown): LanguageModel {
  // A language model is an instance of a class, not a plain object.
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const { specificationVersion: version, provider, modelId, doStream } = fields;
  if (!VERSIONS.has(version)) {
    const found = typeof version === 'string' ? `a model of version ${version}` : describeValue(value);
    const remedy = 'a LanguageModelV3 or LanguageModelV4 of the AI SDK, such as openai("gpt-5.5")';
    throw new ConfigError(`aiModel: expected ${remedy}; got ${found}`, { data: { key: 'aiModel' } });
  }
  if (typeof provider === 'string' && typeof modelId === 'string' && typeof doStream === 'function') {
    return value as LanguageModel;
  }
  throw new ConfigError('aiModel: expected a language model with provider, modelId and doStream', {
    data: { key: 'aiModel' },
  });
}

class AiModelCaller {
  readonly name: string;
  readonly #model: LanguageModel;
  readonly #clock: Clock;
  readonly #limits: DeadlineLimits;
  readonly #providerOptions: PartOptions | undefined;
  readonly #mediaInResults: boolean;

  constructor(model: LanguageModel, options: AiModelOptions, clock: Clock) {
    const checked = parseOption(optionsSchema, 'aiModel', options);
    this.#model = model;
    this.name = checked.name ?? model.provider;
    this.#clock = clock;
    this.#providerOptions = plainOptions(checked.providerOptions);
    this.#mediaInResults = checked.mediaInResults ?? takesMediaInResults(model);
    this.#limits = {
      firstByteMs: checked.firstByteTimeoutMs ?? MODEL_FIRST_BYTE_MS_MAX,
      idleMs: checked.idleTimeoutMs ?? MODEL_IDLE_MS_MAX,
      totalMs: checked.timeoutMs ?? MODEL_CALL_MS_MAX,
    };
  }

  async generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    const { specificationVersion: version, modelId } = this.#model;
    const refused = refusedRequest(request, { version, model: modelId });
    if (refused !== undefined) throw refusal(refused, modelId);
    // A request for no output only fills Anthropic's cache, which this model does not have.
    if (request.max_tokens === 0) {
      return { content: [], stop_reason: 'max_tokens', usage: { input_tokens: 0, output_tokens: 0 } };
    }
    const isFallback = request.transport?.fits === true;
    const answer = new PartAssembly({ provider: this.name, model: modelId, isFallback }, context.onDelta);
    const timed = {
      clock: this.#clock,
      limits: this.#limits,
      outer: context.signal,
      isWhole: () => answer.finished,
      failure: (thrown: unknown) => withLostUsage(aiModelError(thrown, this.#clock.now()), answer),
    };
    return runTimed(timed, async (call) => {
      await this.#read(request, call, answer);
      return answer.response();
    });
  }

  async #read(request: ModelRequest, { signal, deadline }: TimedCall, answer: PartAssembly): Promise<void> {
    const options = promptOf(request, await this.#reader());
    const result = await this.#model.doStream({ ...options, abortSignal: signal } as never);
    deadline.heard();
    const reader = result.stream.getReader();
    const cancel = (): void => {
      // The stream may already have failed. The read reports that failure.
      reader.cancel().catch(() => {});
    };
    signal.addEventListener('abort', cancel, { once: true });
    // A language model may ignore the signal, and answer a call that has ended.
    if (signal.aborted) cancel();
    try {
      // Reads to the end and not only to `finish`, because a connection whose body was not read to its end is not
      // reused.
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        if (answer.finished) continue;
        deadline.heard();
        answer.accept(read.value);
        if (answer.finished) deadline.ending(MODEL_ENDING_MS_MAX);
      }
    } catch (error) {
      // If the answer is complete, an error after it does not fail the call.
      if (!answer.finished) throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
      cancel();
    }
  }

  async #reader(): Promise<PromptReader> {
    const { specificationVersion: version, provider: wire, modelId: model, supportedUrls } = this.#model;
    return {
      version,
      wire,
      provider: this.name,
      model,
      urls: (await supportedUrls) ?? {},
      mediaInResults: this.#mediaInResults,
      ...(this.#providerOptions === undefined ? {} : { providerOptions: this.#providerOptions }),
    };
  }
}

/**
 * True if a result can hold images and files. In chat completions a result is a text. Gemma, and Gemini before version
 * 3, take one response for a call, but the AI SDK sends several if a result has images.
 */
function takesMediaInResults({ provider, modelId }: LanguageModel): boolean {
  return !provider.endsWith('.chat') && !/^(?:.*\/)?(?:gemini-[12]|gemma)/u.test(modelId);
}

/** A plain copy, so that a later change of the given value changes no request. */
function plainOptions(value: AiModelOptions['providerOptions']): PartOptions | undefined {
  if (value === undefined) return undefined;
  const key = 'aiModel.providerOptions';
  try {
    const plain = toPlainJson(value) as PartOptions;
    if (JSON.stringify(plain).length <= PROVIDER_OPTIONS_CHARACTERS_MAX) return plain;
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    throw new ConfigError(`option "${key}": ${error.message}; give plain JSON`, { data: { key }, cause: error });
  }
  const most = `at most ${PROVIDER_OPTIONS_CHARACTERS_MAX} characters as JSON`;
  throw new ConfigError(`option "${key}": expected ${most}`, { data: { key } });
}

const NOT_FOUND = 404;
const BAD_REQUEST = 400;

function refusal({ key, value, remedy }: RequestRefusal, model: string): ModelInvalidRequestError {
  const shown = JSON.stringify(value) ?? describeValue(value);
  return new ModelInvalidRequestError(`option ${JSON.stringify(key)}: ${model} refuses ${shown}; ${remedy}`, {
    // A model that the provider does not have gives 404, as the Messages API does.
    status: key === 'model' ? NOT_FOUND : BAD_REQUEST,
    data: { key, remedy },
  });
}

/** Adds the tokens of a lost answer to its error, because they are paid for. */
function withLostUsage(error: Error, { usage }: PartAssembly): Error {
  return error instanceof ModelError && usage !== undefined ? withData(error, { lostUsage: usage }) : error;
}
