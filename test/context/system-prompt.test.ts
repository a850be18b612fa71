/** Goal: the system prompt holds the requested sections in order, and no others. */
import { describe, expect, it } from 'vitest';
import { AgentCatalog } from '../../actors/agent-catalog.ts';
import { LIMIT_DEFAULTS } from '../../src/base/bounds.ts';
import { parseSettings } from '../../src/base/settings.ts';
import { enricherSections, systemPrompt } from '../../src/context/system-prompt.ts';
import { agent, agentSource } from '../../src/runtime/protocol/agent.ts';
import type { EnricherFacts } from '../../src/session/state/inputs.ts';
import { emptyState } from '../../src/session/state/state.ts';
import { readFile } from '../../src/tools/built-in/read-file.ts';
import { tool } from '../../src/tools/tool.ts';
import { describeTool } from '../../src/tools/tool-schema.ts';

const MODEL = { model: 'claude-haiku-4-5' };

function promptOf(enrichers: EnricherFacts | undefined, role: { parent?: string; prompt?: string } = {}): string {
  const plain = tool({ name: 'plain', description: 'Nothing to say.', input: { type: 'object' }, run: () => 'x' });
  const { plan } = agentSource(agent({ name: 'main', system: 'Be brief.', subagents: { spawn: true } }));
  const tools = [readFile(), plain].map((each) => ({
    description: describeTool(each),
    place: { kind: 'host' as const, agent: 'main' },
  }));
  const catalog = new AgentCatalog([{ plan, tools }], parseSettings({}), LIMIT_DEFAULTS, enrichers);
  const state = { ...emptyState('s'), agent: 'main', ...role };
  state.memory = { snapshots: [], budgets: { 1: 0, 2: 0 }, shown: '## Recent Memory\n\nThey met.' };
  if (enrichers === undefined) state.memory = undefined;
  return String(catalog.of(state)?.header(state).system);
}

describe('the system prompt', () => {
  it('F132: own text, active enrichers, tools, guidelines and memory, in this order', () => {
    const prompt = promptOf({ melete: MODEL, mneme: MODEL });
    const order = ['Be brief.', '## Your Sisters', '## Available Tools', '## Tool Guidelines', '## Recent Memory'];
    const places = order.map((heading) => prompt.indexOf(heading));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places[0]).toBe(0);
    expect(prompt).toContain('**How delivery works:**');
    for (const name of [
      'from_melete_skill',
      'from_melete_workflow',
      'from_melete_goal',
      'from_mneme',
      'from_<nickname>',
    ]) {
      expect(prompt).toContain(`\`${name}\``);
    }
    expect(prompt).toContain('- read_file: ');
    expect(prompt).toContain('- spawn_subagent: ');
    expect(prompt).not.toContain('- plain');
    // The prompt has this text once, although both spawn tools require it.
    expect(prompt.match(/^- .*rather than starting another one.*$/gmu)).toHaveLength(1);
    expect(prompt.endsWith('They met.')).toBe(true);
  });

  it('without an enricher it is the text of the embedder alone, and a child has none of these sections', () => {
    expect(promptOf(undefined)).toBe('Be brief.');
    const child = promptOf({ melete: MODEL, mneme: MODEL }, { parent: 'p', prompt: 'You are tern.' });
    expect(child).not.toContain('## Your Sisters');
    expect(child.startsWith('Be brief.\n\nYou are tern.')).toBe(true);
  });

  it('names the active enrichers', () => {
    const mneme = enricherSections({ melete: false, mneme: true, tools: [] }) ?? '';
    expect(mneme).toContain('from_mneme');
    expect(mneme).not.toContain('from_melete');
    expect(mneme).not.toContain('## Available Tools');
    const melete = enricherSections({ melete: true, mneme: false, tools: [] }) ?? '';
    expect(melete).not.toContain('Mneme');
    expect(enricherSections({ melete: false, mneme: false, tools: [{ name: 'a', snippet: 'b' }] })).toBeUndefined();
  });

  it('a guideline of several tools appears once', () => {
    const rule = 'Once is enough.';
    const tools = [
      { name: 'a', guidelines: [rule] },
      { name: 'b', guidelines: [rule, 'Twice is not.'] },
    ];
    const prompt = enricherSections({ melete: true, mneme: false, tools }) ?? '';
    expect(prompt).toContain(`## Tool Guidelines\n- ${rule}\n- Twice is not.`);
    expect(prompt.split(rule)).toHaveLength(2);
  });

  it('memory is the last section', () => {
    const state = { ...emptyState('s'), memory: { snapshots: [], budgets: { 1: 0, 2: 0 }, shown: 'M' } };
    expect(systemPrompt(state, 'S', 'G')).toBe('S\n\nG\n\nM');
    expect(systemPrompt(emptyState('s'), undefined)).toBeUndefined();
  });

  it('a memory snippet is one line', () => {
    const bad = { name: 'a', description: 'b', input: { type: 'object' }, run: () => 'x', snippet: 'two\nlines' };
    expect(() => describeTool(bad)).toThrow(/snippet must be one line/u);
    expect(() => describeTool({ ...bad, snippet: 'one', guidelines: 'x' })).toThrow(/guidelines must be/u);
  });
});
