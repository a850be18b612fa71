/**
 * A store with sessions of two tenants, and sessions without a tenant. The sessions of `globex` have a canary in every
 * kind of value that a reader can ask for. Neither their ids nor their texts may reach a reader of `acme`.
 */
import { expect } from 'vitest';
import { agent, type Runtime, tool } from '../../src/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { search_messages, view_messages } from '../../src/tools/built-in/index.ts';
import { leaveEntries, unfit } from '../support/dead-letters.ts';
import { eventually, type RuntimeKit, type TestOptions } from '../support/runtime-kit.ts';

/** A word in every text of the other tenant. */
export const CANARY = 'cormorant';
export const OTHER = 'globex';

const pay = tool({ name: 'pay', description: 'Pays.', effect: 'keyed', input: { type: 'object' }, run: () => 'paid' });

/** Calls the tool that its user names (`name {json}`), and otherwise repeats the message. */
export const provider: ReturnType<typeof scripted> = scripted(({ messages }) => {
  const content = messages.at(-1)?.content;
  const [block] = Array.isArray(content) ? content : [];
  if (block?.type === 'tool_result') return `got: ${String(block.content)}`;
  const said = typeof content === 'string' ? content : block?.type === 'text' ? block.text : '';
  const call = /^(search_messages|view_messages|pay) (\{.*\})$/su.exec(said);
  return call === null ? `noted ${said}` : { toolUse: { name: call[1] ?? '', input: JSON.parse(call[2] ?? '{}') } };
});

export const clerk: ReturnType<typeof agent> = agent({
  name: 'clerk',
  tools: [pay, search_messages, view_messages],
  approve: ['pay'],
  subagents: { spawn: true },
});

const TREES = [
  { prefix: 'acme~', word: 'heron' },
  { prefix: `${OTHER}~`, word: CANARY },
  { prefix: '', word: 'pelican' },
] as const;

/** Makes the store and opens it. Each group has the sessions `chat` (idle, a child, a dead letter) and `till` (waits). */
export async function openTenants(kit: RuntimeKit, options: TestOptions = {}): Promise<Runtime> {
  const { directory = await kit.directory(), ...rest } = options;
  const settings = { provider, agents: [clerk], search: { scope: 'all' as const }, ...rest };
  const first = await kit.open({ ...settings, directory });
  for (const { prefix, word } of TREES) {
    const chat = first.session(`${prefix}chat`);
    await chat.ask(`hello ${word}`, { key: `${word}-1` });
    await (await chat.spawn({ task: `look for the ${word}`, name: `${word}-child` })).reply();
    await chat.goals.create({ description: `find the ${word}` });
    await chat.history.add({ role: 'user', content: `note ${word}` }, { by: `${word}-author` });
    await first.session(`${prefix}till`).send(`pay {"to":"${word}"}`);
  }
  await first.drain();
  await first.close();
  for (const { prefix, word } of TREES) await leaveEntries(directory, `${prefix}chat`, [unfit(`letter ${word}`)]);
  const runtime = await kit.open({ ...settings, directory });
  await eventually(async () => (await runtime.deadLetters()).items.length === TREES.length);
  await eventually(async () => (await runtime.waiting()).items.length === TREES.length);
  return runtime;
}

/** Fails if a value names the other tenant, or has a text of it or of a session without a tenant. */
export function expectNoOther(value: unknown, about: string): void {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  for (const word of [CANARY, OTHER, 'pelican'])
    expect(text.includes(word), `${about} shows ${word}: ${text}`).toBe(false);
}
