/**
 * Goal: a process takes a directory over from the one that has it open (K6, H6): what runs is finished or begun again,
 * what was accepted is kept, and only one of them owns the directory at a time.
 */
import { expect, test } from 'vitest';
import { scripted } from '../../../src/testing/scripted.ts';
import { startChild } from '../../support/children.ts';
import { eventually, failure, gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

test.each(MATRIX)(
  'running half-steps end with the owner; what it accepted meanwhile runs afterwards: %o',
  async (threads) => {
    const directory = await kit.directory();
    const model = gatedModel();
    const owner = await kit.open({ directory, provider: model.provider, threads });
    const asked = await owner.session('one').send('Q1');
    const call = await model.next();
    const taker = kit.open({ directory, provider: scripted(() => 'A2'), threads, takeover: true });
    let sent = 0;
    await eventually(async () => {
      sent += 1;
      const later = owner.session(`later-${sent}`);
      await later.send('Q2');
      return (await later.explain()).detail.includes('takes the store over');
    });
    call.answer('A1');
    expect(await asked.answer()).toBe('A1');
    for (const each of model.calls.slice(1)) each.answer('A1');

    const next = await taker;
    expect(await owner.closed).toEqual({ reason: 'taken_over', pid: process.pid });
    expect(await failure(owner.session('one').send('Q3'))).toMatchObject({ code: 'cancelled' });
    await next.drain();
    expect(model.calls.map(({ session }) => session)).not.toContain(`later-${sent}`);
    const texts = async (id: string): Promise<readonly unknown[]> =>
      (await next.session(id).messages()).map(({ content }) => content);
    expect(await texts('one')).toEqual(['Q1', 'A1']);
    // Exactly one entry for the one session thread, although the owner had accepted messages before and after it.
    expect((await next.audit()).items).toMatchObject([
      { action: 'store.taken_over', details: { shard: 0, pid: process.pid } },
    ]);
    expect(await texts(`later-${sent}`)).toEqual(['Q2', 'A2']);
  },
);

test('a half-step that takes longer than the deadline is begun again by the new owner', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const owner = await kit.open({ directory, provider: model.provider });
  await owner.session('one').send('Q');
  await model.next();
  const next = await kit.open({ directory, provider: scripted(() => 'A'), takeover: { deadlineMs: 0 } });
  expect(await owner.closed).toMatchObject({ reason: 'taken_over' });
  expect((await next.audit({ action: 'store.taken_over' })).items).toHaveLength(1);
  await next.drain();
  expect((await next.session('one').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
});

test('without `takeover` a directory in use is refused; a second process that takes over is refused', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const owner = await kit.open({ directory, provider: model.provider });
  await owner.session('one').send('Q');
  const call = await model.next();
  expect(await failure(kit.open({ directory }))).toMatchObject({ code: 'store_locked' });
  expect(await failure(kit.open({ directory, takeover: false }))).toMatchObject({ code: 'store_locked' });
  const first = kit.open({ directory, provider: model.provider, takeover: true });
  const second = kit.open({ directory, provider: model.provider, takeover: true });
  const outcomes = Promise.allSettled([first, second]);
  // One of the two is refused while the owner still works.
  const refused = await Promise.any([first, second].map((each) => failure(each)));
  expect(refused).toMatchObject({ code: 'store_locked' });
  call.answer('A');
  expect((await outcomes).map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  expect(await owner.closed).toMatchObject({ reason: 'taken_over' });
});

test('a directory that nobody has open is opened; `close()` ends a runtime as closed', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, provider: scripted(() => 'A'), takeover: true });
  expect(await runtime.session('one').ask('Q')).toBe('A');
  await runtime.close();
  expect(await runtime.closed).toEqual({ reason: 'closed' });
});

test('an owner that is closed while it is taken over ends once, and the new owner follows', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const owner = await kit.open({ directory, provider: model.provider });
  await owner.session('one').send('Q');
  await model.next();
  const taker = kit.open({ directory, provider: scripted(() => 'A'), takeover: true });
  await owner.close({ deadlineMs: 0 });
  expect(await owner.closed).toEqual({ reason: 'closed' });
  const next = await taker;
  await next.drain();
  expect((await next.session('one').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
});

test('between two processes at work: every acknowledged message is there once, and answered once', async () => {
  const directory = await kit.directory();
  const owner = startChild(new URL('../fixtures/handing-process.ts', import.meta.url), [directory, '20']);
  await owner.said('ack s0 k3\n');
  const next = await kit.open({
    directory,
    provider: scripted({ rules: [], otherwise: 'An answer of several words.' }),
    takeover: true,
  });
  expect(await owner.ended(), owner.errors()).toBe(0);
  expect(owner.output()).toContain(`ended ${JSON.stringify({ reason: 'taken_over', pid: process.pid })}`);
  expect(owner.output()).toContain('refused cancelled');
  await next.drain();
  const acknowledged = [...owner.output().matchAll(/^ack (\S+) (\S+)$/gm)];
  expect(acknowledged.length).toBeGreaterThanOrEqual(60);
  for (const id of new Set(acknowledged.map(([, session = '']) => session))) {
    const messages = await next.session(id).messages();
    const keys = messages.flatMap(({ type, key }) => (type === 'user_message' ? [key] : []));
    expect(new Set(keys).size, id).toBe(keys.length);
    for (const [, session, key] of acknowledged) if (session === id) expect(keys, id).toContain(key);
    expect(messages.at(-1), id).toMatchObject({ type: 'agent_message' });
    expect(messages.filter(({ type }) => type === 'agent_message').length, id).toBeLessThanOrEqual(keys.length);
  }
}, 120_000);
