/**
 * Goal: the lines that the runtime writes into its embedder's log. Method: a real pino logger at level trace keeps its
 * lines. For the secrets: a provider that refuses, answers nonsense and breaks off, and everything the runtime logs for
 * a failing session.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino, { type Logger as PinoLogger } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, tool } from '../../../src/index.ts';
import { SessionLogs } from '../../../src/runtime/host/session-logs.ts';
import { checkOptions, type Logger } from '../../../src/runtime/protocol/options.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { deferred, eventually, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

function kept(): {
  readonly logger: PinoLogger;
  readonly lines: string[];
  readonly parsed: () => readonly Record<string, unknown>[];
} {
  const lines: string[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  return { logger, lines, parsed: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

function logsOf(logger: Logger, provider = anthropic({ apiKey: 'canary-key-0123456789' })): SessionLogs {
  const checked = checkOptions({ logger, provider });
  return new SessionLogs(
    checked.logger,
    checked.providers.map(({ provider: each }) => each),
  );
}

test('Q1: a log line of a session names the session and its agent, by a child logger created once', () => {
  const { logger, parsed } = kept();
  let children = 0;
  const counting = new Proxy(logger, {
    get: (target, name) => {
      if (name !== 'child') return Reflect.get(target, name, target) as unknown;
      children += 1;
      return target.child.bind(target);
    },
  });
  const logs = logsOf(counting);
  children = 0;
  for (let line = 0; line < 3; line += 1)
    logs.write({ level: 'warn', message: 'm', session: 's', agent: 'a', ms: line });
  logs.write({ level: 'info', message: 'of nobody' });
  expect(children).toBeLessThanOrEqual(2);
  expect(parsed()).toMatchObject([
    { level: 40, session: 's', agent: 'a', ms: 0, msg: 'm' },
    { session: 's', ms: 1 },
    { session: 's', ms: 2 },
    { level: 30, msg: 'of nobody' },
  ]);
  expect(parsed()[3]).not.toHaveProperty('session');
});

test('a logger without children gets the session in each line', () => {
  const told: unknown[] = [];
  const tell = (fields: unknown, message: string): void => void told.push([fields, message]);
  const plain = { debug: tell, info: tell, warn: tell, error: tell };
  logsOf(plain).write({ level: 'error', message: 'm', session: 's' });
  expect(told).toEqual([[{ session: 's' }, 'm']]);
});

test('Q2: a secret given as key, header or token, or one that looks like a secret, is in no line', () => {
  const { logger, lines } = kept();
  const provider = anthropic({
    authToken: 'canary-token-0123456789',
    headers: { 'x-gateway': 'canary-header-0123456789', 'proxy-authorization': 'Basic canary-basic-0123456789' },
  });
  const logs = logsOf(logger, provider);
  const secrets = ['canary-token-0123456789', 'canary-header-0123456789', 'canary-basic-0123456789'];
  for (const secret of secrets) {
    const error = {
      name: 'E',
      code: 'internal' as const,
      message: `no: ${secret}`,
      data: { deep: { header: [secret] } },
    };
    logs.write({ level: 'debug', message: `said ${secret}`, session: 's', error });
  }
  logs.write({ level: 'info', message: 'sk-ant-api03-canary-0123456789' });
  expect(lines).toHaveLength(4);
  for (const line of lines) expect(line).not.toContain('canary');
});

test('Q2: the secrets of every provider are in no line', () => {
  const { logger, lines } = kept();
  const logs = new SessionLogs(logger as never, [
    anthropic({ apiKey: 'canary-first-0123456789' }),
    anthropic({ apiKey: 'canary-second-0123456789' }),
  ]);
  logs.write({ level: 'warn', message: 'canary-first-0123456789 and canary-second-0123456789' });
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain('canary');
});

test.each(MATRIX)(
  'Q2: a secret that the provider repeats is in no line, sessions: $sessions, models: $models',
  async (threads) => {
    const secrets = { key: 'canary-key-0123456789', header: 'canary-header-0123456789' };
    const server = createServer((request, response) => {
      request.resume();
      const seen = JSON.stringify(request.headers);
      response.writeHead(401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ type: 'error', error: { type: 'authentication_error', message: `bad: ${seen}` } }));
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    onTestFinished(() => void server.close());
    const { logger, lines } = kept();
    const runtime = await kit.open({
      threads,
      logger,
      provider: anthropic({
        baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        apiKey: secrets.key,
        headers: { 'x-gateway': secrets.header },
      }),
    });
    const receipt = await runtime.session('s').send('hi');
    await expect(receipt.answer()).rejects.toMatchObject({ code: 'turn_failed' });
    await eventually(() => lines.length > 0);
    await runtime.close({ deadlineMs: 0 });
    for (const line of lines) for (const secret of Object.values(secrets)) expect(line).not.toContain(secret);
  },
);

const faulty = new URL('../fixtures/faulty-tools.ts', import.meta.url);

test.each([
  ['hijack', 'Error: said what it liked', 'faulty'],
  ['throwText', 'Error: just text', 'unhurried'],
  ['strayThrow', 'RangeError: nobody catches this', 'unhurried'],
])('a tool that throws on its thread is logged once, with its stack: %s', async (fault, stack, name) => {
  const { logger, parsed } = kept();
  const provider = scripted([
    { toolUse: { name, input: { fault } } },
    { toolUse: { name, input: { fault: 'good' } } },
    'Over.',
  ]);
  const runtime = await kit.open({ logger, provider, agents: [agent({ name: 'a', tools: [faulty] })] });
  expect(await runtime.session('s').ask('Go')).toBe('Over.');
  const lines = parsed().filter(({ level }) => level === 40);
  expect(lines).toMatchObject([{ session: 's', agent: 'a', msg: `tool "${name}" threw` }]);
  expect(lines[0]).toHaveProperty('stack', expect.stringContaining(stack));
});

test('an interrupted tool does not count as throwing, whatever it throws afterwards', async () => {
  const { logger, parsed } = kept();
  const began = deferred();
  const waits = tool({
    name: 'waits',
    description: 'Waits until it is stopped.',
    input: z.object({}),
    run: (_input, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')));
        began.resolve();
      }),
  });
  const provider = scripted([{ toolUse: { name: 'waits', input: {} } }, 'Over.']);
  const runtime = await kit.open({ logger, provider, agents: [agent({ name: 'a', tools: [waits] })] });
  const session = runtime.session('s');
  const receipt = await session.send('Go');
  await began.promise;
  await session.interrupt();
  await receipt.answer().catch(() => undefined);
  await runtime.drain();
  expect(parsed().filter(({ level }) => level !== 20)).toEqual([]);
});
