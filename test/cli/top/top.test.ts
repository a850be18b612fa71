/**
 * Goal: `top` over a running server and over a directory that is not open elsewhere: order, widths, rates, ends.
 * Method: the command in place.
 */
import { expect, test } from 'vitest';
import { runCommandLine } from '../../../src/cli/command-line.ts';
import { paintFor } from '../../../src/cli/surroundings.ts';
import { ageText } from '../../../src/cli/text-layout.ts';
import type { TopSession } from '../../../src/cli/top/source.ts';
import { inOrder, topLines } from '../../../src/cli/top/texts.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, gatedModel, runtimeKit } from '../../support/runtime-kit.ts';
import { emptyDirectory } from '../support/program.ts';
import { sessionServer } from '../support/session-server.ts';
import { command, keptOutput, testSurroundings } from '../support/surroundings.ts';

const kit = runtimeKit();
const ESCAPE = '\u001b';

function row(
  id: string,
  fields: Partial<TopSession & { readonly rate: number }> = {},
): TopSession & { readonly rate?: number } {
  return { id, agent: 'a', state: 'idle', mailbox: 0, updatedAt: 0, ...fields };
}

test('orders by the requested column, then working sessions first, then by id', () => {
  const rows = [row('b'), row('a'), row('c', { mailbox: 2 }), row('d', { state: 'awaiting' }), row('e', { rate: 9 })];
  const ids = (order: 'mailbox' | 'rate' | 'age'): string =>
    inOrder(rows, order)
      .map(({ id }) => id)
      .join('');
  expect(ids('mailbox')).toBe('cdeab');
  expect(ids('rate')).toBe('edcab');
  expect(inOrder([row('new', { updatedAt: 9 }), row('old', { updatedAt: 1 })], 'age').map(({ id }) => id)).toEqual([
    'old',
    'new',
  ]);
});

test.each([
  [0, '0s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [7_200_000, '2h'],
  [200_000_000, '2d'],
  [-5, '0s'],
])('an age of %d ms is %s', (ms, text) => {
  expect(ageText(ms)).toBe(text);
});

test.each([20, 40, 80, 200])('no line is wider than a terminal of %d columns', (columns) => {
  const sessions = [
    row('a-session-with-a-rather-long-name-of-its-own', { state: 'executing', mailbox: 123, rate: 4.5 }),
  ];
  const paint = paintFor(keptOutput(), {});
  const lines = topLines({ title: 'x' }, { at: 5, sessions, isCut: true }, sessions, { columns, paint });
  for (const line of lines) expect(line.length).toBeLessThan(Math.max(columns, 1));
});

test('a running server, once: sessions at work first, the counters, no colour without a terminal', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const { url } = await sessionServer(runtime);
  await runtime.session('resting').send('hi');
  (await model.next()).answer('ok');
  await runtime.drain();
  await runtime.session('working').send('hi');
  await model.next();
  await runtime.session('working').send('and this');
  const { code, stdout, stderr } = await command(['top', '--url', url], '/');
  expect(code, stderr).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines[0]).toBe(`${url}  2 sessions: 1 awaiting, 1 idle`);
  expect(lines[1]).toContain('models: 1 (0 waiting)');
  expect(lines[4]).toMatch(/^working +default +awaiting +1 +- +\d+s$/);
  expect(lines[5]).toMatch(/^resting +default +idle +0 +- +\d+s$/);
  expect(stdout).not.toContain(ESCAPE);
});

test('several providers have one line: their calls, and what stops them', () => {
  const figures = { modelCallsRunning: 0, modelCallsWaiting: 0, circuitsOpen: 0, credentialsRefused: 0 };
  const lineOf = (providers: Readonly<Record<string, Readonly<Record<string, number>>>>): string | undefined =>
    topLines({ title: 'x' }, { at: 5, sessions: [], isCut: false, providers }, [], {
      columns: 200,
      paint: paintFor(keptOutput(), {}),
    }).find((line) => line.startsWith('providers:'));
  expect(lineOf({ '': figures })).toBeUndefined();
  const claude = { ...figures, modelCallsRunning: 2, circuitsOpen: 1 };
  const gpt = { ...figures, modelCallsRunning: 3, modelCallsWaiting: 1, credentialsRefused: 1 };
  expect(lineOf({ '': figures, claude, gpt })).toBe(
    'providers: (provider) 0 running  claude 2 running, no answer  gpt 3 running, 1 waiting, credentials refused',
  );
});

test('a server with several providers, once: their line is above the table', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ providers: { one: model.provider, two: scripted([]) } });
  const { url } = await sessionServer(runtime);
  await runtime.session('s').send('hi');
  await model.next();
  const { stdout } = await command(['top', '--url', url], '/');
  expect(stdout.split('\n')[2]).toBe('providers: one 1 running  two 0 running');
});

test('--json samples until it is stopped, with rates from two samples', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime);
  await runtime.session('s').ask('one');
  const surroundings = testSurroundings('/');
  const running = runCommandLine(['top', '--url', url, '--json', '--interval', '50'], surroundings);
  const looks = (): readonly Record<string, unknown>[] =>
    surroundings.stdout
      .text()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  await eventually(() => looks().length >= 1);
  await runtime.session('s').ask('two');
  const rate = (): number =>
    Math.max(...looks().map(({ sessions }) => (sessions as readonly { readonly rate?: number }[])[0]?.rate ?? 0));
  await eventually(() => rate() > 0);
  await eventually(() => looks().some(({ halfStepsPerSecond }) => Number(halfStepsPerSecond) > 0));
  surroundings.signal('SIGINT');
  expect(await running).toBe(130);
  expect(surroundings.handlers()).toBe(0);
});

test('in a terminal the table is drawn over itself, fits the screen, and restores the cursor', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime);
  for (let session = 0; session < 20; session += 1) await runtime.session(`s-${session}`).ask('hi');
  const stdout = keptOutput(true, 60, 12);
  const surroundings = testSurroundings('/', { stdout });
  const running = runCommandLine(['top', '--url', url, '--interval', '50'], surroundings);
  const screens = (): readonly string[] => stdout.text().split(`${ESCAPE}[H${ESCAPE}[J`).slice(1);
  await eventually(() => screens().length >= 3);
  surroundings.signal('SIGTERM');
  expect(await running).toBe(143);
  expect(screens()[0]?.trimEnd().split('\n').length).toBeLessThanOrEqual(12);
  expect(screens()[0]).toContain('and 14 more');
  expect(stdout.text().startsWith(`${ESCAPE}[?25l`)).toBe(true);
  expect(stdout.text().endsWith(`${ESCAPE}[?25h`)).toBe(true);
  const plain = keptOutput(true, 60, 12);
  expect(
    (await command(['top', '--url', url, '--once'], '/', { stdout: plain, environment: { NO_COLOR: '1' } })).code,
  ).toBe(0);
  expect(plain.text()).not.toContain(ESCAPE);
});

test('a directory is read once, and refused while it is open', async () => {
  const directory = await emptyDirectory();
  const runtime = await kit.open({ directory, provider: scripted({ rules: [], otherwise: 'ok' }) });
  await runtime.session('s').ask('hi');
  const busy = await command(['top', '--data', directory], '/');
  expect(busy).toMatchObject({ code: 1, stderr: expect.stringContaining(`process ${process.pid} on `) });
  await runtime.close();
  const { code, stdout } = await command(['top', '--data', directory], '/');
  expect([code, stdout.includes('no process has it open'), stdout.includes('s  ')]).toEqual([0, true, true]);
  const { stdout: json } = await command(['top', '--data', directory, '--json'], '/');
  expect(JSON.parse(json)).toMatchObject({ sessions: [{ id: 's', state: 'idle', mailbox: 0 }] });
});

test('the token comes from the option or the environment; errors are reported', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime, 'letmein');
  expect(await command(['top', '--url', url], '/')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('401: a token is needed'),
  });
  expect((await command(['top', '--url', url, '--token', 'letmein'], '/')).code).toBe(0);
  expect((await command(['top', '--url', url], '/', { environment: { TROUPE_TOKEN: 'letmein' } })).code).toBe(0);
  for (const line of [
    ['--url', 'nonsense'],
    ['--url', url, '--data', '.'],
    ['--sort', 'size', '--url', url],
  ]) {
    expect((await command(['top', ...line], '/')).code, line.join(' ')).toBe(2);
  }
  expect((await command(['top', '--data', '/nowhere'], '/')).code).toBe(1);
  const gone = await command(['top', '--url', 'http://127.0.0.1:1'], '/');
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('does not answer') });
});
