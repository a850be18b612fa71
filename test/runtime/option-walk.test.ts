/**
 * Goal: no option is accepted and ignored. Method: the keys of the schemas that check `open` and `agent` are walked.
 * Each key has a row that shows an effect here, or names the test that shows it. A key without a row fails, and so does
 * a row without a key or with an unknown test. Spans layers: the pure core, the catalogue of agents, the runtime.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { AgentCatalog, type SessionAgent } from '../../actors/agent-catalog.ts';
import { LIMIT_DEFAULTS } from '../../src/base/bounds.ts';
import { parseSettings, type SettingsInput, settingsSchema } from '../../src/base/settings.ts';
import { enricherSections } from '../../src/context/system-prompt.ts';
import { type AgentOptions, agent, agentSchema, agentSource } from '../../src/runtime/protocol/agent.ts';
import { openSchema } from '../../src/runtime/protocol/options.ts';
import { emptyState } from '../../src/session/state/state.ts';
import { search_messages } from '../../src/tools/built-in/index.ts';
import { type Tool, tool } from '../../src/tools/tool.ts';
import { advertiseTool, describeTool } from '../../src/tools/tool-schema.ts';
import { gatedModel, log, runtimeKit } from '../support/runtime-kit.ts';
import { type Machine, startedSession, USAGE } from '../support/session-kit.ts';

const kit = runtimeKit();

/** The name of a test that shows the effect, or a function that shows it here. */
type Row = { readonly file: string; readonly title: string } | (() => void | Promise<void>);

const shown = (file: string, title: string): Row => ({ file: `test/${file}`, title });

/** The agent of a session, or of a child, under these settings. */
function agentUnder(settings: SettingsInput, options: Partial<AgentOptions> = {}, parent?: string): SessionAgent {
  const { plan } = agentSource(agent({ name: 'a', ...options }));
  const catalog = new AgentCatalog([{ plan, tools: [] }], parseSettings(settings), LIMIT_DEFAULTS);
  const state = { ...emptyState('s'), agent: 'a', ...(parent === undefined ? {} : { parent, depth: 1 }) };
  const found = catalog.of(state);
  if (found === undefined) throw new Error('no agent');
  return found;
}

const MNEME = { enrichers: { mneme: { model: 'muse' } } };
const words = (tokens: number, letter = 'x'): string => letter.repeat(tokens * 4);

/** Turns of 200 tokens each. */
function talk(machine: Machine, turns: number): Machine {
  for (let turn = 0; turn < turns; turn += 1) {
    machine.send(words(100));
    machine.answer(words(100, 'y'));
  }
  return machine;
}

/** The tokens that each level of a session's memory may have after its first summary. */
function memoryBudgets(mneme: NonNullable<SettingsInput['mneme']>): unknown {
  const machine = startedSession({ tokenBudget: 900, settings: { mneme }, agent: MNEME });
  while (machine.state.memory?.summarising === undefined) talk(machine, 1);
  machine.input({ type: 'summarised', run: machine.state.memory.summarising.run, text: 'what was said', usage: USAGE });
  return machine.state.memory?.budgets;
}

/** The first request of an enricher, under these settings, for a session with four messages. */
async function enricherRequest(
  settings: SettingsInput,
  enrichers: { readonly melete?: { readonly model: string }; readonly mneme?: { readonly model: string } },
): Promise<{ readonly max_tokens: number; readonly text: string }> {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, settings, enrichers });
  const session = runtime.session('s');
  await session.history.add({ role: 'user', content: 'the first word' });
  await session.history.add({ role: 'assistant', content: words(100) });
  await session.history.add({ role: 'user', content: words(100) });
  await session.history.add({ role: 'assistant', content: 'the last word' });
  await session.send('go');
  const { request } = await model.next();
  expect(request.model).toBe('claude-haiku-4-5');
  return { max_tokens: request.max_tokens, text: JSON.stringify(request.messages) };
}

const SIMPLE = { name: 'long', description: 'Long.', input: { type: 'object' } };

/** The model's request after a tool answered with 400 characters. */
async function toolResult(
  settings: SettingsInput,
  options: Partial<AgentOptions> = {},
  toolOptions: Pick<Tool, 'truncate' | 'maxResultChars' | 'maxResultBytes'> = {},
): Promise<string> {
  const model = gatedModel();
  const long = tool({ ...SIMPLE, ...toolOptions, run: () => 'z'.repeat(400) });
  const agents = [agent({ name: 'a', tools: [long], ...options })];
  const runtime = await kit.open({ provider: model.provider, settings, agents });
  await runtime.session('s').send('go');
  (await model.next()).answer({ toolUse: { name: 'long', input: {} } });
  return JSON.stringify((await model.next()).request.messages);
}

async function childReply(settings: SettingsInput): Promise<readonly string[]> {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, settings });
  await runtime.session('s').spawn({ task: 'x' });
  (await model.next()).answer('z'.repeat(400));
  await model.next();
  return log(runtime.session('s'));
}

const MELETE = { melete: { model: 'claude-haiku-4-5' } };
const COMPRESSION = 'session/history/compression.test.ts';
const FAMILY = 'actors/supervision/family.test.ts';

const settingRows: Readonly<Record<string, Row>> = {
  'llm.model': () => {
    expect(agentUnder({ llm: { model: 'm-1' } }).header(emptyState('s')).model).toBe('m-1');
  },
  'llm.maxTokens': () => {
    expect(agentUnder({ llm: { maxTokens: 77 } }).header(emptyState('s')).max_tokens).toBe(77);
  },
  'llm.tokenBudget': () => {
    expect(agentUnder({ llm: { tokenBudget: 777 } }).facts.tokenBudget).toBe(777);
    expect(agentUnder({ llm: { tokenBudget: 777 } }, {}, 'p').facts.tokenBudget).toBe(90_000);
  },
  'llm.subagentModel': shown('runtime/handles/sub-agents.test.ts', 'F048: a child uses the model for sub-agents'),
  'llm.subagentTokenBudget': () => {
    expect(agentUnder({ llm: { subagentTokenBudget: 555 } }, {}, 'p').facts.tokenBudget).toBe(555);
  },
  'llm.maxToolRounds': shown(
    'actors/enrichers/enricher-loop.test.ts',
    'ends with `limit` after llm.maxToolRounds rounds',
  ),
  'llm.warmCache': shown(
    'models/governor/cache-warm-up.test.ts',
    'one call without output precedes the calls of a fan-out, which all leave after it',
  ),
  'llm.threads': shown(
    'models/message-threads/threaded-sessions.test.ts',
    'R62: a request that continues holds its new messages alone',
  ),
  'llm.retry.attempts': shown(
    'runtime/models/governor.test.ts',
    'F20: settings.llm.retry sets number and delay of the retries; the first of them is logged, as a warning, and the failed turn',
  ),
  'llm.retry.base': shown(
    'session/decide/retry-wait.test.ts',
    'with a factor each wait is a multiple of the one before, up to the maximum',
  ),
  'llm.retry.factor': shown(
    'session/decide/retry-wait.test.ts',
    'with a factor each wait is a multiple of the one before, up to the maximum',
  ),
  'llm.retry.maximum': shown(
    'session/decide/retry-wait.test.ts',
    'with a factor each wait is a multiple of the one before, up to the maximum',
  ),
  'timeouts.api': shown(
    'runtime/model-faults.test.ts',
    'F23: a model that never answers times out after timeouts.api, and the call is made again',
  ),
  'timeouts.tool': () => {
    const { plan } = agentSource(agent({ name: 'a', subagents: { spawn: true } }));
    const catalog = new AgentCatalog([{ plan, tools: [] }], parseSettings({ timeouts: { tool: 7 } }), LIMIT_DEFAULTS);
    const found = catalog.of({ ...emptyState('s'), agent: 'a' });
    expect(found?.facts.tool('spawn_subagent')?.timeoutMs).toBe(7_000);
  },
  'timeouts.mcpResponse': shown(
    'runtime/host/mcp-servers.test.ts',
    'a call beyond its time fails, and its frozen server is started again',
  ),
  'tools.maxToolResponseChars': async () => {
    expect(await toolResult({ tools: { maxToolResponseChars: 1_000 } })).toContain('z'.repeat(400));
    expect(await toolResult({ tools: { maxToolResponseChars: 100 } })).not.toContain('z'.repeat(101));
  },
  'tools.maxSubagentResponseChars': async () => {
    expect((await childReply({ tools: { maxSubagentResponseChars: 1_000 } })).join()).toContain('z'.repeat(400));
    expect((await childReply({ tools: { maxSubagentResponseChars: 100 } })).join()).not.toContain('z'.repeat(101));
  },
  'tools.secretEnv': shown(
    'runtime/security.test.ts',
    'tool threads have no variable that looks like a secret, except those in settings.tools.secretEnv',
  ),
  'session.defaultViewMode': shown('server/routes.test.ts', 'returns its version and its health'),
  'session.timestamps': () => {
    expect(agentUnder({ session: { timestamps: true } }).renderOptions.timestamps).toBe(true);
  },
  'melete.maxTokens': async () => {
    expect((await enricherRequest({ melete: { maxTokens: 123 } }, MELETE)).max_tokens).toBe(123);
  },
  'melete.messageWindow': async () => {
    expect((await enricherRequest({ melete: { messageWindow: 20 } }, MELETE)).text).toContain('the first word');
    const { text } = await enricherRequest({ melete: { messageWindow: 1 } }, MELETE);
    expect(text).toContain('the last word');
    expect(text).not.toContain('the first word');
  },
  'melete.timeout': shown(
    'runtime/recall.test.ts',
    'F125: a run that hangs ends at melete.timeout, and the turn starts',
  ),
  'mneme.evictionFraction': () => {
    const left = (evictionFraction: number): number | undefined => {
      const machine = talk(startedSession({ tokenBudget: 1_000, settings: { mneme: { evictionFraction } } }), 6);
      return machine.events('eviction')[0]?.below;
    };
    expect(left(0.2)).toBeLessThan(left(0.8) ?? 0);
  },
  'mneme.pinnedBudgetFraction': shown('session/rules/memory.test.ts', 'Δ23: the part reserved for pins counts as used'),
  'mneme.maxTokens': async () => {
    const settings = { llm: { tokenBudget: 100 }, mneme: { maxTokens: 321 } };
    expect((await enricherRequest(settings, { mneme: { model: 'claude-haiku-4-5' } })).max_tokens).toBe(321);
  },
  'mneme.l1BudgetFraction': () => {
    expect(memoryBudgets({ l1BudgetFraction: 0.5 })).toMatchObject({ 1: 450 });
  },
  'mneme.l2BudgetFraction': () => {
    expect(memoryBudgets({ l2BudgetFraction: 0.1 })).toMatchObject({ 2: 90 });
  },
  'mneme.l2SnapshotThreshold': shown(
    'session/rules/memory.test.ts',
    'F099: below the threshold there is none; at the threshold there is one, of the range of all of them',
  ),
  'recall.maxResults': shown('runtime/search/search.test.ts', 'results are bounded, and the bound is a setting'),
  'recall.recencyDecay': async () => {
    expect(await order(0)).toEqual(['old', 'new']);
    expect(await order(5)).toEqual(['new', 'old']);
  },
  'recall.maxSnippetTokens': shown('runtime/recall.test.ts', 'a long memory is cut to recall.maxSnippetTokens'),
  'subagents.maxActive': () => {
    expect(agentUnder({ subagents: { maxActive: 3 } }).facts.maxActiveChildren).toBe(3);
  },
  'recovery.resumeAwaiting': shown(
    'runtime/recovery.test.ts',
    'settings.recovery.resumeAwaiting: false fails the lost',
  ),
  'recovery.rollbackFailed': shown('runtime/model-faults.test.ts', 'F35: with settings.recovery.rollbackFailed'),
  'approvals.expiresMs': shown(
    'runtime/handles/history-run-loop.test.ts',
    'an approval that is never decided expires, also after a restart: its deadline counts from when it began',
  ),
  'approvals.onInput': shown(
    'runtime/handles/history-run-loop.test.ts',
    'with onInput deny, a message sent while an approval waits is read next',
  ),
  'compression.enabled': () => {
    expect(agentUnder({ compression: { enabled: true } }).facts.compression).toBeDefined();
    expect(agentUnder({ compression: { enabled: false } }).facts.compression).toBeUndefined();
  },
  'compression.tokens': shown(
    COMPRESSION,
    'H53: at the bound of tokens, as counted by the API, unless less than a tenth would be saved',
  ),
  'compression.messages': shown(COMPRESSION, 'H53: at the bound of messages, at the next claim and not earlier'),
  'compression.keepRecent': shown(
    COMPRESSION,
    'H54: a summary replaces old messages, the newest stay unchanged, and then the waiting turn starts',
  ),
  'compression.targetTokens': shown(
    COMPRESSION,
    'H53: at the bound of tokens, as counted by the API, unless less than a tenth would be saved',
  ),
  'compression.idleMinTokens': shown(
    COMPRESSION,
    'H53: if forced, only above the lower bounds of messages and of tokens',
  ),
  'compression.idleMinMessages': shown(
    COMPRESSION,
    'H53: if forced, only above the lower bounds of messages and of tokens',
  ),
  'repair.onSeed': shown('runtime/handles/history.test.ts', 'a seeded history is pruned unless the setting is off'),
  'repair.onInterrupt': shown(
    'session/history/run-loop.test.ts',
    'its calls are answered with placeholders, published with the outcome, and nothing is pending',
  ),
};

/** Sessions found for a word, best first: an old session contains the word twice, a new one once. */
async function order(recencyDecay: number): Promise<readonly string[]> {
  const year = 365 * 24 * 3_600_000;
  let nowMs = Date.now() - 3 * year;
  const timers = { setTimer: setTimeout, clearTimer: (timer: unknown) => clearTimeout(timer as NodeJS.Timeout) };
  const clock = { now: () => nowMs, monotonic: () => performance.now(), ...timers };
  const model = gatedModel();
  const agents = [agent({ name: 'a', tools: [search_messages] })];
  const settings = { recall: { recencyDecay } };
  const search = { scope: 'all' } as const;
  const runtime = await kit.open({ provider: model.provider, agents, settings, search, clock });
  await runtime.session('old').history.add({ role: 'user', content: 'heron heron' });
  nowMs += 3 * year;
  await runtime.session('new').history.add({ role: 'user', content: 'a heron was somewhere' });
  await runtime.session('s').send('look');
  (await model.next()).answer({ toolUse: { name: 'search_messages', input: { query: 'heron' } } });
  const text = JSON.stringify((await model.next()).request.messages);
  return [...text.matchAll(/\[message (\w+)#\d+,/gu)].map((match) => match[1] ?? '');
}

/** The tool threads on which two calls of one round ran. */
async function threadsOfTwoCalls(tools: number): Promise<ReadonlySet<string>> {
  const model = gatedModel();
  const agents = [agent({ name: 'a', tools: [new URL('./fixtures/tools.ts', import.meta.url)] })];
  const threads = { sessions: 0, models: 0, tools };
  const runtime = await kit.open({ provider: model.provider, agents, threads });
  await runtime.session('s').send('go');
  const where = { name: 'where', input: {} };
  (await model.next()).answer({ toolUse: [where, where] });
  const text = JSON.stringify((await model.next()).request.messages);
  return new Set([...text.matchAll(/thread \d+/gu)].map(([found]) => found));
}

const OPEN = 'runtime/handles/open.test.ts';
const AGENTS = 'runtime/handles/agents.test.ts';
const MEMORY = 'runtime/memory-bounds.test.ts';

const openRows: Readonly<Record<string, Row>> = {
  provider: shown(
    'runtime/session-threads.test.ts',
    'a provider given by URL runs in the model threads; its errors keep class, code and data',
  ),
  providers: shown(
    'runtime/models/providers.test.ts',
    'each model goes to the provider before the slash; without such a name the first has it',
  ),
  agents: shown(OPEN, 'without agents there is one agent, named default'),
  'threads.sessions': shown(
    'runtime/thread-faults.test.ts',
    'F50: one of two session threads dies: its sessions continue from the log, the others are not interrupted',
  ),
  'threads.models': shown(
    'runtime/session-threads.test.ts',
    'a provider given by URL runs in the model threads; its errors keep class, code and data',
  ),
  'threads.tools': async () => {
    expect((await threadsOfTwoCalls(1)).size).toBe(1);
    expect((await threadsOfTwoCalls(2)).size).toBe(2);
  },
  durability: shown('journal/store-faults.test.ts', 'a runtime reports its durability mode: %s'),
  takeover: shown(
    'runtime/store/takeover.test.ts',
    'running half-steps end with the owner; what it accepted meanwhile runs afterwards: %o',
  ),
  'takeover.deadlineMs': shown(
    'runtime/store/takeover.test.ts',
    'a half-step that takes longer than the deadline is begun again by the new owner',
  ),
  settings: () => expect(Object.keys(settingRows)).toEqual(expect.arrayContaining([...keysOf(settingsSchema)])),
  'limits.mailbox': shown(
    'session/rules/mailbox.test.ts',
    'A9: a full mailbox refuses as retryable, and accepts again once there is room',
  ),
  'limits.mailboxBytes': shown(
    MEMORY,
    'limits.mailboxBytes refuses an excess message, typed; nothing acknowledged is lost, over a restart too',
  ),
  'limits.waitingBytes': shown(
    MEMORY,
    'limits.waitingBytes covers all sessions together; a session whose mailbox is empty still accepts a message',
  ),
  'limits.messageBytes': shown('runtime/handles/send.test.ts', 'a message over limits.messageBytes rejects'),
  'limits.toolResultBytes': shown(
    'runtime/thread-faults.test.ts',
    'F55: 105 MB are cut in the log, both ends kept, no code point split; the notice names the stored result',
  ),
  'limits.children': shown(
    'session/decide/children.test.ts',
    'A9: limits.children bounds the children that a parent may ever have',
  ),
  'limits.spawnsWaiting': shown(
    'runtime/handles/spawn-queue.test.ts',
    'A9, G35: beyond limits.spawnsWaiting a spawn is refused, and creates nothing',
  ),
  'limits.liveSessions': shown('runtime/handles/session.test.ts', 'queued: the limit of working sessions is reached'),
  'limits.liveBytes': shown(MEMORY, 'limits.liveBytes: beyond it sessions wait for admission, and explain says so'),
  'limits.depth': shown(
    'runtime/handles/sub-agents.test.ts',
    'depth: children do not spawn unless limits.depth says so',
  ),
  'limits.answerCorrections': shown(
    'runtime/structured-answers.test.ts',
    'after the last correction the turn fails with the issues',
  ),
  'limits.toolRounds': () => {
    const { plan } = agentSource(agent({ name: 'a' }));
    const catalog = new AgentCatalog([{ plan, tools: [] }], parseSettings({}), { ...LIMIT_DEFAULTS, toolRounds: 9 });
    expect(catalog.of({ ...emptyState('s'), agent: 'a' })?.facts.toolRounds).toBe(9);
  },
  governor: shown(
    'runtime/models/providers.test.ts',
    'governor: the limits of one provider hold no call of another back',
  ),
  'governor.concurrency': shown(
    'runtime/models/governor.test.ts',
    'F20: calls in flight stay within the concurrency; waiting ones are counted, interruptible, and served in turn',
  ),
  'governor.requestsPerMinute': shown(
    'runtime/models/governor.test.ts',
    'F20: in any minute at most the allowed requests per minute are sent',
  ),
  'governor.inputTokensPerMinute': shown(
    'models/governor/governor.test.ts',
    'N1: the input tokens that an answer reports replace the estimate',
  ),
  'governor.outputTokensPerMinute': shown(
    'models/governor/governor.test.ts',
    'N1: the expected output counts while a call is in flight, the real output after it has ended',
  ),
  skills: shown(
    'runtime/handles/definitions.test.ts',
    'F126, F127, F128: an activated skill is active at once, only once, and reaches the model',
  ),
  workflows: shown('runtime/handles/definitions.test.ts', 'a sub-agent can use a skill but not a workflow'),
  specialists: shown(
    'runtime/handles/definitions.test.ts',
    'a specialist is an agent with its own prompt, tools and turn limit',
  ),
  'encryption.key': shown(
    'runtime/store/encryption.test.ts',
    'G44: no file of an encrypted store has what was said, and everything reads as before',
  ),
  'encryption.previousKeys': shown(
    'runtime/store/encryption.test.ts',
    'G44: a new key takes the place of the earlier one, which then opens nothing',
  ),
  redact: shown(
    'runtime/redaction/redact.test.ts',
    'G46: a word that the function hides is in no file, event, request, message and log line',
  ),
  'retention.archivedHistoryMs': shown(
    'runtime/store/retention.test.ts',
    'archived history that is older than the time is removed from the log, and the session continues as before',
  ),
  'retention.deadLettersMs': shown(
    'runtime/store/retention.test.ts',
    'dead letters that are older than the time are dropped, and others stay',
  ),
  'retention.finishedChildrenMs': shown(
    'runtime/store/retention.test.ts',
    'children that ended long ago are deleted, and others stay',
  ),
  'store.eraseWithinMs': shown(
    'runtime/store/live-compaction.test.ts',
    'F6: after a deletion no file of the open store has a byte of it, and all else is as before: %o',
  ),
  'retention.auditMs': shown(
    'runtime/store/audit.test.ts',
    'entries older than retention.auditMs are removed, and no other data',
  ),
  cluster: shown('postgres/open.test.ts', 'everything is there in another directory after the first one is gone: %o'),
  webhooks: shown(
    'runtime/webhooks/webhooks.test.ts',
    'children: the end of their turns only if wanted, their waiting calls in any case; `events` selects',
  ),
  mcp: shown('runtime/host/mcp-servers.test.ts', 'the file of the servers is read again when it changes'),
  'enrichers.melete.model': shown(
    'runtime/melete.test.ts',
    'F122, F012: after a user message Melete runs, then the half-step, with the prepared entries before the message',
  ),
  'enrichers.mneme.model': shown(
    'runtime/mneme.test.ts',
    'a long conversation stays within the budget, is summarised, and is byte-stable between summaries',
  ),
  'search.scope': shown('runtime/search/search.test.ts', 'a message out of scope is answered like a missing message'),
  logger: shown(
    'runtime/host/session-logs.test.ts',
    'Q1: a log line of a session names the session and its agent, by a child logger created once',
  ),
  clock: shown('runtime/handles/runtime.test.ts', 'close does not wait for a retry that is due later'),
  random: shown(
    'runtime/anthropic.test.ts',
    'F037, F038: five attempts, after waits of 1, 16, 81 and 256 seconds, then failed, noted in the log, idle',
  ),
};

const MODEL_OPTIONS = shown(AGENTS, 'the model options of an agent are in the request: model, maxTokens, thinking');
const REQUESTS = 'runtime/model-options.test.ts';
/** The `tool_choice` of an agent that has a tool. */
const choiceOf = (options: Partial<AgentOptions>): unknown =>
  agentUnder({ llm: { model: 'claude-haiku-5-5' } }, { subagents: { spawn: true }, ...options }).header(emptyState('s'))
    .tool_choice;
const compressionOf = (compression: AgentOptions['compression']): unknown =>
  agentUnder({}, compression === undefined ? {} : { compression }).facts.compression;

const agentRows: Readonly<Record<string, Row>> = {
  name: shown('runtime/handles/sub-agents.test.ts', 'F109: spawn_specialist offers the other agents by name'),
  model: MODEL_OPTIONS,
  system: shown(AGENTS, 'is evaluated once per epoch, and after a restart only if its result was not stored'),
  tools: shown(
    'runtime/handles/sub-agents.test.ts',
    'F060: a call of a tool that was not granted is answered with an error, and not run',
  ),
  maxTokens: MODEL_OPTIONS,
  toolRounds: shown('runtime/handles/session.test.ts', 'a turn over toolRounds fails with LimitError'),
  toolTimeoutMs: () => {
    const subagents = { spawn: true };
    expect(agentUnder({}, { subagents, toolTimeoutMs: 444 }).facts.tool('spawn_subagent')?.timeoutMs).toBe(444);
  },
  toolResultChars: async () => {
    expect(await toolResult({}, { toolResultChars: 100 })).not.toContain('z'.repeat(101));
    const narrow = { tools: { maxToolResponseChars: 100 } };
    expect(await toolResult(narrow, { toolResultChars: 1_000 })).toContain('z'.repeat(400));
  },
  toolConcurrency: async () => {
    expect(await callsAtOnce(1)).toBe(1);
    expect(await callsAtOnce(2)).toBe(2);
  },
  output: shown('runtime/structured-answers.test.ts', 'an agent with an output types every answer of its sessions'),
  maxSteps: shown(
    'session/history/run-loop.test.ts',
    'H29: a limit of one with calls is max_steps, with the calls pending; a text at the limit completes',
  ),
  approve: shown(
    'session/history/approval.test.ts',
    'an approval predicate is called with the calls that could run, before anything starts',
  ),
  'approvals.expiresMs': shown(
    'runtime/questions.test.ts',
    'approvals of the agent: its calls expire at its time, those of another agent never',
  ),
  'approvals.onInput': shown('session/history/question.test.ts', 'the policy of the agent overrides the settings'),
  'guardrails.before': shown(
    'runtime/handles/history-run-loop.test.ts',
    'guardrails run in order, each on the result of the previous one; a block prevents the call',
  ),
  'guardrails.after': shown(
    'runtime/handles/history-run-loop.test.ts',
    'H31: a reply blocked by a guardrail is absent from the history, but its usage counts',
  ),
  'subagents.spawn': shown(
    'runtime/handles/sub-agents.test.ts',
    'depth: children do not spawn unless limits.depth says so',
  ),
  'subagents.maxActive': shown(
    'runtime/handles/spawn-queue.test.ts',
    'Δ27, G35: a child beyond maxActive waits, says so, and starts when another has ended',
  ),
  'supervision.strategy': shown(
    FAMILY,
    'its siblings restart with it under oneForAll, only the later ones under restForOne',
  ),
  'supervision.intensity': shown(
    FAMILY,
    'beyond the intensity the failure escalates: siblings are cancelled and the parent is notified',
  ),
  'supervision.periodMs': shown('actors/supervision/supervisor.test.ts', 'S14: the period slides'),
  'supervision.onChildFailure': shown(
    FAMILY,
    'under ignore the handle reports the failure, and the parent is not notified',
  ),
  'thinking.type': MODEL_OPTIONS,
  'thinking.display': shown(REQUESTS, 'the options cross to the threads, and every request of an epoch'),
  fallbackAfterMs: shown(
    'runtime/models/fallback.test.ts',
    'a pause beyond fallbackAfterMs is not waited for, and other sessions do not ask at all',
  ),
  returnAfterMs: shown(
    'runtime/models/fallback.test.ts',
    'a new turn returns to the first model after returnAfterMs; its failure leads back at once',
  ),
  effort: () => {
    expect(agentUnder({}, { effort: 'low' }).header(emptyState('s')).output_config).toEqual({ effort: 'low' });
  },
  toolChoice: () => {
    expect(choiceOf({ toolChoice: 'none' })).toEqual({ type: 'none' });
    expect(choiceOf({})).toBeUndefined();
  },
  'toolChoice.tool': () => {
    const toolChoice = { tool: 'spawn_subagent' };
    expect(choiceOf({ toolChoice })).toEqual({ type: 'tool', name: 'spawn_subagent' });
  },
  parallelToolCalls: () => {
    expect(choiceOf({ parallelToolCalls: false })).toEqual({ type: 'auto', disable_parallel_tool_use: true });
  },
  stopSequences: () => {
    expect(agentUnder({}, { stopSequences: ['END'] }).header(emptyState('s')).stop_sequences).toEqual(['END']);
  },
  serviceTier: () => {
    const { service_tier } = agentUnder({}, { serviceTier: 'standardOnly' }).header(emptyState('s'));
    expect(service_tier).toBe('standard_only');
  },
  speed: shown(REQUESTS, 'the beta of a fast mode is added where the model needs one'),
  cacheTtl: shown(REQUESTS, 'cacheTtl 1h makes every mark one of an hour'),
  betas: shown(REQUESTS, 'betas are a header, beside those of the provider, and no field'),
  request: () => {
    const metadata = { user_id: 'u1' };
    expect(agentUnder({}, { request: { metadata } }).header(emptyState('s'))).toMatchObject({ metadata });
  },
  'thinking.budget_tokens': () => {
    const thinking = { type: 'enabled', budget_tokens: 2_048 } as const;
    const model = 'claude-opus-4-6';
    expect(agentUnder({}, { model, thinking }).header(emptyState('s')).thinking).toEqual(thinking);
  },
  tokenBudget: () => {
    expect(agentUnder({}, { tokenBudget: 444 }).facts.tokenBudget).toBe(444);
  },
  version: shown(
    'runtime/handles/agent-versions.test.ts',
    'a message that waits behind the turn begins with the current version',
  ),
  upgrade: shown('runtime/handles/agent-versions.test.ts', 'set replaces the history'),
  description: shown('runtime/handles/sub-agents.test.ts', 'F109: spawn_specialist offers the other agents by name'),
  compression: () => {
    expect(compressionOf(true)).toBeDefined();
    expect(compressionOf(undefined)).toBeUndefined();
  },
  'compression.enabled': () => {
    expect(compressionOf({ enabled: false, tokens: 5 })).toBeUndefined();
  },
  ...Object.fromEntries(
    (['tokens', 'messages', 'keepRecent', 'targetTokens', 'idleMinTokens', 'idleMinMessages'] as const).map((key) => [
      `compression.${key}`,
      () => expect(compressionOf({ [key]: 5 })).toMatchObject({ [key]: 5 }),
    ]),
  ),
};

/** The most calls of one answer that ran at a time, of an agent with this bound. */
async function callsAtOnce(toolConcurrency: number): Promise<number> {
  let running = 0;
  let most = 0;
  const slow = tool({
    ...SIMPLE,
    name: 'slow',
    run: async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    },
  });
  const model = gatedModel();
  const agents = [agent({ name: 'a', tools: [slow], toolConcurrency })];
  const runtime = await kit.open({ provider: model.provider, agents });
  await runtime.session('s').send('go');
  (await model.next()).answer({ toolUse: [1, 2, 3, 4].map((n) => ({ name: 'slow', input: {}, id: `c${n}` })) });
  await model.next();
  return most;
}

/** A tool as the model receives it. */
const advertised = (options: Partial<Tool>): unknown =>
  advertiseTool(describeTool({ ...SIMPLE, run: () => '', ...options }), 7_000, true);
/** The prompt of a session with enrichers, about a tool. */
const guideOf = (options: Partial<Tool>): string =>
  enricherSections({
    melete: true,
    mneme: false,
    tools: [describeTool({ ...SIMPLE, run: () => '', ...options })],
  }) ?? '';

/** Every member of a tool is a key, so that a new one does not compile without a row. */
const toolRows: Readonly<Record<keyof Tool, Row>> = {
  name: () => expect(advertised({ name: 'other' })).toMatchObject({ name: 'other' }),
  description: () => expect(advertised({ description: 'Other.' })).toMatchObject({ description: 'Other.' }),
  input: shown('tools/tool-execution.test.ts', 'F145: timeout does not disturb a strict schema'),
  effect: shown('runtime/recovery.test.ts', 'F011, A10: running tools end according to their effect'),
  timeoutMs: shown('tools/tool-execution.test.ts', 'F062: the timeout names the tool and the seconds'),
  adjustableTimeout: () => {
    const timeout = { timeout: { description: 'Seconds (default: 7)' } };
    expect(advertised({ adjustableTimeout: true })).toMatchObject({ input_schema: { properties: timeout } });
  },
  truncate: async () => {
    const settings = { tools: { maxToolResponseChars: 100 } };
    expect(await toolResult(settings, {}, { truncate: false })).toContain('z'.repeat(400));
  },
  maxResultChars: async () => {
    expect(await toolResult({}, {}, { maxResultChars: 100 })).not.toContain('z'.repeat(101));
    const narrow = { tools: { maxToolResponseChars: 100 } };
    expect(await toolResult(narrow, { toolResultChars: 200 }, { maxResultChars: 1_000 })).toContain('z'.repeat(400));
  },
  maxResultBytes: async () => {
    const whole = { truncate: false, maxResultBytes: 10_000 };
    expect(await toolResult({}, {}, whole)).toContain('z'.repeat(400));
    expect(await toolResult({}, {}, { ...whole, maxResultBytes: 300 })).not.toContain('z'.repeat(301));
  },
  concurrency: shown('tools/threads/threaded-pool.test.ts', 'Q3: the concurrency bound of one tool holds back'),
  isolation: shown('runtime/tools/isolation.test.ts', 'runs in a new process for each call, on its main thread'),
  retry: shown('runtime/tools/retry.test.ts', 'runs again with the same key until it answers'),
  deferLoading: () => expect(advertised({ deferLoading: true })).toMatchObject({ defer_loading: true }),
  snippet: () => expect(guideOf({ snippet: 'one line' })).toContain('- long: one line'),
  guidelines: () => expect(guideOf({ guidelines: ['Ask first.'] })).toContain('- Ask first.'),
  run: shown('tools/tool-execution.test.ts', 'replaces the run, runs the tool on undefined'),
  probe: shown('tools/tool-execution.test.ts', 'replaces the run, runs the tool on undefined'),
};

interface AnySchema {
  readonly def: {
    readonly type: string;
    readonly innerType?: AnySchema;
    readonly options?: readonly AnySchema[];
    readonly shape?: Readonly<Record<string, AnySchema>>;
  };
}

/** The keys that a schema accepts, nested ones with dots; a key that may be a value or an object counts as both. */
function keysOf(schema: z.ZodType): readonly string[] {
  const keys = new Set<string>();
  const visit = ({ def }: AnySchema, path: string): void => {
    if (def.innerType !== undefined) return visit(def.innerType, path);
    const branches = def.options?.filter((each) => each.def.type === 'object') ?? [];
    for (const each of branches) visit(each, path);
    if (def.shape !== undefined) {
      for (const [key, member] of Object.entries(def.shape)) visit(member, path === '' ? key : `${path}.${key}`);
    } else if (branches.length === 0 || branches.length < (def.options?.length ?? 0)) keys.add(path);
  };
  visit(schema as unknown as AnySchema, '');
  return [...keys].sort();
}

describe.each([
  ['settings', settingsSchema, settingRows],
  ['open', openSchema, openRows],
  ['agent', agentSchema, agentRows],
] as const)('%s', (_name, schema, rows) => {
  test('every option has a row, and every row an option', () => {
    expect(Object.keys(rows).sort()).toEqual(keysOf(schema));
  });

  test.each(Object.entries(rows))('%s has an effect', (_key, row) => hasEffect(row));
});

test.each(Object.entries(toolRows))('tool: %s has an effect', (_key, row) => hasEffect(row));

/** Runs a row, or finds the test that it names. */
async function hasEffect(row: Row): Promise<void> {
  if (typeof row === 'function') return row();
  const text = readFileSync(new URL(`../../${row.file}`, import.meta.url), 'utf8');
  const title = row.title.replace(/[.*+?^${}()|[\]\\]/gu, '\\$&');
  expect(text).toMatch(
    new RegExp(
      `\\b(?:it|test)(?:\\.skipIf\\(THROUGH_MEMBER\\))?(?:\\.each\\([^\\n]*\\))?\\(\\s*['"\`][^\\n]*${title}`,
      'u',
    ),
  );
}
