/**
 * Goal: `troupe waiting` lists the calls that wait for a person, `troupe approve` decides one, and `troupe answer`
 * answers a question: over a running server and in a data directory.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { agent, type Runtime, tool } from '../../src/index.ts';
import { serve } from '../../src/server/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { askHuman } from '../../src/tools/built-in/index.ts';
import { eventually, runtimeKit } from '../support/runtime-kit.ts';
import { command } from './support/surroundings.ts';

const kit = runtimeKit();

const pay = tool({ name: 'pay', description: 'Pays.', effect: 'once', input: { type: 'object' }, run: () => 'paid' });
const script = (): ReturnType<typeof scripted> =>
  scripted((_request, { call }) =>
    call === 0 ? { toolUse: { name: 'pay', input: { to: 'ada', text: 'é'.repeat(99) } } } : 'ok',
  );

async function waitingRuntime(sessions: readonly string[], directory?: string): Promise<Runtime> {
  const agents = [agent({ name: 'cashier', tools: [pay], approve: ['pay'] })];
  const runtime = await kit.open({ provider: script(), agents, ...(directory === undefined ? {} : { directory }) });
  for (const id of sessions) {
    await runtime.session(id).send('pay');
    await eventually(async () => (await runtime.waiting({ session: id })).items.length === 1);
  }
  return runtime;
}

test('over a server: the table, JSON, a limit, and decisions', async () => {
  const runtime = await waitingRuntime(['order-1', 'order-2', 'order-3']);
  const server = await serve(runtime, { port: 0, token: 'secret' });
  onTestFinished(() => server.close());
  const where = ['--url', server.url, '--token', 'secret'];
  const { items } = await runtime.waiting();
  const ids = items.map(({ callId }) => callId);

  const shown = await command(['waiting', ...where], '/');
  expect(shown.code, shown.stderr).toBe(0);
  const lines = shown.stdout.trimEnd().split('\n');
  expect(lines).toHaveLength(4);
  expect(lines[0]).toMatch(/^age +session +tool +call +wants$/u);
  expect(lines[1]).toMatch(new RegExp(`^ *(now|\\ds)  order-1  pay +${ids[0]}  \\{"to":"ada","te?x?.*…$`, 'u'));
  expect(lines.every((line) => line.length <= 80)).toBe(true);

  const asJson = await command(['waiting', ...where, '--json'], '/');
  expect(
    asJson.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual(items);
  const one = await command(['waiting', ...where, '--limit', '1'], '/');
  expect(one.stdout.split('\n').slice(2)).toEqual(['Only the oldest 1 call; --limit shows more.', '']);

  const allowed = await command(['approve', 'order-1', ids[0] ?? '', ...where], '/');
  expect([allowed.code, allowed.stdout]).toEqual([0, `Allowed: ${ids[0]} of order-1\n`]);
  const denied = await command(
    ['approve', 'order-2', ids[1] ?? '', '--deny', '--reason', 'too much', '--json', ...where],
    '/',
  );
  expect(JSON.parse(denied.stdout)).toEqual({ session: 'order-2', callId: ids[1], allow: false, decided: true });
  await eventually(async () => (await runtime.session('order-2').state()).state === 'idle');
  expect(JSON.stringify(await runtime.session('order-2').messages())).toContain('too much');
  const late = await command(['approve', 'order-2', ids[1] ?? '', ...where], '/');
  expect([late.code, late.stderr]).toEqual([
    1,
    `${ids[1]} of order-2 does not wait for a person, or was decided otherwise.\n`,
  ]);
  const nowhere = await command(['approve', 'nobody', 'x', ...where], '/');
  expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('answered 404: there is no session')]);
});

test('in a data directory: read without a runtime, decided with the agents, and continued to the end', async () => {
  const directory = await kit.directory();
  const runtime = await waitingRuntime(['order-1', 'order-2'], directory);
  const { items } = await runtime.waiting();
  await runtime.close();
  const where = ['--data', directory];
  const listed = await command(['waiting', ...where, '--json'], '/');
  expect(
    listed.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual(items);

  const [first] = items;
  const decide = ['approve', 'order-1', first?.callId ?? '', ...where];
  const without = await command(decide, '/');
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--agents MODULE')]);
  const source = pathToFileURL(join(import.meta.dirname, '../../src')).href;
  const module = join(await kit.directory(), 'agents.mjs');
  await writeFile(
    module,
    `import { agent, tool } from '${source}/index.ts';
import { scripted } from '${source}/testing/scripted.ts';
const pay = tool({ name: 'pay', description: 'Pays.', effect: 'once', input: { type: 'object' }, run: () => 'paid' });
export default { provider: scripted(['ok']), agents: [agent({ name: 'cashier', tools: [pay], approve: ['pay'] })] };\n`,
  );
  const allowed = await command([...decide, '--agents', module], '/');
  expect([allowed.code, allowed.stdout], allowed.stderr).toEqual([0, `Allowed: ${first?.callId} of order-1\n`]);
  const left = await command(['waiting', ...where, '--json'], '/');
  expect(JSON.parse(left.stdout)).toMatchObject({ session: 'order-2' });
  const tail = await command(['tail', 'order-1', ...where, '--json'], '/');
  expect(tail.stdout).toContain('"content":"paid"');
  expect(tail.stdout.trimEnd().split('\n').at(-1)).toContain('"turn.finished"');
});

const seat = { type: 'object', properties: { row: { type: 'integer' } }, required: ['row'] };
const asks = (): ReturnType<typeof scripted> =>
  scripted((_request, { session, call }) => {
    if (call > 0) return 'ok';
    if (session === 'flight') return { toolUse: { name: 'ask_seat', input: { question: 'Which seat?' } } };
    return { toolUse: { name: 'ask_human', input: { question: 'Which\ncolour?', choices: ['red', 'green'] } } };
  });

async function askingRuntime(sessions: readonly string[], directory?: string): Promise<Runtime> {
  const tools = [askHuman(), askHuman({ name: 'ask_seat', answer: seat })];
  const place = directory === undefined ? {} : { directory };
  const runtime = await kit.open({ provider: asks(), agents: [agent({ name: 'travel', tools })], ...place });
  for (const id of sessions) {
    await runtime.session(id).send('ask');
    await eventually(async () => (await runtime.waiting({ session: id })).items.length === 1);
  }
  return runtime;
}

test('over a server: questions are listed by their text, and answered with text, with JSON, or not at all', async () => {
  const runtime = await askingRuntime(['colour', 'flight', 'wall']);
  const server = await serve(runtime, { port: 0, token: 'secret' });
  onTestFinished(() => server.close());
  const where = ['--url', server.url, '--token', 'secret'];
  const shown = await command(['waiting', ...where], '/');
  const lines = shown.stdout.trimEnd().split('\n').slice(1);
  const ends = ['Which colour? [red | green]', 'Which seat?', 'Which colour? [red | green]'];
  expect(
    lines.map((line, index) => line.endsWith(`  ${ends[index]}`)),
    shown.stdout,
  ).toEqual([true, true, true]);
  const [paint = '', flight = '', wall = ''] = (await runtime.waiting()).items.map(({ callId }) => callId);
  const answer = (...rest: string[]) => command(['answer', ...rest, ...where], '/');

  const words = await answer('colour', paint, 'light', 'blue');
  expect([words.code, words.stdout], words.stderr).toEqual([0, `Answered: ${paint} of colour\n`]);
  await eventually(async () => (await runtime.session('colour').state()).state === 'idle');
  expect(JSON.stringify(await runtime.session('colour').messages())).toContain('light blue');

  const text = await answer('flight', flight, 'row 7');
  expect([text.code, text.stderr]).toEqual([
    2,
    expect.stringContaining('must be JSON, since the question has the schema'),
  ]);
  const misfit = await answer('flight', flight, '{"row":"x"}');
  expect([misfit.code, misfit.stderr]).toEqual([1, expect.stringMatching(/answered 400: .*\$\.row/u)]);
  const fits = await answer('flight', flight, '{"row":7}', '--json');
  expect(JSON.parse(fits.stdout)).toEqual({ session: 'flight', callId: flight, answered: true });
  // The question has left the queue: the same object still counts as JSON, so the same answer holds again.
  expect((await answer('flight', flight, '{"row":7}')).code).toBe(0);
  const other = await answer('flight', flight, '{"row":8}');
  expect([other.code, other.stderr]).toEqual([1, `${flight} of flight asks nothing, or was answered otherwise.\n`]);

  const declined = await answer('wall', wall, '--decline', '--reason', 'no paint left');
  expect([declined.code, declined.stdout]).toEqual([0, `Declined: ${wall} of wall\n`]);
  await eventually(async () => (await runtime.session('wall').state()).state === 'idle');
  expect(JSON.stringify(await runtime.session('wall').messages())).toContain('no paint left');
});

test('in a data directory a question is answered with the agents, and its session continues to the end', async () => {
  const directory = await kit.directory();
  const runtime = await askingRuntime(['flight'], directory);
  const [queued] = (await runtime.waiting()).items;
  await runtime.close();
  const source = pathToFileURL(join(import.meta.dirname, '../../src')).href;
  const module = join(await kit.directory(), 'agents.mjs');
  await writeFile(
    module,
    `import { agent } from '${source}/index.ts';
import { askHuman } from '${source}/tools/built-in/index.ts';
import { scripted } from '${source}/testing/scripted.ts';
const ask = askHuman({ name: 'ask_seat', answer: ${JSON.stringify(seat)} });
export default { provider: scripted(['Booked.']), agents: [agent({ name: 'travel', tools: [ask] })] };\n`,
  );
  const where = ['--data', directory, '--agents', module];
  const answered = await command(['answer', 'flight', queued?.callId ?? '', '{"row":7}', ...where], '/');
  expect([answered.code, answered.stdout], answered.stderr).toEqual([0, `Answered: ${queued?.callId} of flight\n`]);
  const tail = await command(['tail', 'flight', '--data', directory, '--json'], '/');
  expect(tail.stdout).toContain('Booked.');
  expect(tail.stdout.trimEnd().split('\n').at(-1)).toContain('"turn.finished"');
});

test('an empty queue says so, and wrong arguments are named', async () => {
  const server = await serve(await waitingRuntime([]), { port: 0 });
  onTestFinished(() => server.close());
  expect((await command(['waiting', '--url', server.url], '/')).stdout).toBe('No call waits for a person.\n');
  for (const line of [
    ['waiting', '--url', server.url, '--data', '.'],
    ['waiting', '--url', 'ftp://x'],
    ['approve', 's', 'c', '--url', server.url, '--agents', 'x'],
    ['approve', 's', 'c', '--reason', 'x', '--url', server.url],
    ['approve', 's'],
    ['answer', 's', 'c', '--url', server.url],
    ['answer', 's', 'c', 'x', '--decline', '--url', server.url],
    ['answer', 's', 'c', 'x', '--reason', 'x', '--url', server.url],
    ['answer', 's', 'c', 'x', '--url', server.url, '--data', '.'],
  ]) {
    expect((await command(line, '/')).code, line.join(' ')).toBe(2);
  }
});
