/** Goal: each route does what it documents, over real HTTP, and answers in the documented form. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { LOOP_PIECE_BYTES_MIN } from '../../src/base/bounds.ts';
import { agent, checkRequest, tool } from '../../src/index.ts';
import * as answers from '../../src/server/answers.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { askHuman } from '../../src/tools/built-in/index.ts';
import { eventually, gatedModel, log } from '../support/runtime-kit.ts';
import { type Answer, echo, serverKit } from './support.ts';

const kit = serverKit();

/** The body of an answer, checked by the documented schema of its route. */
function as<T = Record<string, unknown>>(schema: z.ZodType, body: unknown): T {
  return schema.parse(body) as T;
}

/** The target of an answer's link, relative to the requested address. */
function pointed(answer: Answer, asked: string): string {
  return new URL(answer.headers.get('location') ?? '', asked).href;
}

describe('sessions', () => {
  test('a session is created once: 201, then 200; it is listed and can be read', async () => {
    const { url, post, get } = await kit.serve({ agents: [agent({ name: 'a' }), agent({ name: 'b' })] });
    const made = await post('/sessions', { id: 'user:42', agent: 'b' });
    expect([made.status, pointed(made, `${url}/sessions`)]).toEqual([201, `${url}/sessions/user%3A42`]);
    expect(as(answers.session, made.body)).toMatchObject({ id: 'user:42', agent: 'b', state: 'idle', mailbox: 0 });
    const refused = await post('/sessions', { id: 'user:42', agent: 'a' });
    expect([refused.status, refused.body]).toEqual([409, expect.objectContaining({ code: 'agent_mismatch' })]);
    const again = await post('/sessions', { id: 'user:42' });
    expect(again.status).toBe(200);
    expect(as(answers.session, again.body)).toMatchObject({ agent: 'b' });
    const read = await get('/sessions/user%3A42');
    expect(as(answers.session, read.body)).toMatchObject({ id: 'user:42', children: [], seq: expect.any(Number) });
    expect(as(answers.sessionList, (await get('/sessions')).body)).toMatchObject({ sessions: [{ id: 'user:42' }] });
  });

  test('a session shows the version of its agent, in the list too', async () => {
    const { post, get } = await kit.serve({
      agents: [agent({ name: 'a', version: '1' }), agent({ name: 'a', version: '2' })],
    });
    await post('/sessions', { id: 's' });
    expect(as(answers.session, (await get('/sessions/s')).body)).toMatchObject({ agent: 'a', version: '2' });
    expect(as(answers.sessionList, (await get('/sessions')).body)).toMatchObject({ sessions: [{ version: '2' }] });
  });

  test('a paused session stays paused when it is created again', async () => {
    const { post, get } = await kit.serve();
    await post('/sessions', { id: 's' });
    expect((await post('/sessions/s/pause')).body).toEqual({ paused: true });
    expect((await post('/sessions', { id: 's' })).status).toBe(200);
    expect((await get('/sessions/s')).body).toMatchObject({ phase: 'paused' });
    expect((await post('/sessions/s/resume', {})).body).toEqual({ paused: false });
  });

  test('F138: the list has pages, by id or the last changed first; children by their parent, roots by none; page sizes are bounded', async () => {
    const { url, post, get, runtime } = await kit.serve();
    for (const id of ['c', 'a', 'b']) await post('/sessions', { id });
    const first = as(answers.sessionList, (await get('/sessions?order=id&limit=2')).body);
    expect(first).toMatchObject({ sessions: [{ id: 'a' }, { id: 'b' }], next: 'b' });
    const second = as(answers.sessionList, (await get(`/sessions?order=id&limit=2&after=${first['next']}`)).body);
    expect(second).toEqual({ sessions: [expect.objectContaining({ id: 'c' })] });
    const child = await post('/sessions/a/children', { task: 'Help', name: 'helper', replies: 'handle' });
    expect([child.status, pointed(child, `${url}/sessions/a/children`)]).toEqual([201, `${url}/sessions/a%3A1`]);
    expect(as(answers.child, child.body)).toEqual({ id: 'a:1', name: 'helper', parent: 'a' });
    await runtime.drain();
    expect((await get('/sessions?parent=a')).body).toMatchObject({ sessions: [{ id: 'a:1', parent: 'a' }] });
    expect((await get('/sessions?order=id&parent=')).body).toMatchObject({
      sessions: [{ id: 'a' }, { id: 'b' }, { id: 'c' }],
    });
    expect((await get('/sessions?state=executing')).body).toEqual({ sessions: [] });
    await post('/sessions/c/pause');
    const newest = as(answers.sessionList, (await get('/sessions?parent=&limit=1')).body);
    expect(newest).toMatchObject({
      sessions: [{ id: 'c', status: 'paused' }],
      next: expect.stringMatching(/^\d+-c$/u),
    });
    const rest = (await get(`/sessions?parent=&after=${newest['next']}`)).body as { sessions: { id: string }[] };
    expect(rest.sessions.map(({ id }) => id)).not.toContain('c');
    expect((await get('/sessions?status=paused,failed')).body).toMatchObject({ sessions: [{ id: 'c' }] });
    expect((await get('/sessions?outcome=answered')).body).toMatchObject({ sessions: [{ id: 'a:1' }] });
    expect((await get(`/sessions?changedBefore=${new Date(0).toISOString()}`)).body).toEqual({ sessions: [] });
    const families = as(answers.sessionList, (await get('/sessions?children=true&limit=60&status=idle')).body);
    expect(families).toMatchObject({ sessions: [{ id: 'a', children: [{ id: 'a:1' }] }, { id: 'b' }] });
    for (const bad of ['status=ill', 'outcome=good', 'changedAfter=soon', 'after=c', 'order=random'])
      expect((await get(`/sessions?${bad}`)).status).toBe(400);
    for (const limit of ['0', '1001', '-1', 'ten', '1e2'])
      expect((await get(`/sessions?limit=${limit}`)).status).toBe(400);
  });

  test('a session is deleted with its descendants, and is then gone', async () => {
    const { url, post, get, runtime } = await kit.serve();
    await post('/sessions/s/messages', { content: 'Hi' });
    await post('/sessions/s/children', { task: 'Help' });
    await runtime.drain();
    const deleted = await fetch(`${url}/sessions/s`, { method: 'DELETE' });
    expect([deleted.status, await deleted.text()]).toEqual([204, '']);
    expect((await get('/sessions')).body).toEqual({ sessions: [] });
    expect((await fetch(`${url}/sessions/s`, { method: 'DELETE' })).status).toBe(404);
  });
});

describe('conversation', () => {
  test('F136: a sent message is in the mailbox first, and sending never writes it to the log directly', async () => {
    const model = gatedModel();
    const { url, post, get, runtime } = await kit.serve({ provider: model.provider });
    await post('/sessions', { id: 's' });
    await post('/sessions/s/pause');
    const sent = await post('/sessions/s/messages', { content: 'Hi', bounceBack: true, from: 'web' });
    expect(sent.status).toBe(202);
    expect(as(answers.receipt, sent.body)).toMatchObject({ id: 's/1.1', session: 's', pendingId: 1, duplicate: false });
    expect(pointed(sent, `${url}/sessions/s/messages`)).toBe(`${url}/sessions/s/receipts/1.1`);
    expect((await get('/sessions/s/messages')).body).toEqual({ messages: [] });
    const waits = as<z.infer<typeof pendingShape>>(answers.pendingList, (await get('/sessions/s/pending')).body);
    expect(waits.pending).toMatchObject([{ id: 1, type: 'user_message', content: 'Hi', source: { name: 'web' } }]);
    await post('/sessions/s/resume');
    (await model.next()).answer('Hello.');
    await runtime.drain();
    expect((await get('/sessions/s/pending')).body).toEqual({ pending: [] });
    const log = as(answers.messageList, (await get('/sessions/s/messages')).body);
    expect(log).toMatchObject({
      messages: [
        { seq: 1, content: 'Hi' },
        { seq: 2, content: 'Hello.' },
      ],
    });
  });

  test('the same key is accepted once; messages are returned in pages', async () => {
    const { post, get, runtime } = await kit.serve();
    const first = await post('/sessions/s/messages', { content: 'Hi', key: 'k1' });
    const again = await post('/sessions/s/messages', { content: 'Hi', key: 'k1' });
    expect(again.body).toMatchObject({ id: (first.body as { id: string }).id, duplicate: true });
    await runtime.drain();
    await post('/sessions/s/messages', { content: [{ type: 'text', text: 'More' }], deliver: 'turn' });
    await runtime.drain();
    const page = (await get('/sessions/s/messages?limit=3')).body;
    expect(page).toMatchObject({ messages: [{ seq: 1 }, { seq: 2 }, { seq: 3 }], next: 3 });
    const rest = (await get('/sessions/s/messages?limit=3&after=3')).body;
    expect(as(answers.messageList, rest)).toEqual({
      messages: [expect.objectContaining({ seq: 4, content: 'to More' })],
    });
  });

  test('a page of large messages has fewer of them; reading all pages returns all messages', async () => {
    const { get, runtime } = await kit.serve({ provider: scripted(['.', '.', '.', '.']) });
    for (let index = 0; index < 4; index += 1) await runtime.session('s').ask('x'.repeat(3_000_000));
    const found: number[] = [];
    let pages = 0;
    for (let after = 0; pages < 10; pages += 1) {
      const page = (await get(`/sessions/s/messages?after=${after}`)).body as {
        messages: { seq: number }[];
        next?: number;
      };
      found.push(...page.messages.map(({ seq }) => seq));
      if (page.next === undefined) break;
      after = page.next;
    }
    expect(found).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(pages).toBe(7);
  });

  test('pages of log, viewport, request and mailbox are bounded in bytes, and together hold everything', async () => {
    const provider = scripted(['.', '.', '.', '.']);
    const { get, runtime } = await kit.serve({ provider, settings: { llm: { tokenBudget: 2_000_000 } } });
    const session = runtime.session('s');
    const text = 'x'.repeat(600_000);
    for (let index = 0; index < 4; index += 1) await session.ask(`${index}${text}`);
    await session.pause();
    for (let index = 0; index < 4; index += 1) await session.send(`${index}${text}`);
    const pagesOf = async (path: string, member: string): Promise<readonly (readonly unknown[])[]> => {
      const pages: (readonly unknown[])[] = [];
      for (let after: string | undefined; pages.length < 10; ) {
        const asked = after === undefined ? '' : `&after=${after}`;
        const page = (await get(`/sessions/s/${path}?limit=1000${asked}`)).body as Record<string, unknown>;
        pages.push(page[member] as readonly unknown[]);
        if (page['next'] === undefined) break;
        after = String(page['next']);
      }
      return pages;
    };
    const lists = [
      { path: 'messages', member: 'messages', whole: await session.messages(), size: 2 },
      { path: 'viewport', member: 'messages', whole: await session.viewport(), size: 2 },
      { path: 'request', member: 'messages', whole: (await session.request()).messages, size: 2 },
      { path: 'pending', member: 'pending', whole: await session.pending(), size: 1 },
    ];
    for (const { path, member, whole, size } of lists) {
      const pages = await pagesOf(path, member);
      expect(pages.map((page) => page.length)).toEqual([size, size, size, size]);
      expect(pages.flat()).toEqual(JSON.parse(JSON.stringify(whole)));
    }
  });

  test('a receipt is found by number or whole id; it waits for the answer, and reports a turn that failed', async () => {
    const provider = scripted(['Hello.', { error: { status: 400, message: 'no' } }]);
    const { post, get } = await kit.serve({ provider });
    await post('/sessions/s/messages', { content: 'Hi' });
    const answered = await get('/sessions/s/receipts/1?wait=answer');
    expect(as(answers.receiptStatus, answered.body)).toMatchObject({
      id: 's/1.1',
      status: 'answered',
      answer: 'Hello.',
    });
    const status = await get(`/sessions/s/receipts/${encodeURIComponent('s/1.1')}`);
    expect(as(answers.receiptStatus, status.body)).toMatchObject({ status: 'answered', pendingId: 1 });
    await post('/sessions/s/messages', { content: 'Again' });
    expect(await get('/sessions/s/receipts/2?wait=answer')).toMatchObject({
      status: 502,
      body: { code: 'turn_failed', retryable: false },
    });
    expect((await get('/sessions/s/receipts/9')).status).toBe(404);
    expect((await get('/sessions/s/receipts/x')).status).toBe(400);
    expect((await get('/sessions/s/receipts/1?wait=for-ever')).status).toBe(400);
  });

  test('a structured answer: the receipt has the parsed value, or the failure its code and issues', async () => {
    const output = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] };
    const provider = scripted([
      '{"n":0}',
      '{"n":1}',
      '{"n":0}',
      '{"n":0}',
      '{"n":0}',
      { text: '{"n":1}', stopReason: 'refusal' },
      { text: '{"n"', stopReason: 'max_tokens' },
    ]);
    const { post, get } = await kit.serve({ provider });
    // One message is parsed on the host, the next on the thread of its session: it is large.
    const contents = ['First', 'x'.repeat(LOOP_PIECE_BYTES_MIN), 'Third', 'Fourth'];
    const told: unknown[] = [];
    for (const [index, content] of contents.entries()) {
      const sent = await post('/sessions/s/messages', { content, output, key: `k${index}` });
      expect(sent.status).toBe(202);
      told.push((await get(`/sessions/s/receipts/${index + 1}?wait=answer`)).body);
    }
    const issues = [{ path: '$.n', message: 'must be >= 1' }];
    expect(as(answers.receiptStatus, told[0])).toMatchObject({ answer: '{"n":1}', output: { n: 1 } });
    expect(as(answers.problem, told[1])).toMatchObject({ status: 502, code: 'answer_invalid', issues });
    expect(as(answers.problem, told[2])).toMatchObject({ status: 502, code: 'answer_refused' });
    expect(as(answers.problem, told[3])).toMatchObject({ status: 502, code: 'answer_cut' });
    const later = await get('/sessions/s/receipts/1');
    expect(as(answers.receiptStatus, later.body)).toMatchObject({ status: 'answered', output: { n: 1 } });
    const other = { ...output, required: [] };
    expect((await post('/sessions/s/messages', { content: 'First', output, key: 'k0' })).body).toMatchObject({
      duplicate: true,
    });
    expect(await post('/sessions/s/messages', { content: 'First', output: other, key: 'k0' })).toMatchObject({
      body: { code: 'key_reused' },
    });
  });

  test('a client that stops waiting for an answer leaves no reader behind, and the turn continues', async () => {
    const model = gatedModel();
    const { url, post, get } = await kit.serve({ provider: model.provider });
    await post('/sessions/s/messages', { content: 'Hi' });
    const call = await model.next();
    const gone = new AbortController();
    const waiting = fetch(`${url}/sessions/s/receipts/1?wait=answer`, { signal: gone.signal });
    gone.abort();
    await expect(waiting).rejects.toThrow(/abort/i);
    call.answer('Hello.');
    expect((await get('/sessions/s/receipts/1?wait=answer')).body).toMatchObject({ answer: 'Hello.' });
  });

  test('a message is withdrawn, and a turn interrupted', async () => {
    const model = gatedModel();
    const { post, get } = await kit.serve({ provider: model.provider });
    await post('/sessions/s/messages', { content: 'Hi' });
    await model.next();
    await post('/sessions/s/messages', { content: 'Later', deliver: 'turn' });
    expect((await post('/sessions/s/recall', { pendingId: 2 })).body).toEqual({ recalled: true });
    expect((await post('/sessions/s/recall', { pendingId: 2 })).body).toEqual({ recalled: false });
    expect((await get('/sessions/s/receipts/2?wait=answer')).status).toBe(409);
    expect((await post('/sessions/s/interrupt', { reason: 'enough' })).body).toEqual({ interrupted: true });
    expect(await get('/sessions/s/receipts/1?wait=answer')).toMatchObject({ status: 409, body: { code: 'cancelled' } });
    expect((await post('/sessions/s/interrupt')).body).toEqual({ interrupted: false });
  });

  test('viewport returns the messages the model sees, and explain the reason why nothing runs', async () => {
    const note = tool({
      name: 'note',
      description: 'Notes.',
      input: z.object({ text: z.string() }),
      run: () => 'noted',
    });
    const agents = [agent({ name: 'a', system: 'Be brief.', tools: [note] })];
    const { post, get, runtime } = await kit.serve({ agents, provider: echo });
    await post('/sessions/s/messages', { content: 'Hi' });
    await runtime.drain();
    expect(as(answers.viewport, (await get('/sessions/s/viewport')).body)).toMatchObject({
      messages: [{ seq: 1 }, { seq: 2 }],
    });
    const request = await get('/sessions/s/request');
    const { violations, ...body } = request.body as { readonly violations: readonly unknown[] };
    expect(JSON.stringify(body)).toBe(JSON.stringify(await runtime.session('s').request()));
    expect(violations).toEqual(checkRequest(await runtime.session('s').request()));
    expect(as(answers.modelRequest, request.body)).toMatchObject({ system: 'Be brief.' });
    const explained = as(answers.explanation, (await get('/sessions/s/explain')).body);
    expect(explained).toMatchObject({ reason: 'nothing_waits' });
  });

  test('F141: the system prompt is entry 0, only in debug; its tokens include the tools', async () => {
    const note = tool({
      name: 'note',
      description: 'Notes.',
      input: z.object({ text: z.string() }),
      run: () => 'noted',
    });
    const agents = [
      agent({ name: 'a', system: 'Be brief.', tools: [note] }),
      agent({ name: 'plain', system: 'Be brief.' }),
    ];
    const { post, get } = await kit.serve({ agents });
    await post('/sessions', { id: 's', agent: 'a' });
    await post('/sessions', { id: 'p', agent: 'plain' });
    const context = async (path: string): Promise<unknown> => ((await get(path)).body as { context?: unknown }).context;
    expect(await context('/sessions/s/request')).toBeUndefined();
    expect(await context('/sessions/s/request?mode=verbose')).toBeUndefined();
    const plain = await context('/sessions/p/request?mode=debug');
    expect(plain).toEqual({
      id: 0,
      type: 'system_prompt',
      rendered: { role: 'system_prompt', content: 'Be brief.', tokens: 3, estimated: true },
    });
    const { tools } = (await get('/sessions/s/request')).body as { tools: unknown };
    expect(await context('/sessions/s/request?mode=debug')).toMatchObject({
      rendered: { tools, tokens: Math.ceil(('Be brief.'.length + JSON.stringify(tools).length) / 4) },
    });
  });

  test('the current request is returned with the rules it violates; a legal request violates none', async () => {
    const model = gatedModel();
    const { post, get, runtime } = await kit.serve({ provider: model.provider });
    const told = async (): Promise<readonly { readonly rule: string; readonly fatal: boolean }[]> => {
      const { body } = await get('/sessions/s/request');
      as(answers.modelRequest, body);
      return (body as { readonly violations: readonly { readonly rule: string; readonly fatal: boolean }[] })
        .violations;
    };
    await post('/sessions/s/messages', { content: 'Hi' });
    const call = await model.next();
    expect(await told()).toEqual([]);
    call.answer('Hello.');
    await runtime.drain();
    // The last message is an answer until the next message comes.
    expect((await told()).map(({ rule, fatal }) => [rule, fatal])).toEqual([['R12', true]]);
  });

  test('a call waits for approval: allowed with another input it runs, and the decision cannot be changed', async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ euros: z.number() }),
      run: ({ euros }) => `paid ${euros}`,
    });
    const provider = scripted([{ toolUse: { name: 'pay', input: { euros: 5 } } }, 'Done.']);
    const { post, get, runtime } = await kit.serve({
      agents: [agent({ name: 'a', tools: [pay], approve: ['pay'] })],
      provider,
    });
    await post('/sessions/s/messages', { content: 'Pay.' });
    await eventually(async () => (await runtime.session('s').state()).phase === 'approval');
    expect((await get('/sessions/s')).body).toMatchObject({ state: 'executing', phase: 'approval' });
    expect((await get('/sessions/s/explain')).body).toMatchObject({ reason: 'waiting_for_approval' });
    const [call] = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_call');
    const callId = call?.toolUseId ?? '';
    const queue = as(answers.waitingList, (await get('/waiting?limit=1')).body);
    expect(queue).toMatchObject({ waiting: [{ session: 's', agent: 'a', callId, toolName: 'pay', kind: 'approval' }] });
    expect((await get('/waiting?session=other')).body).toEqual({ waiting: [] });
    expect(await get('/waiting?after=x')).toMatchObject({ status: 400, body: { code: 'config' } });
    const approve = async (decision: object): Promise<unknown> =>
      (await post('/sessions/s/approve', { callId, ...decision })).body;
    expect(await approve({ callId: 'another', allow: true })).toEqual({
      callId: 'another',
      allow: true,
      decided: false,
    });
    const allowed = as(answers.approved, await approve({ allow: true, input: { euros: 4 } }));
    expect(allowed).toEqual({ callId, allow: true, decided: true });
    expect(await approve({ allow: true })).toMatchObject({ decided: true });
    expect(await approve({ allow: false })).toMatchObject({ decided: false });
    expect((await get('/sessions/s/receipts/1?wait=answer')).body).toMatchObject({ answer: 'Done.' });
    expect((await log(runtime.session('s'))).at(-2)).toBe('tool_response:paid 4');
    expect((await post('/sessions/nobody/approve', { callId, allow: true })).status).toBe(404);
  });

  test('a question is answered over HTTP: a misfit is 400 with the reasons, a second answer does not hold', async () => {
    const provider = scripted([{ toolUse: { name: 'ask_human', input: { question: 'How many?' } } }, 'Done.']);
    const tools = [askHuman({ answer: z.object({ n: z.number().int() }) })];
    const { post, get, runtime } = await kit.serve({ agents: [agent({ name: 'a', tools })], provider });
    await post('/sessions/s/messages', { content: 'Count.' });
    await eventually(async () => (await runtime.session('s').state()).phase === 'question');
    expect((await get('/sessions/s')).body).toMatchObject({ state: 'executing', phase: 'question' });
    const [call] = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_call');
    const callId = call?.toolUseId ?? '';
    const [asked] = as<{ waiting: object[] }>(answers.waitingList, (await get('/waiting')).body).waiting;
    expect(asked).toEqual({
      session: 's',
      agent: 'a',
      callId,
      toolName: 'ask_human',
      kind: 'question',
      input: { question: 'How many?' },
      question: 'How many?',
      schema: expect.objectContaining({ properties: { n: expect.objectContaining({ type: 'integer' }) } }),
      asked: 'human',
      at: expect.any(Number),
    });
    const path = '/sessions/s/answer';
    const misfit = await post(path, { callId, value: { n: 'many' } });
    expect(misfit.status).toBe(400);
    expect(misfit.body).toMatchObject({ code: 'content', detail: expect.stringContaining('$.n') });
    for (const body of [{ callId }, { callId, value: 1, decline: true }, { callId, decline: false }]) {
      expect((await post(path, body)).status).toBe(400);
    }
    expect((await post('/sessions/s/approve', { callId, allow: true })).status).toBe(400);
    expect(as(answers.answered, (await post(path, { callId, value: { n: 3 } })).body)).toEqual({
      callId,
      answered: true,
    });
    expect((await get('/waiting')).body).toEqual({ waiting: [] });
    expect((await post(path, { callId, decline: true, reason: 'no' })).body).toEqual({ callId, answered: false });
    expect((await get('/sessions/s/receipts/1?wait=answer')).body).toMatchObject({ answer: 'Done.' });
    expect((await post('/sessions/nobody/answer', { callId, value: 'x' })).status).toBe(404);
  });
});

const pendingShape = z.object({ pending: z.array(z.unknown()) });

describe('the runtime', () => {
  test('returns its version and its health', async () => {
    const { post, get, runtime } = await kit.serve({ settings: { session: { defaultViewMode: 'verbose' } } });
    await post('/sessions/s/messages', { content: 'Hi' });
    await runtime.drain();
    expect(as(answers.info, (await get('/info')).body)).toEqual({ ...runtime.info(), defaultViewMode: 'verbose' });
    const metrics = as(answers.metrics, (await get('/metrics.json')).body);
    expect(metrics).toMatchObject({ halfSteps: 1, accepted: 1, eventStreams: 0 });
    expect((await get('/healthz')).body).toEqual({ status: 'ok' });
  });

  test('HEAD is GET without a body, and opens no stream', async () => {
    const { url, post, get } = await kit.serve();
    await post('/sessions', { id: 's' });
    for (const path of ['/sessions/s', '/sessions/s/events', '/events', '/openapi.json']) {
      const response = await fetch(`${url}${path}`, { method: 'HEAD' });
      expect([path, response.status, await response.text()]).toEqual([path, 200, '']);
    }
    expect((await get('/metrics.json')).body).toMatchObject({ eventStreams: 0 });
  });
});
