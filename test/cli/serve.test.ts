/** Goal: `troupe serve` serves a directory until it is stopped, and refuses invalid options. Run in place. */
import { chmod, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/command-line.ts';
import { eventually } from '../support/runtime-kit.ts';
import { emptyDirectory } from './support/program.ts';
import { command, testSurroundings } from './support/surroundings.ts';

test('serves, prints its address, and stops at a signal', async () => {
  const directory = await emptyDirectory();
  const surroundings = testSurroundings(directory);
  const ended = runCommandLine(['serve', 'data', '--port', '0', '--json'], surroundings);
  await eventually(() => surroundings.stdout.text().includes('\n'));
  const { url, directory: data } = JSON.parse(surroundings.stdout.text()) as {
    readonly url: string;
    readonly directory: string;
  };
  expect(data).toBe(join(directory, 'data'));
  expect(surroundings.stderr.text()).toContain('ANTHROPIC_API_KEY');
  const made = await fetch(`${url}/sessions`, {
    method: 'POST',
    body: JSON.stringify({ id: 's' }),
    headers: { 'content-type': 'application/json' },
  });
  expect(made.status).toBe(201);
  surroundings.signal('SIGTERM');
  expect(await ended).toBe(0);
  expect(surroundings.handlers()).toBe(0);
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test('SIGTERM drains: new work is refused, reads are answered, and accepted work is finished before the exit', async () => {
  const directory = await emptyDirectory();
  const agents = new URL('../../src/index.ts', import.meta.url).href;
  const testing = new URL('../../src/testing/scripted.ts', import.meta.url).href;
  const path = join(directory, 'agents.mjs');
  await writeFile(
    path,
    `import { agent } from ${JSON.stringify(agents)};
     import { scripted } from ${JSON.stringify(testing)};
     let isAsked;
     let answer;
     export const asked = new Promise((resolve) => { isAsked = resolve; });
     const first = new Promise((resolve) => { answer = resolve; });
     export const answerFirst = () => answer('First.');
     const provider = scripted((_request, { call }) => {
       isAsked();
       return call === 0 ? first : 'Second.';
     });
     export default { agents: [agent({ name: 'clerk' })], provider };`,
  );
  const { asked, answerFirst } = (await import(pathToFileURL(path).href)) as {
    readonly asked: Promise<void>;
    readonly answerFirst: () => void;
  };
  const surroundings = testSurroundings(directory);
  const ended = runCommandLine(['serve', 'data', '--port', '0', '--json', '--agents', path], surroundings);
  await eventually(() => surroundings.stdout.text().includes('\n'));
  const { url } = JSON.parse(surroundings.stdout.text()) as { readonly url: string };
  const post = (content: string): Promise<Response> =>
    fetch(`${url}/sessions/s/messages`, {
      method: 'POST',
      body: JSON.stringify({ content, deliver: 'turn' }),
      headers: { 'content-type': 'application/json' },
    });
  for (const content of ['one', 'two']) expect((await post(content)).status).toBe(202);
  await asked;
  const waiting = fetch(`${url}/sessions/s/receipts/2?wait=answer`);
  surroundings.signal('SIGTERM');
  expect((await fetch(`${url}/readyz`)).status).toBe(503);
  expect((await post('three')).status).toBe(503);
  expect((await fetch(`${url}/sessions/s/messages`)).status).toBe(200);
  answerFirst();
  expect(await (await waiting).json()).toMatchObject({ status: 'answered', answer: 'Second.' });
  expect(await ended).toBe(0);
});

test('the tokens of a file, each with its role; a file that others may read is refused, and no token is shown', async () => {
  const directory = await emptyDirectory();
  const path = join(directory, 'tokens.json');
  await writeFile(path, JSON.stringify([{ token: 'secret-4711', role: 'reader' }]), { mode: 0o600 });
  const surroundings = testSurroundings(directory);
  const ended = runCommandLine(['serve', 'data', '--port', '0', '--json', '--tokens', 'tokens.json'], surroundings);
  await eventually(() => surroundings.stdout.text().includes('\n'));
  const { url } = JSON.parse(surroundings.stdout.text()) as { readonly url: string };
  const headers = { authorization: 'Bearer secret-4711', 'content-type': 'application/json' };
  expect((await fetch(`${url}/sessions`)).status).toBe(401);
  expect((await fetch(`${url}/sessions`, { headers })).status).toBe(200);
  expect((await fetch(`${url}/sessions`, { method: 'POST', headers, body: '{"id":"s"}' })).status).toBe(403);
  surroundings.signal('SIGTERM');
  expect(await ended).toBe(0);

  const refused = async (): Promise<string> => {
    const { code, stderr } = await command(['serve', 'data', '--port', '0', '--tokens', 'tokens.json'], directory);
    expect(code).not.toBe(0);
    expect(stderr).not.toContain('4711');
    return stderr;
  };
  for (const [text, said] of [
    ['[{"token":"secret-4711"', 'is not JSON'],
    ['{"token":"secret-4711"}', 'must hold a list'],
    ['[{"token":"secret-4711"}]', 'tokens.0.role'],
  ] as const) {
    await writeFile(path, text);
    expect(await refused()).toContain(said);
  }
  await writeFile(path, JSON.stringify([{ token: 'secret-4711', role: 'reader' }]));
  await chmod(path, 0o640);
  expect(await refused()).toContain('chmod 600 tokens.json');
  await rm(path);
  expect(await refused()).toContain('ENOENT');
});

test('the agents of a module; a token from the environment, which is not shown', async () => {
  const directory = await emptyDirectory();
  const agents = new URL('../../src/index.ts', import.meta.url).href;
  const testing = new URL('../../src/testing/scripted.ts', import.meta.url).href;
  await writeFile(
    join(directory, 'agents.mjs'),
    `import { agent } from ${JSON.stringify(agents)};
     import { scripted } from ${JSON.stringify(testing)};
     export default { agents: [agent({ name: 'clerk' })], provider: scripted(['Hello.']) };`,
  );
  const surroundings = testSurroundings(directory, { environment: { TROUPE_TOKEN: 'canary-token-1' } });
  const ended = runCommandLine(['serve', '--port', '0', '--agents', 'agents.mjs'], surroundings);
  await eventually(() => surroundings.stdout.text().includes('Observer'));
  const url = /at (http:\S+)/.exec(surroundings.stdout.text())?.[1] ?? '';
  expect((await fetch(`${url}/info`)).status).toBe(401);
  const headers = { authorization: 'Bearer canary-token-1', 'content-type': 'application/json' };
  const made = await fetch(`${url}/sessions`, { method: 'POST', headers, body: '{"id":"s"}' });
  expect(await made.json()).toMatchObject({ agent: 'clerk' });
  surroundings.signal('SIGINT');
  expect(await ended).toBe(130);
  expect(surroundings.stdout.text() + surroundings.stderr.text()).not.toContain('canary-token');
});

test('an open address without a token, an invalid module and an invalid port are refused', async () => {
  const directory = await emptyDirectory();
  await writeFile(join(directory, 'number.mjs'), 'export default 5;');
  const open = await command(['serve', '--port', '0', '--host', '0.0.0.0'], directory);
  expect([open.code, open.stderr]).toEqual([1, expect.stringContaining('serve.token')]);
  const missing = await command(['serve', '--agents', 'nothing.mjs'], directory);
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('--agents nothing.mjs')]);
  const number = await command(['serve', '--agents', 'number.mjs'], directory);
  expect([number.code, number.stderr]).toEqual([1, expect.stringContaining('number 5')]);
  expect((await command(['serve', '--port', '70000'], directory)).code).toBe(2);
});
