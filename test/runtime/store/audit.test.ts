/**
 * Goal: G47. Each approval that was decided, each deletion and each other act of the audit log has exactly one entry,
 * with its author and without content, over restarts, kills and deletions. Method: each act once, at the public API.
 */
import { expect, test } from 'vitest';
import { type AuditEntry, type AuditOptions, agent, type Runtime, type Session, tool } from '../../../src/index.ts';
import { manualClock, scripted } from '../../../src/testing/index.ts';
import { askHuman } from '../../../src/tools/built-in/index.ts';
import { leaveEntries, promotable, unfit } from '../../support/dead-letters.ts';
import { eventually, failure, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
const SECRET = 'canary-content';
const DAY_MS = 86_400_000;
const KEY = Buffer.alloc(32, 1).toString('base64');
const NEXT_KEY = Buffer.alloc(32, 2).toString('base64');

const pay = tool({ name: 'pay', description: 'Pays.', effect: 'keyed', input: { type: 'object' }, run: () => 'paid' });

/** Calls the tools that its user names, and otherwise repeats the message. */
function options(given: TestOptions = {}): TestOptions {
  return {
    agents: [agent({ name: 'clerk', tools: [pay, askHuman({ description: 'Asks.' })], approve: ['pay'] })],
    provider: scripted(({ messages }) => {
      const content = messages.at(-1)?.content;
      const [block] = Array.isArray(content) ? content : [];
      const said = typeof content === 'string' ? content : block?.type === 'text' ? block.text : '';
      if (said.startsWith('ask')) return { toolUse: { name: 'ask_human', input: { question: SECRET } } };
      const count = said.startsWith('pay') ? Number(said.slice(4)) : 0;
      const call = { name: 'pay', input: { to: SECRET } };
      if (count === 1) return { toolUse: call };
      return count > 1 ? { toolUse: Array<typeof call>(count).fill(call) } : `noted ${said}`;
    }),
    ...given,
  };
}

/** The calls of a session that wait, once there are `count` of them. */
async function waits(session: Session, count: number, runtime: Runtime): Promise<readonly string[]> {
  const calls = async (): Promise<readonly string[]> =>
    (await runtime.waiting({ session: session.id })).items.map(({ callId }) => callId);
  await eventually(async () => (await calls()).length === count);
  return calls();
}

/** All entries, read in pages. */
async function all(runtime: Pick<Runtime, 'audit'>, given: AuditOptions = {}): Promise<readonly AuditEntry[]> {
  const found: AuditEntry[] = [];
  for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
    const page = await runtime.audit({ ...given, ...(after === undefined ? {} : { after }) });
    found.push(...page.items);
    after = page.next;
  }
  return found;
}

type Act = (runtime: Runtime, session: Session) => Promise<unknown>;

/** Each act, with the entries that it leaves: action, author and details. */
const ACTS: readonly (readonly [string, Act, readonly (readonly [string, string | undefined, object])[]])[] = [
  [
    'an approval',
    async (runtime, session) => {
      await session.send('pay 1');
      const [call = ''] = await waits(session, 1, runtime);
      expect(await session.approve(call, { allow: true, by: 'ada' })).toBe(true);
      expect(await session.approve(call, { allow: true, by: 'bob' })).toBe(true);
    },
    [['approval.decided', 'ada', { callId: expect.any(String), tool: 'pay', allow: true }]],
  ],
  [
    'a denial, which ends the other calls of the round',
    async (runtime, session) => {
      await session.send('pay 2');
      const [call = ''] = await waits(session, 2, runtime);
      await session.approve(call, { allow: false, by: 'ada', reason: SECRET });
    },
    [
      ['approval.decided', 'ada', { callId: expect.any(String), tool: 'pay', allow: false }],
      [
        'approval.decided',
        undefined,
        { callId: expect.any(String), tool: 'pay', allow: false, cause: 'denied_with_another' },
      ],
    ],
  ],
  [
    'an answer',
    async (runtime, session) => {
      await session.send('ask');
      const [call = ''] = await waits(session, 1, runtime);
      await session.answer(call, SECRET, { by: 'ada' });
    },
    [['question.answered', 'ada', { callId: expect.any(String), tool: 'ask_human', answered: true }]],
  ],
  [
    'a refusal to answer',
    async (runtime, session) => {
      await session.send('ask');
      const [call = ''] = await waits(session, 1, runtime);
      await session.decline(call, SECRET);
    },
    [['question.answered', undefined, { callId: expect.any(String), tool: 'ask_human', answered: false }]],
  ],
  [
    'an edit, repeated with its key',
    async (_runtime, session) => {
      const message = { role: 'user', content: SECRET };
      await session.history.add(message, { by: 'ada', key: 'k' });
      await session.history.add(message, { by: 'bob', key: 'k' });
    },
    [['history.edited', 'ada', { operation: 'add', added: 1, updated: 0, removed: 0 }]],
  ],
  [
    'a message that replaces another',
    async (_runtime, session) => {
      await session.ask(SECRET, { key: 'first' });
      await (await session.send('better', { replaces: { key: 'first' }, from: 'ada' })).answer();
    },
    [
      [
        'history.edited',
        'ada',
        { operation: 'rollbackBefore', added: 0, updated: 0, removed: expect.any(Number), cause: 'replaced' },
      ],
    ],
  ],
  [
    'tasks: one that is started, an undo and a switch; those that begin with a turn, and moves without effect, have none',
    async (_runtime, session) => {
      await session.ask(SECRET);
      const task = await session.history.startTask(SECRET, { by: 'ada' });
      await session.history.undo({ by: 'bob' });
      await session.history.switchTo(task, { by: 'eve' });
      expect(await session.history.switchTo(task, { by: 'eve' })).toMatchObject({ success: true });
      expect(await session.history.switchTo(99, { by: 'eve' })).toMatchObject({ success: false });
    },
    [
      ['task.started', 'ada', { task: 2 }],
      ['task.activated', 'bob', { task: 1, cause: 'undo' }],
      ['task.activated', 'eve', { task: 2, cause: 'switch' }],
    ],
  ],
  [
    'a deletion, repeated',
    async (runtime, session) => {
      await session.ask(SECRET);
      expect(await session.delete({ by: 'ada' })).toBe(true);
      expect(await runtime.sessions.delete(session.id, { by: 'bob' })).toBe(false);
    },
    [['session.deleted', 'ada', { incarnation: expect.any(Number) }]],
  ],
];

test('G47: a takeover has one entry for each session thread, also in a store without sessions', async () => {
  const directory = await kit.directory();
  const opened = options({ directory, threads: { sessions: 2, models: 0, tools: 1 } });
  const owner = await kit.open(opened);
  const next = await kit.open({ ...opened, takeover: true });
  expect((await owner.closed).reason).toBe('taken_over');
  const pid = process.pid;
  // The threads write at once, so either entry may be the older one.
  const entries = (await all(next)).map(({ action, details }) => [action, details]);
  expect(entries).toHaveLength(2);
  for (const shard of [0, 1]) expect(entries).toContainEqual(['store.taken_over', { shard, pid }]);
  await next.close();
  expect(await all(await kit.open(opened))).toHaveLength(2);
});

test('G47: each fork has one entry, on the thread of its session or another one, and after a restart', async () => {
  const directory = await kit.directory();
  const opened = options({ directory, threads: { sessions: 2, models: 0, tools: 1 } });
  const runtime = await kit.open(opened);
  const session = runtime.session('s');
  await session.ask('one');
  const [first] = await session.messages();
  const made = [await session.fork({ by: 'ada' }), await session.fork({ at: first?.seq ?? 0 })];
  for (const id of ['a', 'b', 'c', 'd', 'e']) made.push(await session.fork({ id, by: 'bob' }));
  const wanted = made.map(({ id }, index) => [
    'session.forked',
    id,
    index === 0 ? 'ada' : index === 1 ? undefined : 'bob',
    { from: 's', ...(index === 1 ? { at: first?.seq } : {}) },
  ]);
  const entries = async (of: Runtime): Promise<readonly unknown[]> =>
    (await all(of)).map((each) => [each.action, each.session, each.by, each.details]);
  expect(await entries(runtime)).toEqual(expect.arrayContaining(wanted));
  expect(await entries(runtime)).toHaveLength(wanted.length);
  await runtime.close();
  const again = await kit.open(opened);
  expect(await entries(again)).toHaveLength(wanted.length);
});

test.each(MATRIX)('G47: each act has one entry with its author, and no content: %o', async (threads) => {
  const directory = await kit.directory();
  const opened = options({ directory, threads: { ...threads, tools: 1 } });
  const runtime = await kit.open(opened);
  const began = Date.now();
  for (const [index, [name, act, wanted]] of ACTS.entries()) {
    const session = runtime.session(`acme~s${index}`);
    await act(runtime, session);
    const entries = (await runtime.audit({ session: session.id })).items;
    expect(
      entries.map(({ action, by, details }) => [action, by, details]),
      name,
    ).toEqual(wanted);
    for (const { at, session: of, tenant } of entries) {
      expect([of, tenant]).toEqual([session.id, 'acme']);
      expect(at).toBeGreaterThanOrEqual(began);
      expect(at).toBeLessThanOrEqual(Date.now());
    }
  }
  const before = await all(runtime);
  expect(before).toHaveLength(ACTS.reduce((sum, [, , wanted]) => sum + wanted.length, 0));
  expect(JSON.stringify(before)).not.toContain(SECRET);
  await runtime.drain();
  await runtime.close();
  // A resumption repeats no act.
  expect(await all(await kit.open(opened))).toEqual(before);
});

test.each(MATRIX)('G47: what is done with a dead letter has one entry: %o', async (threads) => {
  const directory = await kit.directory();
  const opened = options({ directory, threads: { ...threads, tools: 1 } });
  const first = await kit.open(opened);
  await first.session('s').ask('hello');
  await first.close();
  const [resent = 0, dropped = 0] = await leaveEntries(directory, 's', [unfit(SECRET), unfit('gone')]);
  const runtime = await kit.open(opened);
  await eventually(async () => (await runtime.deadLetters()).items.length === 2);
  const { deadLetters } = runtime.session('s');
  await (await deadLetters.resend(resent, { as: 'user', by: 'ada' })).answer();
  await deadLetters.resend(resent, { as: 'user', by: 'bob' });
  expect([await deadLetters.drop(dropped, { by: 'ada' }), await deadLetters.drop(dropped)]).toEqual([true, false]);
  expect((await runtime.audit()).items.map(({ action, by, details }) => [action, by, details])).toEqual([
    ['dead_letter.resent', 'ada', { letter: resent, as: 'user_message' }],
    ['dead_letter.dropped', 'ada', { letter: dropped }],
  ]);
});

test('G47: a decision that the runtime makes names its cause', async () => {
  const clock = manualClock();
  const given = options();
  const agents = [
    agent({ name: 'late', tools: [pay], approve: ['pay'], approvals: { expiresMs: 1_000 } }),
    agent({ name: 'deny', tools: [pay], approve: ['pay'], approvals: { onInput: 'deny' } }),
  ];
  const runtime = await kit.open({ ...given, agents, clock });
  const late = runtime.session('late', 'late');
  await late.send('pay 1');
  await waits(late, 1, runtime);
  await clock.advance(2_000);
  const denied = runtime.session('deny', 'deny');
  await denied.send('pay 1');
  await waits(denied, 1, runtime);
  await denied.send('something else');
  await eventually(async () => (await runtime.audit()).items.length === 2);
  expect((await all(runtime)).map(({ session, by, details }) => [session, by, details['cause']])).toEqual([
    ['late', undefined, 'expired'],
    ['deny', undefined, 'message'],
  ]);
});

test('G47: a deletion has an entry for each session of the tree, and the entries of a session outlive it', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open(options({ directory }));
  const session = runtime.session('s');
  await session.send('pay 1');
  const [call = ''] = await waits(session, 1, runtime);
  await session.approve(call, { allow: true, by: 'ada' });
  await (await session.spawn({ task: SECRET })).reply();
  await session.delete({ by: 'bob' });
  await eventually(() => runtime.metrics().sessionsErasing === 0);
  expect((await storedTexts(directory)).filter(({ text }) => text.includes(SECRET))).toEqual([]);
  await runtime.close();
  const again = await kit.open(options({ directory }));
  expect(
    (await again.audit({ session: 's' })).items.map(({ action, session: of, by, details }) => [
      action,
      of,
      by,
      details,
    ]),
  ).toEqual([
    ['approval.decided', 's', 'ada', expect.objectContaining({ allow: true })],
    ['session.deleted', 's', 'bob', { incarnation: expect.any(Number) }],
    ['session.deleted', 's:1', 'bob', { incarnation: expect.any(Number), with: 's' }],
  ]);
  // A later session of the same id adds to the same entries.
  await again.session('s').ask('hello');
  await again.sessions.delete('s');
  expect((await again.audit({ session: 's', action: 'session.deleted' })).items).toHaveLength(3);
});

test('G47: after a kill an acknowledged act has its entry, once', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open(options({ directory }));
  const session = runtime.session('s');
  await session.send('pay 1');
  const [call = ''] = await waits(session, 1, runtime);
  await session.approve(call, { allow: true, by: 'ada' });
  await runtime.session('t').ask('hello');
  await runtime.sessions.delete('t', { by: 'ada' });
  await runtime.drain();
  const killed = await kit.open(options({ directory: await kit.crashed(directory) }));
  expect(await all(killed)).toEqual(await all(runtime));
  expect((await all(killed)).map(({ action }) => action)).toEqual(['approval.decided', 'session.deleted']);
});

test('pages over several session threads, oldest first, each entry once, also after a change of their number', async () => {
  const directory = await kit.directory();
  const opened = options({ directory, threads: { sessions: 3, models: 0, tools: 1 } });
  const runtime = await kit.open(opened);
  const ids = Array.from({ length: 12 }, (_none, index) => `s${index}`);
  for (const id of ids) {
    await runtime.session(id).history.add({ role: 'user', content: 'hello' });
    if (id !== 's11') await runtime.sessions.delete(id);
  }
  const whole = await all(runtime);
  expect(whole.map(({ action, session }) => `${action} ${session}`).sort()).toEqual(
    ids.flatMap((id) => [`history.edited ${id}`, ...(id === 's11' ? [] : [`session.deleted ${id}`])]).sort(),
  );
  expect(new Set(whole.map(({ number }) => number)).size).toBe(23);
  for (const limit of [1, 4, 7, 23]) expect(await all(runtime, { limit }), `${limit}`).toEqual(whole);
  expect(await all(runtime, { limit: 2, action: 'session.deleted' })).toEqual(
    whole.filter(({ action }) => action === 'session.deleted'),
  );
  const { next } = await runtime.audit({ limit: 5 });
  await runtime.close();
  const two = await kit.open({ ...opened, threads: { sessions: 2, models: 0, tools: 1 } });
  expect(await all(two)).toEqual(whole);
  // The position is of another number of threads: entries may be repeated, and none is left out.
  const rest = new Set((await all(two, { after: next ?? '' })).map(({ number }) => number));
  expect(whole.slice(5).every(({ number }) => rest.has(number))).toBe(true);
  await two.session('later').history.add({ role: 'user', content: 'hello' });
  expect((await all(two)).at(-1)?.session).toBe('later');
});

test('A2: the session threads of a store in memory give out no number twice, so pages have each entry once', async () => {
  const runtime = await kit.open(options({ directory: ':memory:', threads: { sessions: 3, models: 0, tools: 1 } }));
  const ids = Array.from({ length: 12 }, (_none, index) => `s${index}`);
  // All at once, so that several threads number entries of one millisecond.
  await Promise.all(ids.map((id) => runtime.session(id).history.add({ role: 'user', content: 'hello' })));
  for (const limit of [1, 12]) {
    const entries = await all(runtime, { limit });
    expect(entries.map(({ session }) => session).sort(), `${limit}`).toEqual([...ids].sort());
    expect(new Set(entries.map(({ number }) => number)).size).toBe(12);
  }
});

test('bad options are refused by name', async () => {
  const runtime = await kit.open(options());
  for (const [bad, key] of [
    [{ after: 'no position!' }, 'audit.after'],
    [{ limit: 0 }, 'audit.limit'],
    [{ action: 'session.renamed' }, 'audit.action'],
    [{ since: 1 }, 'audit.since'],
  ] as const) {
    const error = await failure(runtime.audit(bad as AuditOptions));
    expect(error).toMatchObject({ name: 'ConfigError', data: { key } });
  }
  expect(await failure(runtime.audit({ session: '' }))).toMatchObject({ name: 'InvalidNameError' });
});

test('entries older than retention.auditMs are removed, and no other data', async () => {
  const directory = await kit.directory();
  const clock = manualClock();
  const opened = options({ directory, clock, retention: { auditMs: DAY_MS } });
  const runtime = await kit.open(opened);
  await runtime.session('s').history.add({ role: 'user', content: 'hello' });
  await clock.advance(DAY_MS / 2);
  await runtime.session('t').ask('hello');
  await runtime.sessions.delete('t');
  await clock.advance(DAY_MS / 2 + DAY_MS / 4);
  await eventually(async () => (await runtime.audit()).items.length === 1);
  expect((await all(runtime)).map(({ session }) => session)).toEqual(['t']);
  expect(await runtime.session('s').history.toArray()).toHaveLength(1);
  await clock.advance(DAY_MS);
  await eventually(async () => (await runtime.audit()).items.length === 0);
  await runtime.close();
  expect(await all(await kit.open(opened))).toEqual([]);
});

test('retention is the cause of the entries about what it removes', async () => {
  const directory = await kit.directory();
  const clock = manualClock();
  const first = await kit.open(options({ directory, clock }));
  await (await first.session('s').spawn({ task: 'look' })).reply();
  await first.drain();
  await first.close();
  await leaveEntries(directory, 's', [unfit('gone'), promotable('there')]);
  const opened = options({ directory, clock, retention: { deadLettersMs: DAY_MS, finishedChildrenMs: DAY_MS } });
  const runtime = await kit.open(opened);
  await eventually(async () => (await runtime.deadLetters()).items.length > 0);
  await runtime.drain();
  for (let days = 0; days < 4; days += 1) await clock.advance(DAY_MS);
  await eventually(async () => (await runtime.audit()).items.length === 2);
  expect(
    (await all(runtime)).map(({ action, session, details }) => [action, session, details['cause']]).sort(),
  ).toEqual([
    ['dead_letter.dropped', 's', 'retention'],
    ['session.deleted', 's:1', 'retention'],
  ]);
});

test('G44, G47: entries of an encrypted store are encrypted, and the replacement of its key has one', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open(options({ directory, encryption: { key: KEY } }));
  await runtime.session('canary-id').ask('hello');
  await runtime.sessions.delete('canary-id', { by: 'canary-author' });
  await runtime.session('other').ask('hello');
  await runtime.close();
  expect((await storedTexts(directory)).filter(({ text }) => text.includes('canary-author'))).toEqual([]);
  const next = options({ directory, encryption: { key: NEXT_KEY, previousKeys: [KEY] } });
  const rotated = await kit.open(next);
  const wanted = [
    ['session.deleted', 'canary-id', 'canary-author'],
    ['keys.rotated', undefined, undefined],
  ];
  const shown = async (of: Runtime): Promise<readonly unknown[]> =>
    (await all(of)).map(({ action, session, by }) => [action, session, by]);
  expect(await shown(rotated)).toEqual(wanted);
  await rotated.close();
  // The former key may still be given. Nothing is replaced again.
  expect(await shown(await kit.open(next))).toEqual(wanted);
});
