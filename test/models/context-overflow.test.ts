import { describe, expect, it } from 'vitest';
import { CONTEXT_OVERFLOW } from '../../src/base/errors.ts';
import { modelErrorOf } from '../../src/models/model-error.ts';

describe('a refused prompt that does not fit', () => {
  it.each([
    'prompt is too long: 208310 tokens > 200000 maximum',
    'messages: 208,310 tokens > 200,000 maximum',
    'input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000',
    "This model's maximum context length is 131072 tokens.",
    'Your input exceeds the context window of this model.',
  ])('H57: %s', (message) => {
    const error = modelErrorOf({ status: 400, message });
    expect(error).toMatchObject({
      code: 'model_invalid_request',
      retryable: false,
      data: { reason: CONTEXT_OVERFLOW },
    });
  });

  it.each([
    [400, 'messages.3: `tool_use` ids were found without `tool_result` blocks'],
    [413, 'prompt is too long: 208310 tokens > 200000 maximum'],
    [429, 'This request would exceed the rate limit: 40000 tokens > 30000 per minute'],
    [400, 'max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens'],
  ])('%i %s is another error', (status, message) => {
    expect(modelErrorOf({ status, message }).data).not.toHaveProperty('reason');
  });
});
