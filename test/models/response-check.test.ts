/** Goal: an answer of another shape fails at once, and the error says which shape was expected. */
import { expect, test } from 'vitest';
import type { ModelProvider } from '../../src/index.ts';
import { MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

test.each([
  ['Hello', 'the provider answered string "Hello"'],
  [{ text: 'Hello' }, "the provider's content is undefined"],
  [{ content: 'Hello' }, "the provider's content is string"],
  [{ content: ['Hello'], stop_reason: 'end_turn' }, 'content.0 of the answer is string'],
  [
    { content: [{ type: 'text' }], stop_reason: 'end_turn' },
    'content.0.text of the answer, a block of type text, is undefined',
  ],
  [{ content: [], stop_reason: 1 }, "the provider's stop_reason is number 1"],
])('%j', async (answer, problem) => {
  for (const threads of MATRIX) {
    let calls = 0;
    const generate = async (): Promise<unknown> => {
      calls += 1;
      return answer;
    };
    const provider = { name: 'own', generate } as unknown as ModelProvider;
    const runtime = await kit.open({ threads, provider });
    const failed = runtime.session('s').ask('Hi');
    await expect(failed).rejects.toMatchObject({
      code: 'turn_failed',
      cause: { code: 'model_protocol', retryable: false, message: expect.stringContaining(problem) },
    });
    await expect(failed).rejects.toThrow("{ content: [{ type: 'text', text: 'Hi' }]");
    expect(calls).toBe(1);
    const { lastOutcome, lastError } = await runtime.session('s').state();
    expect([lastOutcome, lastError?.code]).toEqual(['failed', 'model_protocol']);
  }
});
