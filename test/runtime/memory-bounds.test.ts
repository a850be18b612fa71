/** The bounds of a session thread's memory: waiting contents, working conversations, a session that is too large. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { open, type Runtime } from '../../src/index.ts';
import { openManifest } from '../../src/journal/store/birth.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { assembleRuntime } from '../../src/runtime/handles/assemble.ts';
import { startWorker } from '../../src/runtime/host/shard-threads.ts';
import { checkOptions } from '../../src/runtime/protocol/options.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { failure, gatedModel, log, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'ok' });
const MEGABYTE = 1024 * 1024;

/** Text that does not compress: the store has to hold all of it. */
function noise(bytes: number, seed: number): string {
  let state = seed;
  let text = '';
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += state.toString(36);
  }
  return text.slice(0, bytes);
}

describe('contents that wait in mailboxes', () => {
  test('limits.mailboxBytes refuses an excess message, typed; nothing acknowledged is lost, over a restart too', async () => {
    const directory = await kit.directory();
    const options = { provider: echo, limits: { mailboxBytes: 3 * MEGABYTE }, threads: { sessions: 1, models: 1 } };
    let runtime = await kit.open({ directory, ...options });
    const session = runtime.session('s');
    await session.pause();
    const texts = [1, 2, 3].map((seed) => noise(MEGABYTE, seed));
    for (const text of texts) await session.send(text);
    const refusal = await failure(session.send('x'));
    expect(refusal).toMatchObject({ code: 'mailbox_full', retryable: true, data: { limit: 'mailboxBytes' } });
    expect((await session.pending()).map(({ content }) => content)).toEqual(texts);
    await runtime.close();
    runtime = await kit.open({ directory, ...options });
    const again = runtime.session('s');
    expect((await again.pending()).map(({ content }) => content)).toEqual(texts);
    expect(await failure(again.send('x'))).toMatchObject({ code: 'mailbox_full' });
    await again.resume();
    await runtime.drain();
    expect((await again.messages()).flatMap(({ type, content }) => (type === 'user_message' ? [content] : []))).toEqual(
      texts,
    );
  });

  test('limits.waitingBytes covers all sessions together; a session whose mailbox is empty still accepts a message', async () => {
    const runtime = await kit.open({ provider: echo, limits: { waitingBytes: 3_000 } });
    const [a, b, c] = ['a', 'b', 'c'].map((id) => runtime.session(id));
    if (a === undefined || b === undefined || c === undefined) throw new Error('no sessions');
    for (const each of [a, b, c]) await each.pause();
    await a.send('x'.repeat(2_000));
    await b.send('x'.repeat(900));
    expect(await failure(b.send('x'.repeat(200)))).toMatchObject({ data: { limit: 'waitingBytes' } });
    await c.send('x'.repeat(2_000));
    for (const each of [a, c]) await each.resume();
    await runtime.drain();
    await b.send('x'.repeat(200));
  });

  test('thousands of large concurrent sends do not all leave at once', async () => {
    const runtime = await kit.open({
      directory: await kit.directory(),
      provider: echo,
      threads: { sessions: 1, models: 1 },
      limits: { mailboxBytes: 200 * MEGABYTE },
    });
    const session = runtime.session('s');
    await session.pause();
    const text = noise(MEGABYTE, 7);
    // Sixty-four megabytes of a text that the host holds once.
    const receipts = await Promise.all(Array.from({ length: 64 }, (_, n) => session.send(text, { key: `k${n}` })));
    expect(receipts.map(({ id }) => id)).toEqual(Array.from({ length: 64 }, (_, n) => `s/1.${n + 1}`));
    expect((await session.state()).mailbox).toBe(64);
  });
});

describe('working conversations', () => {
  test('limits.liveBytes: beyond it sessions wait for admission, and explain says so', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, limits: { liveBytes: 10_000 } });
    await runtime.session('large').send('x'.repeat(20_000));
    const call = await model.next();
    await runtime.session('small').send('hello');
    expect(await runtime.session('small').explain()).toMatchObject({ reason: 'queued' });
    expect((await runtime.session('small').explain()).detail).toContain('limits.liveBytes');
    call.answer('done');
    (await model.next()).answer('hi');
    await runtime.drain();
    expect(await log(runtime.session('small'))).toEqual(['user_message:hello', 'agent_message:hi']);
  });

  test('interrupted sessions resume as admission allows, and all of them finish', async () => {
    const directory = await kit.directory();
    const first = gatedModel();
    const runtime = await kit.open({ directory, provider: first.provider });
    const ids = Array.from({ length: 6 }, (_, n) => `s${n}`);
    for (const id of ids) await runtime.session(id).send('x'.repeat(6_000));
    for (const _ of ids) await first.next();
    const crashed = await kit.crashed(directory);
    const second = gatedModel();
    const again = await kit.open({ directory: crashed, provider: second.provider, limits: { liveBytes: 10_000 } });
    const call = await second.next();
    const other = await second.next();
    // Lists are right although four of the sessions are not in memory.
    expect((await again.sessions.list({ state: 'awaiting', order: 'id' })).map(({ id }) => id)).toEqual(ids);
    expect(again.metrics().sessionsLive).toBe(2);
    // The other sessions were read only to learn their size, and are not held in memory.
    expect(again.metrics().sessionsHot).toBe(2);
    expect(second.calls).toHaveLength(2);
    call.answer('one');
    other.answer('two');
    for (let n = 2; n < ids.length; n += 1) (await second.next()).answer('more');
    await again.drain();
    expect((await again.sessions.list({ state: 'idle', order: 'id' })).map(({ id }) => id)).toEqual(ids);
  });
});

describe('a session that is larger than its thread', () => {
  const runtimes: Runtime[] = [];
  afterEach(async () => {
    for (const runtime of runtimes.splice(0)) await runtime.close({ deadlineMs: 0 });
  });

  /** A runtime whose session thread has a small heap. */
  async function openSmall(directory: string, heapMb: number): Promise<Runtime> {
    const lock = await acquireStoreLock(directory);
    const { shards } = await openManifest(directory, 1);
    const place = { directory, resultStore: join(directory, 'results'), shards, release: () => lock.release() };
    const checked = checkOptions({ provider: echo, threads: { sessions: 1, models: 1, tools: 1 } });
    const runtime = await assembleRuntime(checked, place, {
      startShard: ({ index }) => startWorker({ index, usesStore: true, limits: { heapMb, youngHeapMb: 8 } }),
    });
    runtimes.push(runtime);
    return runtime;
  }

  test('its thread dies twice; then the session is blocked with the reason, and the others continue', async () => {
    const directory = await kit.directory();
    const whole = await open(directory, { provider: echo, threads: { sessions: 1, models: 1, tools: 1 } });
    await whole.session('small').ask('hello');
    const large = whole.session('large');
    // A character takes two bytes in memory, so the text takes almost fifty megabytes.
    const text = `${noise(4 * MEGABYTE - 256, 3)}é`;
    for (let n = 0; n < 6; n += 1) await large.history.append({ role: 'user', content: `${n}${text}` });
    await whole.close();
    const runtime = await openSmall(directory, 28);
    // The request kills a first thread and then a second one. The third thread does not work on the session.
    expect((await runtime.session('large').state()).blocked).toMatchObject({ code: 'out_of_memory' });
    expect(await runtime.session('large').explain()).toMatchObject({ reason: 'blocked' });
    expect(await failure(runtime.session('large').send('more'))).toMatchObject({ code: 'out_of_memory' });
    expect(await runtime.session('small').ask('still there?')).toBe('ok');
    expect(runtime.metrics().restarts).toBe(2);
    await runtime.close();
    // With more memory the session works as before.
    const again = await open(directory, { provider: echo, threads: { sessions: 1, models: 1, tools: 1 } });
    runtimes.push(again);
    expect((await again.session('large').messages()).length).toBe(6);
    await again.close();
    await rm(directory, { recursive: true, force: true });
  });
});
