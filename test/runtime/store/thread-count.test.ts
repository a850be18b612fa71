/**
 * The number of session threads changes when a store is opened (G43). Nothing that the store has is lost, and the cursors
 * and keys of its clients stay valid. Real threads, real directories.
 */
import { mkdir, readdir, rename, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { readStore } from '../../../src/cli/places/stored-sessions.ts';
import { agent, type Runtime, restore, tool } from '../../../src/index.ts';
import { openSalvage } from '../../../src/journal/check/salvage-store.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { startChild } from '../../support/children.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, failure, history, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';
import { webhookReceiver } from '../../support/webhook-receiver.ts';

const kit = runtimeKit();
const IDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
/** Kills of a change, one for each run, spread over its steps. */
const KILLS = 4;
const photo = png(60_000, { seed: 'photo' });

/** A payment that waits for a person, so that a call is open while the store is closed. */
const pay = tool({
  name: 'pay',
  description: 'Pays.',
  effect: 'once',
  input: z.object({ sum: z.number() }),
  run: ({ sum }) => `paid ${sum}`,
});

const provider = scripted({
  rules: [
    { when: { text: 'pay', result: false }, reply: { toolUse: { name: 'pay', input: { sum: 7 } } } },
    { when: { text: 'long', result: false }, reply: { toolUse: { name: 'long', input: { word: 'canary' } } } },
  ],
  otherwise: 'to {{text}}',
});
const agents = [agent({ name: 'a', tools: [pay, long], approve: ['pay'] })];

function options(sessions: number, more: Partial<TestOptions> = {}): TestOptions {
  return { agents, provider, ...more, threads: { sessions, models: 0, tools: 1 } };
}

/** The messages, mailbox, history, events, state and request of a session. */
async function facts(runtime: Runtime, id: string): Promise<unknown> {
  const session = runtime.session(id);
  return {
    messages: await session.messages(),
    pending: await session.pending(),
    history: await session.history.toArray(),
    events: await history(session),
    state: (await session.state()).state,
    request: await session.request(),
  };
}

async function allFacts(runtime: Runtime): Promise<Readonly<Record<string, unknown>>> {
  const found: Record<string, unknown> = {};
  for (const { id } of await runtime.sessions.list({ order: 'id', limit: 1_000 })) {
    found[id] = await facts(runtime, id);
  }
  return found;
}

async function fill(runtime: Runtime): Promise<void> {
  await Promise.all(IDS.map((id) => runtime.session(id).ask(`hello ${id}`, { key: `key-${id}` })));
  await runtime.session('a').ask([{ type: 'text', text: 'look' }, imageBlock(photo)]);
  await (await runtime.session('a').fork()).ask('in the fork');
  await runtime.session('b').ask('long');
  const child = await runtime.session('c').spawn({ task: 'count', name: 'counter' });
  await eventually(async () => (await child.state()).state === 'idle');
  await runtime.session('d').send('pay');
  await eventually(async () => (await runtime.waiting()).items.length === 1);
  await runtime.session('e').pause();
  await runtime.session('e').send('later', { key: 'later' });
}

test('after 1 thread with 3, 2, none and 1: every session is as before, with its keys, children, open calls, media and forks', async () => {
  const directory = join(await kit.directory(), 'store');
  let runtime = await kit.open({ directory, ...options(1) });
  await fill(runtime);
  const before = await allFacts(runtime);
  const cursor = (await history(runtime.session('f'))).at(-2)?.seq ?? 0;
  for (const sessions of [3, 2, 0, 1]) {
    await runtime.close();
    runtime = await kit.open({ directory, ...options(sessions) });
    const shards = sessions === 0 ? 2 : sessions;
    expect(runtime.info()).toMatchObject({ shards, threads: { sessions } });
    expect(await allFacts(runtime), `${sessions} threads`).toEqual(before);
    // Keys are known, the waiting message waits, and an earlier cursor continues.
    expect(await runtime.session('g').send('hello g', { key: 'key-g' })).toMatchObject({ duplicate: true });
    expect(await runtime.session('e').send('later', { key: 'later' })).toMatchObject({ duplicate: true });
    const events = runtime.session('f').events({ after: cursor });
    expect((await events.next()).value).toMatchObject({ seq: cursor + 1 });
    await events.return?.();
    const names = await readdir(directory);
    expect(names.filter((name) => name.startsWith('shard-'))).toHaveLength(shards);
    expect(names).not.toContain('layout');
  }
  const [call] = (await runtime.waiting()).items;
  await runtime.session('d').approve(call?.callId ?? '', { allow: true });
  await runtime.session('e').resume();
  await runtime.drain();
  expect(JSON.stringify(await runtime.session('d').messages())).toContain('paid 7');
  expect(JSON.stringify(await runtime.session('e').messages())).toContain('to later');
  await runtime.close();
  const salvage = await openSalvage(directory);
  expect([...salvage.findings, ...salvage.shards.flatMap(({ findings }) => findings)]).toEqual([]);
  salvage.close();
});

test('Z1, Z3: a store killed before a step of the change has the old number or the new one, and every session', async () => {
  const directory = join(await kit.directory(), 'store');
  let runtime = await kit.open({ directory, ...options(1) });
  await fill(runtime);
  const before = await allFacts(runtime);
  await runtime.close();
  const changed = async (wanted: number, step: number): Promise<string> => {
    const given = [directory, String(wanted), String(step)];
    const child = startChild(new URL('../fixtures/thread-count-killed.ts', import.meta.url), given);
    await child.ended();
    return child.output() + child.errors();
  };
  const [, survived] = /survived (\d+)/.exec(await changed(3, Number.MAX_SAFE_INTEGER)) ?? [];
  const steps = Number(survived);
  expect(steps).toBeGreaterThan(KILLS);
  let shards = 3;
  const seen = new Set<string>();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const wanted = shards === 1 ? 3 : 1;
    const step = Math.floor((kill / KILLS) * steps);
    const output = await changed(wanted, step);
    // Without the option, the store keeps its number, whatever the crash left.
    runtime = await kit.open({ directory, ...options(0) });
    const found = runtime.info().shards;
    expect([shards, wanted], `step ${step}: ${output}`).toContain(found);
    seen.add(shards === found ? 'undone' : 'finished');
    shards = found;
    expect(await allFacts(runtime), `step ${step}`).toEqual(before);
    await runtime.close();
    expect(await readdir(directory)).not.toContain('layout');
  }
  // The kills came before the step that makes the new shards the store, and after it.
  expect([...seen].sort()).toEqual(['finished', 'undone']);
}, 300_000);

test('results, forks and sessions that are being erased move too; a session deleted afterwards leaves nothing', async () => {
  const directory = join(await kit.directory(), 'store');
  let runtime = await kit.open({ directory, ...options(1) });
  await Promise.all(IDS.map((id) => runtime.session(id).ask('long')));
  const fork = await runtime.session('a').fork();
  await runtime.sessions.delete('a');
  await runtime.sessions.delete('b');
  // The runtime closes at once, so the eraser of the next one continues.
  await runtime.close();
  runtime = await kit.open({ directory, ...options(3) });
  expect((await runtime.sessions.list({ order: 'id' })).map(({ id }) => id)).toEqual([fork.id, ...IDS.slice(2)]);
  expect(JSON.stringify(await runtime.session(fork.id).messages())).toContain('canary');
  await eventually(() => runtime.metrics().sessionsErasing === 1);
  await runtime.session('c').ask('long');
  for (const { id } of await runtime.sessions.list({ order: 'id' })) await runtime.sessions.delete(id);
  await eventually(() => runtime.metrics().sessionsErasing === 0);
  await runtime.close();
  expect(await readdir(join(directory, 'results'))).toEqual([]);
  expect((await storedTexts(directory)).filter(({ text }) => text.includes('canary'))).toEqual([]);
});

test('webhooks: a delivered notice is not delivered again, and an undelivered one keeps its id', async () => {
  const directory = join(await kit.directory(), 'store');
  let isUp = true;
  const receiver = await webhookReceiver(() => ({ status: isUp ? 204 : 500 }));
  const webhooks = [{ url: receiver.url }];
  let runtime = await kit.open({ directory, ...options(1, { webhooks }) });
  await Promise.all(IDS.map((id) => runtime.session(id).ask('one')));
  await eventually(() => runtime.metrics().webhooksDelivered === IDS.length);
  isUp = false;
  await Promise.all(IDS.slice(0, 4).map((id) => runtime.session(id).ask('two')));
  await eventually(() => receiver.received.length > IDS.length);
  await runtime.close();
  const failed = receiver.received.slice(IDS.length);
  isUp = true;
  const count = receiver.received.length;
  // These runtimes do not have the webhook. Its cursor moves all the same.
  for (const sessions of [2, 1]) {
    runtime = await kit.open({ directory, ...options(sessions) });
    await runtime.session('h').ask(`with ${sessions}`);
    await runtime.close();
  }
  runtime = await kit.open({ directory, ...options(3, { webhooks }) });
  await eventually(() => receiver.received.length >= count + 6 && runtime.metrics().webhooksWaiting === 0);
  const late = receiver.received.slice(count);
  expect(late.map(({ data }) => data.session).sort()).toEqual(['a', 'b', 'c', 'd', 'h', 'h']);
  for (const { data, headers } of failed) {
    const again = late.find((each) => each.data.session === data.session && each.data.seq === data.seq);
    expect(again?.headers['webhook-id']).toBe(headers['webhook-id']);
  }
  await runtime.session('a').ask('three');
  await eventually(() => receiver.received.length === count + 7);
});

test('a backup after a change copies every shard, and an earlier backup is restored with its own number', async () => {
  const base = await kit.directory();
  const [directory, backup] = [join(base, 'store'), join(base, 'backup')];
  let runtime = await kit.open({ directory, ...options(2) });
  await fill(runtime);
  await runtime.backup(backup);
  await runtime.close();
  expect(await restore(backup, join(base, 'before'))).toMatchObject({ shards: 2 });
  runtime = await kit.open({ directory, ...options(3) });
  const before = await allFacts(runtime);
  expect(await runtime.backup(backup)).toMatchObject({ shards: 3, copiedShards: 3 });
  expect(await runtime.backup(backup)).toMatchObject({ shards: 3, copiedShards: 0, copiedResults: 0 });
  await runtime.close();
  expect(await restore(backup, join(base, 'after'))).toMatchObject({ shards: 3 });
  runtime = await kit.open({ directory: join(base, 'after'), ...options(1) });
  expect(await allFacts(runtime)).toEqual(before);
});

test('a change that cannot be made is refused, and the store stays as it is', async () => {
  const directory = join(await kit.directory(), 'store');
  let runtime = await kit.open({ directory, ...options(1) });
  await fill(runtime);
  const before = await allFacts(runtime);
  await runtime.close();
  // Three threads cannot share two calls in flight.
  expect(await failure(kit.open({ directory, ...options(3, { governor: { concurrency: 2 } }) }))).toMatchObject({
    code: 'config',
    message: expect.stringMatching(/"governor.concurrency".*session threads, 3/),
  });
  // An unfinished change is undone.
  await mkdir(join(directory, 'layout'));
  await writeFile(join(directory, 'layout', 'shard-0'), 'unfinished');
  runtime = await kit.open({ directory, ...options(0) });
  expect(await allFacts(runtime)).toEqual(before);
  expect(runtime.info().shards).toBe(1);
  await runtime.close();
  // A shard that cannot be read.
  const path = join(directory, 'shard-0', 'data.mdb');
  await truncate(path, 8_192);
  expect((await failure(kit.open({ directory, ...options(3) }))).code).toBe('store_corrupt');
  expect((await readdir(directory)).filter((name) => /^(shard|layout)/.test(name))).toEqual(['shard-0']);
});

test('a store whose new shards are not in place is read only by a runtime, which puts them there', async () => {
  const directory = join(await kit.directory(), 'store');
  let runtime = await kit.open({ directory, ...options(2) });
  await fill(runtime);
  const before = await allFacts(runtime);
  await runtime.close();
  await mkdir(join(directory, 'layout'));
  await rename(join(directory, 'shard-1'), join(directory, 'layout', 'shard-1'));
  await writeFile(join(directory, 'manifest.json'), '{"format":2,"shards":2}\n');
  await expect(readStore(directory, (sessions) => sessions.list())).rejects.toMatchObject({
    code: 'config',
    message: expect.stringMatching(/open the store with a runtime once/),
  });
  runtime = await kit.open({ directory, ...options(0) });
  expect(await allFacts(runtime)).toEqual(before);
});
