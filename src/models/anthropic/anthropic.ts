/**
 * The Anthropic Messages API as a model provider: the only importer of the vendor's SDK.
 * Owns: one SDK client, kept while the credentials stay the same, and the timer of each call. Does not own: retries and
 * their waits (the runtime makes them and shows them to the user), rate limits, the legality of requests.
 *
 * - N1 A call is one HTTP request: the SDK retries nothing. Only a request that the API refuses because of its message
 *   thread is followed by another (`message-threads.ts`).
 * - N2 Every failure is a `ModelError` whose class follows from its cause, or `CancelledError` after the signal.
 * - N3 Keys and tokens go into headers only: never into an error's message or cause.
 * - N4 An incomplete answer is an error (B4), never a short answer. The error reports the tokens of the answer as
 *   `data.lostUsage`, because they are paid for.
 * - N5 A call ends when its first byte, its next byte or its end is late (`data.phase`: `ttfb`, `idle`, `total`).
 * - N6 A request that the API refuses is checked again by our own rules: `data.rule` names the first rule it breaks.
 *   The whole request is checked, even if only a part was sent.
 * - N7 The error about a model that the API does not know names the known model with a similar name, if there is one.
 *
 * The SDK sends the request and reports errors. The event stream is read here, where its lines and its total size are
 * bounded. The SDK's `post` is called instead of its `messages.create`, which prints a warning at every call of a
 * deprecated model. The SDK is loaded at the first call, so a thread that makes no calls does not load it.
 */

import type { Anthropic, ClientOptions } from '@anthropic-ai/sdk';
import { z } from 'zod';
import { MODEL_CALL_MS_MAX, MODEL_FIRST_BYTE_MS_MAX, MODEL_IDLE_MS_MAX, REQUEST_BYTES_MAX } from '../../base/bounds.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue, ModelError, ModelInvalidRequestError } from '../../base/errors.ts';
import { parseOption } from '../../base/parse-option.ts';
import { checkRequestText, fatalOf, type Violation } from '../../context/legality/legality.ts';
import { nearModel } from '../../context/model-traits.ts';
import type { DeadlineLimits } from '../call-deadline.ts';
import { MessageThreads } from '../message-threads/message-threads.ts';
import { THREADS_BETA } from '../message-threads/thread-rule.ts';
import { withData } from '../model-error.ts';
import type {
  AnthropicData,
  GenerateContext,
  ModelProvider,
  ModelRequest,
  ModelResponse,
  ProviderData,
} from '../provider.ts';
import { encodeRequest } from '../request-body.ts';
import { runTimed } from '../timed-call.ts';
import { type AnswerReading, readAnswer } from './answer.ts';
import { boundedFetch, type FetchFunction } from './bounded-fetch.ts';
import {
  authenticationMissing,
  CREDENTIALS_IN_ADDRESS,
  type Credentials,
  credentialsOf,
  holdsCredentials,
} from './credentials.ts';
import { anthropicError } from './error.ts';
import { httpFetch } from './http-fetch.ts';
import { anthropicModels } from './model-list.ts';
import { readRateLimits } from './rate-headers.ts';

/** The options of `anthropic()`. */
export interface AnthropicOptions extends AnthropicData {
  /**
   * Makes the HTTP requests, for example through a proxy. The provider then runs on the host thread. Without this
   * function, requests are made with `node:http` and `node:https`.
   */
  readonly fetch?: FetchFunction | undefined;
}

const dataSchema = z.strictObject({
  apiKey: z.string().min(1).optional(),
  authToken: z.string().min(1).optional(),
  baseURL: z.url({ protocol: /^https?$/ }).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  timeoutMs: z.number().int().positive().optional(),
  firstByteTimeoutMs: z.number().int().positive().optional(),
  idleTimeoutMs: z.number().int().positive().optional(),
  listModels: z.boolean().optional(),
});

/**
 * Claude through the Messages API. Without `fetch` the result is plain data, and the calls run on model threads; with
 * `fetch` it is a provider value. A missing key is read from the environment when a call is made, and stays out of the
 * data. Throws `ConfigError` that names a bad or unknown option.
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

/** Checks plain options. Throws `ConfigError` that names the option. */
export function parseAnthropicData(value: unknown): AnthropicData {
  // An option given as undefined counts as missing.
  return defined(parseSecretly(value));
}

/**
 * The options as the schema parses them. An error names the key and never shows a value, which may be a secret (N3).
 */
function parseSecretly(value: unknown): z.infer<typeof dataSchema> {
  let parsed: z.infer<typeof dataSchema>;
  try {
    parsed = parseOption(dataSchema, 'anthropic', value);
  } catch (error) {
    throw withoutValue(error);
  }
  if (parsed.baseURL === undefined || !holdsCredentials(parsed.baseURL)) return parsed;
  const key = 'anthropic.baseURL';
  throw new ConfigError(`option ${JSON.stringify(key)}: ${CREDENTIALS_IN_ADDRESS}`, { data: { key } });
}

function withoutValue(error: unknown): unknown {
  if (!(error instanceof ConfigError)) return error;
  const [said = ''] = error.message.split('; got ');
  return new ConfigError(said, { data: error.data });
}

/**
 * The provider for these options. `clock` times the calls. Runs on a model thread, or on the host thread with `fetch`.
 */
export function createAnthropicProvider(
  data: AnthropicData,
  fetch?: FetchFunction,
  clock: Clock = systemClock,
): ModelProvider {
  const caller = new AnthropicCaller(data, fetch, clock);
  return {
    name: 'anthropic',
    generate: (request, context) => caller.generate(request, context),
    ...(data.listModels === false ? {} : { models: anthropicModels(data, fetch) }),
  };
}

/** A request in flight. */
interface CallOut extends AnswerReading {
  readonly client: Anthropic;
  /** The request that was sent, and its body. */
  sent?: { readonly request: ModelRequest; readonly body: string };
}

class AnthropicCaller {
  readonly #data: AnthropicData;
  readonly #fetch: FetchFunction | undefined;
  readonly #clock: Clock;
  readonly #limits: DeadlineLimits;
  readonly #threads: MessageThreads;
  #client: { readonly credentials: Credentials; readonly value: Promise<Anthropic> } | undefined;

  constructor(data: AnthropicData, fetch: FetchFunction | undefined, clock: Clock) {
    this.#data = data;
    this.#fetch = fetch;
    this.#clock = clock;
    this.#threads = new MessageThreads(clock);
    this.#limits = {
      firstByteMs: data.firstByteTimeoutMs ?? MODEL_FIRST_BYTE_MS_MAX,
      idleMs: data.idleTimeoutMs ?? MODEL_IDLE_MS_MAX,
      totalMs: data.timeoutMs ?? MODEL_CALL_MS_MAX,
    };
  }

  generate(request: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    const account = (): string => credentialsOf(this.#data)?.identity ?? '';
    return this.#threads.call(request, { session: context.session, account }, (sending) =>
      this.#send(sending, context),
    );
  }

  #send(request: ModelRequest, context: GenerateContext): Promise<ModelResponse> {
    return this.#withDeadline(context.signal, async (out) => {
      const body = encodeRequest(request);
      out.sent = { request, body };
      const bytes = checkedBodySize(body);
      const response = await out.client
        .post('/v1/messages', { ...rawBody(body, this.#betas(request)), stream: true, ...this.#transport(out) })
        .asResponse();
      out.deadline.heard();
      const rateLimits = readRateLimits(response.headers, this.#clock.now());
      const answer = await readAnswer(response, context, out);
      return { ...answer, ...defined({ rateLimits }), sent: { bytes } };
    });
  }

  /** The options for the SDK. The SDK's own timeout is only a safeguard: our deadline ends every call earlier. */
  #transport(out: CallOut): { readonly signal: AbortSignal; readonly timeout: number } {
    return { signal: out.signal, timeout: this.#limits.totalMs };
  }

  /**
   * The betas of the provider's headers and of the call. They are joined, because the header of the call replaces the
   * provider's header.
   */
  #betas({ transport }: ModelRequest): string | undefined {
    const ofCall = [...(transport?.betas ?? []), ...(transport?.thread === undefined ? [] : [THREADS_BETA])];
    if (ofCall.length === 0) return undefined;
    const own = Object.entries(this.#data.headers ?? {})
      .filter(([name]) => name.toLowerCase() === BETA_HEADER)
      .flatMap(([, value]) => value.split(',').map((each) => each.trim()));
    return [...new Set([...own, ...ofCall])].filter((each) => each !== '').join(',');
  }

  /** Runs one request under its deadlines. */
  async #withDeadline<T>(outer: AbortSignal, run: (out: CallOut) => Promise<T>): Promise<T> {
    const credentials = credentialsOf(this.#data);
    if (credentials === undefined) throw authenticationMissing();
    let out: CallOut | undefined;
    return runTimed(
      {
        clock: this.#clock,
        limits: this.#limits,
        outer,
        isWhole: () => out?.answer?.finished === true,
        failure: (thrown) => explained(anthropicError(thrown, credentials.secrets, this.#clock.now()), out),
      },
      async ({ signal, deadline }) => {
        const client = await this.#clientFor(credentials);
        out = { client, signal, deadline };
        return run(out);
      },
    );
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
      timeout: this.#limits.totalMs,
      logLevel: 'off',
      openTelemetry: false,
      fetch: this.#fetch === undefined ? httpFetch(this.#clock) : boundedFetch(this.#fetch),
    };
    return new sdk.Anthropic(options);
  }
}

const BETA_HEADER = 'anthropic-beta';

/** The SDK sends a string body unchanged when the content type is given. */
function rawBody(
  body: string,
  betas: string | undefined,
): { readonly body: string; readonly headers: Record<string, string> } {
  const headers = { 'content-type': 'application/json', ...(betas === undefined ? {} : { [BETA_HEADER]: betas }) };
  return { body, headers };
}

/** The bytes of a body. Throws `ModelInvalidRequestError` if the API takes no body of this size (R35). */
function checkedBodySize(body: string): number {
  const bytes = Buffer.byteLength(body);
  if (bytes <= REQUEST_BYTES_MAX) return bytes;
  throw new ModelInvalidRequestError(`the request has ${bytes} bytes, the API takes ${REQUEST_BYTES_MAX}`, {
    status: 413,
    data: { rule: 'R35' },
  });
}

/**
 * The rule that is broken according to the API's message. R20 and R21 compare a request with an earlier answer, so the
 * body alone does not show a violation.
 */
function thoughtRule(message: string): 'R20' | 'R21' | undefined {
  if (/thinking.* blocks in the latest assistant message cannot be modified/u.test(message)) return 'R20';
  return /Invalid `(signature|data)` in `(redacted_)?thinking` block/u.test(message) ? 'R21' : undefined;
}

/**
 * Adds to a failure the facts that only the call knows. These are the rule that the request breaks (N6), the model that
 * may be meant (N7), and the tokens of the lost answer (N4).
 */
function explained(error: Error, out: CallOut | undefined): Error {
  if (!(error instanceof ModelError) || out === undefined) return error;
  const meant = error.status === 404 && out.sent !== undefined ? nearModel(out.sent.request.model) : undefined;
  if (meant !== undefined) {
    const remedy = `did you mean ${JSON.stringify(meant)}?`;
    return withData(error, { model: out.sent?.request.model, remedy }, `${error.message}; ${remedy}`);
  }
  const isRefused = error.status === 400 && out.sent !== undefined;
  const broken = isRefused && out.sent !== undefined ? brokenRule(out.sent) : undefined;
  const rule = broken?.rule ?? (isRefused ? thoughtRule(error.message) : undefined);
  const lostUsage = out.answer?.usage;
  if (rule === undefined && lostUsage === undefined) return error;
  return withData(error, {
    ...defined({ rule }),
    ...(broken === undefined ? {} : { path: broken.path }),
    ...defined({ lostUsage }),
  });
}

/** The first rule that a request breaks (N6). A request that was sent in part is judged as a whole. */
function brokenRule({ request, body }: NonNullable<CallOut['sent']>): Violation | undefined {
  const step = request.transport?.thread;
  if (step?.kind !== 'continue') return fatalOf(checkRequestText(body))[0];
  const whole = { ...request, transport: { ...request.transport, thread: { kind: 'create' } as const } };
  return fatalOf(checkRequestText(encodeRequest(whole)))[0];
}
