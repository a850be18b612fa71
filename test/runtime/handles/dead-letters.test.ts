/**
 * Goal: entries that could not be promoted are listed, read, sent again and dropped, over sessions, shards and restarts.
 * Method: stores in whose logs an earlier version left such entries.
 */
import { describe, expect, test } from 'vitest';
import { STORED_CONTENT_BYTES_MIN } from '../../../src/base/bounds.ts';
import {
  agent,
  type DeadLetterSummary,
  type OpenOptions,
  type Runtime,
  type SessionEvent,
} from '../../../src/index.ts';
import { deadLetterPage } from '../../../src/runtime/handles/dead-letters.ts';
import type { ShardCaller } from '../../../src/runtime/protocol/protocol.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { leaveEntries, leaveInRow, promotable, unfit } from '../../support/dead-letters.ts';
import { eventually, failure, MATRIX, runtimeKit, THROUGH_MEMBER } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
const echo = (): OpenOptions => ({
  provider: scripted({ rules: [], otherwise: 'to {{text}}' }),
  agents: [agent({ name: 'a' })],
});

/** A closed store whose sessions have answered once. */
async function store(sessions: readonly string[], threads: number): Promise<string> {
  const directory = await kit.directory();
  const runtime = await kit.open({ ...echo(), directory, threads: { sessions: threads } });
  for (const id of sessions) await runtime.session(id).ask('hello');
  await runtime.close();
  return directory;
}

const counted = async (runtime: Runtime): Promise<number> => (await runtime.deadLetters()).items.length;

test.skipIf(THROUGH_MEMBER).each(MATRIX)(
  'a letter is listed, read, sent again once, and answered: %o',
  async (threads) => {
    const directory = await store(['s', 't'], threads.sessions);
    const [bad] = await leaveEntries(directory, 's', [unfit('the report')]);
    const opened = { ...echo(), directory, threads: { ...threads, tools: 1 } };
    const first = await kit.open(opened);
    await eventually(async () => (await counted(first)) === 1);
    const [letter] = (await first.deadLetters()).items;
    expect(letter).toEqual({
      session: 's',
      id: bad,
      type: 'subagent',
      source: { type: 'user' },
      at: expect.any(Number),
      setAsideAt: expect.any(Number),
      bytes: 10,
      error: expect.objectContaining({ message: 'a subagent entry cannot come from user' }),
    });
    const { deadLetters } = first.session('s');
    expect(await deadLetters.list()).toEqual([letter]);
    expect(await deadLetters.get(bad ?? 0)).toEqual({ ...letter, content: 'the report' });
    expect(await deadLetters.get(99)).toBeUndefined();
    expect(await first.sessions.get('s')).toMatchObject({ deadLetters: 1, mailbox: 0, status: 'idle' });
    expect(await first.sessions.get('t')).not.toHaveProperty('deadLetters');
    // The session is not stopped by it.
    expect(await first.session('s').ask('more')).toBe('to more');

    expect(await failure(deadLetters.resend(bad ?? 0))).toMatchObject({ code: 'content' });
    const receipt = await deadLetters.resend(bad ?? 0, { as: 'user' });
    expect(await receipt.answer()).toBe('to the report');
    const again = await deadLetters.resend(bad ?? 0, { as: 'user' });
    expect([again.id, again.seq, again.duplicate, receipt.duplicate]).toEqual([receipt.id, receipt.seq, true, false]);
    expect(await deadLetters.list()).toEqual([]);
    const texts = (await first.session('s').messages()).map(({ content }) => content);
    expect(texts.filter((text) => text === 'the report')).toHaveLength(1);
    await first.close();

    const second = await kit.open(opened);
    const later = await second.session('s').deadLetters.resend(bad ?? 0);
    expect([later.id, later.duplicate, await later.answer()]).toEqual([receipt.id, true, 'to the report']);
    expect(await second.deadLetters()).toEqual({ items: [] });
    const events: SessionEvent[] = [];
    for await (const event of second.session('s').events()) {
      events.push(event);
      if (event.type === 'dead_letter.removed') break;
    }
    expect(events.filter(({ type }) => type.startsWith('dead_letter'))).toMatchObject([
      { type: 'dead_letter.created', letter: bad },
      { type: 'dead_letter.removed', letter: bad, reason: 'resent', pendingId: receipt.pendingId },
    ]);
  },
);

test.skipIf(THROUGH_MEMBER)(
  'a letter that this version can promote is sent in its own form, with a receipt',
  async () => {
    const directory = await store(['s'], 0);
    const [id] = await leaveEntries(directory, 's', [promotable('Lisbon lies on the Tagus.')], true);
    const runtime = await kit.open({ ...echo(), directory });
    const { deadLetters } = runtime.session('s');
    expect(await deadLetters.get(id ?? 0)).toMatchObject({
      type: 'from_mneme',
      error: { message: 'an earlier version could not show it' },
    });
    const receipt = await deadLetters.resend(id ?? 0);
    // A memory starts no turn; it joins the next one.
    expect(await receipt.status()).toEqual({ status: 'accepted' });
    await runtime.session('s').ask('Where?');
    expect(await receipt.status()).toMatchObject({ status: 'answered' });
    const shown = await runtime.session('s').messages();
    expect(shown.filter(({ source }) => source?.type === 'recall').map(({ content }) => content)).toContain(
      'Lisbon lies on the Tagus.',
    );
  },
);

test.skipIf(THROUGH_MEMBER)('a letter is dropped, durably, once', async () => {
  const directory = await store(['s'], 0);
  const [id] = await leaveEntries(directory, 's', [unfit('gone')]);
  const runtime = await kit.open({ ...echo(), directory });
  await eventually(async () => (await counted(runtime)) === 1);
  const { deadLetters } = runtime.session('s');
  expect(await deadLetters.drop(id ?? 0)).toBe(true);
  expect(await deadLetters.drop(id ?? 0)).toBe(false);
  expect(await failure(deadLetters.resend(id ?? 0, { as: 'user' }))).toMatchObject({
    name: 'InvalidArgumentError',
    code: 'letter_not_found',
  });
  await runtime.close();
  const reopened = await kit.open({ ...echo(), directory });
  expect(await reopened.deadLetters()).toEqual({ items: [] });
  expect(await reopened.session('nowhere').deadLetters.list()).toEqual([]);
  expect(await failure(reopened.session('nowhere').deadLetters.resend(1))).toMatchObject({ code: 'unknown_session' });
  expect(await reopened.session('nowhere').deadLetters.drop(1)).toBe(false);
});

test.skipIf(THROUGH_MEMBER)('pages over all sessions and shards, in one order, each letter once', async () => {
  const sessions = ['a', 'b', 'b:x', 'c', 'd', 'e'];
  const directory = await store(sessions, 2);
  for (const id of sessions) await leaveEntries(directory, id, [unfit(`${id} 1`), unfit(`${id} 2`)]);
  const runtime = await kit.open({ ...echo(), directory, threads: { sessions: 2, models: 0, tools: 1 } });
  await eventually(async () => (await counted(runtime)) === 12);
  const whole = (await runtime.deadLetters()).items.map(({ session, id }) => `${session} ${id}`);
  expect(whole).toEqual(sessions.flatMap((id) => [`${id} 2`, `${id} 3`]));
  for (const limit of [1, 3, 5, 12]) {
    const seen: string[] = [];
    for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
      const page = await runtime.deadLetters({ limit, ...(after === undefined ? {} : { after }) });
      expect(page.items.length).toBeLessThanOrEqual(limit);
      seen.push(...page.items.map(({ session, id }) => `${session} ${id}`));
      after = page.next;
    }
    expect(seen, `limit ${limit}`).toEqual(whole);
  }
  const tree = await runtime.deadLetters({ session: 'b' });
  expect(tree.items.map(({ session, id }) => `${session} ${id}`)).toEqual(['b 2', 'b 3', 'b:x 2', 'b:x 3']);
  // A position of another listing shows nothing of another tree.
  const [before, behind] = [await runtime.deadLetters({ session: 'b', after: '0-a' }), '3-c'];
  expect(before).toEqual(tree);
  expect(await runtime.deadLetters({ session: 'b', after: behind })).toEqual({ items: [] });
  expect(await failure(runtime.deadLetters({ after: 'x' }))).toMatchObject({ code: 'config' });
  expect(await failure(runtime.deadLetters({ session: '..' }))).toMatchObject({ code: 'invalid_name' });
  // Deleting a session deletes its letters.
  await runtime.sessions.delete('b');
  expect((await runtime.deadLetters()).items).toHaveLength(10);
});

test('a page ends where the first shard stopped, so that no letter is skipped', async () => {
  const letter = (session: string): DeadLetterSummary => ({
    session,
    id: 1,
    type: 'subagent',
    source: { type: 'user' },
    at: 1,
    setAsideAt: 2,
    bytes: 3,
    error: { name: 'Error', code: 'internal', message: 'no' },
  });
  /** A shard that looks at two of its sessions for each page; only some of them have a letter. */
  const shard = (sessions: readonly string[], withLetter: string): ShardCaller => ({
    call: async (_method, request) => {
      const { after } = request as { after?: { session: string } };
      const left = sessions.filter((id) => after === undefined || id > after.session);
      const items = left
        .slice(0, 2)
        .filter((id) => withLetter.includes(id))
        .map(letter);
      const last = left.length > 2 ? left[1] : undefined;
      return (
        last === undefined ? { items } : { items, reached: { session: last, id: Number.MAX_SAFE_INTEGER } }
      ) as never;
    },
  });
  const shards = [shard(['a', 'c', 'e', 'g', 'i'], 'ag'), shard(['b', 'd', 'f', 'h', 'j'], 'hj')];
  const seen: string[] = [];
  let pages = 0;
  for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
    const page = await deadLetterPage(() => shards, after === undefined ? {} : { after });
    seen.push(...page.items.map(({ session }) => session));
    after = page.next;
    pages += 1;
  }
  expect(seen).toEqual(['a', 'g', 'h', 'j']);
  expect(pages).toBeGreaterThan(2);
});

describe.each(MATRIX)('F6: sessions: $sessions, models: $models', (threads) => {
  const large = (word: string): string => `${word} ${'x'.repeat(2 * STORED_CONTENT_BYTES_MIN)}`;
  const stored = async (directory: string, word: string): Promise<boolean> =>
    (await storedTexts(directory)).some(({ text }) => text.includes(word));

  test.skipIf(THROUGH_MEMBER)(
    'a large letter outlives the erasure of its row, and goes with its own session',
    async () => {
      const directory = await store(['gone', 'kept'], 0);
      const [, [letter = 0] = []] = await leaveInRow(directory, [
        { session: 'gone', entries: [unfit(large('canary-gone'))] },
        { session: 'kept', entries: [unfit(large('canary-kept'))] },
      ]);
      const opened = { ...echo(), directory, threads: { ...threads, tools: 1 } };
      const first = await kit.open(opened);
      await eventually(async () => (await counted(first)) === 2);
      await first.sessions.delete('gone');
      await eventually(() => first.metrics().sessionsErasing === 0);
      expect(await first.session('kept').deadLetters.get(letter)).toMatchObject({ content: large('canary-kept') });
      await first.close();
      expect(await stored(directory, 'canary-gone')).toBe(false);
      expect(await stored(directory, 'canary-kept')).toBe(true);

      const second = await kit.open(opened);
      expect((await second.deadLetters()).items).toMatchObject([{ session: 'kept', id: letter }]);
      const receipt = await second.session('kept').deadLetters.resend(letter, { as: 'user' });
      expect(await receipt.answer()).toBe(`to ${large('canary-kept')}`);
      await second.sessions.delete('kept');
      await eventually(() => second.metrics().sessionsErasing === 0);
      expect(await second.deadLetters()).toEqual({ items: [] });
      await second.close();
      expect(await stored(directory, 'canary-kept')).toBe(false);
    },
  );
});
