/**
 * Goal E6, fault F03: the text that a model call has streamed is seen after a crash, an interrupt, a failure and a close,
 * and never becomes a message. The tokens of a lost answer count once (D1 to D3 of `answer-drafts.ts`).
 */
import { describe, expect, test } from 'vitest';
import { DRAFT_CHARACTERS_MAX, DRAFT_INTERVAL_MS } from '../../../src/base/bounds.ts';
import { agent, ModelError, type Runtime, type Session, type SessionEvent } from '../../../src/index.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { startChild } from '../../support/children.ts';
import { eventually, history, log, MATRIX, queue, runtimeKit, type TestQueue } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
const CANARY = 'half a thought';
const COUNTED = { input_tokens: 50, output_tokens: 4 };

/** A call that the test streams by hand. */
interface StreamedCall {
  readonly request: ModelRequest;
  readonly context: GenerateContext;
  answer(text: string): void;
  fail(): void;
}

/** A model whose calls the test streams. */
function streamedModel(): { readonly provider: ModelProvider; readonly calls: TestQueue<StreamedCall> } {
  const calls = queue<StreamedCall>();
  const provider: ModelProvider = {
    name: 'streamed',
    generate: (request, context) =>
      new Promise<ModelResponse>((resolve, reject) => {
        const answer = (text: string): void =>
          resolve({ content: [{ type: 'text', text }], stop_reason: 'end_turn', usage: COUNTED });
        const fail = (): void => reject(new ModelError('model_overloaded', 'too many', { retryable: true }));
        calls.put({ request, context, answer, fail });
      }),
  };
  return { provider, calls };
}

/** Streams the first half of an answer, and reports the tokens of its beginning. */
function stream({ context }: StreamedCall, text: string = CANARY): void {
  context.onUsage?.({ input_tokens: 50, output_tokens: 1 });
  context.onDelta({ type: 'thinking', text: 'hm' });
  context.onDelta({ type: 'text', text });
}

async function lostEvents(session: Session): Promise<readonly Extract<SessionEvent, { type: 'llm.lost' }>[]> {
  return (await history(session)).flatMap((event) => (event.type === 'llm.lost' ? [event] : []));
}

async function shown(session: Session, text: string = CANARY): Promise<void> {
  await eventually(async () => (await session.state()).draft?.text === text);
}

/** Everything that a model, a reader of the history and a search can see. */
async function seenBy(runtime: Runtime, session: Session): Promise<string> {
  const request = await session.request();
  const found = await runtime.search(CANARY);
  return JSON.stringify([request, await session.messages(), await session.history.messages(), found]);
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('E6: a crash leaves the draft; it is shown until the call that is made again is answered', async () => {
    const directory = await kit.directory();
    const before = streamedModel();
    const first = await kit.open({ threads, directory, provider: before.provider });
    await first.session('s').send('Go');
    stream(await before.calls.take());
    await shown(first.session('s'));
    expect((await first.session('s').state()).draft).toEqual({ turn: 'turn-1', text: CANARY, thinking: 'hm' });
    expect((await first.session('s').usage()).input_tokens).toBe(0);
    // The draft is durable a moment after it is shown.
    await first.session('other').send('a commit behind it');
    const copy = await kit.crashed(directory);

    const after = streamedModel();
    const second = await kit.open({ threads, directory: copy, provider: after.provider, limits: { liveSessions: 1 } });
    const session = second.session('s');
    const call = await after.calls.take();
    expect((await session.state()).draft).toMatchObject({ turn: 'turn-1', text: CANARY, lost: 'restart' });
    expect(await lostEvents(session)).toMatchObject([
      { turn: 'turn-1', attempt: 1, reason: 'restart', text: CANARY, thinking: 'hm', usage: { input_tokens: 50 } },
    ]);
    expect(JSON.stringify(call.request)).not.toContain(CANARY);
    expect(await seenBy(second, session)).not.toContain(CANARY);
    expect(await session.usage()).toEqual({
      input_tokens: 50,
      output_tokens: 1,
      lost: { input_tokens: 50, output_tokens: 1 },
    });
    call.answer('Whole.');
    await eventually(async () => (await log(session)).length === 2);
    expect((await session.state()).draft).toBeUndefined();
    expect(await log(session)).toEqual(['user_message:Go', 'agent_message:Whole.']);
    expect(await session.usage()).toMatchObject({ input_tokens: 100, output_tokens: 5 });
  });

  test('E6: an interrupted turn keeps the exact text in its event and in the state, until the next half-step', async () => {
    const model = streamedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    await session.send('Go');
    stream(await model.calls.take());
    await shown(session);
    await session.interrupt('enough');
    await eventually(async () => (await lostEvents(session)).length === 1);
    expect(await lostEvents(session)).toMatchObject([{ reason: 'cancelled', text: CANARY, thinking: 'hm' }]);
    expect((await session.state()).draft).toMatchObject({ text: CANARY, lost: 'cancelled' });
    expect(await seenBy(runtime, session)).not.toContain(CANARY);
    expect((await session.usage()).lost).toEqual({ input_tokens: 50, output_tokens: 1 });
    await session.send('Again');
    const call = await model.calls.take();
    expect(JSON.stringify(call.request)).not.toContain(CANARY);
    expect((await session.state()).draft).toBeUndefined();
    call.answer('Whole.');
    await runtime.drain();
    expect((await lostEvents(session)).length).toBe(1);
  });

  test('E6: a close keeps the draft, and the next open records it once', async () => {
    const directory = await kit.directory();
    const before = streamedModel();
    const first = await kit.open({ threads, directory, provider: before.provider });
    await first.session('s').send('Go');
    stream(await before.calls.take());
    await shown(first.session('s'));
    await first.close({ deadlineMs: 0 });
    for (let open = 0; open < 2; open += 1) {
      const model = streamedModel();
      const next = await kit.open({ threads, directory, provider: model.provider });
      await model.calls.take();
      expect((await next.session('s').state()).draft).toMatchObject({ text: CANARY, lost: 'restart' });
      expect((await lostEvents(next.session('s'))).length).toBe(1);
      expect((await next.session('s').usage()).input_tokens).toBe(50);
      await next.close({ deadlineMs: 0 });
    }
  });
});

test('E6, F03: kill -9 in the middle of a stream', async () => {
  const directory = await kit.directory();
  const child = startChild(new URL('../fixtures/streaming-process.ts', import.meta.url), [directory]);
  await child.said('draft: one two');
  await child.kill();
  const model = streamedModel();
  const runtime = await kit.open({ directory, provider: model.provider });
  const session = runtime.session('s');
  const call = await model.calls.take();
  const [lost, ...others] = await lostEvents(session);
  expect(others).toEqual([]);
  expect(lost).toMatchObject({ turn: 'turn-1', reason: 'restart', text: expect.stringMatching(/^one two/) });
  expect((await session.state()).draft).toMatchObject({ text: lost?.text, lost: 'restart' });
  expect((await session.usage()).lost?.input_tokens).toBeGreaterThan(0);
  expect(JSON.stringify([call.request, await session.messages()])).not.toContain('one two');
});

test('E6: without its agent a session shows the stored draft, and its log stays as it is', async () => {
  const directory = await kit.directory();
  const before = streamedModel();
  const agents = [agent({ name: 'writer' })];
  const first = await kit.open({ directory, agents, provider: before.provider });
  await first.session('s').send('Go');
  // This model reports no tokens.
  (await before.calls.take()).context.onDelta({ type: 'text', text: CANARY });
  await shown(first.session('s'));
  await first.close({ deadlineMs: 0 });
  const second = await kit.open({ directory, agents: [agent({ name: 'other' })], provider: before.provider });
  expect((await second.session('s').state()).draft).toMatchObject({ text: CANARY, lost: 'restart' });
  expect(await lostEvents(second.session('s'))).toEqual([]);
  await second.close();
  const third = await kit.open({ directory, agents, provider: before.provider });
  await before.calls.take();
  const [lost] = await lostEvents(third.session('s'));
  expect(lost).toMatchObject({ text: CANARY, reason: 'restart' });
  expect(lost).not.toHaveProperty('usage');
});

describe('on a clock of the test', () => {
  async function begun() {
    const clock = manualClock();
    const model = streamedModel();
    const runtime = await kit.open({ clock, provider: model.provider });
    const session = runtime.session('s');
    await session.send('Go');
    return { clock, model, runtime, session, call: await model.calls.take() };
  }

  test('a call that fails while it streams loses its text and counts its tokens; the next attempt replaces it', async () => {
    const { clock, model, session, call } = await begun();
    stream(call);
    call.fail();
    await eventually(async () => (await lostEvents(session)).length === 1);
    expect(await lostEvents(session)).toMatchObject([{ attempt: 1, reason: 'failed', text: CANARY }]);
    expect((await session.usage()).lost).toEqual({ input_tokens: 50, output_tokens: 1 });
    await clock.advance(2_000);
    const again = await model.calls.take();
    expect((await session.state()).draft).toMatchObject({ text: CANARY, lost: 'failed' });
    stream(again, 'another');
    await clock.advance(2 * DRAFT_INTERVAL_MS);
    expect((await session.state()).draft).toMatchObject({ text: 'another' });
    expect((await session.state()).draft?.lost).toBeUndefined();
    again.answer('Whole.');
    await eventually(async () => (await log(session)).length === 2);
    expect((await session.state()).draft).toBeUndefined();
  });

  test('a draft keeps the beginning of a long answer, and says so', async () => {
    const { clock, session, call } = await begun();
    for (let piece = 0; piece < 3; piece += 1) {
      call.context.onDelta({ type: 'text', text: String(piece).repeat(DRAFT_CHARACTERS_MAX / 2) });
      await clock.advance(DRAFT_INTERVAL_MS);
    }
    const { draft } = await session.state();
    expect(draft?.truncated).toBe(true);
    expect(draft?.text).toBe('0'.repeat(DRAFT_CHARACTERS_MAX / 2) + '1'.repeat(DRAFT_CHARACTERS_MAX / 2));
    await session.interrupt();
    await eventually(async () => (await lostEvents(session)).length === 1);
    expect((await lostEvents(session))[0]).toMatchObject({ truncated: true, text: draft?.text });
  });

  test('an answer within a second writes no draft; a longer one is written once a second while it grows', async () => {
    const { clock, runtime, session, call } = await begun();
    const flushes = (): number => runtime.metrics().flushes;
    call.context.onDelta({ type: 'text', text: 'a' });
    await clock.advance(DRAFT_INTERVAL_MS - 1);
    expect((await session.state()).draft).toBeUndefined();
    const before = flushes();
    await clock.advance(10 * DRAFT_INTERVAL_MS);
    expect(flushes() - before).toBe(1);
    for (let second = 0; second < 3; second += 1) {
      for (let piece = 0; piece < 20; piece += 1) call.context.onDelta({ type: 'text', text: 'b' });
      await clock.advance(DRAFT_INTERVAL_MS);
    }
    await clock.advance(10 * DRAFT_INTERVAL_MS);
    expect(flushes() - before).toBe(4);
    call.answer('Whole.');
    await eventually(async () => (await log(session)).length === 2);
  });

  test('a budget counts the tokens of lost answers', async () => {
    const { model, session, call } = await begun();
    await session.setBudget(60);
    stream(call);
    await session.interrupt();
    await eventually(async () => (await session.state()).budget?.used === 51);
    await session.send('Again');
    stream(await model.calls.take());
    await session.interrupt();
    await eventually(async () => (await session.state()).budget?.used === 102);
    await session.send('Once more');
    await eventually(async () => (await session.state()).lastError?.code === 'limit');
  });
});

test('F6: a deleted session leaves nothing of its drafts', async () => {
  const directory = await kit.directory();
  const model = streamedModel();
  const runtime = await kit.open({ directory, provider: model.provider });
  const session = runtime.session('s');
  await session.send('Go');
  stream(await model.calls.take());
  await session.interrupt();
  await eventually(async () => (await lostEvents(session)).length === 1);
  await session.send('Again');
  stream(await model.calls.take());
  await shown(session);
  await runtime.sessions.delete('s');
  await session.send('Another session with this name');
  await model.calls.take();
  expect((await session.state()).draft).toBeUndefined();
  await eventually(() => runtime.metrics().sessionsErasing === 0);
  expect((await session.usage()).lost).toBeUndefined();
  await runtime.close({ deadlineMs: 0 });
  expect((await storedTexts(directory)).filter(({ text }) => text.includes(CANARY))).toEqual([]);
});
