/** Requests to the server of the page. `wire.ts` checks every answer before it is used. */
import type { Message, Pending } from '../../base/messages.ts';
import { LIST_PAGE_SESSIONS, MESSAGES_PAGE, REQUEST_TIMEOUT_MS, WAITING_CALLS_SHOWN } from '../bounds.ts';
import {
  type ListedSession,
  listOf,
  type ReadMetrics,
  type RequestReport,
  readAnswered,
  readDecided,
  readDetail,
  readExplanation,
  readMessages,
  readMetrics,
  readPendingList,
  readProblem,
  readRequest,
  readSessions,
  readViewport,
  readWaiting,
  recordOf,
  type SessionDetail,
  type WaitingPage,
  type WireRecord,
} from '../wire.ts';
import { noteServerDate } from './server-clock.ts';

/** The error of a request that was refused or did not reach a server. `status` 0: there was no answer. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.code = code;
  }
}

/** The ways to deliver a message to a busy session. */
export type Delivery = 'ride' | 'steer' | 'turn' | 'interrupt' | 'merge' | 'latest' | 'reject';

/**
 * The requests of the page. Every method rejects with `ApiError` or `WireError`. It rejects with a `TimeoutError` if
 * the time limit is reached while the answer is read.
 */
export interface Api {
  info(): Promise<WireRecord>;
  metrics(): Promise<ReadMetrics>;
  sessions(after: string | undefined): Promise<{ readonly sessions: readonly ListedSession[]; readonly next?: string }>;
  session(id: string): Promise<SessionDetail>;
  messages(
    id: string,
    after: number,
    limit?: number,
  ): Promise<{ readonly messages: readonly Message[]; readonly isLast: boolean }>;
  viewport(id: string): Promise<readonly Message[]>;
  pending(id: string): Promise<readonly Pending[]>;
  request(id: string): Promise<RequestReport>;
  /** The oldest calls that wait for a person. `session`: only the calls of this session and its descendants. */
  waiting(session?: string): Promise<WaitingPage>;
  explain(id: string): Promise<{ readonly reason: string; readonly detail: string }>;
  send(id: string, content: string, deliver: Delivery): Promise<void>;
  /** Sends `interrupt`, `pause` or `resume` to a session. */
  command(id: string, command: 'interrupt' | 'pause' | 'resume'): Promise<void>;
  recall(id: string, pendingId: number): Promise<void>;
  /** Decides about a call. Resolves to false if the call no longer waits for a decision, or was decided differently. */
  approve(id: string, callId: string, allow: boolean, reason: string | undefined): Promise<boolean>;
  /** Answers a question. Resolves to false if the call no longer asks anything, or was answered differently. */
  answer(id: string, callId: string, value: unknown): Promise<boolean>;
  /** Declines to answer a question. Resolves as `answer` does. */
  decline(id: string, callId: string): Promise<boolean>;
  remove(id: string): Promise<void>;
  /** The address and headers of an event stream. */
  stream(path: string): { readonly url: URL; readonly headers: Readonly<Record<string, string>> };
}

/** An API at `base`; `token` is called for each request. */
export function createApi(base: URL, token: () => string | undefined): Api {
  const headers = (): Record<string, string> => {
    const value = token();
    return value === undefined ? {} : { authorization: `Bearer ${value}` };
  };
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const init: RequestInit = {
      method,
      headers: body === undefined ? headers() : { ...headers(), 'content-type': 'application/json' },
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    let response: Response;
    try {
      response = await fetch(new URL(path, base), init);
    } catch (error) {
      throw unreachable(error);
    }
    noteServerDate(response.headers.get('date'));
    return await answerOf(response);
  };
  /** Reads all pages of a list as one answer: the first page, with the items of the other pages appended. */
  const whole = async (path: string, list: string): Promise<WireRecord> => {
    const { next: second, ...first } = recordOf(await call('GET', path), 'the page');
    const items = listOf(first[list], list).slice();
    for (let next = second; next !== undefined; ) {
      const page = recordOf(await call('GET', `${path}?after=${encodeURIComponent(String(next))}`), 'the page');
      items.push(...listOf(page[list], list));
      next = page['next'];
    }
    return { ...first, [list]: items };
  };
  const of = (id: string, rest = ''): string => `sessions/${encodeURIComponent(id)}${rest}`;
  return {
    info: async () => recordOf(await call('GET', 'info'), 'the information'),
    metrics: async () => readMetrics(await call('GET', 'metrics.json')),
    sessions: async (after) => {
      const query = new URLSearchParams({ order: 'id', limit: String(LIST_PAGE_SESSIONS) });
      if (after !== undefined) query.set('after', after);
      return readSessions(await call('GET', `sessions?${query}`));
    },
    session: async (id) => readDetail(await call('GET', of(id))),
    messages: async (id, after, limit = MESSAGES_PAGE) =>
      readMessages(await call('GET', of(id, `/messages?after=${after}&limit=${limit}`))),
    viewport: async (id) => readViewport(await whole(of(id, '/viewport'), 'messages')),
    pending: async (id) => readPendingList(await whole(of(id, '/pending'), 'pending')),
    request: async (id) => readRequest(await whole(of(id, '/request'), 'messages')),
    waiting: async (session) => {
      const query = new URLSearchParams({ limit: String(WAITING_CALLS_SHOWN) });
      if (session !== undefined) query.set('session', session);
      return readWaiting(await call('GET', `waiting?${query}`));
    },
    explain: async (id) => readExplanation(await call('GET', of(id, '/explain'))),
    send: async (id, content, deliver) => {
      await call('POST', of(id, '/messages'), { content, deliver });
    },
    command: async (id, command) => {
      await call('POST', of(id, `/${command}`), {});
    },
    recall: async (id, pendingId) => {
      await call('POST', of(id, '/recall'), { pendingId });
    },
    approve: async (id, callId, allow, reason) =>
      readDecided(
        await call('POST', of(id, '/approve'), { callId, allow, ...(reason === undefined ? {} : { reason }) }),
      ),
    answer: async (id, callId, value) => readAnswered(await call('POST', of(id, '/answer'), { callId, value })),
    decline: async (id, callId) => readAnswered(await call('POST', of(id, '/answer'), { callId, decline: true })),
    remove: async (id) => {
      await call('DELETE', of(id));
    },
    stream: (path) => ({ url: new URL(path, base), headers: headers() }),
  };
}

/** The error of a refused response. */
export async function refusal(response: Response): Promise<ApiError> {
  const { code, detail } = readProblem(await jsonOf(response));
  return new ApiError(
    response.status,
    code ?? `http_${response.status}`,
    detail ?? `the server answered ${response.status}`,
  );
}

/** The error for a request that did not reach a server. */
export function unreachable(cause: unknown): ApiError {
  const isLate = cause instanceof DOMException && cause.name === 'TimeoutError';
  const text = isLate ? 'the server did not answer in time' : 'the server cannot be reached';
  return new ApiError(0, isLate ? 'timeout' : 'unreachable', text, { cause });
}

async function answerOf(response: Response): Promise<unknown> {
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? undefined : await jsonOf(response);
}

/** The body as JSON; undefined if the body is not JSON. The caller then reports the missing members. */
async function jsonOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
