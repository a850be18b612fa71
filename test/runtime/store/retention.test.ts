/** The option `retention` at the public API: what is removed, what stays, and what readers learn. */
import { describe, expect, test } from 'vitest';
import { COMPACTION_INSTRUCTION } from '../../../src/context/compaction-request.ts';
import { agent, ConfigError, type Runtime, type Session } from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { leaveEntries, unfit } from '../../support/dead-letters.ts';
import { eventually, failure, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
const SMALL = { messages: 12, keepRecent: 4, idleMinMessages: 5, idleMinTokens: 0 } as const;
const OLD = 'canary-old';
const DAY_MS = 86_400_000;

function isForSummary({ messages }: Pick<ModelRequest, 'messages'>): boolean {
  return JSON.stringify(messages.at(-1)).includes(JSON.stringify(COMPACTION_INSTRUCTION).slice(1, -1));
}

function talker(): ReturnType<typeof scripted> {
  return scripted((request) => (isForSummary(request) ? '<topics>t</topics>\na summary' : 'I see.'));
}

/** A runtime whose sessions compress their conversations, over a clock of the test. */
function options(given: TestOptions = {}): TestOptions {
  return {
    agents: [agent({ name: 'main', compression: SMALL })],
    provider: talker(),
    retention: { archivedHistoryMs: DAY_MS },
    ...given,
  };
}

async function talk(session: Session, turns: number, word: string): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await session.ask(`${word} ${turn}`);
}

async function contents(session: Session): Promise<readonly unknown[]> {
  return (await session.messages()).map(({ content }) => content);
}

async function found(directory: string): Promise<readonly string[]> {
  return (await storedTexts(directory)).filter(({ text }) => text.includes(OLD)).map(({ at }) => at);
}

async function requestTexts(session: Session): Promise<string> {
  return JSON.stringify((await session.request()).messages);
}

async function erased(runtime: Runtime): Promise<void> {
  await eventually(() => runtime.metrics().sessionsErasing === 0);
}

test('archived history that is older than the time is removed from the log, and the session continues as before', async () => {
  const directory = await kit.directory();
  const clock = manualClock();
  const runtime = await kit.open({ directory, clock, ...options() });
  const session = runtime.session('s');
  await talk(session, 7, OLD);
  await talk(session, 3, 'later');
  const request = await requestTexts(session);
  expect(request).not.toContain(`${OLD} 0`);
  const whole = await contents(session);
  expect(whole).toContain(`${OLD} 0`);
  expect((await session.history.chunks()).length).toBeGreaterThan(0);
  const { seq } = await session.state();
  expect((await session.state()).removed).toBeUndefined();

  await clock.advance(DAY_MS / 2);
  expect(await contents(session)).toEqual(whole);
  await clock.advance(DAY_MS);
  await eventually(async () => {
    await clock.advance(1_000);
    return (await session.state()).removed !== undefined;
  });
  const { removed } = await session.state();
  expect(removed).toMatchObject({ archives: expect.any(Number), firstEvent: expect.any(Number) });
  expect(await requestTexts(session)).toBe(request);
  const left = await contents(session);
  expect(left.length).toBeLessThan(whole.length);
  expect(left).toEqual(whole.slice(-left.length));
  expect(left).not.toContain(`${OLD} 0`);
  expect(await session.history.chunks()).toEqual([]);
  expect(await session.history.chunk(1)).toBeUndefined();
  expect((await session.state()).seq).toBe(seq);
  await eventually(async () => {
    await clock.advance(1_000);
    return runtime.metrics().sessionsErasing === 0;
  });
  const answer = await session.ask('and now?');
  expect(answer).toBe('I see.');
  const after = await contents(session);
  await runtime.close();

  const again = await kit.open({ directory, ...options() });
  expect(await contents(again.session('s'))).toEqual(after);
  expect((await again.session('s').state()).removed).toEqual(removed);
  await again.session('s').ask('once more');
  await again.close();
});

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('F6: no file of the store has the text of removed history', async () => {
    const directory = await kit.directory();
    const first = await kit.open({ directory, threads, ...options({ retention: {} }) });
    await talk(first.session('s'), 7, OLD);
    await talk(first.session('s'), 8, 'later');
    await first.session('other').ask('Hello');
    expect((await first.search(OLD)).found.length).toBeGreaterThan(0);
    const request = await requestTexts(first.session('s'));
    await first.close();
    expect(await found(directory)).not.toEqual([]);

    const second = await kit.open({ directory, threads, ...options({ retention: { archivedHistoryMs: 1 } }) });
    const session = second.session('s');
    await eventually(async () => (await session.state()).removed !== undefined);
    await erased(second);
    expect(await requestTexts(session)).toBe(request);
    expect((await second.search(OLD)).found).toEqual([]);
    expect((await second.search('later')).found.length).toBeGreaterThan(0);
    expect((await second.search('hello')).found.map((each) => each.session)).toEqual(['other']);
    await second.close();
    expect(await found(directory)).toEqual([]);
    const third = await kit.open({ directory, threads, ...options({ retention: {} }) });
    expect(await requestTexts(third.session('s'))).toBe(request);
    expect(await third.session('s').ask('more')).toBe('I see.');
    await third.sessions.delete('s');
    await erased(third);
    await third.close();
    expect((await storedTexts(directory)).filter(({ text }) => text.includes('later'))).toEqual([]);
  });
});

test('a reader of events from an old cursor receives a gap with the numbers that are missing, and then the rest', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, ...options({ retention: {} }) });
  await talk(first.session('s'), 7, OLD);
  await first.close();
  const runtime = await kit.open({ directory, ...options({ retention: { archivedHistoryMs: 1 } }) });
  const session = runtime.session('s');
  await eventually(async () => (await session.state()).removed !== undefined);
  const firstEvent = (await session.state()).removed?.firstEvent ?? 0;
  await session.ask('new');
  const seen: string[] = [];
  for await (const event of session.events({ after: 0 })) {
    seen.push(event.type === 'gap' ? `gap ${event.from} to ${event.to}` : `${event.seq} ${event.type}`);
    if (event.type === 'turn.finished') break;
  }
  expect(seen[0]).toBe(`gap 1 to ${firstEvent - 1}`);
  expect(seen[1]).toMatch(new RegExp(`^${firstEvent} `));
});

test('a fork keeps what it shares with a session whose history is removed', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, ...options({ retention: {} }) });
  await talk(first.session('s'), 4, OLD);
  const fork = await first.session('s').fork({ id: 'fork' });
  const shared = await contents(fork);
  await talk(first.session('s'), 6, 'later');
  await first.close();
  const runtime = await kit.open({ directory, ...options({ retention: { archivedHistoryMs: 1 } }) });
  await eventually(async () => (await runtime.session('s').state()).removed !== undefined);
  await erased(runtime);
  expect(await contents(runtime.session('fork'))).toEqual(shared);
  expect(await runtime.session('fork').ask('still there?')).toBe('I see.');
  await runtime.sessions.delete('s');
  expect((await contents(runtime.session('fork'))).slice(0, shared.length)).toEqual(shared);
  await runtime.close();
});

test('a crash before, in the middle of and after a removal leaves a session that continues', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, ...options({ retention: {} }) });
  await talk(first.session('s'), 7, OLD);
  await talk(first.session('s'), 8, 'later');
  const request = await requestTexts(first.session('s'));
  await first.close();
  const runtime = await kit.open({ directory, ...options({ retention: { archivedHistoryMs: 1 } }) });
  await eventually(async () => (await runtime.session('s').state()).removed !== undefined);
  const copy = await kit.crashed(directory);
  await runtime.close();
  const again = await kit.open({ directory: copy, ...options({ retention: {} }) });
  await erased(again);
  expect(await requestTexts(again.session('s'))).toBe(request);
  await again.session('s').ask('more');
  await again.close();
  expect(await found(copy)).toEqual([]);
});

test('a session is trimmed again and again, and its store stays small', async () => {
  const directory = await kit.directory();
  const clock = manualClock();
  const runtime = await kit.open({ directory, clock, ...options({ retention: { archivedHistoryMs: 60_000 } }) });
  const session = runtime.session('s');
  const sizes: number[] = [];
  for (let round = 0; round < 6; round += 1) {
    await talk(session, 8, `round ${round}`);
    await eventually(async () => {
      await clock.advance(61_000);
      return ((await session.state()).removed?.archives ?? 0) > round;
    });
    sizes.push((await session.messages()).length);
  }
  // All rounds together have more than 96 messages.
  expect(Math.max(...sizes)).toBeLessThan(48);
  expect(await contents(session)).not.toContain('round 0 0');
  await runtime.sessions.delete('s');
  await eventually(async () => {
    await clock.advance(1_000);
    return runtime.metrics().sessionsErasing === 0;
  });
  await runtime.close();
  expect((await storedTexts(directory)).filter(({ text }) => text.includes('round'))).toEqual([]);
});

test('children that ended long ago are deleted, and others stay', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ clock, provider: talker(), retention: { finishedChildrenMs: DAY_MS } });
  const session = runtime.session('s');
  const child = await session.spawn({ task: 'a task', name: 'helper' });
  await child.reply();
  await runtime.drain();
  expect((await runtime.sessions.list()).map(({ id }) => id).sort()).toEqual(['s', child.id]);
  await clock.advance(DAY_MS / 2);
  expect(await runtime.sessions.list()).toHaveLength(2);
  await eventually(async () => {
    await clock.advance(DAY_MS / 4);
    return (await runtime.sessions.list()).length === 1;
  });
  expect((await session.state()).children).toMatchObject([{ name: 'helper', exited: 'completed' }]);
  await runtime.close();
});

test('dead letters that are older than the time are dropped, and others stay', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, provider: talker() });
  await first.session('s').ask('hello');
  await first.close();
  await leaveEntries(directory, 's', [unfit('the report')]);
  const clock = manualClock(Date.now());
  const runtime = await kit.open({ directory, clock, provider: talker(), retention: { deadLettersMs: DAY_MS } });
  const letters = async (): Promise<number> => (await runtime.session('s').deadLetters.list()).length;
  await eventually(async () => (await letters()) === 1);
  await clock.advance(DAY_MS / 2);
  expect(await letters()).toBe(1);
  await eventually(async () => {
    await clock.advance(DAY_MS / 4);
    return (await letters()) === 0;
  });
  await runtime.close();
});

test('the option is checked: times are whole milliseconds, and other keys are refused', async () => {
  for (const retention of [{ archivedHistoryMs: 0 }, { deadLettersMs: '1d' }, { everythingMs: 1 }]) {
    const error = await failure(kit.open({ retention: retention as never, provider: talker() }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain('retention');
  }
});
