/**
 * Reads the body of an answer to its end and assembles it. Owns nothing: the caller owns the call's deadline and
 * signal.
 */
import { MODEL_ENDING_MS_MAX } from '../../base/bounds.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { GenerateContext, ModelResponse } from '../provider.ts';
import { EventStreamParser } from './event-stream.ts';
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
 * Reads the answer of a call and passes its deltas to `context.onDelta`. Rejects with `ModelError` when the stream is
 * broken or ends too soon. Rejects with the platform's error when the connection fails. Never resolves with part of an
 * answer.
 */
export async function readAnswer(
  response: Response,
  context: Pick<GenerateContext, 'onDelta'>,
  reading: AnswerReading,
): Promise<ModelResponse> {
  const assembly = new ResponseAssembly(context.onDelta);
  reading.answer = assembly;
  const parser = new EventStreamParser();
  try {
    // Reads to the end and not only to `message_stop`, because a connection whose body was not read to its end is not
    // reused.
    for await (const chunk of chunksOf(response, reading.signal)) {
      reading.deadline.heard();
      for (const event of parser.push(chunk)) assembly.accept(event.name, event.data);
      if (assembly.finished) reading.deadline.ending(MODEL_ENDING_MS_MAX);
    }
    for (const event of parser.end()) assembly.accept(event.name, event.data);
  } catch (error) {
    // If the answer is complete, an error after it does not fail the call.
    if (!assembly.finished) throw error;
  }
  return assembly.response();
}

/** The chunks of a body. They end when the signal aborts, even if the sender ignores it. */
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
