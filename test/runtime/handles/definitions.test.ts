/**
 * Goal: definitions through the public API: skills and workflows reach the model, specialists are agents, mistakes are
 * reported.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Logger } from '../../../src/index.ts';
import { agent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/index.ts';
import { think } from '../../../src/tools/built-in/index.ts';
import { deferred, failure, gatedModel, history, log, MATRIX, queue, runtimeKit } from '../../support/runtime-kit.ts';
import { effectsKit } from '../../tools/mcp/support.ts';

const kit = runtimeKit();
const effects = effectsKit();

async function directory(files: Readonly<Record<string, string>>): Promise<string> {
  const path = await kit.directory();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(path, name, '..'), { recursive: true });
    await writeFile(join(path, name), text);
  }
  return path;
}

function file(name: string, body: string, more = ''): string {
  return `---\nname: ${name}\ndescription: about ${name}\n${more}---\n${body}\n`;
}

/** A logger that keeps its warnings. */
function warned(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const drop = (): void => undefined;
  const warn = (fields: { readonly path?: string }, message: string): number =>
    lines.push(`${message} (${fields.path ?? ''})`);
  return { logger: { debug: drop, info: drop, error: drop, warn }, lines };
}

describe.each(MATRIX)('threads %o', (threads) => {
  test('F126, F127, F128: an activated skill is active at once, only once, and reaches the model', async () => {
    const skills = await directory({ 'baking.md': file('baking', 'Knead.') });
    const workflows = await directory({ 'plan.md': file('plan', 'Think.'), 'build.md': file('build', 'Do.') });
    const runtime = await kit.open({ threads, provider: scripted(() => 'ok'), skills, workflows });
    const session = runtime.session('s');
    const baking = { name: 'baking', description: 'about baking', content: 'Knead.' };
    expect(await session.activateSkill('baking')).toEqual(baking);
    expect(await session.activateSkill('baking')).toEqual(baking);
    await session.activateWorkflow('plan');
    await session.activateWorkflow('build');
    expect(await session.state()).toMatchObject({ skills: ['baking'], workflow: 'build', mailbox: 3 });
    await session.ask('go');
    expect(await log(session)).toContain('tool_response:Knead.');
    const told = (await history(session)).flatMap((event): unknown[] =>
      event.type === 'skills.updated' ? [event.skills] : event.type === 'workflow.updated' ? [event.workflow] : [],
    );
    expect(told).toEqual([['baking'], 'plan', 'build']);
    expect((await session.state()).skills).toEqual(['baking']);
  });

  test('H62: a skill activated while tools run is shown after every result of the round', async () => {
    const skills = await directory({ 'baking.md': file('baking', 'Knead.') });
    const model = gatedModel();
    const begun = queue<string>();
    const release = deferred();
    const slow = tool({
      name: 'slow',
      description: 'Waits.',
      effect: 'pure',
      input: z.object({ name: z.string() }),
      run: async ({ name }) => {
        begun.put(name);
        await release.promise;
        return `of ${name}`;
      },
    });
    const agents = [agent({ name: 'a', tools: [slow] })];
    const session = (await kit.open({ threads, provider: model.provider, agents, skills })).session('s');
    const receipt = await session.send('go');
    const calls = ['a', 'b'].map((id) => ({ type: 'tool_use' as const, id, name: 'slow', input: { name: id } }));
    (await model.next()).answer({ content: calls });
    await begun.take();
    await session.activateSkill('baking');
    release.resolve();
    const next = await model.next();
    const shown = JSON.stringify(next.request.messages);
    const places = ['of a', 'of b', 'Knead.'].map((text) => shown.indexOf(text));
    expect(Math.min(...places)).toBeGreaterThan(0);
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    next.answer('done');
    expect(await receipt.answer()).toBe('done');
    const lines = await log(session);
    expect(lines.slice(3, 7)).toEqual([
      'tool_response:of a',
      'tool_response:of b',
      'tool_call:[recalled skill: baking]',
      'tool_response:Knead.',
    ]);
  });

  test('a specialist is an agent with its own prompt, tools and turn limit', async () => {
    const specialists = await directory({
      'critic.md': file('critic', 'Be kind.', 'tools: [Think]\nmodel: claude-haiku-4-5\nmaxTurns: 2\n'),
    });
    const provider = scripted(({ model, system, tools }) =>
      JSON.stringify([model, system, tools?.map((tool) => tool.name)]),
    );
    const runtime = await kit.open({ threads, provider, specialists, agents: [agent({ name: 'main' })] });
    const reply = await runtime.session('s', 'critic').ask('hello');
    expect(JSON.parse(reply)).toEqual(['claude-haiku-4-5', 'Be kind.', ['think']]);
    expect(await runtime.session('t').ask('hello')).toContain('claude-opus-5-5');
  });
});

test('F149: a specialist names tools of MCP servers, or all tools of one; an unknown server leaves it out', async () => {
  const specialists = await directory({
    'payer.md': file('payer', 'Pay.', 'tools: [Think, S__Pay, s__read]\n'),
    'all.md': file('all', 'Do.', 'tools: s__*\n'),
    'lost.md': file('lost', 'Ask.', 'tools: t__read\n'),
  });
  const { logger, lines } = warned();
  const provider = scripted(({ tools }) => JSON.stringify(tools?.map((tool) => tool.name)));
  const mcp = { s: (await effects()).process() };
  const runtime = await kit.open({ provider, specialists, mcp, logger, agents: [agent({ name: 'main' })] });
  expect(JSON.parse(await runtime.session('one', 'payer').ask('hello'))).toEqual(['think', 's__read', 's__pay']);
  const all: unknown = JSON.parse(await runtime.session('two', 'all').ask('hello'));
  expect(all).toEqual(expect.arrayContaining(['s__read', 's__pay', 's__refuse']));
  expect(lines).toEqual(['a specialist is left out: unknown tool t__read (lost)']);
});

test('unknown names and missing directories are refused', async () => {
  const skills = await directory({ 'baking.md': file('baking', 'Knead.') });
  const runtime = await kit.open({ provider: scripted(['ok']), skills });
  expect((await failure(runtime.session('s').activateSkill('cooking'))).message).toMatch(
    /^Unknown skill: cooking; known skills: /u,
  );
  expect((await failure(runtime.session('s').activateWorkflow('baking'))).message).toMatch(
    /^Unknown workflow: baking; (known|there are no) workflows/u,
  );
  const none = await kit.open({ provider: scripted(['ok']) });
  expect((await failure(none.session('s').activateSkill('baking'))).code).toBe('config');
  expect((await failure(kit.open({ workflows: join(skills, 'nowhere') }))).message).toContain('"workflows"');
  expect((await failure(kit.open({ skills: 7 } as never))).message).toContain('skills');
});

test('a sub-agent can use a skill but not a workflow', async () => {
  const path = await directory({ 'plan.md': file('plan', 'Think.') });
  const runtime = await kit.open({ provider: scripted(() => 'ok'), skills: path, workflows: path });
  const child = await runtime.session('p').spawn({ task: 'dig' });
  expect((await failure(child.activateWorkflow('plan'))).message).toContain('main sessions');
  await child.activateSkill('plan');
});

test('a specialist with an unknown tool or a taken name is left out and reported', async () => {
  const specialists = await directory({
    'a.md': file('a', 'A.', 'tools: teleport\n'),
    'main.md': file('main', 'Mine.'),
    'c.md': file('c', 'C.', 'tools: think\n'),
  });
  const { logger, lines } = warned();
  const agents = [agent({ name: 'main', tools: [think] })];
  const runtime = await kit.open({ provider: scripted(['ok']), specialists, agents, logger });
  expect(lines).toEqual([
    'a specialist is left out: unknown tool teleport (a)',
    'a specialist is left out: an agent of this name is defined (main)',
  ]);
  expect(() => runtime.session('s', 'a')).toThrow('no agent is named');
  expect(await runtime.session('s', 'c').ask('hello')).toBe('ok');
});

test('a specialist can use a tool that another agent has from a module', async () => {
  const specialists = await directory({
    'c.md': file('c', 'C.', 'tools: echo_tool\n'),
    'd.md': file('d', 'D.', 'tools: no\n'),
  });
  const { logger, lines } = warned();
  const url = new URL('../fixtures/named-tools.ts', import.meta.url);
  const provider = scripted(({ tools }) => String(tools?.map((tool) => tool.name)));
  const runtime = await kit.open({ provider, specialists, agents: [agent({ name: 'main', tools: [url] })], logger });
  expect(await runtime.session('s', 'c').ask('hello')).toBe('Echo_Tool');
  expect(lines.join()).toContain('d names no, an unknown tool');
});
