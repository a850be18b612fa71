/**
 * The parts that the fakes of other vendors' wires (HTTP APIs) share. A fake is a `fetch` function that answers from a
 * script, and refuses what the rules of the wire refuse. A fake opens no port.
 *
 * Owns: the position in the script, the requests and refusals so far. Does not own: the rules, the form of answers.
 *
 * - W1 A request that breaks a rule is answered with status 400 in the vendor's words, and uses up no reply of the
 *   script.
 * - W2 Replies of a list are taken in the order of arrival, over all callers.
 * - W3 The same requests in the same order get the same bytes.
 */
import { type Clock, systemClock } from '../../base/clock.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { statusOf } from '../../models/model-error.ts';
import type { ModelResponse } from '../../models/provider.ts';
import { isReplyError, responseOf } from '../../models/script/player.ts';
import { checkReply, type Reply, type ReplyError } from '../../models/script/script.ts';

/** The body of a request as it was sent. */
export type WireBody = Readonly<Record<string, unknown>>;

/**
 * The answers of a fake: a list, or a function of the body and of the number of earlier calls. A reply has the form of
 * the script language (`scripted`).
 */
export type WireScript = readonly Reply[] | ((body: WireBody, call: number) => Reply | Promise<Reply>);

/** The options of a fake. */
export interface WireFakeOptions {
  readonly script: WireScript;
  /** The clock that times `delayMs` of replies. Default: the machine's clock. */
  readonly clock?: Clock;
}

/** A broken rule of a wire: its id, the place in the body, and the vendor's words. */
export interface WireRefusal {
  readonly rule: string;
  readonly path: string;
  readonly message: string;
  /** The vendor's own code of the error. */
  readonly code?: string;
}

/** A fake of a vendor's wire. */
export interface WireFake {
  /** The function that a provider is given in place of `fetch`. */
  readonly fetch: typeof globalThis.fetch;
  /** The bodies of all requests, oldest first; the newest 10,000. */
  readonly requests: readonly WireBody[];
  /** The refusals, oldest first, each with the number of its request from 0; at most 10,000. */
  readonly refusals: readonly (WireRefusal & { readonly request: number })[];
}

/** Adds a refusal. */
export type Refuse = (rule: string, path: string, message: string, code?: string) => void;

/** One request of a wire. */
export interface WireCall {
  readonly body: WireBody;
  readonly path: string;
  readonly headers: Headers;
}

/** The parts of a fake that differ between the wires. */
export interface Wire {
  /** True if the wire serves this path. */
  readonly serves: (path: string) => boolean;
  /** The model of a request. */
  readonly modelOf: (call: WireCall) => string;
  /** True if the request has a key. */
  readonly hasKey: (headers: Headers) => boolean;
  /** Reports every rule that a request breaks. */
  readonly check: (call: WireCall, refuse: Refuse) => void;
  /** The texts of an answer's stream. `number`: the number of the request, for ids. */
  readonly stream: (response: ModelResponse, call: WireCall, number: number) => readonly string[];
  /** The body of an error. */
  readonly errorBody: (status: number, message: string, refusal?: WireRefusal) => unknown;
}

const KEPT_MAX = 10_000;

/** Makes the fake of a wire. Throws `ConfigError` for a script that is neither a list nor a function. */
export function createWireFake(wire: Wire, options: WireFakeOptions): WireFake {
  const { script } = options;
  if (!Array.isArray(script) && typeof script !== 'function') {
    throw new ConfigError(`script: expected a list of replies or a function; got ${describeValue(script)}`);
  }
  const model = new FakeWireModel(wire, options);
  return { fetch: (input, init) => model.answer(input, init), requests: model.requests, refusals: model.refusals };
}

class FakeWireModel {
  readonly requests: WireBody[] = [];
  readonly refusals: (WireRefusal & { readonly request: number })[] = [];
  readonly #wire: Wire;
  readonly #script: WireScript;
  readonly #clock: Clock;
  #arrived = 0;
  #played = 0;

  constructor(wire: Wire, { script, clock = systemClock }: WireFakeOptions) {
    this.#wire = wire;
    this.#script = script;
    this.#clock = clock;
  }

  async answer(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const request = new Request(input, init);
    const { signal } = request;
    signal.throwIfAborted();
    const path = new URL(request.url).pathname;
    if (!this.#wire.serves(path)) return this.#error(404, `Not found: ${path}`);
    if (!this.#wire.hasKey(request.headers)) return this.#error(401, 'No API key was provided.');
    const body: unknown = parse(await request.text());
    if (!isRecord(body)) return this.#error(400, 'We could not parse the JSON body of your request.');
    const number = this.#arrived;
    this.#arrived += 1;
    this.requests.push(body);
    if (this.requests.length > KEPT_MAX) this.requests.shift();
    const call = { body, path, headers: request.headers };
    const broken: WireRefusal[] = [];
    this.#wire.check(call, (rule, at, message, code) => {
      broken.push({ rule, path: at, message, ...(code === undefined ? {} : { code }) });
    });
    for (const refusal of broken) {
      if (this.refusals.length < KEPT_MAX) this.refusals.push({ ...refusal, request: number });
    }
    const [first] = broken;
    if (first !== undefined) return this.#error(400, first.message, first);
    return this.#reply(call, number, signal);
  }

  async #reply(call: WireCall, number: number, signal: AbortSignal): Promise<Response> {
    const played = this.#played;
    this.#played += 1;
    const given: unknown =
      typeof this.#script === 'function' ? await this.#script(call.body, played) : this.#script[played];
    if (given === undefined) return this.#error(400, `the script is exhausted after ${played} replies`);
    const reply = checkReply(given, `reply ${played}`);
    const delayMs = typeof reply === 'string' ? undefined : reply.delayMs;
    if (typeof delayMs === 'number' && delayMs > 0) await this.#wait(delayMs, signal);
    if (isReplyError(reply)) return this.#failure(reply);
    const model = this.#wire.modelOf(call);
    const asked = { model, max_tokens: 1, messages: [{ role: 'user', content: JSON.stringify(call.body) }] } as const;
    const response = responseOf(reply, asked, { session: '', call: played }, () => 'signed');
    const text = this.#wire.stream(response, call, number).join('');
    return new Response(text, { status: 200, headers: { 'content-type': 'text/event-stream' } });
  }

  #failure({ error }: ReplyError): Response {
    const status = statusOf(error) ?? 500;
    const headers = error.retryAfterMs === undefined ? {} : { 'retry-after-ms': String(error.retryAfterMs) };
    return this.#error(status, error.message ?? `scripted failure (${status})`, undefined, headers);
  }

  #error(status: number, message: string, refusal?: WireRefusal, headers: Record<string, string> = {}): Response {
    const body = this.#wire.errorBody(status, message, refusal);
    return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
  }

  #wait(delayMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#clock.clearTimer(timer);
        reject(signal.reason);
      };
      const timer = this.#clock.setTimer(() => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      }, delayMs);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One event of a stream. */
export function eventOf(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}

/** The members of a list that are objects, each with its index. The caller reports members that are not objects. */
export function recordsOf(list: unknown): readonly (readonly [Readonly<Record<string, unknown>>, number])[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((each: unknown, place) => (isRecord(each) ? [[each, place] as const] : []));
}

/** The characters of one delta of a stream. */
const DELTA_CHARACTERS = 24;

/** A text in pieces, none of which splits a surrogate pair. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const character of text) {
    piece += character;
    if (piece.length < DELTA_CHARACTERS) continue;
    pieces.push(piece);
    piece = '';
  }
  return piece === '' ? pieces : [...pieces, piece];
}
