/** Goal: the server serves the observer page from its directory, and no other file of the disk. */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serverKit } from './support.ts';

const kit = serverKit();

async function pageDirectory(): Promise<string> {
  const parent = await kit.directory();
  await writeFile(join(parent, 'secret.txt'), 'canary');
  const directory = join(parent, 'observer');
  await mkdir(join(directory, 'assets'), { recursive: true });
  await writeFile(join(directory, 'index.html'), '<!doctype html><title>Observer</title>');
  await writeFile(join(directory, 'assets', 'index-a1B2.js'), 'export {};');
  await writeFile(join(directory, '.hidden'), 'canary');
  await symlink(join(parent, 'secret.txt'), join(directory, 'link.txt'));
  return directory;
}

test('the page and its files are served, each with its type and a strict policy', async () => {
  const observerDirectory = await pageDirectory();
  const { get, url } = await kit.serve({}, { observerDirectory });
  for (const path of ['/', '/observer']) {
    const { status, headers } = await get(path);
    const target = new URL(headers.get('location') ?? '', `${url}${path}`);
    expect([status, target.href]).toEqual([302, `${url}/observer/`]);
  }
  const page = await get('/observer/');
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.body).toContain('<title>Observer</title>');
  const policy = page.headers.get('content-security-policy') ?? '';
  for (const rule of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) {
    expect(policy.split('; ')).toContain(rule);
  }
  expect(policy).not.toContain('unsafe');
  expect(page.headers.get('x-content-type-options')).toBe('nosniff');
  const script = await get('/observer/assets/index-a1B2.js?v=1');
  expect([script.status, script.headers.get('content-type'), script.body]).toEqual([
    200,
    'text/javascript; charset=utf-8',
    'export {};',
  ]);
});

test('F72: no path leads out of the directory: not up, not by a link, not to hidden files or folders', async () => {
  const observerDirectory = await pageDirectory();
  const { get, url } = await kit.serve({}, { observerDirectory });
  for (const path of [
    'link.txt',
    '.hidden',
    'assets',
    'assets/',
    'nothing.js',
    '..%2fsecret.txt',
    '%2e%2e/secret.txt',
    'a%00.js',
    'assets//index-a1B2.js',
    `${'a'.repeat(3_000)}`,
    'C:/x',
  ]) {
    const { status, body } = await get(`/observer/${path}`);
    expect([path, status]).toEqual([path, 404]);
    expect(JSON.stringify(body)).not.toContain('canary');
  }
  // The path is sent as typed, since an ordinary client would normalise it first.
  const raw = await new Promise<string>((resolve) => {
    let answer = '';
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () =>
      socket.write('GET /observer/../secret.txt HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'),
    );
    socket.setEncoding('utf8').on('data', (piece: string) => {
      answer += piece;
    });
    socket.on('close', () => resolve(answer));
  });
  expect(raw).toMatch(/^HTTP\/1.1 404 /);
  expect(raw).not.toContain('canary');
});

test('if the page was not built, the answer says so', async () => {
  const { get } = await kit.serve({}, { observerDirectory: await kit.directory() });
  expect(await get('/observer/')).toMatchObject({
    status: 404,
    body: { code: 'not_found', detail: 'the observer page is not built: run `npm run build`' },
  });
  expect(await get('/observer/x.js')).toMatchObject({ status: 404, body: { code: 'not_found' } });
});
