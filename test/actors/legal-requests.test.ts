/**
 * Goal: whatever a session has been through, and whichever models and options its agents have had, no request breaks a
 * rule of the Messages API (I3, A8, R01 to R69). Method: random lives of sessions whose agents come from the catalog of
 * a shard, with options that `open` accepts for some model of the table. Agents change with a crash, and the vendor's
 * list of models is learned at any time. Each request is checked in its wire form.
 *
 * `TROUPE_HISTORIES` sets the number of lives, `TROUPE_HISTORIES_SEED` where they begin. A failing life prints its seed.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { AgentCatalog, type SessionAgent } from '../../actors/agent-catalog.ts';
import { LIMIT_DEFAULTS } from '../../src/base/bounds.ts';
import { defined } from '../../src/base/defined.ts';
import type { ContentBlock } from '../../src/base/messages.ts';
import { parseSettings } from '../../src/base/settings.ts';
import { checkRequest, fatalOf } from '../../src/context/legality/legality.ts';
import { EFFORTS, findListed, type ListedModel, modelTraits, THINKING_TYPES } from '../../src/context/model-traits.ts';
import { writeTraits } from '../../src/context/request-traits.ts';
import { RequestWindow } from '../../src/context/request-window.ts';
import { type Agent, type AgentOptions, agent, ConfigError } from '../../src/index.ts';
import { withoutRefused } from '../../src/models/fitted-options.ts';
import { modelsOf, summaryHeader } from '../../src/models/model-options.ts';
import type { ModelRequest, Thinking } from '../../src/models/provider.ts';
import { encodeRequest } from '../../src/models/request-body.ts';
import { PauseTurnAnswers } from '../../src/models/script/pause-turn-answers.ts';
import { agentSource } from '../../src/runtime/protocol/agent.ts';
import { checkAgentModels } from '../../src/runtime/protocol/agent-models.ts';
import { answerForm } from '../../src/runtime/protocol/output-option.ts';
import { checkContent } from '../../src/runtime/protocol/sent-message.ts';
import { applyAll } from '../../src/session/apply/apply.ts';
import { isEpochInUse } from '../../src/session/rules/epoch.ts';
import type { EditRequest } from '../../src/session/state/edit-request.ts';
import type { EnricherFacts } from '../../src/session/state/inputs.ts';
import type { SessionRecord } from '../../src/session/state/records.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { serverTool } from '../../src/tools/server-tool.ts';
import type { RegisteredTool } from '../../src/tools/tool-registry.ts';
import { THINKING } from '../support/model-settings.ts';
import { TOOLS, USAGE } from '../support/session-kit.ts';
import { Life } from '../support/session-life.ts';
import { type LifeOptions, lifeOptions, type Step, steps, withoutSearch } from '../support/session-steps.ts';
import { sdkModels } from '../support/type-reader.ts';

const HISTORIES = Number(process.env['TROUPE_HISTORIES'] ?? 120);
const SEED = Number(process.env['TROUPE_HISTORIES_SEED'] ?? 11);

/** Every model of the table, one that is not Claude's, and a Claude model that the table does not have yet. */
const MODELS = [...sdkModels(), 'some-model', 'claude-opus-9-1'];
const FORMS = [
  { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] },
  { type: 'object', properties: { kind: { enum: ['Town', 'City'] }, tags: { type: 'array', maxItems: 3 } } },
];
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const CONTENTS: readonly (readonly ContentBlock[])[] = [
  [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } }],
  [
    {
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: 'Ulm is small.' },
      citations: { enabled: true },
    },
    { type: 'text', text: 'Where?' },
  ],
  [{ type: 'text', text: 'Marked.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
].map((blocks) => checkContent(blocks) as readonly ContentBlock[]);
const OWN_TOOLS = Object.keys(TOOLS).filter((name) => TOOLS[name]?.isRuntimeTool !== true);

const settings = parseSettings({ llm: { maxTokens: 8_192 } });

function toolsOf(names: readonly string[]): readonly RegisteredTool[] {
  return names.map((name) => ({
    description: {
      name,
      description: `Does ${name}.`,
      inputSchema: { type: 'object', properties: {} },
      effect: 'pure',
      adjustableTimeout: TOOLS[name]?.adjustableTimeout === true,
      truncate: true,
    },
    place: { kind: 'host', agent: 'main' },
  }));
}

/** Options that may or may not go together, and that the model may refuse. */
function anyOptions(random: SeededRandom, life: LifeOptions): AgentOptions & { readonly output?: object } {
  const thinking: Thinking | undefined = random.pick(THINKING);
  const hasTools = random.chance(0.8);
  return {
    name: 'main',
    // Some agents move to another model when one is away, and return.
    model: random.chance(0.4) ? random.some(MODELS, random.between(2, 3)) : random.pick(MODELS),
    returnAfterMs: random.pick([0, 300_000]),
    tokenBudget: life.tokenBudget,
    toolRounds: life.toolRounds,
    ...(life.hasSystemFunction ? { system: () => 'By a function.' } : { system: 'You are an agent.' }),
    subagents: { spawn: hasTools, maxActive: 2 },
    tools: random.chance(0.6) ? [serverTool({ type: 'web_search_20250305' })] : [],
    ...(life.remembers === true ? { compression: false } : {}),
    ...defined({
      thinking,
      maxTokens: random.pick([undefined, undefined, 2_048, 64_000, 128_000]),
      effort: random.pick([undefined, undefined, ...EFFORTS]),
      toolChoice: random.pick([undefined, undefined, 'auto', 'none', 'any', { tool: 'bash' }] as const),
      parallelToolCalls: random.pick([undefined, undefined, false]),
      stopSequences: random.pick([undefined, undefined, ['END']]),
      serviceTier: random.pick([undefined, 'auto', 'standardOnly'] as const),
      speed: random.pick([undefined, undefined, 'fast'] as const),
      cacheTtl: random.pick([undefined, '5m', '1h'] as const),
      output: random.pick([undefined, undefined, undefined, ...FORMS]),
      request: random.pick([
        undefined,
        undefined,
        undefined,
        { inference_geo: 'us' },
        { metadata: { user_id: 'u' } },
        { output_config: { format: { type: 'json_schema', schema: { type: 'object', additionalProperties: false } } } },
      ]),
    }),
  };
}

/** All models of the agent give thoughts, as every model of such a life does. */
function thinks(definition: Agent<unknown>, listed: readonly ListedModel[]): boolean {
  return modelsOf(definition, settings, false).every((model, place) => {
    const traits = modelTraits(model, findListed(model, listed));
    const given = { ...definition, maxTokens: definition.maxTokens ?? settings.llm.maxTokens };
    const { thinking } = place === 0 ? given : withoutRefused(given, traits);
    return thinking === undefined ? traits.thinksByDefault === true : thinking.type !== 'disabled';
  });
}

/** The catalog of an agent that `open` accepts. */
function anyCatalog(
  random: SeededRandom,
  life: LifeOptions,
  listed: readonly ListedModel[],
  enrichers: EnricherFacts | undefined,
): AgentCatalog {
  for (;;) {
    try {
      const made: Agent<unknown> = agent(anyOptions(random, life));
      if (life.thinks && !thinks(made, listed)) continue;
      checkAgentModels({ agents: [made], settings, providers: [] }, listed);
      const names = random.chance(0.8) ? OWN_TOOLS : [];
      const { plan, tools } = agentSource(made);
      const serverTools = tools.flatMap((tool) => (tool.kind === 'server' ? [tool.entry] : []));
      const definition = { plan, tools: toolsOf(names), serverTools };
      return new AgentCatalog([definition], settings, LIMIT_DEFAULTS, enrichers, listed);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
    }
  }
}

/** A row of the vendor's list, which may contradict the table. */
function anyRow(random: SeededRandom, id: string, keepsThinking: boolean): ListedModel {
  const types = random.some(THINKING_TYPES, random.between(1, 3));
  return {
    id,
    ...defined({
      thinkingTypes: keepsThinking ? undefined : random.pick([undefined, types]),
      efforts: random.pick([undefined, random.some(EFFORTS, random.between(0, 4))]),
      structuredOutputs: random.pick([undefined, true, false]),
      outputTokensMax: random.pick([undefined, 32_000]),
    }),
  };
}

function traitsText(model: string, list: readonly ListedModel[]): string {
  return writeTraits(modelTraits(model, findListed(model, list)));
}

/** A life whose requests are checked. Returns how many there were. */
function checkLife(options: LifeOptions, all: readonly Step[], random: SeededRandom, seen: Set<string>): number {
  const remembers = options.remembers === true && !options.isChild;
  const enrichers = remembers ? { mneme: { model: 'claude-haiku-4-5' } } : undefined;
  let listed: readonly ListedModel[] = [];
  const lists = [listed];
  const open = (): AgentCatalog => anyCatalog(random, { ...options, remembers }, listed, enrichers);
  let catalog = open();
  const paused = new PauseTurnAnswers();
  let last: readonly ModelRequest['messages'][number][] = [];
  let requests = 0;
  const agentOf = (state: SessionState): SessionAgent => {
    const found = catalog.of(state);
    if (found === undefined) throw new Error('the session has no agent');
    return found;
  };
  const life = new Life(options, {
    called: ({ state }) => {
      const { header, renderOptions, facts } = agentOf(state);
      const window = new RequestWindow(renderOptions);
      const compaction = state.current?.compaction;
      const shown = compaction === undefined ? window.next(state) : window.forSummary(state, compaction);
      const base = (compaction === undefined ? undefined : summaryHeader(header(state))) ?? header(state);
      last = shown.all();
      const wire: unknown = JSON.parse(encodeRequest({ ...base, messages: last }));
      const betas = base.transport?.betas ?? [];
      // An epoch keeps the traits that were known when it began.
      const known = lists.find((list) => facts.traits === traitsText(base.model, list));
      if (known === undefined) throw new Error(`the traits of ${base.model} are those of no list`);
      const found = checkRequest(wire, { isPausedTurn: (blocks) => paused.has(blocks), betas, listed: known });
      expect(fatalOf(found), JSON.stringify(wire)).toEqual([]);
      requests += 1;
      seen.add(base.model);
    },
    answered: (_life, _halfStep, content, stop) => {
      paused.note({ messages: last }, { content, stop_reason: stop, usage: USAGE });
    },
  });
  Object.defineProperty(life.world, 'agent', { get: () => agentOf(life.state).facts });
  for (const step of all) {
    // A process that begins again may have other agents, also in the middle of a paused turn.
    if (step.do === 'crash') catalog = open();
    if (step.do === 'newHeader') {
      const rows = random.some(MODELS, random.between(0, MODELS.length));
      listed = rows.map((id) => anyRow(random, id, options.thinks));
      lists.unshift(listed);
      catalog.learn(listed);
    }
    const { tools, thinking, tool_choice: choice } = agentOf(life.state).header(life.state);
    // With manual thinking a model always thinks (R22), so an answer without a thought has no search either.
    const isThoughtless = thinking?.type === 'enabled' && !options.thinks;
    const mayCall = !isThoughtless && choice?.type !== 'none';
    const hasSearch = mayCall && tools?.some(({ name }) => name === 'web_search') === true;
    life.live([hasSearch ? step : withoutSearch(step)]);
    if (random.chance(0.15)) life.input(anySend(random));
    if (random.chance(0.05) && life.state.state !== 'awaiting') life.input({ type: 'edit', request: anyEdit(random) });
  }
  return requests;
}

function anySend(random: SeededRandom): Parameters<Life['input']>[0] {
  const content = random.pick(CONTENTS);
  const output = random.pick([undefined, ...FORMS]);
  const form = output === undefined ? {} : { output: answerForm(output, 'output'), deliver: 'turn' as const };
  return { type: 'send', entry: { type: 'user_message', content, ...form }, bytes: 100 };
}

function anyEdit(random: SeededRandom): EditRequest {
  const role = random.pick(['user', 'assistant'] as const);
  return { operation: 'append', message: { role, content: random.pick(['By hand.', 'And more.']) }, silent: true };
}

it('A8: a log whose epochs recorded no traits opens, and its next request is the same', () => {
  let compared = 0;
  fc.assert(
    fc.property(lifeOptions, steps(), fc.nat(), (options, all, seed) => {
      const random = new SeededRandom(seed);
      const catalog = anyCatalog(random, { ...options, remembers: false }, [], undefined);
      const life = new Life({ ...options, remembers: false });
      Object.defineProperty(life.world, 'agent', { get: () => catalog.of(life.state)?.facts ?? {} });
      life.live(all);
      const old = emptyState(life.state.id);
      for (const { records, at } of life.machine.turns) applyAll(old, records.map(withoutTraits), at);
      expect(old.traits).toBe(undefined);
      const textOf = (state: SessionState): string => {
        const found = catalog.of(state);
        if (found === undefined) throw new Error('the session has no agent');
        const messages = new RequestWindow(found.renderOptions).next(state).all();
        return encodeRequest({ ...found.header(state), messages });
      };
      const before = textOf(life.state);
      expect(textOf(old)).toBe(before);
      if (life.state.traits === undefined || !isEpochInUse(old)) return;
      // An epoch in use keeps its traits, whatever is learned of the model.
      catalog.learn(MODELS.map((id) => anyRow(random, id, false)));
      expect(textOf(old)).toBe(before);
      compared += 1;
    }),
    { numRuns: 100, seed: SEED },
  );
  expect(compared).toBeGreaterThan(20);
});

/** The record as versions wrote it that knew no traits. */
function withoutTraits(record: SessionRecord): SessionRecord {
  if (record.type !== 'epoch') return record;
  const { traits: _traits, ...rest } = record;
  return rest;
}

it('I3, A8, R01 to R69: no request of any session is refused, over models, options and changes of both', () => {
  const seen = new Set<string>();
  let requests = 0;
  fc.assert(
    fc.property(lifeOptions, steps(), fc.nat(), (options, all, seed) => {
      requests += checkLife(options, all, new SeededRandom(seed), seen);
    }),
    { numRuns: HISTORIES, seed: SEED },
  );
  expect(requests).toBeGreaterThan(HISTORIES);
  expect(seen.size).toBeGreaterThan(MODELS.length * 0.8);
  if (process.env['TROUPE_HISTORIES'] !== undefined)
    process.stdout.write(`${HISTORIES} histories, ${requests} requests, ${seen.size} models\n`);
}, 3_600_000);
