/**
 * Goal: G45 over HTTP. With the token of a tenant, no route shows anything of another one, and a session of another one is
 * answered as one that does not exist. Each route admits the roles that include the role in its document, and no other.
 * Method: all routes of the OpenAPI document are walked.
 */
import { afterEach, expect, test } from 'vitest';
import { createClient } from '../../src/client/index.ts';
import type { Runtime } from '../../src/index.ts';
import type { Role, RunningServer, TokenOptions } from '../../src/server/index.ts';
import { handler, serve } from '../../src/server/index.ts';
import { readEvents } from '../support/event-reader.ts';
import { failure } from '../support/runtime-kit.ts';
import { type Answer, echo, serverKit } from './support.ts';
import { CANARY, expectNoOther, OTHER, openTenants } from './tenant-store.ts';

const kit = serverKit();
const servers: RunningServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close({ deadlineMs: 0 })));
});

async function served(runtime: Runtime): Promise<RunningServer> {
  const server = await serve(runtime, { port: 0, tokens: TOKENS });
  servers.push(server);
  return server;
}
const ROLES: readonly Role[] = ['reader', 'writer', 'approver', 'admin'];
const TOKENS: readonly TokenOptions[] = [
  { token: 'secret-of-acme', name: 'acme desk', tenant: 'acme', role: 'admin' },
  ...ROLES.map((role) => ({ token: `secret-of-${role}`, name: role, role })),
];

/** A route of the document. */
interface Documented {
  readonly method: string;
  readonly path: string;
  readonly role: Role | undefined;
  readonly isOfRuntime: boolean;
}

/** A body that each route accepts, so that a request reaches the session. */
const BODIES: Readonly<Record<string, object>> = {
  '/sessions': { id: '{id}' },
  '/sessions/{id}/interrupt': {},
  '/sessions/{id}/pause': {},
  '/sessions/{id}/resume': {},
  '/sessions/{id}/children': { task: 'look' },
  '/sessions/{id}/budget': { tokens: 10 },
  '/sessions/{id}/approve': { callId: 'c', allow: true },
  '/sessions/{id}/answer': { callId: 'c', value: 'yes' },
  '/sessions/{id}/messages': { content: 'hello' },
  '/sessions/{id}/recall': { pendingId: 1 },
  '/sessions/{id}/history': { operation: 'popLast' },
  '/sessions/{id}/goals': { description: 'win' },
  '/sessions/{id}/goals/attach': { messages: [1], goals: [1] },
  '/sessions/{id}/goals/{goal}': { description: 'win' },
  '/sessions/{id}/goals/{goal}/complete': {},
  '/sessions/{id}/skills': { skill: 'x' },
  '/sessions/{id}/fork': {},
  '/sessions/{id}/dead-letters/{letter}/resend': {},
  '/backups': { directory: 'b' },
};

async function ask(url: string, token: string, { method, path }: Documented, id: string): Promise<Answer> {
  const place = path
    .replace('{id}', encodeURIComponent(id))
    .replace('{file}', 'none')
    .replace(/\{\w+\}/g, '1');
  const query = path === '/search' ? '?query=hello&limit=100' : '';
  const body = method === 'POST' ? JSON.stringify(BODIES[path] ?? {}).replace('{id}', id) : undefined;
  const response = await fetch(`${url}${place}${query}`, {
    method,
    redirect: 'manual',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body }),
  });
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (isStream) await response.body?.cancel();
  return { status: response.status, headers: response.headers, body: isStream ? '' : await response.text() };
}

async function routesOf(url: string): Promise<readonly Documented[]> {
  const response = await fetch(`${url}/openapi.json`, { headers: { authorization: 'Bearer secret-of-reader' } });
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, Record<string, unknown>>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      role: operation['x-role'] as Role | undefined,
      isOfRuntime: operation['x-all-tenants'] === true,
    })),
  );
}

test('G45: no route shows a session of another tenant, and none shows that it exists', async () => {
  const runtime = await openTenants(kit);
  const server = await served(runtime);
  const routes = await routesOf(server.url);
  const bodies = routes.filter(({ method }) => method === 'POST').map(({ path }) => path);
  expect(Object.keys(BODIES).sort()).toEqual([...new Set(bodies)].sort());
  const before = await runtime.sessions.get(`${OTHER}~chat`);
  for (const route of routes.filter(({ role }) => role !== undefined)) {
    const about = `${route.method} ${route.path}`;
    const foreign = await ask(server.url, 'secret-of-acme', route, `${OTHER}~chat`);
    if (route.isOfRuntime) {
      expect([about, foreign.status, foreign.body]).toEqual([about, 403, expect.stringContaining('role_missing')]);
      continue;
    }
    const names = route.path.includes('{id}') || (route.method === 'POST' && route.path === '/sessions');
    if (names) {
      const missing = await ask(server.url, 'secret-of-acme', route, `${OTHER}~gone`);
      expect([about, foreign.status]).toEqual([about, 404]);
      expect([about, foreign.body]).toEqual([about, String(missing.body).replaceAll('gone', 'chat')]);
      // The client named the session itself; nothing else of the other tenant is in the answer.
      expectNoOther(String(foreign.body).replaceAll(`${OTHER}~chat`, ''), about);
    } else {
      expect([about, foreign.status]).toEqual([about, 200]);
      expectNoOther(foreign.body, about);
    }
  }
  expect(await runtime.sessions.get(`${OTHER}~chat`)).toEqual(before);
});

test('each route admits the roles that include its own, and no other', async () => {
  const { url } = await kit.serve({}, { tokens: TOKENS });
  const routes = await routesOf(url);
  const allowed: Readonly<Record<Role, readonly Role[]>> = {
    reader: ROLES,
    writer: ['writer', 'admin'],
    approver: ['approver', 'admin'],
    admin: ['admin'],
  };
  const needed = new Set<string>();
  for (const route of routes) {
    for (const role of ROLES) {
      const { status, body } = await ask(url, `secret-of-${role}`, route, 'none');
      const isRefused = status === 403 && String(body).includes('role_missing');
      const about = `${route.method} ${route.path} for ${role}`;
      const isAllowed = route.role === undefined || allowed[route.role].includes(role);
      expect([about, isRefused]).toEqual([about, !isAllowed]);
      expect(String(body)).not.toContain('secret');
    }
    needed.add(route.role ?? 'none');
  }
  expect([...needed].sort()).toEqual(['admin', 'approver', 'none', 'reader', 'writer']);
});

test('a token of several roles, a wrong token, and the simple token beside others', async () => {
  const tokens: TokenOptions[] = [{ token: 'both', role: ['writer', 'approver'] }];
  const { url } = await kit.serve({}, { token: 'simple', tokens });
  const status = async (token: string, path: string, method = 'GET'): Promise<number> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return (await fetch(`${url}${path}`, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) })).status;
  };
  expect(await status('both', '/sessions/x/pause', 'POST')).toBe(404);
  expect(await status('both', '/sessions/x/approve', 'POST')).toBe(400);
  expect(await status('both', '/sessions/x', 'DELETE')).toBe(403);
  expect(await status('simple', '/sessions/x', 'DELETE')).toBe(404);
  expect(await status('simple', '/metrics')).toBe(200);
  expect(await status('other', '/sessions')).toBe(401);
  expect((await fetch(`${url}/sessions`)).status).toBe(401);
});

test('a client of a tenant names its sessions with or without the tenant, and its streams have no other events', async () => {
  const runtime = await kit.open({ provider: echo });
  const server = await served(runtime);
  const client = createClient({ url: server.url, token: 'secret-of-acme' });
  const stream = await readEvents(`${server.url}/events?session=chat&token=secret-of-acme&mode=debug`);
  const all = await readEvents(`${server.url}/events?token=secret-of-acme&mode=debug`);
  const otherTree = await readEvents(`${server.url}/events?session=${OTHER}~chat&token=secret-of-acme&mode=debug`);
  await runtime.session(`${OTHER}~chat`).ask(CANARY);
  expect(await (await client.session('chat').send('hello')).answer()).toBe('to hello');
  expect(await (await client.session('acme~chat').send('again')).answer()).toBe('to again');
  expect((await client.sessions()).sessions.map(({ id }) => id)).toEqual(['acme~chat']);
  expect(await client.session('chat').waiting()).toEqual([]);
  for (const reader of [stream, all]) {
    for (let count = 0; count < 2; ) {
      const event = await reader.nextEvent();
      expectNoOther(event, 'the stream');
      expect(event?.session).toBe('acme~chat');
      if (event?.type === 'turn.finished') count += 1;
    }
    reader.kill();
  }
  await server.close();
  expect(await otherTree.nextEvent()).toBeUndefined();
});

test.each([
  [[], 'handler.tokens'],
  [[{ token: 'bad one', role: 'reader' }], 'handler.tokens.0.token'],
  [[{ role: 'reader' }], 'handler.tokens.0.token'],
  [[{ token: 'secret' }], 'handler.tokens.0.role'],
  [[{ token: 'secret', role: 'owner' }], 'handler.tokens.0.role'],
  [[{ token: 'secret', role: [] }], 'handler.tokens.0.role'],
  [[{ token: 'secret', role: 'reader', tenant: 'a~b' }], 'handler.tokens.0.tenant'],
  [[{ token: 'secret', role: 'reader', name: '\n' }], 'handler.tokens.0.name'],
  [[{ token: 'secret', role: 'reader', until: 1 }], 'handler.tokens.0'],
  [
    [
      { token: 'secret', role: 'reader' },
      { token: 'secret', role: 'admin' },
    ],
    'handler.tokens',
  ],
  [['secret'], 'handler.tokens.0'],
  ['secret', 'handler.tokens'],
])('the tokens %j are refused by name, and not shown', async (tokens, key) => {
  const runtime = await kit.open({ provider: echo });
  const error = await failure(
    Promise.resolve().then(() => handler(runtime, { tokens: tokens as readonly TokenOptions[] })),
  );
  expect(error).toMatchObject({ code: 'config', data: { key } });
  expect(JSON.stringify([error.message, (error as { data?: unknown }).data])).not.toMatch(/secret|bad one/);
});
