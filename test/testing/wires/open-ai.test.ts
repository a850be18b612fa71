/** Goal: the fake of the Responses API refuses what the API refuses. Method: each rule is broken once by hand. */
import { expect, it } from 'vitest';
import { fakeOpenAi, type WireBody } from '../../../src/testing/index.ts';

const USER = { role: 'user', content: [{ type: 'input_text', text: 'hi' }] };
const CALL = { type: 'function_call', call_id: 'call_1', name: 'add', arguments: '{}' };
const OUTPUT = { type: 'function_call_output', call_id: 'call_1', output: '3' };
const ADD = { type: 'function', name: 'add', parameters: { type: 'object', properties: {} } };

async function post(fake: ReturnType<typeof fakeOpenAi>, body: WireBody): Promise<Response> {
  return fake.fetch('https://api.openai.com/v1/responses', {
    method: 'POST',
    headers: { authorization: 'Bearer test' },
    body: JSON.stringify(body),
  });
}

function body(...input: readonly unknown[]): WireBody {
  return { model: 'gpt-5.5', input: [USER, ...input], stream: true };
}

it('accepts calls with their outputs', async () => {
  const fake = fakeOpenAi({ script: ['ok'] });
  expect((await post(fake, { ...body(CALL, OUTPUT), tools: [ADD] })).status).toBe(200);
  expect(fake.refusals).toEqual([]);
});

it.each([
  ['O01', { ...body(), stop: ['x'] }],
  ['O01', body({ ...CALL, toolName: 'x' }, OUTPUT)],
  ['O02', { ...body(), model: '' }],
  ['O02', { ...body(), input: [] }],
  ['O02', body({ type: 'thinking' })],
  ['O02', body('text')],
  ['O03', body({ role: 'user', content: [{ type: 'output_text', text: 'x' }] })],
  ['O03', body({ role: 'assistant', content: [{ type: 'input_text', text: 'x' }] })],
  ['O04', body(OUTPUT)],
  ['O05', body(CALL)],
  ['O06', body({ ...CALL, call_id: 'c'.repeat(65) }, { ...OUTPUT, call_id: 'c'.repeat(65) })],
  ['O07', body({ type: 'reasoning', id: 'rs_9', summary: [] })],
  ['O07', body({ type: 'reasoning', id: 'rs_9', summary: [] }, USER)],
  ['O09', body({ type: 'item_reference', id: 'msg_9' })],
  ['O10', body({ type: 'reasoning', id: 'rs_9', summary: [], encrypted_content: 'forged' }, CALL, OUTPUT)],
  ['O11', body({ ...CALL, id: 'call_1' }, OUTPUT)],
  [
    'O11',
    body({ ...CALL, id: 'fc_1' }, OUTPUT, { ...CALL, id: 'fc_1', call_id: 'call_2' }, { ...OUTPUT, call_id: 'call_2' }),
  ],
  ['O12', body({ role: 'user', content: [{ type: 'input_image', image_url: 'file:///x.png' }] })],
  ['O13', { ...body(), tools: [{ ...ADD, name: 'a b' }] }],
  ['O13', { ...body(), tools: [{ ...ADD, parameters: {} }] }],
  ['O14', { ...body(), tools: [{ ...ADD, strict: true }] }],
  ['O15', { ...body(), tools: [ADD], tool_choice: { type: 'function', name: 'other' } }],
  ['O16', { ...body(), max_output_tokens: 15 }],
])('%s refuses %j', async (rule, wrong) => {
  const fake = fakeOpenAi({ script: ['never'] });
  const response = await post(fake, wrong);
  expect(response.status).toBe(400);
  expect(fake.refusals[0]?.rule).toBe(rule);
});

it('O08 refuses an item without the reasoning that was before it', async () => {
  const fake = fakeOpenAi({ script: [{ thinking: 'hm', text: 'yes' }, 'never'] });
  await post(fake, body());
  const message = { role: 'assistant', id: 'msg_0_1', content: [{ type: 'output_text', text: 'yes' }] };
  expect((await post(fake, body(message, USER))).status).toBe(400);
  expect(fake.refusals).toMatchObject([{ rule: 'O08', request: 1 }]);
});

it('O09 refuses a reference to an item of a request without a store', async () => {
  const fake = fakeOpenAi({ script: ['yes', 'never'] });
  await post(fake, { ...body(), store: false });
  await post(fake, body({ type: 'item_reference', id: 'msg_0_0' }, USER));
  expect(fake.refusals).toMatchObject([{ rule: 'O09', message: /not persisted/ }]);
});

it('a request without a key is refused with 401', async () => {
  const fake = fakeOpenAi({ script: [] });
  const response = await fake.fetch('https://api.openai.com/v1/responses', { method: 'POST', body: '{}' });
  expect(response.status).toBe(401);
});
