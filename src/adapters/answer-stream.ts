/** What the adapters that answer a browser share: the message a request brings, and a body of server-sent events. */
import { asError } from '../base/errors.ts';
import type { UserContent } from '../base/messages.ts';
import { Receipt, type SendOptions, type Session } from '../index.ts';

/** What an adapter follows: a message that was accepted, or one to be sent. */
export type TurnSource = Receipt | UserContent | ({ readonly content: UserContent } & SendOptions);

/** The receipt to follow. Rejects as `session.send` does. */
export async function receiptOf(session: Session, source: TurnSource): Promise<Receipt> {
  if (source instanceof Receipt) return source;
  if (typeof source === 'string' || !('content' in source)) return session.send(source);
  const { content, ...options } = source;
  return session.send(content, options);
}

/** Bytes of server-sent events of a protocol's own pieces. `fail` makes the last ones of an error in reading. */
export function eventStream(
  pieces: AsyncIterator<string, unknown>,
  fail: (error: Error) => readonly string[],
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await pieces.next();
        if (done === true) controller.close();
        else controller.enqueue(encoder.encode(sse(value)));
      } catch (thrown) {
        for (const text of fail(asError(thrown))) controller.enqueue(encoder.encode(sse(text)));
        controller.close();
      }
    },
    // The client is gone: nobody reads any more, and the session goes on.
    async cancel() {
      await pieces.return?.();
    },
  });
}

/** Headers of every such answer. */
export const STREAM_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
});

function sse(data: string): string {
  return `data: ${data}\n\n`;
}
