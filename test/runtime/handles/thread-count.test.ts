/**
 * The number of session threads changes when a store is opened (G43): nothing that the store has is lost, and what its
 * clients hold stays valid. Real threads, real directories.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { shardOf } from '../../../src/base/ids.ts';
import { agent, type OpenOptions, type Runtime, restore, tool } from '../../../src/index.ts';
import { openSalvage } from '../../../src/journal/check/salvage-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, failure, history, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { storedTexts } from '../../support/stored-texts.ts';
import { webhookReceiver } from '../../support/webhook-receiver.ts';

const kit = runtimeKit();
const IDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
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

/** Everything that an embedder can read of a session. */
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

test('1, 3, 2 threads and none: every session is as before, with its keys, children, open calls, media and forks', async () => {
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
    // Keys are known, the waiting message waits, and a cursor of before continues.
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
