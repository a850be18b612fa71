/** Goal: the fake of the Gemini API refuses what the API refuses. Method: each rule is broken once by hand. */
import { expect, it } from 'vitest';
import { fakeGemini, type WireBody, type WireFake } from '../../../src/testing/index.ts';

const ASK = { role: 'user', parts: [{ text: 'hi' }] };
const CALL = { functionCall: { name: 'add', args: {} }, thoughtSignature: 'skip_thought_signature_validator' };
const CALLS = { role: 'model', parts: [CALL] };
const RESPONSE = { functionResponse: { name: 'add', response: { content: '3' } } };
const RESPONSES = { role: 'user', parts: [RESPONSE] };

function post(fake: WireFake, body: WireBody, model = 'gemini-3-pro'): Promise<Response> {
  return fake.fetch(`https://generativelanguage.googleapis.com/v1beta/models/${model}:streamGenerateContent?alt=sse`, {
    method: 'POST',
    headers: { 'x-goog-api-key': 'k' },
    body: JSON.stringify(body),
  });
}

function tools(declaration: object): object {
  return { tools: [{ functionDeclarations: [{ name: 'add', ...declaration }] }] };
}

it('accepts calls with their responses', async () => {
  const fake = fakeGemini({ script: ['ok'] });
  expect((await post(fake, { contents: [ASK, CALLS, RESPONSES], ...tools({}) })).status).toBe(200);
  expect(fake.refusals).toEqual([]);
});

it.each([
  ['G01', { contents: [ASK], messages: [] }],
  ['G01', { contents: [{ ...ASK, name: 'x' }] }],
  ['G01', { contents: [{ role: 'user', parts: [{ text: 'x', cacheControl: 1 }] }] }],
  ['G02', { contents: [] }],
  ['G02', { contents: [{ role: 'user', parts: [] }] }],
  ['G03', { contents: [{ role: 'assistant', parts: [{ text: 'x' }] }, ASK] }],
  ['G04', { contents: [{ role: 'user', parts: [{}] }] }],
  [
    'G04',
    { contents: [{ role: 'user', parts: [{ text: 'x', inlineData: { mimeType: 'image/png', data: 'aGk=' } }] }] },
  ],
  ['G05', { contents: [ASK, { role: 'model', parts: [{ text: 'x' }] }, CALLS, RESPONSES] }],
  ['G06', { contents: [ASK, CALLS, { role: 'user', parts: [RESPONSE, RESPONSE] }] }],
  ['G06', { contents: [ASK, CALLS, ASK] }],
  ['G07', { contents: [ASK, RESPONSES] }],
  ['G08', { contents: [ASK, { role: 'model', parts: [{ functionCall: CALL.functionCall }] }, RESPONSES] }],
  ['G09', { contents: [ASK, { role: 'model', parts: [{ ...CALL, thoughtSignature: 'forged' }] }, RESPONSES] }],
  ['G10', { contents: [ASK, { role: 'model', parts: [{ text: 'x' }] }] }],
  ['G11', { contents: [ASK], ...tools({ name: '1 add' }) }],
  ['G12', { contents: [ASK], ...tools({ parameters: { type: 'object', additionalProperties: false } }) }],
  ['G12', { contents: [ASK], ...tools({ parameters: { type: 'object', properties: { a: { const: 1 } } } }) }],
  [
    'G13',
    {
      contents: [ASK],
      ...tools({}),
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['other'] } },
    },
  ],
  ['G14', { contents: [ASK], generationConfig: { responseSchema: { type: 'object' } } }],
  ['G15', { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: 'no base64!' } }] }] }],
])('%s refuses %j', async (rule, wrong) => {
  const fake = fakeGemini({ script: ['never'] });
  const response = await post(fake, wrong);
  expect(response.status).toBe(400);
  expect(fake.refusals[0]?.rule).toBe(rule);
});

it('G08 concerns the current turn of Gemini 3', async () => {
  const unsigned = { role: 'model', parts: [{ functionCall: CALL.functionCall }] };
  const fake = fakeGemini({ script: ['ok', 'ok'] });
  expect(
    (await post(fake, { contents: [ASK, unsigned, RESPONSES, { role: 'model', parts: [{ text: 'x' }] }, ASK] })).status,
  ).toBe(200);
  expect((await post(fake, { contents: [ASK, unsigned, RESPONSES] }, 'gemini-2.5-pro')).status).toBe(200);
});

it('G09 refuses a signature on another part than the one it was given with', async () => {
  const fake = fakeGemini({ script: [{ toolUse: { name: 'add', input: { a: 1 } } }, 'never'] });
  const text = await (await post(fake, { contents: [ASK] })).text();
  const signature = /"thoughtSignature":"([^"]+)"/.exec(text)?.[1];
  const call = { functionCall: { name: 'add', args: { a: 2 } }, thoughtSignature: signature };
  await post(fake, { contents: [ASK, { role: 'model', parts: [call] }, RESPONSES] });
  expect(fake.refusals).toMatchObject([{ rule: 'G09', request: 1 }]);
});
