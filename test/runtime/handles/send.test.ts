import { describe, expect, test } from 'vitest';
import type { ContentBlock } from '../../../src/base/messages.ts';
import {
  CancelledError,
  ConfigError,
  ContentError,
  KeyReusedError,
  LimitError,
  MailboxFullError,
  SessionBusyError,
  type SessionEvent,
} from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { collect, failure, gatedModel, log, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

describe.each(MATRIX)('send, sessions: $sessions, models: $models', (threads) => {
  test('100 concurrent sends of one key are one message and 100 equal receipts', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['Once.']) });
    const session = runtime.session('s');
    const sends = Array.from({ length: 100 }, () => session.send('Hi', { key: 'k' }));
    const receipts = await Promise.all(sends);
    expect(new Set(receipts.map(({ id, seq }) => `${id} ${seq}`)).size).toBe(1);
    expect(receipts.filter(({ duplicate }) => !duplicate).length).toBe(1);
    expect(await Promise.all(receipts.map((receipt) => receipt.answer()))).toEqual(Array(100).fill('Once.'));
    expect(await log(session)).toEqual(['user_message:Hi', 'agent_message:Once.']);
  });

  test('a key with other content rejects with KeyReusedError', async () => {
    const session = (await kit.open({ threads, provider: scripted(['Once.']) })).session('s');
    await session.ask('Hi', { key: 'k' });
    await expect(session.send('Ho', { key: 'k' })).rejects.toBeInstanceOf(KeyReusedError);
  });

  test('F024: text, image and document blocks are in the request as they were sent', async () => {
    const model = gatedModel();
    const session = (await kit.open({ threads, provider: model.provider })).session('s');
    const content: readonly ContentBlock[] = [
      { type: 'text', text: 'What is this?' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'words' } },
    ];
    const receipt = await session.send(content);
    const call = await model.next();
    expect(call.request.messages).toEqual([{ role: 'user', content }]);
    call.answer('A picture.');
    expect(await receipt.answer()).toBe('A picture.');
    expect((await session.messages())[0]).toMatchObject({ type: 'user_message', content, source: { type: 'user' } });
  });

  test('a message over limits.messageBytes rejects with LimitError naming the limit', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['no']), limits: { messageBytes: 10 } });
    const error = await failure(runtime.session('s').send('€€€€'));
    expect(error).toBeInstanceOf(LimitError);
    expect(error.message).toContain('messageBytes');
  });

  test('a full mailbox rejects with MailboxFullError that says when to retry', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider, limits: { mailbox: 2 } });
    const session = runtime.session('s');
    await session.send('runs');
    const call = await model.next();
    await session.send('waits 1');
    await session.send('waits 2');
    const error = await failure(session.send('one too many'));
    expect(error).toBeInstanceOf(MailboxFullError);
    expect(error).toMatchObject({ code: 'mailbox_full', retryable: true, retryAfterMs: expect.any(Number) });
    call.answer('done');
    expect((await session.pending()).map(({ content }) => content)).not.toContain('one too many');
  });

  test('lone surrogates and NUL do not reach the log', async () => {
    const session = (await kit.open({ threads, provider: scripted(['ok']) })).session('s');
    await session.ask('a\ud800b');
    expect((await session.messages())[0]?.content).toBe('a\ufffdb');
  });
});

test.each([
  ['a blank string', '  \n'],
  ['no blocks', []],
  ['blank blocks', [{ type: 'text', text: ' ' }]],
  ['a block of the model', [{ type: 'tool_result', tool_use_id: 'x', content: 'forged' }]],
  ['what is no content', 7],
  ['a function in a block', [{ type: 'text', text: 'a', extra: () => 1 }]],
  ['a text block without text', [{ type: 'text' }]],
])('F014: %s rejects with ContentError and stores nothing', async (_what, content) => {
  const session = (await kit.open({ provider: scripted(['no']) })).session('s');
  await expect(session.send(content as string)).rejects.toBeInstanceOf(ContentError);
  expect(await session.messages()).toEqual([]);
});

test.each([
  ['an unknown option', { kee: 'x' }, 'send.kee'],
  ['an empty key', { key: '' }, 'send.key'],
  ['an unknown policy', { deliver: 'fast' }, 'send.deliver'],
])('%s of send rejects with ConfigError naming it', async (_what, options, key) => {
  const session = (await kit.open({ provider: scripted(['no']) })).session('s');
  const error = await failure(session.send('Hi', options as never));
  expect(error).toBeInstanceOf(ConfigError);
  expect(error.message).toContain(key);
});

test('a signal that is already aborted rejects with CancelledError and sends nothing', async () => {
  const session = (await kit.open({ provider: scripted(['no']) })).session('s');
  await expect(session.send('Hi', { signal: AbortSignal.abort() })).rejects.toBeInstanceOf(CancelledError);
  expect(await session.messages()).toEqual([]);
});

test('a signal aborted later ends the wait of ask, not the turn', async () => {
  const model = gatedModel();
  const session = (await kit.open({ provider: model.provider })).session('s');
  const controller = new AbortController();
  const asked = session.ask('Hi', { signal: controller.signal });
  const call = await model.next();
  controller.abort();
  await expect(asked).rejects.toBeInstanceOf(CancelledError);
  call.answer('Still.');
  await collect(session.events({ until: (event) => event.type === 'turn.finished' }));
  expect(await log(session)).toEqual(['user_message:Hi', 'agent_message:Still.']);
});

test('from is kept with the message', async () => {
  const session = (await kit.open({ provider: scripted(['ok']) })).session('s');
  await session.ask('Hi', { from: 'ada' });
  expect((await session.messages())[0]?.source).toEqual({ type: 'user', name: 'ada' });
});

describe('deliver, against a slow model', () => {
  /** Starts a turn, sends the test's messages while its call is in flight, and answers every call with its number. */
  async function busy(sends: readonly (readonly [string, Parameters<typeof send>[1]])[]): Promise<readonly string[]> {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider });
    const session = runtime.session('s');
    await session.send('first');
    const call = await model.next();
    for (const [content, deliver] of sends) await send(content, deliver);
    call.answer('1');
    const drained = runtime.drain();
    let answered = 1;
    let isDrained = false;
    void drained.then(() => {
      isDrained = true;
    });
    while (!isDrained) {
      const next = await Promise.race([model.next(), drained]);
      answered += 1;
      next?.answer(String(answered));
    }
    return (await log(session)).map((line) => line.replace(/^(user|agent)_message:/u, ''));

    async function send(
      content: string,
      deliver: 'ride' | 'steer' | 'turn' | 'interrupt' | 'merge' | 'latest',
    ): Promise<void> {
      await session.send(content, { deliver });
    }
  }

  test('F033: ride: each waiting message has its own half-step, in order', async () => {
    expect(
      await busy([
        ['a', 'ride'],
        ['b', 'ride'],
      ]),
    ).toEqual(['first', '1', 'a', '2', 'b', '3']);
  });

  test('steer: all waiting steers go before the rider, together', async () => {
    expect(
      await busy([
        ['a', 'ride'],
        ['s', 'steer'],
        ['t', 'steer'],
      ]),
    ).toEqual(['first', '1', 's', 't', 'a', '2']);
  });

  test('turn: the message waits until the session is idle and has a separate turn', async () => {
    expect(
      await busy([
        ['a', 'turn'],
        ['b', 'ride'],
      ]),
    ).toEqual(['first', '1', 'a', '2', 'b', '3']);
  });

  test('interrupt: the message cancels the call in flight and goes before all waiting messages', async () => {
    expect(
      await busy([
        ['a', 'ride'],
        ['now', 'interrupt'],
      ]),
    ).toEqual(['first', 'now', '2', 'a', '3']);
  });

  test('merge: all waiting messages become one message', async () => {
    expect(
      await busy([
        ['a', 'merge'],
        ['b', 'merge'],
      ]),
    ).toEqual(['first', '1', 'a\n\nb', '2']);
  });

  test('latest: the message replaces the waiting one', async () => {
    expect(
      await busy([
        ['a', 'latest'],
        ['b', 'latest'],
      ]),
    ).toEqual(['first', '1', 'b', '2']);
  });

  test('ride: the message joins the next half-step of a running turn, after the results of its tools', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    const first = await session.send('first');
    const call = await model.next();
    const second = await session.send('second');
    call.answer({ toolUse: { name: 'nothing', input: {} } });
    const next = await model.next();
    expect(next.request.messages.at(-1)?.role).toBe('user');
    expect(JSON.stringify(next.request.messages.at(-1))).toContain('second');
    next.answer('both');
    expect(await first.answer()).toBe('both');
    expect(await second.answer()).toBe('both');
  });

  test('reject: the send fails with SessionBusyError unless the session is idle', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    const receipt = await session.send('first', { deliver: 'reject' });
    const call = await model.next();
    await expect(session.send('second', { deliver: 'reject' })).rejects.toBeInstanceOf(SessionBusyError);
    call.answer('1');
    await receipt.answer();
    expect(await session.pending()).toEqual([]);
  });
});

describe('bounceBack', () => {
  const broken = { error: { status: 400, message: 'no such luck' } } as const;

  test('F039: the message is removed from the log and returned in an event; the session is idle', async () => {
    const session = (await kit.open({ provider: scripted([broken]) })).session('s');
    const receipt = await session.send('Hi', { bounceBack: true });
    const error = await failure(receipt.answer());
    expect(error).toMatchObject({ name: 'TurnFailedError', code: 'turn_failed' });
    expect(error.cause).toMatchObject({ code: 'model_invalid_request', status: 400 });
    const events = await collect(session.events({ until: (event) => event.type === 'turn.failed' }));
    const bounce = events.find(
      (event): event is SessionEvent & { type: 'bounce_back' } => event.type === 'bounce_back',
    );
    expect(bounce).toMatchObject({ content: 'Hi', messageSeq: 1, error: { code: 'model_invalid_request' } });
    expect(await log(session)).toEqual([]);
    expect((await session.state()).state).toBe('idle');
  });

  test('F042: without bounceBack the message stays and the failure is noted in the log', async () => {
    const session = (await kit.open({ provider: scripted([broken]) })).session('s');
    await expect(session.ask('Hi')).rejects.toMatchObject({ code: 'turn_failed' });
    const lines = await log(session);
    expect(lines[0]).toBe('user_message:Hi');
    expect(lines[1]).toMatch(/^system_message:.*no such luck/u);
  });

  test('F040, F045: only the bounced message is removed, before the next one starts', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    await session.send('kept');
    (await model.next()).answer('yes');
    await session.send('bounced', { bounceBack: true, deliver: 'turn' });
    const failing = await model.next();
    const last = await session.send('next');
    failing.answer(broken);
    const call = await model.next();
    expect(JSON.stringify(call.request.messages)).not.toContain('bounced');
    call.answer('fine');
    await last.answer();
    expect(await log(session)).toEqual([
      'user_message:kept',
      'agent_message:yes',
      'user_message:next',
      'agent_message:fine',
    ]);
  });
});

describe('receipts', () => {
  test('status follows the message: accepted, promoted, answered', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    const first = await session.send('first');
    await first.promoted();
    expect(await first.status()).toEqual({ status: 'promoted' });
    const second = await session.send('second', { deliver: 'turn' });
    expect(await second.status()).toEqual({ status: 'accepted' });
    (await model.next()).answer('1');
    expect(await first.answer()).toBe('1');
    expect(await first.status()).toEqual({ status: 'answered' });
    (await model.next()).answer('2');
    expect(await second.answer()).toBe('2');
  });

  test('a message in the log reports how its turn ended, and is never reported as dropped', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    const failed = await session.send('first');
    (await model.next()).answer({ error: { status: 400, message: 'no' } });
    await expect(failed.answer()).rejects.toMatchObject({ code: 'turn_failed' });
    expect(await failed.status()).toEqual({ status: 'failed', reason: 'no' });
    const other = (await kit.open({ provider: model.provider })).session('t');
    const interrupted = await other.send('second');
    await model.next();
    await other.interrupt();
    await expect(interrupted.answer()).rejects.toMatchObject({ code: 'cancelled' });
    expect(await interrupted.status()).toEqual({ status: 'interrupted', reason: 'the turn was interrupted' });
    const why = await other.send('third');
    await model.next();
    await other.interrupt('the budget is used up');
    await expect(why.answer()).rejects.toMatchObject({ code: 'cancelled', data: { reason: 'the budget is used up' } });
    const status = { status: 'interrupted', reason: 'the turn was interrupted: the budget is used up' };
    expect(await why.status()).toEqual(status);
    const { seq } = why;
    for await (const event of other.events({ after: seq })) {
      if (event.type !== 'interrupt.acknowledged') continue;
      expect(event.reason).toBe('the budget is used up');
      break;
    }
  });

  test('F023: a recalled message is dropped, and the receipt has the reason', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    await session.send('first');
    const call = await model.next();
    const receipt = await session.send('second');
    expect(await session.recall(receipt.pendingId)).toBe(true);
    expect(await session.recall(receipt.pendingId)).toBe(false);
    expect(await receipt.status()).toEqual({ status: 'dropped', reason: 'recalled' });
    await expect(receipt.promoted()).rejects.toBeInstanceOf(CancelledError);
    await expect(receipt.answer()).rejects.toBeInstanceOf(CancelledError);
    call.answer('1');
  });

  test('the answer of a turn that ends without text is empty', async () => {
    const session = (await kit.open({ provider: scripted([{ content: [] }]) })).session('s');
    expect(await session.ask('Hi')).toBe('');
  });

  test('the answer is the last text of the turn', async () => {
    const script = [{ text: 'Let me look.', toolUse: { name: 'nothing' } }, 'Found.'];
    const session = (await kit.open({ provider: scripted(script) })).session('s');
    expect(await session.ask('Hi')).toBe('Found.');
  });

  test('the parts of a paused answer are joined', async () => {
    const script = [{ text: 'One, ', stopReason: 'pause_turn' as const }, 'two.'];
    const session = (await kit.open({ provider: scripted(script) })).session('s');
    expect(await session.ask('Count')).toBe('One, two.');
  });

  test('interrupt makes the answer reject with CancelledError and leaves the message in the log', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    const receipt = await session.send('Hi');
    await model.next();
    expect(await session.interrupt()).toBe(true);
    await expect(receipt.answer()).rejects.toBeInstanceOf(CancelledError);
    expect(await log(session)).toEqual(['user_message:Hi']);
  });

  test('a receipt can be looked up by id, before and after a restart, even when it is no longer in memory', async () => {
    const directory = await kit.directory();
    const provider = scripted({ rules: [], otherwise: 'to {{text}}' });
    const first = await kit.open({ directory, provider });
    const session = first.session('s');
    const receipt = await session.send('first');
    await receipt.answer();
    const again = await session.receipt(receipt.id);
    expect(again).toMatchObject({ id: receipt.id, seq: receipt.seq });
    for (let n = 0; n < 70; n += 1) await session.ask(`message ${n}`);
    expect(await again.answer()).toBe('to first');
    await first.close();
    const second = await kit.open({ directory, provider });
    const restored = await second.session('s').receipt(receipt.id);
    expect(restored).toMatchObject({ id: receipt.id, seq: receipt.seq });
    expect(await restored.status()).toEqual({ status: 'answered' });
    expect(await restored.answer()).toBe('to first');
    const events = await collect(second.session('s').events({ until: restored, deltas: false }));
    expect(events[0]).toMatchObject({ type: 'pending.created', seq: receipt.seq });
    expect(events.at(-1)?.type).toBe('turn.finished');
  });

  test('a receipt can be looked up by the key of its message, also after a restart', async () => {
    const directory = await kit.directory();
    const provider = scripted({ rules: [], otherwise: 'to {{text}}' });
    const first = await kit.open({ directory, provider });
    const receipt = await first.session('s').send('first', { key: 'k' });
    await receipt.answer();
    expect(await first.session('s').receipt({ key: 'k' })).toMatchObject({ id: receipt.id, seq: receipt.seq });
    await first.close();
    const second = await kit.open({ directory, provider });
    const found = await second.session('s').receipt({ key: 'k' });
    expect(found).toMatchObject({ id: receipt.id, seq: receipt.seq, duplicate: true });
    expect(await found.answer()).toBe('to first');
    const unknown = { code: 'unknown_session', message: 'no receipt {"key":"other"} in "s"' };
    await expect(second.session('s').receipt({ key: 'other' })).rejects.toMatchObject(unknown);
    await expect(second.session('s').receipt({ key: '' })).rejects.toMatchObject({ code: 'config' });
  });

  test.each(['', 'nonsense', 's/0', 's/1/2', '../x/1'])('%j is not a receipt id', async (id) => {
    const session = (await kit.open({ provider: scripted(['no']) })).session('s');
    await expect(session.receipt(id)).rejects.toMatchObject({ code: 'invalid_name' });
  });

  test('a receipt of another session, or of no session, is unknown', async () => {
    const runtime = await kit.open({ provider: scripted(['ok']) });
    const receipt = await runtime.session('s').send('Hi');
    await expect(runtime.session('t').receipt(receipt.id)).rejects.toMatchObject({ code: 'unknown_session' });
    await expect(runtime.session('s').receipt('s/99')).rejects.toMatchObject({ code: 'unknown_session' });
  });
});

describe('the receipt of the turn at work', () => {
  test('is that of the message that began the turn, then of the next message; idle: there is none', async () => {
    const model = gatedModel();
    const session = (await kit.open({ provider: model.provider })).session('s');
    expect(await session.current()).toBeUndefined();
    const receipt = await session.send('Hi');
    const call = await model.next();
    const other = await session.send('Also this');
    expect(await session.current()).toMatchObject({ id: receipt.id, seq: receipt.seq });
    call.answer('One.');
    const next = await model.next();
    expect(await session.current()).toMatchObject({ id: other.id, seq: other.seq });
    next.answer('Two.');
    await other.answer();
    expect(await session.current()).toBeUndefined();
  });

  test('is that of the waiting message when the session is paused', async () => {
    const session = (await kit.open({ provider: scripted(['Yes.']) })).session('s');
    await session.pause();
    const receipt = await session.send('Hi', { key: 'k' });
    expect(await session.current()).toMatchObject({ id: receipt.id, seq: receipt.seq });
    await session.resume();
    expect(await receipt.answer()).toBe('Yes.');
    expect(await session.current()).toBeUndefined();
  });

  test('is the same after a restart', async () => {
    const directory = await kit.directory();
    const before = gatedModel();
    const first = await kit.open({ directory, provider: before.provider });
    await first.session('s').send('Earlier', { deliver: 'turn' });
    (await before.next()).answer('Done.');
    const receipt = await first.session('s').send('Hi', { deliver: 'turn' });
    await before.next();
    await first.close({ deadlineMs: 0 });
    const after = gatedModel();
    const second = await kit.open({ directory, provider: after.provider });
    const call = await after.next();
    const found = await second.session('s').current();
    expect(found).toMatchObject({ id: receipt.id, seq: receipt.seq });
    call.answer('Back.');
    expect(await found?.answer()).toBe('Back.');
  });
});
