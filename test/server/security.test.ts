/**
 * Goal: an unauthorised request is refused (F74): one with another host name, from another page, or without a token. No
 * secret is revealed. Over real HTTP.
 */
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { handler, nodeListener, serve } from '../../src/server/index.ts';
import { failure } from '../support/runtime-kit.ts';
import { echo, serverKit } from './support.ts';

const kit = serverKit();
const TOKEN = 'canary-4711-token-of-the-server';

/** The status of a request with any `Host`, which `fetch` does not allow to set. */
function ask(url: string, headers: Readonly<Record<string, string>>, method = 'GET'): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers, method, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on('error', reject);
    asked.end();
  });
}

describe('the listening address', () => {
  test.each(['0.0.0.0', '::', '192.168.1.4', 'example.com', '10.0.0.1'])(
    'F74: %s is refused without a token',
    async (host) => {
      const runtime = await kit.open({ provider: echo });
      const error = await failure(serve(runtime, { port: 0, host }));
      expect(error).toMatchObject({
        name: 'ConfigError',
        code: 'config',
        message: expect.stringContaining('serve.token'),
      });
    },
  );

  test('F74: the default is loopback; a token allows all addresses', async () => {
    const local = await kit.serve();
    expect(local.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const open = await kit.serve({}, { host: '0.0.0.0', token: TOKEN });
    expect(open.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect((await open.get('/info')).status).toBe(401);
    const authorization = `Bearer ${TOKEN}`;
    expect(await ask(`${open.url}/info`, { authorization, host: '192.168.1.4:80' })).toBe(200);
    expect(await ask(`${open.url}/info`, { authorization, host: 'rebound.example' })).toBe(403);
  });

  test('an address that is in use, or invalid, is refused with a `config` error', async () => {
    const { url, runtime } = await kit.serve();
    const port = Number(new URL(url).port);
    expect(await failure(serve(runtime, { port }))).toMatchObject({
      code: 'config',
      message: expect.stringContaining(String(port)),
    });
    expect(await failure(serve(runtime, { port: 65_536 }))).toMatchObject({ code: 'config' });
    expect(await failure(serve(runtime, {} as { port: number }))).toMatchObject({ code: 'config' });
  });
});

describe('host names and origins', () => {
  test('F74: a foreign host name is refused, whatever address it resolves to', async () => {
    const { url } = await kit.serve();
    const { port } = new URL(url);
    for (const host of [`127.0.0.1:${port}`, 'localhost', `localhost:${port}`, '[::1]', '127.0.0.5', 'LOCALHOST']) {
      expect([host, await ask(`${url}/sessions`, { host })]).toEqual([host, 200]);
    }
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '10.0.0.1',
      'user@localhost',
      '[::2]',
      'localhost:99999999',
      '0.0.0.0',
    ]) {
      const status = await ask(`${url}/sessions`, { host });
      expect([host, status === 400 || status === 403]).toEqual([host, true]);
    }
  });

  test('F74: a page of another origin is refused, also a page without an origin', async () => {
    const { url } = await kit.serve();
    const { host } = new URL(url);
    expect(await ask(`${url}/sessions`, { origin: url })).toBe(200);
    for (const origin of [
      'http://evil.example',
      'null',
      'http://localhost',
      `http://${host}.evil.example`,
      'nonsense',
      '',
    ]) {
      expect([origin, await ask(`${url}/sessions/s/interrupt`, { origin }, 'POST')]).toEqual([origin, 403]);
      expect([origin, await ask(`${url}/sessions`, { origin })]).toEqual([origin, 403]);
    }
  });

  test('F74: a handler without a token refuses loopback names from an unknown peer, and says what to do', async () => {
    const runtime = await kit.open({ provider: echo });
    const plain = handler(runtime);
    for (const url of ['http://localhost/sessions', 'http://127.0.0.1:80/sessions', 'http://[::1]/sessions']) {
      for (const method of ['GET', 'HEAD', 'POST'])
        expect((await plain(new Request(url, { method }))).status).toBe(403);
    }
    const body: unknown = await (await plain(new Request('http://localhost/sessions'))).json();
    expect(body).toMatchObject({ code: 'forbidden', detail: expect.stringMatching(/"token".*"hosts"/) });
    expect((await handler(runtime, { hosts: [] })(new Request('http://localhost/sessions'))).status).toBe(403);
  });

  test.each([
    ['127.0.0.1', {}, 200],
    ['::1', {}, 200],
    ['::ffff:127.0.0.1', {}, 200],
    ['192.0.2.7', {}, 403],
    ['::ffff:192.0.2.7', {}, 403],
    [undefined, {}, 403],
    ['127.0.0.1', { 'x-forwarded-for': '192.0.2.7' }, 403],
    ['127.0.0.1', { forwarded: 'for=192.0.2.7' }, 403],
  ])(
    'F74: without a token, Host: localhost from the peer %s with %j is answered with %i',
    async (peer, more, status) => {
      const runtime = await kit.open({ provider: echo });
      const listener = nodeListener(handler(runtime));
      const server = createServer((incoming, outgoing) => {
        // Only the peer address is made up: the tests have no other machine.
        Object.defineProperty(incoming.socket, 'remoteAddress', { value: peer });
        void listener(incoming, outgoing);
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      try {
        const { port } = server.address() as AddressInfo;
        const url = `http://127.0.0.1:${port}/sessions`;
        expect(await ask(url, { host: 'localhost', ...more })).toBe(status);
        expect(await ask(url, { host: `127.0.0.1:${port}`, ...more }, 'HEAD')).toBe(status);
        expect(await ask(url, { host: 'evil.example', ...more })).toBe(403);
      } finally {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  );

  test('F74: a handler accepts the names it is given, and with a token also loopback names', async () => {
    const runtime = await kit.open({ provider: echo });
    const status = async (fetch: ReturnType<typeof handler>, url: string): Promise<number> =>
      (await fetch(new Request(url, { headers: { authorization: `Bearer ${TOKEN}` } }))).status;
    const hosts = ['agents.example', 'other.example:8443'];
    const named = handler(runtime, { hosts });
    expect(await status(named, 'https://agents.example/sessions')).toBe(200);
    expect(await status(named, 'https://agents.example:444/sessions')).toBe(200);
    expect(await status(named, 'https://other.example:8443/sessions')).toBe(200);
    expect(await status(named, 'https://other.example/sessions')).toBe(403);
    expect(await status(named, 'http://localhost/sessions')).toBe(403);
    expect(await status(handler(runtime, { hosts: ['localhost'] }), 'http://localhost/sessions')).toBe(200);
    const guarded = handler(runtime, { hosts, token: TOKEN });
    expect(await status(guarded, 'http://localhost/sessions')).toBe(200);
    expect(await status(guarded, 'https://agents.example/sessions')).toBe(200);
    expect(await status(guarded, 'https://evil.example/sessions')).toBe(403);
    expect((await guarded(new Request('http://localhost/sessions'))).status).toBe(401);
  });
});

describe('the token', () => {
  test('F74: is required everywhere except for the page and the health check', async () => {
    const { url, get } = await kit.serve({}, { token: TOKEN });
    const paths = ['/sessions', '/sessions/s', '/events', '/metrics', '/metrics.json', '/info', '/openapi.json'];
    for (const path of paths) {
      const refused = await get(path);
      expect([path, refused.status, refused.headers.get('www-authenticate')]).toEqual([
        path,
        401,
        'Bearer realm="troupe"',
      ]);
      expect(refused.body).toMatchObject({ code: 'unauthorized' });
    }
    expect((await get('/healthz')).status).toBe(200);
    expect((await get('/')).status).toBe(302);
    const wrong = [
      'Bearer',
      'Bearer x',
      `Bearer ${TOKEN}x`,
      `Bearer ${TOKEN.slice(1)}`,
      `Basic ${TOKEN}`,
      TOKEN,
      `Bearer ${TOKEN} x`,
    ];
    for (const authorization of wrong) {
      expect([authorization, (await get('/info', { headers: { authorization } })).status]).toEqual([
        authorization,
        401,
      ]);
    }
    for (const authorization of [`Bearer ${TOKEN}`, `bearer ${TOKEN}`]) {
      expect((await get('/info', { headers: { authorization } })).status).toBe(200);
    }
    // A token in the address is only for event sources, which cannot send headers, because addresses are written to
    // logs.
    expect((await get(`/info?token=${TOKEN}`)).status).toBe(401);
    const stream = await fetch(`${url}/events?token=${TOKEN}`);
    expect(stream.status).toBe(200);
    await stream.body?.cancel();
    expect((await get('/events?token=wrong')).status).toBe(401);
  });

  test('F70, F74: is in no answer and no error, and neither is a wrong token', async () => {
    const { url, errors } = await kit.serve({}, { token: TOKEN });
    const tries = [
      fetch(`${url}/info?token=${TOKEN}`),
      fetch(`${url}/nothing?token=${TOKEN}`, { headers: { authorization: `Bearer ${TOKEN}` } }),
      fetch(`${url}/openapi.json`, { headers: { authorization: `Bearer ${TOKEN}` } }),
      fetch(`${url}/sessions?limit=x&token=${TOKEN}`, { headers: { authorization: `Bearer ${TOKEN}` } }),
      fetch(`${url}/events?mode=x&token=${TOKEN}`),
      fetch(`${url}/sessions`, { headers: { authorization: `Bearer ${TOKEN}-guess` } }),
    ];
    for (const response of await Promise.all(tries)) {
      const all = JSON.stringify([...response.headers]) + (await response.text());
      expect(all).not.toContain('canary-4711');
    }
    expect(JSON.stringify(errors)).not.toContain('canary-4711');
    const runtime = await kit.open({ provider: echo });
    for (const token of [`${TOKEN} with blanks`, `${TOKEN}\n`, 5, '']) {
      const error = await failure(serve(runtime, { port: 0, token: token as string }));
      expect(error).toMatchObject({ code: 'config', message: expect.stringContaining('serve.token') });
      expect(error.message).not.toContain('canary-4711');
      expect(() => handler(runtime, { token: token as string })).toThrow('handler.token');
    }
  });
});

test('every answer forbids guessing its type, and forbids caching', async () => {
  const { get, post } = await kit.serve();
  const given = [
    await get('/sessions'),
    await get('/nothing'),
    await post('/sessions', { id: 's' }),
    await get('/metrics'),
  ];
  for (const { headers } of given) {
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('access-control-allow-origin')).toBeNull();
  }
});
