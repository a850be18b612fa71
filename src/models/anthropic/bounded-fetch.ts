/**
 * Bounds the bodies that a `fetch` receives, for a client that reads some bodies whole (F76). A body may be a long
 * error page, or may decompress to much more than its size. Event streams are not bounded here; their reader counts the
 * bytes.
 */
import { ERROR_BODY_BYTES_MAX } from '../../base/bounds.ts';

/** `fetch` whose bodies, except event streams, end after `bytesMax` decoded bytes; the rest is not received. */
export function boundedFetch(fetch: FetchFunction, bytesMax: number = ERROR_BODY_BYTES_MAX): FetchFunction {
  return async (input, init) => {
    const response = await fetch(input, init);
    const isStream = response.ok && response.headers.get('content-type')?.includes('text/event-stream') === true;
    if (isStream || response.body === null) return response;
    const { status, statusText, headers } = response;
    return new Response(bounded(response.body, bytesMax), { status, statusText, headers: decodedHeaders(headers) });
  };
}

function bounded(body: ReadableStream<Uint8Array>, bytesMax: number): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let left = bytesMax;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (value !== undefined) controller.enqueue(value.subarray(0, left));
      left -= value?.byteLength ?? 0;
      if (left <= 0) await reader.cancel();
      if (done || left <= 0) controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** The headers for the bounded body. The bounded body is already decoded, and may be shorter. */
function decodedHeaders(headers: Headers): Headers {
  const kept = new Headers(headers);
  for (const name of ['content-encoding', 'content-length']) kept.delete(name);
  return kept;
}

/** A function like the platform's `fetch`. */
export type FetchFunction = typeof globalThis.fetch;
