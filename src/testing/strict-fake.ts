/**
 * A fake of the Messages API that refuses the same requests as the real one. It is an HTTP server on the loopback
 * address, for tests and benchmarks of agents.
 *
 * Owns: its socket, the position in the script, its past answers.
 * Does not own: the script language (`src/models/script/script.ts`), the rules (`src/context/legality/legality.ts`).
 *
 * - W5 A request that breaks a fatal rule is answered with status 400, or 413 for its size, in the API's words. It uses
 *   up no reply of the script.
 * - W6 Replies of a list are taken in the order of arrival, over all callers.
 * - W7 With the same seed and the same requests in the same order, the fake sends the same bytes.
 * - W8 A request for no tokens (`max_tokens: 0`) only writes the cache. It is answered without content, and uses up no
 *   reply of the script.
 * - W9 The fake keeps message threads (`fake-threads.ts`). A request that continues a thread is checked and answered as
 *   the whole conversation. If an injected fault breaks the stream of its answer, the thread still counts as continued;
 *   after an error of the script it does not.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../base/clock.ts';
import { defined } from '../base/defined.ts';
import { ModelInvalidRequestError } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import { NO_USAGE } from '../base/messages.ts';
import { parseOption } from '../base/parse-option.ts';
import {
  betasOf,
  checkHeaders,
  checkRequest,
  fatalOf,
  type LegalityOptions,
  readRequest,
  type Violation,
} from '../context/legality/legality.ts';
import type { ListedModel } from '../context/model-traits.ts';
import { statusOf } from '../models/model-error.ts';
import type { ModelRequest, ModelResponse } from '../models/provider.ts';
import { PauseTurnAnswers } from '../models/script/pause-turn-answers.ts';
import {
  createScriptPlayer,
  estimateTokens,
  isReplyError,
  responseOf,
  type ScriptPlayer,
} from '../models/script/player.ts';
import { pieceSchema } from '../models/script/provider.ts';
import { checkScript, type ReplyError, type Script } from '../models/script/script.ts';
import { brokenStream, FAULT_STATUS, type FaultKind, type Faults, faultOf, randomOf } from './fake-faults.ts';
import {
  accountOf,
  close,
  hasCredentials,
  listen,
  readBody,
  sendError,
  sendJson,
  sendStream,
  startStream,
} from './fake-http.ts';
import { answerModels, DEFAULT_MODELS, MODELS_PATH } from './fake-models.ts';
import { FakeBuckets, type FakeRates } from './fake-rates.ts';
import { RequestLog, toModelRequest, type WireRequest } from './fake-request.ts';
import { messageText } from './fake-stream.ts';
import { FakeThreads, isThreaded, type ThreadedRequest, type ThreadRefusal } from './fake-threads.ts';
import { ThinkingLedger } from './thinking-ledger.ts';

export type { Faults } from './fake-faults.ts';
export type { WireRequest } from './fake-request.ts';

/** Options of `strictFake`. */
export interface StrictFakeOptions {
  /** The source of the fake's answers. A function receives the request without cache marks, and an empty `session`. */
  readonly script: Script;
  /** The seed that decides faults, boundaries of chunks and signatures. Default 1. */
  readonly seed?: number;
  readonly faults?: Faults;
  /**
   * Rate limits per minute. Answers to legal message calls report them, and a call above a limit is answered with 429.
   * Default: none.
   */
  readonly rates?: FakeRates;
  /**
   * The models of `GET /v1/models`, newest first; the list is read at every request. A request for one of these models
   * is checked against its entry. Default: a few models of the library's own table.
   */
  readonly models?: readonly ListedModel[];
  /** Models for which no message threads are kept (`thread_unsupported_request`). Default: none. */
  readonly unthreadedModels?: readonly string[];
  /**
   * Milliseconds between the events of a streamed answer, whose texts come in pieces of 32 characters; 0 to 60,000.
   * Default 0: all events at once.
   */
  readonly pieceMs?: number;
  /** The port to listen on. Default: any free port. */
  readonly port?: number;
  /**
   * The clock for `delayMs` and `pieceMs`, for rate limits, and for the five minutes of a message thread. Default: the
   * machine's clock.
   */
  readonly clock?: Clock;
}

/** A broken rule, and how many message calls had arrived before the request that broke it. */
export interface FakeViolation extends Violation {
  readonly request: number;
}

/** A running fake. */
export interface StrictFake {
  /** The fake's base URL, `http://127.0.0.1:<port>`. */
  readonly url: string;
  /**
   * The bodies of the message calls that arrived, oldest first, also of calls that break a rule. The list leaves out
   * token counts, calls without credentials, and bodies that are too large or not a JSON object. The list grows with
   * each call, and keeps the newest 10,000 bodies, or as many of the newest as fit into 128 MiB.
   */
  readonly requests: readonly WireRequest[];
  /** The broken rules, including warnings: the first 10,000. The list grows with each call. */
  readonly violations: readonly FakeViolation[];
  /** Ends the server and its connections. */
  close(): Promise<void>;
}

const VIOLATIONS_KEPT_MAX = 10_000;
/**
 * Milliseconds that idle connections are kept: longer than a test takes, because closing a connection races with its
 * next request.
 */
const KEEP_ALIVE_MS = 120_000;

/**
 * Starts a fake and resolves once the fake listens. Rejects with `ConfigError` for an invalid script, and with the
 * system's error when the port is taken.
 *
 * ```ts
 * const fake = await strictFake({ script: ['Hello.'] });
 * const provider = anthropic({ apiKey: 'test', baseURL: fake.url });
 * ```
 */
export async function strictFake(options: StrictFakeOptions): Promise<StrictFake> {
  const model = new FakeModel(options);
  const server = createServer((request, response) => model.handle(request, response));
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  await listen(server, options.port ?? 0);
  const address = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${address.port}`,
    requests: model.requests.list,
    violations: model.violations,
    close: () => close(server),
  };
}

class FakeModel {
  readonly requests = new RequestLog();
  readonly violations: FakeViolation[] = [];
  readonly #player: ScriptPlayer;
  readonly #seed: number;
  readonly #faults: Faults | undefined;
  readonly #clock: Clock;
  readonly #ledger: ThinkingLedger;
  readonly #buckets: FakeBuckets | undefined;
  readonly #models: readonly ListedModel[];
  readonly #threads: FakeThreads;
  readonly #unthreadedModels: readonly string[];
  readonly #paused = new PauseTurnAnswers();
  readonly #pieceMs: number;
  #arrived = 0;

  constructor(options: StrictFakeOptions) {
    this.#player = createScriptPlayer(checkScript(options.script));
    this.#seed = options.seed ?? 1;
    this.#faults = options.faults;
    this.#clock = options.clock ?? systemClock;
    this.#buckets = options.rates === undefined ? undefined : new FakeBuckets(options.rates, this.#clock);
    this.#models = options.models ?? DEFAULT_MODELS;
    this.#threads = new FakeThreads(this.#clock);
    this.#unthreadedModels = options.unthreadedModels ?? [];
    this.#ledger = new ThinkingLedger(this.#seed);
    this.#pieceMs = parseOption(pieceSchema, 'strictFake.pieceMs', options.pieceMs);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? '').split('?')[0];
    if (path === MODELS_PATH || path?.startsWith(`${MODELS_PATH}/`) === true) {
      answerModels(request, response, this.#models);
      return;
    }
    const isCount = path === '/v1/messages/count_tokens';
    if (!isCount && path !== '/v1/messages') {
      request.resume();
      sendError(response, 404, `Not found: ${path}`);
      return;
    }
    if (request.method !== 'POST') {
      request.resume();
      sendError(response, 405, `Method ${request.method} not allowed`);
      return;
    }
    readBody(request, (body) => {
      this.#answer(request, response, body, isCount).catch((error: unknown) => {
        const isRefusal = error instanceof ModelInvalidRequestError;
        const message = error instanceof Error ? error.message : String(error);
        sendError(response, isRefusal ? 400 : 500, message);
      });
    });
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    body: string | undefined,
    isCount: boolean,
  ): Promise<void> {
    const number = this.#arrived;
    if (!isCount) this.#arrived += 1;
    if (body === undefined) {
      const message = 'Request exceeds the maximum size';
      this.#note([{ rule: 'R35', path: '', message, fatal: true }], number);
      return sendError(response, 413, message);
    }
    if (!hasCredentials(request)) return sendError(response, 401, 'invalid x-api-key');
    const betas = betasOf(request.headers);
    const version = request.headers['anthropic-version'];
    const rules: LegalityOptions = {
      counting: isCount,
      listed: this.#models,
      isPausedTurn: (blocks) => this.#paused.has(blocks),
      betas,
      ...(typeof version === 'string' ? { version } : {}),
    };
    const read = readRequest(body, rules);
    if (!isCount && isRecord(read.body)) {
      this.requests.add(read.body as unknown as WireRequest, Buffer.byteLength(body));
    }
    const violations = [...checkHeaders(request.headers), ...read.violations];
    let begun: ThreadedRequest | ThreadRefusal | undefined;
    let asked: ModelRequest | undefined;
    if (fatalOf(violations).length === 0) {
      const wire = read.body as WireRequest;
      begun = wire['thread'] === undefined ? undefined : this.#begin(wire, accountOf(request), betas);
      const threaded = begun !== undefined && isThreaded(begun) ? begun : undefined;
      if (threaded !== undefined && isContinued(wire)) violations.push(...checkRequest(threaded.whole, rules));
      asked = toModelRequest(threaded?.whole ?? wire);
      if (begun === undefined || threaded !== undefined) violations.push(...this.#ledger.check(asked, betas));
    }
    this.#note(violations, number);
    const fatal = fatalOf(violations)[0];
    if (fatal !== undefined || asked === undefined) {
      if (begun !== undefined && isThreaded(begun)) begun.failed();
      const status = fatal?.rule === 'R35' ? 413 : 400;
      return sendError(response, status, fatal?.message ?? '', defined({ errorCode: fatal?.code }));
    }
    if (begun !== undefined && !isThreaded(begun)) return sendError(response, begun.status, begun.message, begun);
    if (isCount) {
      begun?.failed();
      return sendJson(response, 200, JSON.stringify({ input_tokens: estimateTokens(asked) }));
    }
    const isStream = (read.body as WireRequest).stream === true;
    await this.#serve({ asked, thread: begun, isStream, number }, response);
  }

  /** Begins a request with a thread. */
  #begin(wire: WireRequest, account: string, betas: readonly string[]): ThreadedRequest | ThreadRefusal {
    if (!this.#unthreadedModels.includes(wire.model)) return this.#threads.begin(wire, account, betas);
    const message = 'thread: this request is not supported with threads';
    return { status: 400, errorCode: 'thread_unsupported_request', message, unsupported: ['inference_hooks'] };
  }

  /** Answers a legal request: with a rate limit, a fault, or the script's reply. */
  async #serve(call: FakeCall, response: ServerResponse): Promise<void> {
    const { asked, thread, number } = call;
    const retryAfterMs = this.#buckets?.take(response, estimateTokens(asked));
    if (retryAfterMs !== undefined) {
      thread?.failed();
      return sendError(response, 429, 'This request would exceed a rate limit.', { retryAfterMs });
    }
    if (asked.max_tokens === 0) {
      thread?.failed();
      return this.#warm(call, response);
    }
    const fault = faultOf(this.#faults, this.#seed, number);
    if (fault !== undefined && this.#fail(fault, call, response)) return;
    await this.#reply(call, fault, response);
  }

  #note(violations: readonly Violation[], request: number): void {
    for (const violation of violations) {
      if (this.violations.length < VIOLATIONS_KEPT_MAX) this.violations.push({ ...violation, request });
    }
  }

  /** Answers with a fault. Returns false for faults that deliver the answer. */
  #fail(fault: FaultKind, { asked, thread }: FakeCall, response: ServerResponse): boolean {
    if (fault === 'slow_bytes' || fault === 'unknown_event') return false;
    const status = FAULT_STATUS[fault];
    if (status !== undefined) {
      thread?.failed();
      const retryAfterMs = status === 429 ? (this.#faults?.retryAfterMs ?? 1_000) : undefined;
      sendError(response, status, `injected fault: ${fault}`, defined({ retryAfterMs }));
    } else if (fault === 'reset') {
      thread?.failed();
      response.socket?.destroy();
    } else {
      // The API has answered. It keeps this answer, although the caller never receives all of it.
      thread?.answered({ id: 'msg_fault', content: [], stop_reason: 'end_turn', usage: NO_USAGE });
      startStream(response);
      const text = brokenStream(fault, asked.model);
      if (fault === 'disconnect') response.write(text, () => response.socket?.destroy());
      else response.end(text);
    }
    return true;
  }

  /** Answers a request that only warms the cache (W8). */
  async #warm({ asked, isStream, number }: FakeCall, response: ServerResponse): Promise<void> {
    const usage = { input_tokens: estimateTokens(asked), output_tokens: 0 };
    const answer = { id: 'msg_warm', model: asked.model, content: [], stop_reason: 'max_tokens', usage };
    if (!isStream) return sendJson(response, 200, messageText(answer));
    return sendStream(response, answer, { fault: undefined, random: randomOf(this.#seed, number) });
  }

  async #reply(
    { asked: request, thread, isStream, number }: FakeCall,
    fault: FaultKind | undefined,
    response: ServerResponse,
  ): Promise<void> {
    try {
      const answer = await this.#answerOf(request, response, isStream);
      if (answer === undefined) {
        thread?.failed();
        return;
      }
      thread?.answered(answer);
      if (!isStream) return sendJson(response, 200, messageText(answer));
      const pause = this.#pieceMs > 0 ? () => this.#wait(this.#pieceMs) : undefined;
      return await sendStream(response, answer, { fault, random: randomOf(this.#seed, number), pause });
    } catch (error) {
      thread?.failed();
      throw error;
    }
  }

  /** The script's answer. Undefined if the script's reply is an error; that error has then been sent. */
  async #answerOf(
    request: ModelRequest,
    response: ServerResponse,
    isStream: boolean,
  ): Promise<ModelResponse | undefined> {
    const { reply, call } = await this.#player.next(request, '');
    const delayMs = typeof reply === 'string' ? undefined : reply.delayMs;
    if (typeof delayMs === 'number') await this.#wait(delayMs);
    if (isReplyError(reply)) {
      sendScriptedError(response, reply, request, isStream);
      return undefined;
    }
    const answer = responseOf(reply, request, { session: '', call }, (thinking, before) =>
      this.#ledger.sign(request, before, thinking),
    );
    this.#ledger.note(request, answer);
    this.#paused.note(request, answer);
    return answer;
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.setTimer(resolve, ms);
    });
  }
}

/** A legal request. */
interface FakeCall {
  /** The whole request, even if the call continues a thread. */
  readonly asked: ModelRequest;
  readonly thread: ThreadedRequest | undefined;
  readonly isStream: boolean;
  readonly number: number;
}

function isContinued({ thread }: WireRequest): boolean {
  return isRecord(thread) && thread['type'] === 'continue';
}

function sendScriptedError(
  response: ServerResponse,
  { error }: ReplyError,
  request: ModelRequest,
  isStream: boolean,
): void {
  if (error.code === 'model_connection') {
    response.socket?.destroy();
  } else if (error.code === 'model_protocol' && isStream) {
    startStream(response);
    response.end(brokenStream('bad_json', request.model));
  } else {
    const status = statusOf(error) ?? 500;
    sendError(response, status, error.message ?? 'scripted failure', error);
  }
}
