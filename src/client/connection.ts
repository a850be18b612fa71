/**
 * `Connection`: sends requests to a server, and reads event streams that connect again after a loss.
 *
 *  N1 A request that only reads is repeated, with growing waits, while no server answers or the server cannot answer
 *     now. Any other request is made once; its caller may repeat it with the same key.
 *  N2 A lost stream connects again and continues after the last event that it read. A stream ends when its signal fires
 *     or the server refuses the request.
 */
import { RECONNECT_MS, RECONNECT_MS_MAX, STREAM_SILENCE_MS } from './bounds.ts';
import { ClientError, parsed, problemError, refusal, unreachable } from './errors.ts';
import { streamEvents } from './stream-parser.ts';

/** Options of a client. */
export interface ClientOptions {
  /** Address of the server, or of the path where its handler is mounted. */
  readonly url: string | URL;
  /**
   * The server's token, or a function that is called for each request and returns the present token. Default: no token.
   */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>);
  /** Default: the global `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Options of every request. `signal` gives up the request. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Options of a stream of events. */
export interface StreamOptions extends RequestOptions {
  /**
   * Called when the stream connects again after a lost connection. After that, the text that a running model call has
   * written comes again from its beginning.
   */
  readonly onReconnect?: () => void;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** See the head of the file. */
export class Connection {
  readonly #base: string;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    const url = String(options.url);
    this.#base = url.endsWith('/') ? url : `${url}/`;
    this.#options = options;
  }

  /** Makes a request that only reads. Rejects with `ClientError`, or with the reason of the signal. */
  async get<T>(path: string, query: Query = {}, { signal }: RequestOptions = {}): Promise<T> {
    const waits = new Waits(signal);
    for (;;) {
      try {
        return (await this.#json('GET', withQuery(path, query), undefined, signal)) as T;
      } catch (error) {
        if (!isPassing(error)) throw error;
        await waits.pause(error);
      }
    }
  }

  /** Makes a request that changes something. Rejects as `get` does. */
  async post<T>(path: string, body: object, { signal }: RequestOptions = {}): Promise<T> {
    return (await this.#json('POST', path, body, signal)) as T;
  }

  /** Makes a request that deletes something. Rejects as `get` does. */
  async remove<T>(path: string, { signal }: RequestOptions = {}): Promise<T> {
    return (await this.#json('DELETE', path, undefined, signal)) as T;
  }

  /**
   * The data of the events of a stream, as JSON values. `after`: the seq of the last event that the caller has read.
   */
  async *events<T>(
    path: string,
    query: Query,
    after: number | undefined,
    { signal, onReconnect }: StreamOptions = {},
  ): AsyncGenerator<T> {
    let lastId = after;
    const waits = new Waits(signal);
    for (let isFirst = true; ; isFirst = false) {
      const silence = new Silence(signal);
      let failure: unknown;
      try {
        const headers = lastId === undefined ? {} : { 'last-event-id': String(lastId) };
        const init = { method: 'GET', headers: { accept: 'text/event-stream', ...headers } };
        const response = await this.#fetch(withQuery(path, query), { ...init, signal: silence.signal });
        if (response.body === null) throw new ClientError('protocol', 'the server sent no stream', { status: 200 });
        if (!isFirst) onReconnect?.();
        for await (const { type, data, id } of streamEvents(response.body, () => silence.heard())) {
          if (type === 'problem') throw problemError(parsed(data));
          if (id !== '') lastId = Number(id);
          waits.reset();
          yield parsed(data) as T;
        }
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof ClientError && !isPassing(error)) throw error;
        failure = error;
      } finally {
        silence.stop();
      }
      await waits.pause(failure);
    }
  }

  async #json(method: string, path: string, body: object | undefined, signal?: AbortSignal): Promise<unknown> {
    const init: RequestInit = { method, ...(signal === undefined ? {} : { signal }) };
    const sent =
      body === undefined
        ? init
        : { ...init, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    const response = await this.#fetch(path, sent);
    const value = parsed(await response.text());
    if (value === undefined && response.status !== 204) {
      throw new ClientError('protocol', 'the server sent something other than JSON', { status: response.status });
    }
    return value;
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    init.signal?.throwIfAborted();
    const { token, fetch: send = (url: string, given: RequestInit) => fetch(url, given) } = this.#options;
    const value = typeof token === 'function' ? await token() : token;
    const headers = new Headers(init.headers);
    if (value !== undefined) headers.set('authorization', `Bearer ${value}`);
    let response: Response;
    try {
      response = await send(`${this.#base}${path}`, { ...init, headers });
    } catch (error) {
      init.signal?.throwIfAborted();
      throw unreachable(this.#base, error);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

/** True if a later attempt may succeed: no server answered, or the server cannot answer now. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false;
  return error.code === 'unreachable' || error.status === 408 || error.status === 429 || error.status === 503;
}

/** The growing waits between attempts. */
class Waits {
  readonly #signal: AbortSignal | undefined;
  #waitMs = RECONNECT_MS;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  reset(): void {
    this.#waitMs = RECONNECT_MS;
  }

  /**
   * Waits as long as the server asks for, or else for the current wait. Doubles the next wait, up to
   * `RECONNECT_MS_MAX`. Rejects with the reason of the signal.
   */
  async pause(error?: unknown): Promise<void> {
    const asked = error instanceof ClientError ? error.retryAfterMs : undefined;
    const signal = this.#signal;
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      }, asked ?? this.#waitMs);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
    this.#waitMs = Math.min(RECONNECT_MS_MAX, this.#waitMs * 2);
  }
}

/** A signal that fires when another signal fires, or when the stream was silent for `STREAM_SILENCE_MS`. */
class Silence {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #onAbort = (): void => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout>;

  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer;
    this.#timer = setTimeout(() => this.#controller.abort(), STREAM_SILENCE_MS);
    outer?.addEventListener('abort', this.#onAbort, { once: true });
    if (outer?.aborted === true) this.#onAbort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(), STREAM_SILENCE_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#onAbort);
    this.#controller.abort();
  }
}

function withQuery(path: string, query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}
