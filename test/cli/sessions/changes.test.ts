/**
 * Goal: `interrupt`, `pause`, `resume`, `delete`, `fork` and `search` change and find sessions on a running server and in
 * a directory. In a directory no work starts and no model is called.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { agent, type OpenOptions, type Runtime } from '../../../src/index.ts';
import { serve } from '../../../src/server/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, runtimeKit } from '../../support/runtime-kit.ts';
import { countOf, readLogs } from '../support/store-log.ts';
import { command, type Outcome } from '../support/surroundings.ts';

const kit = runtimeKit();

const answering: OpenOptions = {
  provider: scripted({ rules: [], otherwise: 'Lisbon lies on the Tagus.' }),
  // A session has the name that the commands would give their own agent.
  agents: [agent({ name: 'command' })],
};

/** A store with a session at rest, and one that was interrupted in its model call. */
async function interruptedStore(): Promise<string> {
  const directory = await kit.directory();
  const first = await kit.open({ ...answering, directory });
  await first.session('trip').ask('Where is Lisbon?');
  await first.session('trip').ask('And Porto?');
  await first.close();
  const hanging = scripted([{ text: 'late', delayMs: 3_600_000 }]);
  const second = await kit.open({ ...answering, provider: hanging, directory });
  await second.session('busy').send('hello');
  await eventually(async () => (await second.session('busy').state()).state === 'awaiting');
  await second.close({ deadlineMs: 0 });
  return directory;
}

test('in a directory: each command changes the log alone', async () => {
  const directory = await interruptedStore();
  const at = (...line: readonly string[]): Promise<Outcome> => command([...line, '--data', directory], '/');
  const answers = countOf(await readLogs(directory), 'responded');

  expect((await at('pause', 'trip')).stdout).toBe('Paused: trip\n');
  expect(countOf(await readLogs(directory), 'responded')).toEqual(answers);
  expect((await at('inspect', 'trip')).stdout).toContain('pause() was called');
  expect(JSON.parse((await at('resume', 'trip', '--json')).stdout)).toEqual({ session: 'trip', paused: false });
  expect((await at('inspect', 'trip')).stdout).not.toContain('pause() was called');

  const stopped = await at('interrupt', 'busy', '--reason', 'not needed', '--json');
  expect(JSON.parse(stopped.stdout), stopped.stderr).toEqual({ session: 'busy', interrupted: true });
  expect((await at('inspect', 'busy', '--json')).stdout).toContain('"state":"idle"');
  expect((await at('interrupt', 'busy')).stdout).toBe('busy was not running.\n');

  const fork = await at('fork', 'trip', 'trip-2', '--at', '2', '--json');
  expect(JSON.parse(fork.stdout), fork.stderr).toEqual({ session: 'trip', id: 'trip-2', at: 2 });
  expect((await at('fork', 'trip')).stdout).toMatch(/^Forked: trip:fork-\d+ from trip\n$/u);
  expect((await at('fork', 'trip', 'trip-2')).code).toBe(1);
  expect((await at('export', 'trip-2', '--history')).stdout).not.toContain('Porto');

  expect((await at('delete', 'trip-2')).stdout).toBe('Deleted: trip-2\n');
  expect((await at('inspect', 'trip-2')).code).toBe(1);
  // Nothing but the decisions above is in the logs: no model was called.
  expect(countOf(await readLogs(directory), 'responded')).toMatchObject(answers);
  for (const name of ['interrupt', 'pause', 'resume', 'delete', 'fork']) {
    const { code, stderr } = await at(name, 'nowhere');
    expect([code, stderr], name).toEqual([1, expect.stringContaining('session "nowhere" is not in')]);
    expect((await at(name)).code, name).toBe(2);
  }
});

test('in a directory: search finds messages, as a table that fits and as JSON that is whole', async () => {
  const directory = await interruptedStore();
  const at = (...line: readonly string[]): Promise<Outcome> => command(['search', ...line, '--data', directory], '/');
  const { code, stdout, stderr } = await at('Tagus');
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout.split('\n').slice(0, 3)).toEqual([
    'message  kind   text',
    'trip#2   model  Lisbon lies on the Tagus.',
    'trip#4   model  Lisbon lies on the Tagus.',
  ]);
  const one = await at('Porto', '--limit', '1', '--json');
  expect(JSON.parse(one.stdout)).toMatchObject({ session: 'trip', seq: 3, kind: 'human', snippet: 'And Porto?' });
  expect((await at('Tagus', '--session', 'busy')).code).toBe(1);
  const none = await at('Atlantis');
  expect([none.code, none.stdout, none.stderr]).toEqual([1, '', 'No message fits "Atlantis".\n']);
});

test('on a server: interrupt, pause, resume, delete', async () => {
  const runtime: Runtime = await kit.open({ provider: scripted([{ text: 'late', delayMs: 3_600_000 }]) });
  const server = await serve(runtime, { port: 0 });
  onTestFinished(() => server.close());
  const at = (...line: readonly string[]): Promise<Outcome> => command([...line, '--url', server.url], '/');
  await runtime.session('busy').send('hello');
  await eventually(async () => (await runtime.session('busy').state()).state === 'awaiting');
  expect(JSON.parse((await at('interrupt', 'busy', '--json')).stdout)).toEqual({ session: 'busy', interrupted: true });
  expect((await at('pause', 'busy')).stdout).toBe('Paused: busy\n');
  expect((await runtime.session('busy').explain()).reason).toBe('paused');
  expect((await at('resume', 'busy')).stdout).toBe('Resumed: busy\n');
  expect((await runtime.session('busy').explain()).reason).not.toBe('paused');
  expect((await at('delete', 'busy')).stdout).toBe('Deleted: busy\n');
  expect(await runtime.sessions.get('busy')).toBeUndefined();
  for (const name of ['interrupt', 'pause', 'resume', 'delete']) {
    expect((await at(name, 'busy')).code, name).toBe(1);
  }
});

test('on a server: fork and search send what the routes take, and print what they answer', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    request.on('end', () => {
      asked.push(`${request.method} ${request.url} ${text}`);
      const found = [{ session: 'a', seq: 7, kind: 'anima', snippet: 'x'.repeat(200) }];
      const body = request.method === 'POST' ? { id: 'copy', agent: 'default' } : { found, isComplete: false };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => void server.close());
  const where = ['--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}`];
  expect((await command(['fork', 'a', 'copy', '--at', '3', ...where], '/')).stdout).toBe('Forked: copy from a\n');
  const shown = await command(['search', 'two', 'words', '--limit', '5', '--session', 'a', ...where], '/');
  expect(asked).toEqual([
    'POST /sessions/a/fork {"id":"copy","at":3}',
    'GET /search?query=two+words&limit=5&session=a ',
  ]);
  expect(shown.stderr).toContain('The index is still being built');
  const [, line = ''] = shown.stdout.split('\n');
  expect([line.length, line.endsWith('…')]).toEqual([79, true]);
  const json = await command(['search', 'words', '--json', ...where], '/');
  expect((JSON.parse(json.stdout) as { readonly snippet: string }).snippet).toHaveLength(200);
});
