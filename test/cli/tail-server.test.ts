/**
 * Goal: `tail --url` prints the events of a session on a running server: the existing events, and with --follow also
 * the later ones.
 */
import { expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { eventually, history, runtimeKit } from '../support/runtime-kit.ts';
import { sessionServer } from './support/session-server.ts';
import { command, testSurroundings } from './support/surroundings.ts';

const kit = runtimeKit();

test('prints the stored durable events after a number, and ends', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime);
  await runtime.session('s').ask('hi');
  const events = await history(runtime.session('s'));
  const all = await command(['tail', 's', '--url', url, '--after', '0', '--json'], '/');
  expect(all.code, all.stderr).toBe(0);
  const parsed = all.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  expect(parsed).toEqual(events);
  const two = await command(['tail', 's', '--url', url, '--after', '2', '--limit', '2'], '/');
  expect(two.stdout.split('\n').map((line) => Number(line.slice(0, 6)))).toEqual([3, 4, 0]);
  expect(await command(['tail', 's', '--url', url, '--after', String(events.length)], '/')).toMatchObject({
    code: 0,
    stdout: '',
  });
});

test('--follow continues with new events until it is stopped', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime);
  await runtime.session('s').ask('hi');
  const surroundings = testSurroundings('/');
  const running = runCommandLine(['tail', 's', '--url', url, '--follow', '--json'], surroundings);
  const text = surroundings.stdout.text;
  await eventually(() => text().includes('turn.finished'));
  await runtime.session('s').ask('and again');
  await eventually(() => text().includes('and again') && text().includes('turn-2'));
  surroundings.signal('SIGINT');
  expect(await running).toBe(130);
  expect(surroundings.handlers()).toBe(0);
  const seqs = text()
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly seq: number }).seq);
  expect(seqs).toEqual(seqs.map((_, index) => index + 1));
});

test('names invalid arguments and sessions', async () => {
  const runtime = await kit.open({ provider: scripted({ rules: [], otherwise: 'ok' }) });
  const { url } = await sessionServer(runtime);
  for (const [line, exit] of [
    [['nobody', '--url', url], 1],
    [['s', '--data', await kit.directory()], 1],
    [['s', '--url', 'http://127.0.0.1:1'], 1],
    [['s', '--url', url, '--data', '.'], 2],
    [['s', '--url', 'x'], 2],
  ] as const) {
    expect((await command(['tail', ...line], '/')).code, line.join(' ')).toBe(exit);
  }
});
