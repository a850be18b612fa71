/**
 * Goal: G45. A reader of one tenant is never shown anything of another one, and cannot find out whether a session of
 * another one exists. Method: every public method of a view is walked over a store of two tenants. All texts and ids of
 * the other tenant have a canary.
 */
import { expect, test } from 'vitest';
import type { Session, SessionEvent } from '../../../src/index.ts';
import { SessionsView, Tenant } from '../../../src/runtime/handles/sessions-view.ts';
import { CANARY, clerk, expectNoOther, OTHER, openTenants, provider } from '../../server/tenant-store.ts';
import { failure, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** Reads with each method of a view, once for each option that narrows the answer. */
const READS: Readonly<Record<string, (tenant: Tenant) => Promise<readonly unknown[]>>> = {
  session: async (tenant) => Promise.all(SESSION_READS.map((read) => read(tenant.session('chat')))),
  search: async (tenant) => [
    await tenant.search(CANARY),
    await tenant.search('hello', { limit: 100 }),
    await tenant.search('hello', { session: `${OTHER}~chat` }),
  ],
  events: async (tenant) => {
    const events = tenant.events({ after: { chat: 0, [`${OTHER}~chat`]: 0, 'acme~chat': 0 } });
    return eventsUntil(events, ({ type }) => type === 'turn.finished');
  },
  waiting: async (tenant) => [
    await tenant.waiting(),
    await tenant.waiting({ session: `${OTHER}~till` }),
    await tenant.waiting({ after: '1-1-a' }),
  ],
  deadLetters: async (tenant) => [
    await tenant.deadLetters(),
    await tenant.deadLetters({ session: `${OTHER}~chat` }),
    await tenant.deadLetters({ after: '0-a' }),
  ],
  audit: async (tenant) => [
    await tenant.audit(),
    await tenant.audit({ session: `${OTHER}~chat` }),
    await tenant.audit({ after: '1.1' }),
    await tenant.audit({ action: 'history.edited' }),
  ],
  list: async (tenant) => [
    await tenant.sessions.list(),
    await tenant.sessions.list({ order: 'id' }),
    await tenant.sessions.list({ order: 'id', after: 'a' }),
    await tenant.sessions.list({ children: true }),
    await tenant.sessions.list({ parent: `${OTHER}~chat` }),
    await tenant.sessions.list({ parent: `${OTHER}~chat`, order: 'id' }),
    await tenant.sessions.list({ parent: null }),
  ],
  get: async (tenant) => [await tenant.sessions.get('chat'), await tenant.sessions.get(`${OTHER}~chat`)],
  delete: async (tenant) => [await tenant.sessions.delete(`${OTHER}~chat`), await tenant.sessions.delete('none')],
};

/** The events up to the first for which `isLast` is true. */
async function eventsUntil(
  events: AsyncIterable<SessionEvent>,
  isLast: (event: SessionEvent) => boolean,
): Promise<readonly SessionEvent[]> {
  const read: SessionEvent[] = [];
  for await (const event of events) {
    read.push(event);
    if (isLast(event)) return read;
  }
  throw new Error('the events ended');
}

const SESSION_READS: readonly ((session: Session) => Promise<unknown>)[] = [
  (session) => session.state(),
  (session) => session.messages(),
  (session) => session.viewport(),
  (session) => session.request(),
  (session) => session.page('messages'),
  (session) => session.pending(),
  (session) => session.usage({ tree: true }),
  (session) => session.explain(),
  (session) => session.goals.list(),
  (session) => session.deadLetters.list(),
  (session) => session.history.toArray(),
  (session) => session.receipt({ key: 'heron-1' }).then(({ id }) => id),
  (session) => failure(session.child(`${OTHER}~chat:1`)).then(({ message }) => message.replaceAll(OTHER, '')),
];

test.each(MATRIX)('G45: no read of a tenant shows another one: %o', async (threads) => {
  const runtime = await openTenants(kit, { threads: { ...threads, tools: 1 } });
  const tenant = runtime.tenant('acme');
  const methods = Object.getOwnPropertyNames(SessionsView.prototype).filter((name) => name !== 'constructor');
  const own = Object.getOwnPropertyNames(Tenant.prototype).filter((name) => name !== 'constructor');
  expect(Object.keys(READS).sort()).toEqual([...methods, ...own, ...Object.keys(tenant.sessions)].sort());
  for (const [name, read] of Object.entries(READS)) {
    const values = await read(tenant);
    expectNoOther(values, name);
    // A method that answers with nothing would pass the check above.
    if (name !== 'delete') expect(JSON.stringify(values)).toContain(name === 'search' ? 'heron' : 'acme~');
  }
  expect((await runtime.sessions.list({ order: 'id', parent: null })).map(({ id }) => id)).toEqual([
    'acme~chat',
    'acme~till',
    'chat',
    'globex~chat',
    'globex~till',
    'till',
  ]);
});

test('G45: a session of another tenant is answered as one that does not exist', async () => {
  const runtime = await openTenants(kit);
  const tenant = runtime.tenant('acme');
  for (const id of [`${OTHER}~chat`, `${OTHER}~none`]) {
    expect(() => tenant.session(id)).toThrow(expect.objectContaining({ code: 'unknown_session' }));
    expect(await tenant.sessions.get(id)).toBeUndefined();
    expect(await tenant.sessions.delete(id)).toBe(false);
    expect((await tenant.search('hello', { session: id })).found).toEqual([]);
    expect(await tenant.waiting({ session: id })).toEqual({ items: [] });
    expect(await tenant.deadLetters({ session: id })).toEqual({ items: [] });
    expect(await tenant.audit({ session: id })).toEqual({ items: [] });
    expect(await tenant.sessions.list({ parent: id })).toEqual([]);
  }
  expect(await runtime.sessions.get(`${OTHER}~chat`)).toMatchObject({ id: `${OTHER}~chat` });
});

test('a view takes an id without a tenant as one of its own, so two tenants may use the same id', async () => {
  const runtime = await kit.open({ provider, agents: [clerk] });
  expect(await runtime.tenant('a').session('x').ask('one')).toBe('noted one');
  expect(await runtime.tenant('b').session('x').ask('two')).toBe('noted two');
  expect(runtime.tenant('a').session('a~x').id).toBe('a~x');
  expect((await runtime.tenant('a').sessions.list()).map(({ id }) => id)).toEqual(['a~x']);
  expect(await runtime.tenant('a').sessions.delete('x')).toBe(true);
  expect((await runtime.sessions.list()).map(({ id }) => id)).toEqual(['b~x']);
});

test('children and forks belong to the tenant of their session, also after a restart', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ provider, agents: [clerk], directory });
  const session = runtime.tenant('acme').session('chat', 'clerk');
  await session.ask('hello');
  const child = await session.spawn({ task: 'look' });
  await child.reply();
  expect([child.id, (await session.fork()).id, (await session.fork({ id: 'copy' })).id]).toEqual([
    'acme~chat:1',
    'acme~chat:fork-1',
    'acme~copy',
  ]);
  expect(await failure(session.fork({ id: `${OTHER}~copy` }))).toMatchObject({ code: 'invalid_name' });
  await runtime.session('free').ask('hello');
  expect(await failure(runtime.session('free').fork({ id: 'acme~taken' }))).toMatchObject({ code: 'invalid_name' });
  await runtime.close();
  const again = await kit.open({ provider, agents: [clerk], directory });
  const ids = (await again.tenant('acme').sessions.list({ order: 'id' })).map(({ id }) => id);
  expect(ids).toEqual(['acme~chat', 'acme~chat:1', 'acme~chat:fork-1', 'acme~copy']);
});

test.each(['', 'a~b', 'a:b', '-a', 'a'.repeat(65), 'ä'])('the tenant name %j is refused', async (name) => {
  const runtime = await kit.open({ provider, agents: [clerk] });
  expect(() => runtime.tenant(name)).toThrow(expect.objectContaining({ code: 'invalid_name' }));
});

test('the model of a session finds and views only messages of its own tenant, whatever the scope', async () => {
  const scopes = ['all' as const, () => ['globex~chat', 'chat']];
  for (const scope of scopes) {
    const runtime = await openTenants(kit, { search: { scope } });
    for (const id of ['acme~asker', 'asker']) {
      const asker = runtime.session(id);
      const found = await asker.ask('search_messages {"query":"cormorant"}');
      expect(found).toBe('got: No results found for "cormorant".');
      const missing = await asker.ask('view_messages {"message_id":"globex~none#1"}');
      const foreign = await asker.ask('view_messages {"message_id":"globex~chat#1"}');
      expect(foreign).toBe(missing.replace('none', 'chat'));
    }
    await runtime.close();
  }
});

test('a reader of a tenant loses no event if another tenant publishes much', async () => {
  const runtime = await kit.open({ provider, agents: [clerk] });
  const events = runtime.tenant('acme').events();
  const first = events.next();
  await runtime.session('acme~x').ask('one');
  await first;
  for (let turn = 0; turn < 8; turn += 1) await runtime.session('globex~x').ask('x'.repeat(1_000_000));
  await runtime.session('acme~x').ask('two');
  let turns = 0;
  const read = await eventsUntil(events, (event) => event.type === 'turn.finished' && ++turns === 2);
  expect(new Set(read.map(({ session }) => session))).toEqual(new Set(['acme~x']));
  expect(read.filter(({ type }) => type === 'gap')).toEqual([]);
});
