/**
 * The Anthropic Messages API as a model provider: the only importer of the vendor's SDK.
 * Owns: one SDK client, kept while the credentials are the same, and the timer of each call. Does not own: retries and their
 * waits (the runtime's, shown to the user), rate limits, the request's legality.
 *
 * - N1 A call is one HTTP request: the SDK retries nothing.
 * - N2 Every failure is a `ModelError` of the class its cause has, or `CancelledError` after the signal.
 * - N3 Keys and tokens go into headers only: never into an error's message or cause.
 * - N4 What is not a whole answer is an error (B4), never a short answer.
 *
 * The SDK sends the request and reports errors; the event stream is read here, where lines and the whole are bounded. Its
 * `messages.create` is passed by for its `post`, as the former prints a warning at every call of a deprecated model. The SDK is
 * loaded at the first call: a process that makes none, or whose model threads do, does not pay for it.
 */
import type { Anthropic, ClientOptions } from '@anthropic-ai/sdk';
import { z } from 'zod';
import { MODEL_CALL_MS_MAX, REQUEST_BYTES_MAX } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { CancelledError, ConfigError, describeValue, ModelInvalidRequestError } from '../base/errors.ts';
import { parseOption } from '../base/settings.ts';
import { authenticationMissing, type Credentials, credentialsOf } from './anthropic-credentials.ts';
import { anthropicError } from './anthropic-error.ts';
import { EventStreamParser } from './event-stream.ts';
import { modelErrorOf } from './model-error.ts';
import type {
  AnthropicData,
  GenerateContext,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  ProviderData,
} from './provider.ts';
import { encodeRequest } from './request-body.ts';
import { ResponseAssembly } from './response-assembly.ts';
import { tokenCount } from './response-check.ts';

/** A `fetch`, as the platform's. */
export type FetchFunction = typeof globalThis.fetch;

/** Options of `anthropic()`. */
export interface AnthropicOptions extends AnthropicData {
  /** Makes the HTTP request in place of the platform's own: the provider then runs on the host thread. */
  readonly fetch?: FetchFunction | undefined;
}

const dataSchema = z.strictObject({
  apiKey: z.string().min(1).optional(),
  authToken: z.string().min(1).optional(),
  baseURL: z.url({ protocol: /^https?$/ }).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  timeoutMs: z.number().int().positive().optional(),
  countTokens: z.boolean().optional(),
});

/**
 * Claude by the Messages API. Without `fetch` the result is plain data and the calls run in the model threads; with it, a
 * provider value. A key that is not given is read from the environment when a call is made, and stays out of the data.
 * Throws `ConfigError` naming a bad or unknown option.
 */
export function anthropic(options?: AnthropicData & { readonly fetch?: undefined }): ProviderData;
export function anthropic(options: AnthropicOptions & { readonly fetch: FetchFunction }): ModelProvider;
export function anthropic(options?: AnthropicOptions): ProviderData | ModelProvider;
export function anthropic(options: AnthropicOptions = {}): ProviderData | ModelProvider {
  const { fetch, ...rest } = options;
  const data = parseAnthropicData(rest);
  if (fetch === undefined) return { kind: 'anthropic', options: data };
  if (typeof fetch !== 'function') {
    throw new ConfigError(`option "anthropic.fetch": expected a function; got ${describeValue(fetch)}`);
  }
  return createAnthropicProvider(data, fetch);
}

/** Checks plain options. Throws `ConfigError` naming the option. */
export function parseAnthropicData(value: unknown): AnthropicData {
  const parsed = parseOption(dataSchema, 'anthropic', value);
  // An option given as undefined is one not given.
  return Object.fromEntries(Object.entries(parsed).filter(([, member]) => member !== undefined));
}

/** The provider of these options. `clock` times the calls. Runs on a model thread, or on the host thread with `fetch`. */
export function createAnthropicProvider(
  data: AnthropicData,
  fetch?: FetchFunction,
  clock: Clock = systemClock,
): ModelProvider {
  const caller = new AnthropicCaller(data, fetch, clock);
  return {
    name: 'anthropic',
    generate: (request, context) => caller.generate(request, context),
    ...(data.countTokens === true ? { countTokens: (text, options) => caller.countTokens(text, options) } : {}),
  };
}

class AnthropicCaller {
  readonly #data: AnthropicData;
  readonly #fetch: FetchFunction | undefined;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  #client: { readonly credentials: Credentials; readonly value: Promise<Anthropic> } | undefined;

  constructor(data: AnthropicData, fetch: FetchFunction | undefined, clock: Clock) {
    this.#data = data;
    this.#fetch = fetch;
    this.#clock = clock;
    this.#timeoutMs = data.timeoutMs ?? MODEL_CALL_MS_MAX;
  }

  generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    return this.#withDeadline(context.signal, async (client, signal) => {
      const body = encodeRequest(request);
      checkBodySize(body);
      const response = await client
        .post('/v1/messages', { ...rawBody(body), stream: true, signal, timeout: this.#timeoutMs })
        .asResponse();
      return readAnswer(response, context);
    });
  }

  countTokens(text: string, options: { readonly model: string; readonly signal: AbortSignal }): Promise<number> {
    const body = { model: options.model, messages: [{ role: 'user', content: text }] };
    return this.#withDeadline(options.signal, async (client, signal) => {
      const answer = await client.post<{ readonly input_tokens: unknown }>('/v1/messages/count_tokens', {
        body,
        signal,
        timeout: this.#timeoutMs,
      });
      const tokens = tokenCount(answer.input_tokens);
      if (tokens !== undefined) return tokens;
      throw modelErrorOf({ code: 'model_protocol', message: 'the token count is not a number' });
    });
  }

  /** Runs one request under its deadline. The result is there at the deadline even if the request ignores its signal. */
  async #withDeadline<T>(outer: AbortSignal, run: (client: Anthropic, signal: AbortSignal) => Promise<T>): Promise<T> {
    const credentials = credentialsOf(this.#data);
    if (credentials === undefined) throw authenticationMissing();
    if (outer.aborted) throw cancelled();
    const controller = new AbortController();
    let timedOut = false;
    let stop: (error: Error) => void = () => {};
    const stopped = new Promise<never>((_resolve, reject) => {
      stop = reject;
    });
    const onAbort = (): void => {
      controller.abort();
      stop(cancelled());
    };
    const timer = this.#clock.setTimer(() => {
      timedOut = true;
      controller.abort();
      stop(timeout(this.#timeoutMs));
    }, this.#timeoutMs);
    outer.addEventListener('abort', onAbort, { once: true });
    const answer = this.#clientFor(credentials).then((client) => run(client, controller.signal));
    try {
      return await Promise.race([answer, stopped]);
    } catch (error) {
      if (outer.aborted) throw cancelled();
      if (timedOut) throw timeout(this.#timeoutMs);
      throw anthropicError(error, credentials.secrets, this.#clock.now());
    } finally {
      outer.removeEventListener('abort', onAbort);
      this.#clock.clearTimer(timer);
      // The loser of the race may still reject; its error was told above.
      answer.catch(() => {});
      stopped.catch(() => {});
    }
  }

  #clientFor(credentials: Credentials): Promise<Anthropic> {
    if (this.#client?.credentials.identity !== credentials.identity) {
      this.#client = { credentials, value: this.#buildClient(credentials) };
    }
    return this.#client.value;
  }

  async #buildClient(credentials: Credentials): Promise<Anthropic> {
    const sdk = await import('@anthropic-ai/sdk');
    const options: ClientOptions = {
      apiKey: credentials.apiKey ?? null,
      authToken: credentials.authToken ?? null,
      baseURL: credentials.baseURL,
      defaultHeaders: { ...this.#data.headers, ...credentials.headers },
      maxRetries: 0,
      timeout: this.#timeoutMs,
      logLevel: 'off',
      openTelemetry: false,
      ...(this.#fetch === undefined ? {} : { fetch: this.#fetch }),
    };
    return new sdk.Anthropic(options);
  }
}

/** The SDK sends a text as it is when the content type is given. */
function rawBody(body: string): { readonly body: string; readonly headers: Record<string, string> } {
  return { body, headers: { 'content-type': 'application/json' } };
}

function checkBodySize(body: string): void {
  // Every UTF-16 unit is at least one byte and at most three: most bodies need no count.
  if (body.length * 3 <= REQUEST_BYTES_MAX) return;
  const bytes = Buffer.byteLength(body);
  if (bytes <= REQUEST_BYTES_MAX) return;
  throw new ModelInvalidRequestError(`the request has ${bytes} bytes, the API takes ${REQUEST_BYTES_MAX}`, {
    status: 413,
    data: { rule: 'R35' },
  });
}

async function readAnswer(response: Response, context: GenerateContext): Promise<ModelResponse> {
  const assembly = new ResponseAssembly(context.onDelta);
  const parser = new EventStreamParser();
  const body = response.body;
  if (body !== null) {
    try {
      // To the end, not to `message_stop`: a body left unread costs its connection.
      for await (const chunk of body) {
        for (const event of parser.push(chunk)) assembly.accept(event.name, event.data);
      }
      for (const event of parser.end()) assembly.accept(event.name, event.data);
    } catch (error) {
      // Whole already: what went wrong after the answer is no failure of it.
      if (!assembly.finished) throw error;
    }
  }
  return assembly.response();
}

function cancelled(): CancelledError {
  return new CancelledError('the model call was cancelled');
}

function timeout(timeoutMs: number): Error {
  return modelErrorOf({
    code: 'model_timeout',
    message: `the model did not answer within ${timeoutMs} ms`,
  });
}
