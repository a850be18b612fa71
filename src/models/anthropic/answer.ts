/** The body of an answer, read to its end and put together. Owns nothing: the call's deadline and signal are its caller's. */
import { MODEL_ENDING_MS_MAX } from '../../base/bounds.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { GenerateContext, ModelResponse } from '../provider.ts';
import { EventStreamParser } from './event-stream.ts';
import { ResponseAssembly } from './response-assembly.ts';

/** What reading needs of its call, and leaves there. */
export interface AnswerReading {
  /** Aborted by who asked, and by the deadline. */
  readonly signal: AbortSignal;
  readonly deadline: CallDeadline;
  /** What came of the answer; there once reading began, whole or not. */
  answer?: ResponseAssembly;
}

/**
 * Reads the answer of a call, whose events are told by `context.onDelta`. Rejects with `ModelError` for a stream that is broken or
 * ends too soon, and with what the platform throws when the connection does; never with part of an answer.
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
    // To the end, not to `message_stop`: a body left unread costs its connection.
    for await (const chunk of chunksOf(response, reading.signal)) {
      reading.deadline.heard();
      for (const event of parser.push(chunk)) assembly.accept(event.name, event.data);
      if (assembly.finished) reading.deadline.ending(MODEL_ENDING_MS_MAX);
    }
    for (const event of parser.end()) assembly.accept(event.name, event.data);
  } catch (error) {
    // Whole already: what went wrong after the answer is no failure of it.
    if (!assembly.finished) throw error;
  }
  return assembly.response();
}

/** The chunks of a body. They end at the signal, whether or not who sends them minds it. */
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
    // Left early, by what the parser threw, the rest is not waited for.
    cancel();
    signal.removeEventListener('abort', cancel);
  }
}
