/** Goal: a question of a server ends the run of its call, and another run continues it. Method: real server processes. */
import { expect, test } from 'vitest';
import { MCP_QUESTION_BYTES_MAX } from '../../../src/base/bounds.ts';
import type { AnsweredElicitation, ElicitationResponse } from '../../../src/session/state/elicitation.ts';
import { questionOf } from '../../../src/tools/mcp/elicitation.ts';
import { resultOf } from '../../../src/tools/mcp/results.ts';
import type { ServerQuestion } from '../../../src/tools/server-question.ts';
import { effectsKit, type Stage, servicesKit, textOf } from './support.ts';

const effects = effectsKit();
const serving = servicesKit();

async function asked(answer: ReturnType<Stage['call']>): Promise<ServerQuestion> {
  const given = await answer;
  if ('question' in given) return given;
  throw new Error(`no question: ${JSON.stringify(given)}`);
}
const accepted = ({ elicitation }: ServerQuestion, euros: number): { readonly elicited: AnsweredElicitation } => {
  const response: ElicitationResponse = { action: 'accept', content: { euros } };
  return { elicited: { ...elicitation, response, round: 1 } };
};

test('a call asks with the schema and the state of its server, and continues with the answer', async () => {
  const recorded = await effects();
  const { call } = await serving({ s: recorded.asking() });
  const question = await asked(call('pay', { id: 'x' }));
  expect(question).toMatchObject({
    question: 'How much for x?',
    form: { schema: { properties: { euros: { type: 'integer', minimum: 1 } }, required: ['euros'] } },
    elicitation: { server: 's', key: 'amount', state: 'state of x' },
  });
  expect(await textOf(call('pay', { id: 'x' }, accepted(question, 7)))).toBe('paid 7, state of x');
  const declined = { ...question.elicitation, response: { action: 'decline' }, round: 1 } as const;
  expect(await textOf(call('pay', { id: 'x' }, { elicited: declined }))).toBe('decline');
  expect((await recorded.lines()).slice(1)).toEqual([
    'pay x k begins no state',
    'pay x k {"action":"accept","content":{"euros":7}} state of x',
    'pay x k {"action":"decline"} state of x',
  ]);
});

test('the result of a tool with a schema of its output is checked, unless it is a failure', () => {
  const schema = { type: 'object', properties: { paid: { type: 'number' } }, required: ['paid'] };
  const result = { content: [], structuredContent: { paid: 'x' } };
  expect(() => resultOf(result, schema)).toThrow('does not fit the schema of the tool: $.paid: must be number');
  expect(() => resultOf({ content: [] }, schema)).toThrow('no structured content');
  expect(resultOf({ content: [], isError: true }, schema)).toEqual({ blocks: [], isError: true });
});

test('a tool with a schema of its output asks too', async () => {
  const { call } = await serving({ s: (await effects()).asking() });
  const question = await asked(call('count', { id: 'x' }));
  expect(question.elicitation).toEqual({ server: 's', key: 'amount' });
  expect(await textOf(call('count', { id: 'x' }, accepted(question, 7)))).toBe('{"paid":7}');
});

test('a continuation that dies with its server has an unknown outcome', async () => {
  const recorded = await effects();
  const { call } = await serving({ s: recorded.asking() });
  const question = await asked(call('pay_and_die', { id: 'x' }));
  expect(await textOf(call('pay_and_die', { id: 'x' }, accepted(question, 7)))).toContain('Outcome unknown');
  expect((await recorded.lines()).filter((line) => line.includes('accept'))).toHaveLength(1);
});

test.each([
  ['several', 'several questions at once'],
  ['later', 'an answer that comes later'],
  ['blank', 'a question without a text'],
  ['nested', 'a question that does not have the form of the protocol'],
  ['long', 'a question of 20001 characters, of which 20000 are allowed'],
  ['large', `, of which ${MCP_QUESTION_BYTES_MAX} are allowed`],
])('%s: the result says what is not supported', async (tool, what) => {
  const { call } = await serving({ s: (await effects()).asking() });
  const answer = await call(tool);
  expect(answer).toMatchObject({ isError: true, blocks: [{ text: expect.stringContaining(what) }] });
});

test.each(['page', 'roots'])('%s: the server learns that it cannot ask for it, and the call fails', async (tool) => {
  const { call } = await serving({ s: (await effects()).asking() });
  await expect(call(tool)).rejects.toThrow('do not declare the required capability');
});

test.each([
  [{ method: 'elicitation/create', params: { mode: 'url', message: 'Go', url: 'http://host/', elicitationId: 'e' } }],
  [{ method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } }],
  [{ method: 'roots/list' }],
  [{ method: 7 }],
  [{}],
  ['text'],
  [null],
])('%j of a server that asks for it all the same is not supported', (request) => {
  const inputRequests = { a: request } as never;
  expect(questionOf('s', { resultType: 'input_required', inputRequests })).toMatchObject({ isError: true });
});

test('a server of the older era is answered with a cancellation, and continues no call', async () => {
  const { call } = await serving({ s: (await effects()).asking('--era', 'legacy') });
  expect(await textOf(call('pay', { id: 'x' }))).toBe('cancel');
  const elicited = { server: 's', key: 'amount', response: { action: 'decline' }, round: 1 } as const;
  await expect(call('pay', { id: 'x' }, { elicited })).rejects.toThrow('now speaks a protocol without questions');
});
