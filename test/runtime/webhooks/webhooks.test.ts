/**
 * Goal: `open({ webhooks })` over real HTTP: what is delivered, its signature, repetitions after failures and restarts,
 * the order of a session, a receiver that is down, slow, gone or dead beside another one.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agent, type OpenOptions, type Runtime, tool } from '../../../src/index.ts';
import type { Reply } from '../../../src/models/script/script.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, failure, history, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { isSigned, type Received, webhookReceiver } from '../../support/webhook-receiver.ts';

const kit = runtimeKit();
const secret = `whsec_${randomBytes(32).toString('base64')}`;
const ends = (list: readonly Received[]): readonly string[] =>
  list.map(({ data }) => `${data.session}#${data.seq} ${String(data['end'] ?? data['callId'])}`);

const pay = tool({ name: 'pay', description: 'Pays.', effect: 'keyed', input: { type: 'object' }, run: () => 'paid' });

function reply(text: string, call: number): Reply {
  if (text.includes('pay') && call === 0) return { text: 'One moment.', toolUse: { name: 'pay', input: { euros: 5 } } };
  if (text.includes('wait')) return { text: 'late', delayMs: 600_000 };
  if (text.includes('fail')) return { error: { status: 400, message: 'messages.0: no' } };
  return 'Done.';
}

function open(webhooks: NonNullable<OpenOptions['webhooks']>, options: TestOptions = {}): Promise<Runtime> {
  return kit.open({
    provider: scripted((request, { call }) => reply(JSON.stringify(request.messages.at(-1)), call)),
    agents: [agent({ name: 'clerk', tools: [pay], approve: ['pay'], subagents: { spawn: true } })],
    webhooks,
    ...options,
  });
}

test.each(MATRIX)(
  'a waiting call and the ends of turns are delivered, signed, with a stable id: %o',
  async (threads) => {
    const receiver = await webhookReceiver();
    const headers = { authorization: 'Bearer of-the-receiver' };
    const runtime = await open([{ url: receiver.url, secret, headers }], { threads: { ...threads, tools: 1 } });
    const session = runtime.session('s');
    await session.send('pay the printer');
    await eventually(() => receiver.received.length === 1);
    const [waiting] = receiver.received;
    const { items } = await runtime.waiting();
    expect(waiting?.type).toBe('waiting');
    expect(waiting?.data).toEqual({ seq: expect.any(Number), ...items[0] });
    await session.approve(items[0]?.callId ?? '', { allow: true });
    await eventually(() => receiver.received.length === 2);
    expect(receiver.received[1]).toMatchObject({
      type: 'turn.ended',
      data: { session: 's', agent: 'clerk', turn: 'turn-1', end: 'finished', reason: 'end_turn', text: 'Done.' },
    });
    await runtime
      .session('refused')
      .ask('fail')
      .catch(() => undefined);
    await eventually(() => receiver.received.length === 3);
    const hanging = session.send('wait');
    await eventually(async () => runtime.metrics().modelCallsRunning === 1 && (await hanging).id !== '');
    await session.interrupt();
    await eventually(() => receiver.received.length === 4);
    expect(receiver.received.slice(2).map(({ data }) => [data['end'], data['reason'], data['text']])).toEqual([
      ['failed', 'model_invalid_request', ''],
      ['interrupted', 'cancelled', ''],
    ]);
    expect(receiver.received[2]?.data['error']).toMatchObject({ code: 'model_invalid_request' });
    for (const each of receiver.received) {
      expect(isSigned(each, secret)).toBe(true);
      expect(isSigned(each, `whsec_${randomBytes(32).toString('base64')}`)).toBe(false);
      expect(each.headers).toMatchObject({
        authorization: 'Bearer of-the-receiver',
        'content-type': 'application/json',
      });
      expect(each.headers['webhook-id']).toMatch(/^msg_[0-9a-f]{32}$/);
      expect(Math.abs(Number(each.headers['webhook-timestamp']) - Date.now() / 1_000)).toBeLessThan(60);
    }
    expect(new Set(receiver.received.map(({ headers: sent }) => sent['webhook-id'])).size).toBe(4);
    await eventually(() => runtime.metrics().webhooksWaiting === 0);
    expect(runtime.metrics()).toMatchObject({ webhooksDelivered: 4, webhooksFailed: 0 });
    expect(JSON.stringify(runtime.info())).not.toContain('whsec');
  },
);

test('children: the end of their turns only if wanted, their waiting calls in any case; `events` selects', async () => {
  const [roots, all, waits] = [await webhookReceiver(), await webhookReceiver(), await webhookReceiver()];
  const runtime = await open([
    { url: roots.url },
    { url: all.url, children: true },
    { url: waits.url, events: ['waiting'] },
  ]);
  const parent = runtime.session('top');
  await parent.ask('hello');
  const child = await parent.spawn({ task: 'pay the printer', name: 'payer', replies: 'handle' });
  await eventually(() => waits.received.length === 1);
  expect(waits.received[0]?.data).toMatchObject({ session: child.id, root: 'top' });
  await child.approve(String(waits.received[0]?.data['callId']), { allow: true });
  await child.exit();
  await eventually(() => all.received.length === 3);
  await runtime.close();
  expect(roots.received.map(({ type, data }) => `${type} ${data.session}`)).toEqual([
    'turn.ended top',
    `waiting ${child.id}`,
  ]);
  expect(all.received.map(({ type, data }) => `${type} ${data.session} ${String(data['root'])}`)).toEqual([
    'turn.ended top undefined',
    `waiting ${child.id} top`,
    `turn.ended ${child.id} top`,
  ]);
  expect(waits.received).toHaveLength(1);
});

test('G45: a webhook of a tenant receives the notices of that tenant alone, also those that it reads from the log', async () => {
  const directory = await kit.directory();
  const [everyone, acme] = [await webhookReceiver(), await webhookReceiver()];
  const webhooks = [{ url: everyone.url }, { url: acme.url, tenant: 'acme' }];
  const first = await open(webhooks, { directory });
  for (const id of ['acme~a', 'acmes~a', 'a']) await first.session(id).ask('hello');
  await eventually(() => everyone.received.length === 3 && acme.received.length === 1);
  await first.close();
  const without = await open([], { directory });
  for (const id of ['globex~b', 'acme~b']) await without.session(id).ask('hello');
  await without.close();
  await open(webhooks, { directory });
  await eventually(() => everyone.received.length === 5 && acme.received.length === 2);
  expect(acme.received.map(({ data }) => data.session)).toEqual(['acme~a', 'acme~b']);
  expect(await failure(open([{ url: acme.url, tenant: 'a~b' }]))).toMatchObject({
    code: 'config',
    data: { key: 'webhooks.0.tenant' },
  });
});

test('a failed delivery is repeated with the same id and body, before the next one of its session', async () => {
  const receiver = await webhookReceiver((_request, index) => ({ status: index === 0 ? 500 : 200 }));
  const runtime = await open([{ url: receiver.url, secret }]);
  await runtime.session('s').ask('one');
  await runtime.session('s').ask('two');
  await eventually(() => receiver.received.length === 3);
  const [first, again, second] = receiver.received;
  expect(again?.text).toBe(first?.text);
  expect(again?.headers['webhook-id']).toBe(first?.headers['webhook-id']);
  expect(again === undefined ? false : isSigned(again, secret)).toBe(true);
  expect(second?.data['turn']).toBe('turn-2');
  await eventually(() => runtime.metrics().webhooksDelivered === 2);
  expect(runtime.metrics().webhooksFailed).toBe(1);
});

test('a receiver that is down gets everything in order once it is up, also after a restart', async () => {
  const directory = await kit.directory();
  const receiver = await webhookReceiver();
  await receiver.stop();
  const runtime = await open([{ url: receiver.url }], { directory });
  for (const id of ['a', 'b']) for (const text of ['1', '2', '3']) await runtime.session(id).ask(text);
  await eventually(() => runtime.metrics().webhooksFailed > 0);
  expect(runtime.metrics().webhooksWaiting).toBe(2);
  await runtime.close();
  // Written while no webhook was given: the cursor stays, and these come too.
  const without = await open([], { directory });
  await without.session('a').ask('4');
  await without.session('c').ask('1');
  await without.close();
  await receiver.start();
  const again = await open([{ url: receiver.url }], { directory });
  await again.session('a').ask('5');
  await eventually(() => receiver.received.length === 9);
  for (const [id, count] of [
    ['a', 5],
    ['b', 3],
    ['c', 1],
  ] as const) {
    const turns = receiver.received.filter(({ data }) => data.session === id).map(({ data }) => data['turn']);
    expect(turns).toEqual(Array.from({ length: count }, (_, index) => `turn-${index + 1}`));
  }
  await eventually(() => again.metrics().webhooksWaiting === 0);
  await again.close();
  const third = await open([{ url: receiver.url }], { directory });
  await third.session('d').ask('1');
  await eventually(() => receiver.received.length === 10);
  await third.close();
  expect(receiver.received).toHaveLength(10);
});

test.each([1, 2])(
  'after a crash nothing is missing, and what comes twice has the same id (%i session threads)',
  async (sessions) => {
    const directory = await kit.directory();
    let isUp = false;
    const receiver = await webhookReceiver(() => (isUp ? { status: 200 } : 'hang'));
    const threads = { sessions, models: 1, tools: 1 };
    const runtime = await open([{ url: receiver.url }], { directory, threads });
    for (let index = 0; index < 12; index += 1) await runtime.session(`s-${index % 4}`).ask('hello');
    // The deliveries in flight hang, so nothing is written; the copy is the disk of a killed process.
    await eventually(() => receiver.received.length === 4);
    const before = receiver.received.map(({ headers }) => headers['webhook-id']);
    isUp = true;
    const again = await open([{ url: receiver.url }], { directory: await kit.crashed(directory), threads });
    await eventually(() => receiver.received.length >= 16);
    await eventually(() => again.metrics().webhooksWaiting === 0);
    const came = receiver.received.slice(4);
    expect(new Set(ends(came)).size).toBe(12);
    expect(came.map(({ headers }) => headers['webhook-id'])).toEqual(expect.arrayContaining(before));
    for (let index = 0; index < 4; index += 1) {
      const seqs = came.filter(({ data }) => data.session === `s-${index}`).map(({ data }) => data.seq);
      expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
    }
  },
);

test('kill -9 between deliveries: every end of a turn arrives, in the order of its session', async () => {
  const directory = await kit.directory();
  const receiver = await webhookReceiver();
  const script = new URL('../fixtures/webhook-process.ts', import.meta.url).pathname;
  for (const count of [40, 90]) {
    const child = spawn(process.execPath, [...process.execArgv, script, directory, receiver.url], { stdio: 'inherit' });
    const ended = once(child, 'exit');
    await eventually(() => receiver.received.length >= count || child.exitCode !== null);
    child.kill('SIGKILL');
    expect(await ended).toEqual([null, 'SIGKILL']);
  }
  const runtime = await open([{ url: receiver.url }], { directory });
  await runtime.drain();
  const ids = ['a', 'b', 'c', 'd'];
  const turns = new Map<string, readonly string[]>();
  for (const id of ids) {
    const found = (await history(runtime.session(id))).filter(({ type }) => type === 'turn.finished');
    turns.set(
      id,
      found.map((event) => `${event.seq}`),
    );
  }
  const arrived = (id: string): readonly string[] => [
    ...new Set(receiver.received.filter(({ data }) => data.session === id).map(({ data }) => `${data.seq}`)),
  ];
  await eventually(() => ids.every((id) => arrived(id).length === turns.get(id)?.length));
  // The first arrival of each is in the order of the session, and a repetition has the id of the first.
  for (const id of ids) expect(arrived(id)).toEqual(turns.get(id));
  const idOf = new Map(
    receiver.received.map(({ headers, data }) => [`${data.session}#${data.seq}`, headers['webhook-id']]),
  );
  for (const { headers, data } of receiver.received) {
    expect(headers['webhook-id']).toBe(idOf.get(`${data.session}#${data.seq}`));
  }
});

test('a new webhook begins with what happens after it was given first', async () => {
  const directory = await kit.directory();
  const before = await open([], { directory });
  await before.session('s').ask('hello');
  await before.close();
  const receiver = await webhookReceiver();
  const runtime = await open([{ url: receiver.url }], { directory });
  await runtime.session('s').ask('again');
  await eventually(() => receiver.received.length === 1);
  expect(receiver.received[0]?.data['turn']).toBe('turn-2');
  const [file = ''] = await readdir(join(directory, 'webhooks'));
  await runtime.close();
  expect(JSON.parse(await readFile(join(directory, 'webhooks', file), 'utf8'))).toMatchObject({ v: 1, behind: [] });
});

test('a slow receiver gets a bounded number of deliveries at once, and no two of one session', async () => {
  let release: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const receiver = await webhookReceiver(async () => {
    await gate;
    return { status: 200 };
  });
  const runtime = await open([{ url: receiver.url }]);
  for (let index = 0; index < 24; index += 1) await runtime.session(`s-${index % 12}`).ask('hello');
  await eventually(() => receiver.received.length === 8);
  expect(new Set(receiver.received.map(({ data }) => data.session)).size).toBe(8);
  release();
  await eventually(() => receiver.received.length === 24);
  expect(receiver.most()).toBe(8);
});

test('410 ends the deliveries with a log line; a dead receiver does not hold up another one', async () => {
  const gone = await webhookReceiver(() => ({ status: 410 }));
  const dead = await webhookReceiver();
  await dead.stop();
  const living = await webhookReceiver();
  const lines: string[] = [];
  const write = (_fields: object, message: string): void => void lines.push(message);
  const logger = { debug: write, info: write, warn: write, error: write };
  const runtime = await open([{ url: gone.url }, { url: `${dead.url}/secret-path` }, { url: living.url }], { logger });
  for (const text of ['1', '2', '3']) await runtime.session('s').ask(text);
  await eventually(() => living.received.length === 3);
  await eventually(() => lines.some((line) => line.includes('410')));
  await eventually(() => lines.some((line) => line.includes(`webhook ${new URL(dead.url).origin} refused a delivery`)));
  expect(gone.received).toHaveLength(1);
  expect(lines.join('\n')).not.toContain('secret-path');
});

test('a redirect is not followed', async () => {
  const target = await webhookReceiver();
  const receiver = await webhookReceiver((_request, index) =>
    index === 0 ? { status: 307, headers: { location: target.url } } : { status: 200 },
  );
  const runtime = await open([{ url: receiver.url }]);
  await runtime.session('s').ask('hello');
  await eventually(() => receiver.received.length === 2);
  await runtime.close();
  expect(target.received).toEqual([]);
});

test('close waits for a delivery in flight, but not longer than its bound', async () => {
  let answer: () => void = () => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const receiver = await webhookReceiver(async () => {
    await answered;
    return { status: 200 };
  });
  const directory = await kit.directory();
  const runtime = await open([{ url: receiver.url }], { directory });
  await runtime.session('s').ask('hello');
  await eventually(() => receiver.received.length === 1);
  const closing = runtime.close();
  answer();
  await closing;
  expect(runtime.metrics().webhooksDelivered).toBe(1);
  const again = await open([{ url: receiver.url }], { directory });
  await again.session('t').ask('hello');
  await eventually(() => receiver.received.length === 2);
  await again.close({ deadlineMs: 0 });
  expect(ends(receiver.received).map((end) => end.split('#')[0])).toEqual(['s', 't']);
});

test('a text is bounded in bytes, and an input that is too large is left out', async () => {
  const receiver = await webhookReceiver();
  const large = 'é'.repeat(20_000);
  const runtime = await open([{ url: receiver.url }], {
    provider: scripted((_request, { session }) =>
      session === 'text' ? large : { toolUse: { name: 'pay', input: { large } } },
    ),
  });
  await runtime.session('text').ask('hello');
  await runtime.session('input').send('hello');
  await eventually(() => receiver.received.length === 2);
  const [turn, waiting] = receiver.received;
  expect(turn?.data).toMatchObject({ text: large.slice(0, 8_192), textCut: true });
  expect(waiting?.data).toMatchObject({ inputOmitted: true, toolName: 'pay' });
  expect(waiting?.data).not.toHaveProperty('input');
});

test('a bad address or option is refused by its key, and no secret is shown', async () => {
  const good = 'https://example.com/hook';
  const rows: readonly (readonly [unknown, string])[] = [
    [{ url: 'ftp://example.com' }, 'webhooks.0.url" must be an http or https address'],
    [{ url: 'https://ada:geheim@example.com' }, 'webhooks.0.url" must have no name and password'],
    [{ url: good, secret: 'geheim' }, 'webhooks.0.secret" must be "whsec_" and the base64 of 24 to 64 random bytes'],
    [{ url: good, headers: { 'webhook-id': 'geheim' } }, 'webhooks.0.headers.webhook-id" is set by every delivery'],
    [{ url: good, headers: { authorization: 'geheim\nx' } }, 'webhooks.0.headers" must be names and values'],
    [{ url: good, events: [] }, 'webhooks.0.events'],
    [{ url: good, events: ['message'] }, 'webhooks.0.events.0'],
    [{ url: good, retries: 3 }, 'retries'],
  ];
  for (const [webhook, message] of rows) {
    const error = await failure(open([webhook as never]));
    expect(error.name).toBe('ConfigError');
    expect(error.message).toContain(message);
    expect(`${error.message} ${JSON.stringify(error)} ${String(error.cause)}`).not.toContain('geheim');
  }
  expect((await failure(open([{ url: good }, { url: new URL(good) }]))).message).toContain(
    'webhooks.1.url" must differ',
  );
});
