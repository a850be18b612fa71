/**
 * Sends the requests of sessions over message threads (`thread-rule.ts`). `MessageThreads` keeps the end of each
 * session's thread. If the API refuses to continue a thread, the whole request is sent. Each provider object has one
 * `MessageThreads`.
 *
 * Owns: the ends of the threads, the sessions without threads. Does not own: the rule (`thread-rule.ts`), the
 * connection.
 *
 * - T1 An end is removed before the request that continues it is sent, because the API continues each answer only once.
 *   So a call that fails, or that is cancelled, leaves no end behind.
 * - T2 Only the newest call of a session leaves an end: a cancelled call may be answered after the next one began.
 * - T3 A lost end costs one whole request. Nothing here is durable.
 * - T4 A call sends at most three requests: one that continues, one that creates, one without a thread.
 */
import { MESSAGE_THREADS_MAX } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { ModelError } from '../../base/errors.ts';
import type { ModelRequest, ModelResponse, SentRequest, ThreadStep } from '../provider.ts';
import { RecentMap } from '../recent-map.ts';
import { anchorAfter, decideThread, isThreadable, stepAfterRefusal, type ThreadAnchor } from './thread-rule.ts';

/** The newest call of a session, and the end of the thread that it left. */
interface LatestCall {
  readonly anchor?: ThreadAnchor;
}

/** See the head of the file. */
export class MessageThreads {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #latest: RecentMap<LatestCall>;
  /** Pairs of model and session for which the API keeps no thread. */
  readonly #unsupported: RecentMap<true>;

  /** `sizeMax`: the most sessions remembered. */
  constructor(clock: Pick<Clock, 'monotonic'>, sizeMax: number = MESSAGE_THREADS_MAX) {
    this.#clock = clock;
    this.#latest = new RecentMap(sizeMax);
    this.#unsupported = new RecentMap(sizeMax);
  }

  /**
   * Makes a session's call with `send`, which gets the request with its `transport.thread`. `account` returns a
   * text that differs for other credentials. If the API refuses the thread, the call is repeated with a whole request.
   * Rejects with the error of the last `send`.
   */
  async call(
    request: ModelRequest,
    { session, account }: { readonly session: string; readonly account: () => string },
    send: (request: ModelRequest) => Promise<ModelResponse>,
  ): Promise<ModelResponse> {
    const key = `${request.model} ${session}`;
    if (!isThreadable(request) || this.#unsupported.get(key) === true) return send(request);
    const owner = account();
    const anchor = this.#latest.get(session)?.anchor;
    const call: LatestCall = {};
    this.#latest.put(session, call);
    let step: ThreadStep | 'none' = decideThread(anchor, request, owner, this.#clock.monotonic());
    let code: string | undefined;
    for (;;) {
      const sentAtMs = this.#clock.monotonic();
      try {
        const response = await send(step === 'none' ? request : withThread(request, step));
        const end = step === 'none' ? undefined : anchorAfter(request, response, owner, sentAtMs);
        if (end !== undefined && this.#latest.get(session) === call) this.#latest.put(session, { anchor: end });
        return { ...response, sent: { ...response.sent, ...outcomeOf(step, code) } };
      } catch (error) {
        const refusal = error instanceof ModelError ? error.data['errorCode'] : undefined;
        const next: ThreadStep | 'none' | undefined = step === 'none' ? undefined : stepAfterRefusal(step, refusal);
        if (next === undefined) throw error;
        if (next === 'none') this.#unsupported.put(key, true);
        step = next;
        code = String(refusal);
      }
    }
  }
}

function withThread(request: ModelRequest, thread: ThreadStep): ModelRequest {
  return { ...request, transport: { ...request.transport, thread } };
}

function outcomeOf(step: ThreadStep | 'none', code: string | undefined): SentRequest {
  if (code !== undefined) return { thread: step === 'none' ? 'refused' : 'replayed', code };
  return { thread: step !== 'none' && step.kind === 'continue' ? 'continued' : 'created' };
}
