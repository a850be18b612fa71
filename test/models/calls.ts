/** Helpers shared by the tests of models: a request, a context, an answer to inspect. */

import type {
  GenerateContext,
  ModelDelta,
  ModelProvider,
  ModelRequest,
  ModelResponse,
} from '../../src/models/provider.ts';
import { type StrictFake, type StrictFakeOptions, strictFake } from '../../src/testing/strict-fake.ts';

/** A legal request with one user message. */
export function ask(text: string = 'Hello', changes: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: 'claude-opus-4-6',
    max_tokens: 1_000,
    messages: [{ role: 'user', content: text }],
    ...changes,
  };
}

/** A context that keeps the deltas. */
export function context(
  session: string = 's',
  signal: GenerateContext['signal'] = new AbortController().signal,
): GenerateContext & {
  readonly deltas: ModelDelta[];
} {
  const deltas: ModelDelta[] = [];
  return { session, signal, deltas, onDelta: (delta) => deltas.push(delta) };
}

/** The text of an answer. */
export function textOf(response: ModelResponse): string {
  return response.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

/** Runs one call and returns its error. Fails if there is none. */
export async function failure(provider: ModelProvider, request: ModelRequest = ask()): Promise<unknown> {
  try {
    await provider.generate(request, context());
  } catch (error) {
    return error;
  }
  throw new Error('the call did not fail');
}

/** Runs `body` against a fake server and closes it. */
export async function withFake(options: StrictFakeOptions, body: (fake: StrictFake) => Promise<void>): Promise<void> {
  const fake = await strictFake(options);
  try {
    await body(fake);
  } finally {
    await fake.close();
  }
}
