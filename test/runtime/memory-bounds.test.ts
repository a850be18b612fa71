/** What the memory of a session thread is bounded by: contents that wait, conversations at work, a session that is too large. */
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

/** Text that no compression makes small: the store has to carry it. */
function noise(bytes: number, seed: number): string {
  let state = seed;
  let text = '';
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += state.toString(36);
  }
  return text.slice(0, bytes);
}

describe('what waits in mailboxes', () => {
  test('limits.mailboxBytes refuses what does not fit, typed; nothing acknowledged is lost, over a restart too', async () => {
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

  test('limits.waitingBytes is of all sessions together; one whose mailbox is empty is still reached', async () => {
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

  test('thousands of large sends that nobody waits for one by one do not all leave at once', async () => {
    const runtime = await kit.open({
      directory: await kit.directory(),
      provider: echo,
      threads: { sessions: 1, models: 1 },
      limits: { mailboxBytes: 200 * MEGABYTE },
    });
    const session = runtime.session('s');
    await session.pause();
    const text = noise(MEGABYTE, 7);
    // Sixty-four megabytes of a text that the host has once.
    const receipts = await Promise.all(Array.from({ length: 64 }, (_, n) => session.send(text, { key: `k${n}` })));
    expect(receipts.map(({ id }) => id)).toEqual(Array.from({ length: 64 }, (_, n) => `s/1.${n + 1}`));
    expect((await session.state()).mailbox).toBe(64);
  });
});

describe('conversations at work', () => {
  test('limits.liveBytes: beyond it sessions wait for a place, and explain says so', async () => {
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

  test('what a crash interrupted is resumed as far as there is room, and all of it comes to its end', async () => {
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
    // Lists are right though four of them are not in memory.
    expect((await again.sessions.list({ state: 'awaiting' })).map(({ id }) => id)).toEqual(ids);
    expect(again.metrics().sessionsLive).toBe(2);
    expect(second.calls).toHaveLength(2);
    call.answer('one');
    other.answer('two');
    for (let n = 2; n < ids.length; n += 1) (await second.next()).answer('more');
    await again.drain();
    expect((await again.sessions.list({ state: 'idle' })).map(({ id }) => id)).toEqual(ids);
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
      startShard: (plan) => startWorker(plan, { heapMb, youngHeapMb: 8 }),
    });
    runtimes.push(runtime);
    return runtime;
  }

  test('the thread dies of it twice; then it is blocked with the reason, and the others go on', async () => {
    const directory = await kit.directory();
    const whole = await open(directory, { provider: echo, threads: { sessions: 1, models: 1, tools: 1 } });
    await whole.session('small').ask('hello');
    const large = whole.session('large');
    // Two bytes a character in memory: more than a hundred megabytes.
    const text = `${noise(4 * MEGABYTE - 256, 3)}é`;
    for (let n = 0; n < 14; n += 1) await large.history.append({ role: 'user', content: `${n}${text}` });
    await whole.close();
    const runtime = await openSmall(directory, 64);
    // Asked of a thread that dies of it, then of the next one, then of one that leaves the session alone.
    expect((await runtime.session('large').state()).blocked).toMatchObject({ code: 'out_of_memory' });
    expect(await runtime.session('large').explain()).toMatchObject({ reason: 'blocked' });
    expect(await failure(runtime.session('large').send('more'))).toMatchObject({ code: 'out_of_memory' });
    expect(await runtime.session('small').ask('still there?')).toBe('ok');
    expect(runtime.metrics().restarts).toBe(2);
    await runtime.close();
    // With more memory it is as it was.
    const again = await open(directory, { provider: echo, threads: { sessions: 1, models: 1, tools: 1 } });
    runtimes.push(again);
    expect((await again.session('large').messages()).length).toBe(14);
    await again.close();
    await rm(directory, { recursive: true, force: true });
  });
});
