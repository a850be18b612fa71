/**
 * Reads the body of an answer to its end and assembles it. Owns nothing: the caller owns the call's deadline and
 * signal.
 */
import type { IncomingMessage } from 'node:http';
import { MODEL_ENDING_MS_MAX } from '../../base/bounds.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { GenerateContext, ModelResponse } from '../provider.ts';
import { EventStreamParser } from './event-stream.ts';
import { incomingOf, networkFailure } from './http-fetch.ts';
import { ResponseAssembly } from './response-assembly.ts';

/** The part of a call that reading its answer uses and updates. */
export interface AnswerReading {
  /** A signal aborted by the caller and by the deadline. */
  readonly signal: AbortSignal;
  readonly deadline: CallDeadline;
  /** The answer as far as it was read, complete or not; set once reading begins. */
  answer?: ResponseAssembly;
}

/**
 * Reads the answer of a call, and passes its deltas and token counts to `context`. Rejects with `ModelError` when the
 * stream is broken or ends too soon. Rejects with the platform's error when the connection fails. Never resolves with
 * part of an answer.
 */
export async function readAnswer(
  response: Response,
  context: Pick<GenerateContext, 'onDelta' | 'onUsage'>,
  reading: AnswerReading,
): Promise<ModelResponse> {
  const assembly = new ResponseAssembly(context.onDelta, context.onUsage);
  reading.answer = assembly;
  const parser = new EventStreamParser((name, data) => assembly.accept(name, data));
  const take = (chunk: Uint8Array): void => {
    reading.deadline.heard();
    parser.push(chunk);
    if (assembly.finished) reading.deadline.ending(MODEL_ENDING_MS_MAX);
  };
  try {
    // Reads to the end and not only to `message_stop`, because a connection whose body was not read to its end is not
    // reused.
    const incoming = incomingOf(response);
    if (incoming !== undefined) await takeFromSocket(incoming, reading.signal, take);
    else for await (const chunk of chunksOf(response, reading.signal)) take(chunk);
    parser.end();
  } catch (error) {
    // If the answer is complete, an error after it does not fail the call.
    if (!assembly.finished) throw error;
  }
  return assembly.response();
}

/**
 * Takes the chunks of a body as the socket delivers them. Resolves at the end of the body, or when the signal aborts.
 * The abort closes the connection. Rejects if the connection fails, or if `take` throws.
 */
function takeFromSocket(
  incoming: IncomingMessage,
  signal: AbortSignal,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    let isOver = false;
    let hasEnded = false;
    const close = (): void => {
      isOver = true;
      incoming.destroy();
      resolve();
    };
    const fail = (error: Error): void => reject(networkFailure('terminated', error));
    incoming.on('data', (chunk: Uint8Array) => {
      // Chunks that the socket still delivers after the end of the call are not part of the answer.
      if (isOver) return;
      try {
        take(chunk);
      } catch (error) {
        reject(error);
        // The rest of the body is not read.
        close();
      }
    });
    incoming.on('end', () => {
      hasEnded = true;
      resolve();
    });
    incoming.on('error', fail);
    signal.addEventListener('abort', close, { once: true });
    incoming.on('close', () => {
      signal.removeEventListener('abort', close);
      // Every stream emits `close`, also after a complete body. The error is made only if it is needed, because making
      // its stack takes as long as handling ten events. After an `error` event, `fail` has no effect. If neither
      // `error` nor `end` was emitted, the connection was closed before the listeners were attached.
      if (!hasEnded && !isOver) fail(new Error('the connection was closed'));
    });
    if (signal.aborted) close();
    else if (incoming.destroyed) fail(incoming.errored ?? new Error('the connection was closed'));
  });
}

/** The chunks of a body. They end when the signal aborts, even if the sender ignores the signal. */
async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array, void, void> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const cancel = (): void => {
    reader.cancel().catch(() => {});
  };
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    // If the parser threw, the rest of the body is not read.
    cancel();
    signal.removeEventListener('abort', cancel);
  }
}
