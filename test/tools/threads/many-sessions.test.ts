// Goal: calls of many sessions run side by side on one tool thread, a tool that spins there fails alone, and calls that
// wait for a thread are counted. Method: the public API over one real tool thread.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { agent } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { read_file, readFile } from '../../../src/tools/built-in/index.ts';
import { eventually, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const agents = [agent({ name: 'a', tools: [new URL('../fixtures/meeting-tools.ts', import.meta.url)] })];
const threads = { sessions: 0, models: 0, tools: 1 };

test('the calls of 64 sessions are under way on one thread at a time', async () => {
  const count = 64;
  const provider = scripted({
    rules: [{ when: { result: false }, reply: { toolUse: { name: 'meet', input: { count } } } }],
    otherwise: '{{result}}',
  });
  const runtime = await kit.open({ threads, agents, provider });
  const asked = Array.from({ length: count }, (_unused, n) => runtime.session(`s${n}`).ask('Go'));
  expect(new Set(await Promise.all(asked))).toEqual(new Set(['met']));
});

test('F52, G12: a tool that spins among the calls of other sessions fails its own call only', async () => {
  const provider = scripted({
    rules: [
      { when: { text: 'spin', result: false }, reply: { toolUse: { name: 'spin' } } },
      { when: { result: false }, reply: { toolUse: { name: 'rest' } } },
    ],
    otherwise: '{{result}}',
  });
  const runtime = await kit.open({ threads, agents, provider });
  const asked = ['rest', 'spin', 'rest', 'rest'].map((text, n) => runtime.session(`s${n}`).ask(text));
  const [first, spun, ...others] = await Promise.all(asked);
  expect(spun).toContain('timed out after 0.3 seconds');
  expect([first, ...others]).toEqual(['rested', 'rested', 'rested']);
});

test('metrics count the calls that wait for a tool thread', async () => {
  const provider = scripted([{ toolUse: ['x', 'y', 'z'].map((id) => ({ name: 'block', input: {}, id })) }, 'Over.']);
  const runtime = await kit.open({ threads, agents, provider });
  const session = runtime.session('s');
  await session.send('Go');
  await eventually(() => runtime.metrics().toolCallsWaiting === 2);
  expect(runtime.metrics().toolCallsRunning).toBe(3);
  await session.interrupt();
  await eventually(() => runtime.metrics().toolCallsWaiting === 0 && runtime.metrics().toolCallsRunning === 0);
});

test('a built-in tool given as a value, and one that a specialist names, run in the tool threads', async () => {
  const directory = await kit.directory();
  const prompt = '---\nname: reader\ndescription: Reads.\ntools: read_file\n---\nRead.\n';
  await writeFile(join(directory, 'reader.md'), prompt);
  await writeFile(join(directory, 'note.txt'), 'a note');
  const read = { name: 'read_file', input: { path: join(directory, 'note.txt') } };
  const provider = scripted({
    rules: [
      { when: { text: 'block', result: false }, reply: { toolUse: { name: 'block' } } },
      { when: { result: false }, reply: { toolUse: read } },
    ],
    otherwise: '{{result}}',
  });
  const blocking = agent({ name: 'a', tools: [new URL('../fixtures/meeting-tools.ts', import.meta.url)] });
  const value = agent({ name: 'value', tools: [readFile({ root: directory })] });
  const runtime = await kit.open({ threads, agents: [blocking, value], provider, specialists: directory });
  const holder = runtime.session('holder', 'a');
  await holder.send('block');
  await eventually(() => runtime.metrics().toolCallsRunning === 1);
  const asked = ['value', 'reader'].map((name) => runtime.session(`by-${name}`, name).ask('Go'));
  // The only tool thread is taken, and both calls wait for it.
  await eventually(() => runtime.metrics().toolCallsWaiting === 2);
  await holder.interrupt();
  expect(await Promise.all(asked)).toEqual(['a note', 'a note']);
});

test('a changed copy of a built-in tool runs where the program is', async () => {
  const mine = { ...read_file, run: () => 'mine' };
  const reply = { toolUse: { name: 'read_file', input: { path: '/nowhere' } } };
  const provider = scripted({ rules: [{ when: { result: false }, reply }], otherwise: '{{result}}' });
  const runtime = await kit.open({ threads, agents: [agent({ name: 'a', tools: [mine] })], provider });
  expect(await runtime.session('s').ask('Go')).toBe('mine');
});
