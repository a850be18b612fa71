import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agent, type Runtime } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';
import { isAudited, storedTexts } from '../../support/stored-texts.ts';

const kit = runtimeKit();
/** A word that stands in everything that the deleted sessions store. */
const CANARY = 'canary-7f3a';

function options(threads: TestOptions['threads']): TestOptions {
  return {
    agents: [agent({ name: 'writer', tools: [long] })],
    threads: { ...threads, tools: 1 },
    provider: scripted({
      rules: [
        { when: { text: 'short' }, reply: `noted ${CANARY}` },
        {
          when: { text: CANARY, result: false },
          reply: { text: CANARY, toolUse: { name: 'long', input: { word: CANARY } } },
        },
        { when: { text: CANARY }, reply: `the end of ${CANARY}` },
      ],
      otherwise: 'ok',
    }),
  };
}

async function erased(runtime: Runtime): Promise<void> {
  await eventually(() => runtime.metrics().sessionsErasing === 0);
}

/** The places that have the word, except the audit log. */
async function found(directory: string, word: string = CANARY): Promise<readonly string[]> {
  const texts = (await storedTexts(directory)).filter((each) => !isAudited(each));
  return [...new Set(texts.filter(({ text }) => text.includes(word)).map(({ at }) => at))];
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('F6: nothing of a deleted session stays in the store, and other sessions notice nothing', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options(threads) });
    const kept = runtime.session('kept');
    const session = runtime.session(`named-${CANARY}`);
    for (let turn = 0; turn < 3; turn += 1) {
      await kept.ask(`short ${turn}`);
      await session.ask(`Say ${CANARY} ${turn}`);
      await kept.ask([{ type: 'text', text: 'an image' }, imageBlock(png(20_000, { seed: 'kept' }))]);
    }
    await session.ask([{ type: 'text', text: CANARY }, imageBlock(png(20_000, { seed: CANARY }))]);
    await session.goals.create({ description: `reach ${CANARY}` });
    const child = await session.spawn({ task: `A task about ${CANARY}`, name: 'helper' }, { key: CANARY });
    await child.reply();
    await runtime.session('half').send(`Another ${CANARY}`, { key: `key-${CANARY}` });
    await session.history.startTask(`branch ${CANARY}`);
    expect((await runtime.search(CANARY)).found.length).toBeGreaterThan(0);
    const before = await kept.messages();
    expect((await readdir(join(directory, 'results'))).length).toBeGreaterThan(0);
    await runtime.drain();
    await runtime.sessions.delete(session.id);
    await runtime.sessions.delete('half');
    await erased(runtime);
    expect(await kept.messages()).toEqual(before);
    expect(await kept.ask('short again')).toBe(`noted ${CANARY}`);
    await runtime.sessions.delete('kept');
    await runtime.session('other').ask('Hi');
    await erased(runtime);
    await runtime.close();
    expect(await found(directory)).toEqual([]);
    expect(await found(directory, 'Hi')).not.toEqual([]);
    const again = await kit.open({ directory, ...options(threads) });
    expect((await again.sessions.list()).map(({ id }) => id)).toEqual(['other']);
    expect((await again.session('other').messages()).map(({ content }) => content)).toEqual(['Hi', 'ok']);
  });

  test('F6: a process that ends before a deletion is erased is followed by one that erases it', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options(threads) });
    await runtime.session('other').ask('Hi');
    await runtime.session('gone').ask(`Say ${CANARY}`);
    await runtime.sessions.delete('gone');
    const copy = await kit.crashed(directory);
    expect(await found(copy)).not.toEqual([]);
    const again = await kit.open({ directory: copy, ...options(threads) });
    await erased(again);
    await again.close();
    expect(await found(copy)).toEqual([]);
  });

  test('F6: an index of an earlier process is erased too, although this process has not searched', async () => {
    const directory = await kit.directory();
    const first = await kit.open({ directory, ...options(threads) });
    await first.session('gone').ask(`Say ${CANARY}`);
    await first.session('kept').ask('Hello');
    await first.search(CANARY);
    await first.close();
    expect((await found(directory)).filter((at) => at.startsWith('search'))).not.toEqual([]);
    const second = await kit.open({ directory, ...options(threads) });
    await second.sessions.delete('gone');
    await erased(second);
    const third = await second.search('hello');
    await second.close();
    expect(await found(directory)).toEqual([]);
    expect(third.found.map(({ session }) => session)).toEqual(['kept']);
  });

  test('F6: a fork keeps what it shares with a deleted session, until it is deleted too', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options(threads) });
    const session = runtime.session('gone');
    await session.ask(`Say ${CANARY}`);
    const fork = await session.fork({ id: 'fork' });
    const second = await fork.fork({ id: 'second' });
    const messages = await second.messages();
    await runtime.sessions.delete('gone');
    await runtime.sessions.delete('fork');
    await eventually(() => runtime.metrics().sessionsErasing === 2);
    await second.ask('Go on');
    expect((await second.messages()).slice(0, messages.length)).toEqual(messages);
    expect(await readdir(join(directory, 'results'))).toHaveLength(1);
    await runtime.sessions.delete('second');
    await erased(runtime);
    expect(await readdir(join(directory, 'results'))).toEqual([]);
    await runtime.close();
    expect(await found(directory)).toEqual([]);
  });

  test('F6: a fork of a deleted fork keeps the results of a session that is deleted later', async () => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options(threads) });
    const session = runtime.session('gone');
    await session.ask(`Say ${CANARY}`);
    const fork = await session.fork({ id: 'fork' });
    const second = await fork.fork({ id: 'second' });
    await runtime.sessions.delete('fork');
    await runtime.sessions.delete('gone');
    await eventually(() => runtime.metrics().sessionsErasing === 2);
    await second.ask('Go on');
    expect(await readdir(join(directory, 'results'))).toHaveLength(1);
    await runtime.sessions.delete('second');
    await erased(runtime);
    expect(await readdir(join(directory, 'results'))).toEqual([]);
  });
});

test('R5: an open removes the results that a killed process did not finish, and no other file', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, ...options({ sessions: 0, models: 0 }) });
  await first.session('one').ask(CANARY);
  await first.close();
  const results = join(directory, 'results');
  const finished = await readdir(results);
  expect(finished.length).toBe(1);
  // The second name is that of a session which no log has.
  for (const name of [`${finished[0]}.1.part`, 'tool_result_0-99_abc.txt.2.part', 'notes.part'])
    await writeFile(join(results, name), CANARY);
  const second = await kit.open({ directory, ...options({ sessions: 0, models: 0 }) });
  expect((await readdir(results)).sort()).toEqual([...finished, 'notes.part'].sort());
  await second.close();
});
