/** Goal: the fake of chat completions refuses what OpenAI's interface refuses. Method: each rule is broken once by hand. */
import { expect, it } from 'vitest';
import { fakeOpenAiCompatible, type WireBody } from '../../../src/testing/index.ts';

const ASK = { role: 'user', content: 'hi' };
const CALL = { id: 'call_1', type: 'function', function: { name: 'add', arguments: '{}' } };
const CALLS = { role: 'assistant', content: null, tool_calls: [CALL] };
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: '3' };
const ADD = { type: 'function', function: { name: 'add', parameters: { type: 'object' } } };

function body(...messages: readonly unknown[]): WireBody {
  return { model: 'm', messages: [ASK, ...messages], stream: true };
}

it('accepts calls with their results', async () => {
  const fake = fakeOpenAiCompatible({ script: ['ok'] });
  const response = await fake.fetch('http://local/v1/chat/completions', {
    method: 'POST',
    headers: { authorization: 'Bearer k' },
    body: JSON.stringify({ ...body(CALLS, RESULT), tools: [ADD] }),
  });
  expect(response.status).toBe(200);
  expect(fake.refusals).toEqual([]);
});

it.each([
  ['C01', { ...body(), thinking: {} }],
  ['C01', body({ role: 'user', content: 'x', origin: {} })],
  ['C02', { ...body(), model: '' }],
  ['C02', { ...body(), messages: [] }],
  ['C02', body({ role: 'model', content: 'x' })],
  ['C03', body(RESULT)],
  ['C03', body(CALLS, RESULT, RESULT)],
  ['C04', body(CALLS)],
  ['C04', body(CALLS, ASK)],
  [
    'C05',
    body({ ...CALLS, tool_calls: [{ ...CALL, id: 'c'.repeat(41) }] }, { ...RESULT, tool_call_id: 'c'.repeat(41) }),
  ],
  ['C06', body({ role: 'assistant', content: null })],
  ['C07', body(CALLS, { ...RESULT, content: [{ type: 'image_url', image_url: { url: 'x' } }] })],
  ['C08', body({ role: 'user', content: [{ type: 'image', source: {} }] })],
  ['C09', body({ ...CALLS, tool_calls: [{ ...CALL, function: { name: 'add', arguments: '{' } }] }, RESULT)],
  ['C10', { ...body(), tools: [{ type: 'function', function: { name: 'a b' } }] }],
  ['C10', { ...body(), tools: [{ type: 'function', function: { name: 'add', parameters: { type: 'string' } } }] }],
  ['C11', { ...body(), tools: [ADD], tool_choice: { type: 'function', function: { name: 'other' } } }],
  ['C12', { ...body(), stop: ['a', 'b', 'c', 'd', 'e'] }],
  [
    'C13',
    { ...body(), response_format: { type: 'json_schema', json_schema: { strict: true, schema: { type: 'object' } } } },
  ],
])('%s refuses %j', async (rule, wrong) => {
  const fake = fakeOpenAiCompatible({ script: ['never'] });
  const response = await fake.fetch('http://local/v1/chat/completions', {
    method: 'POST',
    headers: { authorization: 'Bearer k' },
    body: JSON.stringify(wrong),
  });
  expect(response.status).toBe(400);
  expect(fake.refusals[0]?.rule).toBe(rule);
});
