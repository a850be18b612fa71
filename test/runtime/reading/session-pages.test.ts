/**
 * Goal: pages of a session's contents are bounded in bytes while they are read, follow one another without hole or
 * repetition, and make progress. Method: a runtime in memory, with messages that are large compared to the bound.
 */
import { expect, test } from 'vitest';
import { SessionActor } from '../../../actors/session-actor.ts';
import type { PageKind, Session } from '../../../src/index.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import { messagePage, pendingPage } from '../../../src/runtime/reading/session-pages.ts';
import { encodeTransition } from '../../../src/session/state/records.ts';
import { emptyState } from '../../../src/session/state/state.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { heapBytes } from '../../support/heap.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';
import { Machine, makeWorld, startedSession } from '../../support/session-kit.ts';

const kit = runtimeKit();
const provider = scripted({ rules: [], otherwise: 'done' });
const large = (index: number): string => `${index} ${'x'.repeat(20_000)}`;

async function pagesOf(session: Session, of: PageKind, bytesMax: number): Promise<readonly (readonly unknown[])[]> {
  const pages: (readonly unknown[])[] = [];
  for (let after: string | undefined; ; ) {
    const page = await session.page(of, { bytesMax, limit: 1_000, ...(after === undefined ? {} : { after }) });
    pages.push(page.items);
    if (page.next === undefined) return pages;
    after = page.next;
  }
}

test.each(['messages', 'viewport', 'request'] as const)(
  'pages of %s end at their bound in bytes, and together hold everything',
  async (of) => {
    const runtime = await kit.open({ provider });
    const session = runtime.session('s');
    for (let index = 0; index < 6; index += 1) await session.ask(large(index));
    const whole = {
      messages: await session.messages(),
      viewport: await session.viewport(),
      request: (await session.request()).messages,
    }[of];
    const pages = await pagesOf(session, of, 45_000);
    expect(pages.flat()).toEqual(whole);
    expect(pages.length).toBe(3);
    expect((await pagesOf(session, of, 1)).map((page) => page.length)).toEqual(whole.map(() => 1));
  },
);

test('messages that have left the window are read from the log in the same pages', async () => {
  const runtime = await kit.open({ provider, settings: { llm: { tokenBudget: 12_000 } } });
  const session = runtime.session('s');
  for (let index = 0; index < 8; index += 1) await session.ask(large(index));
  expect((await session.viewport()).length).toBeLessThan(10);
  const whole = await session.messages();
  expect(whole).toHaveLength(16);
  expect((await pagesOf(session, 'messages', 45_000)).flat()).toEqual(whole);
  expect((await pagesOf(session, 'messages', 1)).flat()).toEqual(whole);
});

test('pages of a mailbox continue after the last entry, also when entries have left or come in between', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  await session.pause();
  for (let index = 0; index < 6; index += 1) await session.send(large(index));
  expect((await pagesOf(session, 'pending', 45_000)).flat()).toEqual(await session.pending());
  const first = await session.page('pending', { bytesMax: 45_000 });
  await session.recall(1);
  await session.send('steered', { deliver: 'steer' });
  const next = await session.page('pending', { after: first.next ?? '', limit: 1 });
  expect(next.items.map(({ id }) => id)).toEqual([3]);
});

test('a page of a mailbox reads the contents of its own entries only', () => {
  const machine = new Machine(makeWorld({ storedContentBytes: 0 }));
  machine.input({ type: 'create', agent: 'main' });
  machine.input({ type: 'pause' });
  for (let index = 0; index < 6; index += 1) machine.send(large(index));
  const read: number[] = [];
  const page = pendingPage(machine.state, { limit: 1_000, bytesMax: 45_000 }, (entry) => {
    read.push(entry.id);
    return machine.readContent(entry);
  });
  expect(page.items.map(({ content }) => content)).toEqual([large(0), large(1)]);
  expect(read).toEqual([1, 2]);
});

test('a page of old messages is bounded while the log is read, however long the log is', () => {
  const MEGABYTE = 1024 * 1024;
  const messages = 32;
  const machine = startedSession({ tokenBudget: 1_000_000_000 });
  const written = openMemoryJournal();
  const key = written.intern('s');
  for (let index = 0; index < messages; index += 1) {
    machine.send(`${index} ${'x'.repeat(MEGABYTE)}`);
    machine.answer('done');
    for (const turn of machine.turns.splice(0)) written.append([{ key, data: encodeTransition(turn) }]);
  }
  // All these messages have left the window.
  const state = { ...emptyState('s'), floor: 2 * messages + 1 };
  const actor = new SessionActor('s', key, state, { turns: 1, position: 1 });
  const before = heapBytes();
  let held = 0;
  const journal: Journal = Object.assign(Object.create(written) as Journal, {
    *read(...place: Parameters<Journal['read']>) {
      yield* written.read(...place);
      held = heapBytes() - before;
    },
  });
  const page = messagePage(journal, actor, { limit: 1_000, bytesMax: 2.5 * MEGABYTE });
  expect(page.items).toHaveLength(4);
  expect(held).toBeGreaterThan(MEGABYTE);
  expect(held).toBeLessThan(8 * MEGABYTE);
});

test('the first page of a request has everything but its messages, and the rules that the request breaks', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  for (let index = 0; index < 3; index += 1) await session.ask(large(index));
  const { messages: _messages, ...rest } = await session.request();
  const first = await session.page('request', { limit: 2 });
  expect(first.head).toEqual(rest);
  expect(first.violations?.map(({ rule }) => rule)).toEqual(['R12']);
  expect((await session.page('request', { limit: 2, after: first.next ?? '' })).head).toBeUndefined();
});

test('an invalid page is refused as `config`, and the error names the option', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  for (const after of ['x', '1e3', '0x10', ' 1', '1.0', '-1', '1-2']) {
    await expect(session.page('messages', { after })).rejects.toMatchObject({
      code: 'config',
      data: { key: 'page.after' },
    });
  }
  await expect(session.page('pending', { after: '9-1' })).rejects.toMatchObject({ code: 'config' });
  await expect(session.page('all' as 'messages')).rejects.toMatchObject({ code: 'config' });
  await expect(session.page('messages', { limit: 0 })).rejects.toMatchObject({ data: { key: 'page.limit' } });
});

test('the number of a receipt is plain decimal', async () => {
  const runtime = await kit.open({ provider });
  const session = runtime.session('s');
  await session.ask('Hi');
  expect((await session.receipt('s/1')).pendingId).toBe(1);
  for (const number of ['1e0', '0x1', ' 1', '1 ', '1.0', '+1', '01', '', '0', '1/1', '9'.repeat(16)]) {
    await expect(session.receipt(`s/${number}`)).rejects.toMatchObject({ code: 'invalid_name' });
  }
});
