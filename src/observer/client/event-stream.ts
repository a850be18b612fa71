/**
 * A stream of events that reconnects. It uses `fetch` for two things that `EventSource` cannot do: send the token in a
 * header, and distinguish a refusal from a lost connection.
 *
 * Owns: one connection at a time, the id of the last event. Does not own: the meaning of events.
 *  S1 Each attempt after a loss names the id of the last event, so that the server continues after that event.
 *  S2 A stream that is silent for `STREAM_SILENCE_MS` counts as lost, because a server sends pings more often than
 *   that.
 *  S3 A hidden page closes its connection, and reconnects when it is shown.
 *  S4 A refusal (4xx) ends the stream. A lost connection, an error of the server (5xx) and an overloaded server (408,
 *     429) lead to another attempt.
 */

import { type StreamEvent, streamEvents } from '../../client/stream-parser.ts';
import { HIDDEN_STREAM_MS, RECONNECT_MS, RECONNECT_MS_MAX, STREAM_SILENCE_MS } from '../bounds.ts';
import { ApiError, refusal, unreachable } from './api.ts';

/** The state of a stream. `retryAt`: epoch ms. */
export type StreamState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'lost'; readonly retryAt: number }
  | { readonly kind: 'refused'; readonly error: ApiError }
  | { readonly kind: 'closed' };

/** The options of a stream. */
export interface StreamOptions {
  /** Returns the address. Called at each attempt, because a token may have been entered since the last attempt. */
  readonly address: () => { readonly url: URL; readonly headers: Readonly<Record<string, string>> };
  /** Called for each event. Must not throw. */
  readonly onEvent: (event: StreamEvent) => void;
  /** Called at each change of state. `isBack`: true if the stream is live again after a loss. Must not throw. */
  readonly onState: (state: StreamState, isBack: boolean) => void;
}

/** An open stream. */
export interface EventStream {
  /** Ends the stream. No callback runs after the state `closed`. */
  close(): void;
  /** Retries now, if the stream waits to retry. */
  retry(): void;
}

/** Opens a stream. Never throws: every change is reported to `onState`. */
export function openStream(options: StreamOptions): EventStream {
  const ending = new AbortController();
  let lastId = '';
  let wake: (() => void) | undefined;
  let wasLive = false;
  const report = (state: StreamState): void => {
    if (ending.signal.aborted && state.kind !== 'closed') return;
    options.onState(state, state.kind === 'live' && wasLive);
    if (state.kind === 'live') wasLive = true;
  };
  const attempt = async (): Promise<void> => {
    const { url, headers } = options.address();
    const silence = watchSilence(ending.signal);
    const leave = whenHidden(silence.end);
    try {
      const response = await fetch(url, {
        headers: { accept: 'text/event-stream', ...headers, ...(lastId === '' ? {} : { 'last-event-id': lastId }) },
        cache: 'no-store',
        signal: silence.signal,
      });
      if (!response.ok || response.body === null) throw await refusal(response);
      report({ kind: 'live' });
      for await (const event of streamEvents(response.body, silence.heard)) {
        if (event.id !== '') lastId = event.id;
        if (!ending.signal.aborted) options.onEvent(event);
      }
    } finally {
      leave();
      silence.stop();
    }
  };
  const run = async (): Promise<void> => {
    let waitMs = RECONNECT_MS;
    report({ kind: 'connecting' });
    while (!ending.signal.aborted) {
      await seen(ending.signal);
      if (ending.signal.aborted) return;
      const startedAt = Date.now();
      try {
        await attempt();
      } catch (thrown) {
        const error = thrown instanceof ApiError ? thrown : unreachable(thrown);
        if (isRefusal(error.status)) {
          report({ kind: 'refused', error });
          return;
        }
      }
      if (ending.signal.aborted) return;
      // After a connection that lasted a while, the next loss starts with the shortest wait.
      if (Date.now() - startedAt > RECONNECT_MS_MAX) waitMs = RECONNECT_MS;
      report({ kind: 'lost', retryAt: Date.now() + waitMs });
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      waitMs = Math.min(RECONNECT_MS_MAX, waitMs * 2);
    }
  };
  run().catch((error: unknown) =>
    report({ kind: 'refused', error: new ApiError(0, 'internal', String(error), { cause: error }) }),
  );
  return {
    close() {
      ending.abort();
      wake?.();
      report({ kind: 'closed' });
    },
    retry: () => wake?.(),
  };
}

/** Calls `end` once the page has been hidden for `HIDDEN_STREAM_MS`. The returned function cancels the call. */
function whenHidden(end: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onChange = (): void => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(end, HIDDEN_STREAM_MS);
  };
  document.addEventListener('visibilitychange', onChange);
  onChange();
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onChange);
  };
}

/** Resolves when the page is visible, or when `ending` fires. */
function seen(ending: AbortSignal): Promise<void> {
  if (!document.hidden || ending.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const onChange = (): void => {
      if (document.hidden && !ending.aborted) return;
      document.removeEventListener('visibilitychange', onChange);
      ending.removeEventListener('abort', onChange);
      resolve();
    };
    document.addEventListener('visibilitychange', onChange);
    ending.addEventListener('abort', onChange);
  });
}

function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** A signal that fires when `ending` fires, or after `STREAM_SILENCE_MS` without a call of `heard`. */
function watchSilence(ending: AbortSignal): {
  readonly signal: AbortSignal;
  readonly end: () => void;
  heard(): void;
  stop(): void;
} {
  const controller = new AbortController();
  const onEnd = (): void => controller.abort();
  let timer = setTimeout(onEnd, STREAM_SILENCE_MS);
  ending.addEventListener('abort', onEnd, { once: true });
  if (ending.aborted) controller.abort();
  return {
    signal: controller.signal,
    end: onEnd,
    heard() {
      clearTimeout(timer);
      timer = setTimeout(onEnd, STREAM_SILENCE_MS);
    },
    stop() {
      clearTimeout(timer);
      ending.removeEventListener('abort', onEnd);
      controller.abort();
    },
  };
}
