/**
 * Goal: a conversation without an end. Both enrichers are on and the budget is small. Every request is legal, within
 * the budget, and extends the one before it until a summary is made. Summaries come as often as the budget requires.
 * Memory stays flat. Pinned text is shown to the model until the end, and the first messages can still be recalled.
 *
 * `TROUPE_ENDLESS_TURNS` (default 200) sets its length; `TROUPE_ENDLESS_REPORT=1` prints the measurements.
 */
import { expect, test } from 'vitest';
import { BYTES_PER_TOKEN, PHANTOM_CALL_TOKENS } from '../../src/base/bounds.ts';
import type { ContentBlock } from '../../src/base/messages.ts';
import { OPENING_TEXT } from '../../src/context/request-draft.ts';
import { agent } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ScriptedToolUse } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/index.ts';
import { tool } from '../../src/tools/tool.ts';
import { heapBytes } from '../support/heap.ts';
import { history, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const TURNS = Number(process.env['TROUPE_ENDLESS_TURNS'] ?? 200);
const FACT_TURN = 10;
const RECALL_TURN = TURNS - Math.ceil(TURNS / 50);
/** The turn of the first memory measurement: everything has its full size by then. */
const SETTLED_TURN = Math.floor(TURNS / 5);
const TURN_MS = 200;

const MELETE = 'claude-haiku-4-5';
const MNEME = 'claude-sonnet-4-6';
const BUDGET = 4_000;
const WINDOW = BUDGET - Math.floor(BUDGET * 0.05);
const ZONE = Math.floor(BUDGET * 0.33);
/** Tokens of a question, and of an answer. */
const SAID = 100;
const L2_THRESHOLD = 5;
const HEAP_GROWTH_BYTES_MAX = 24 * 1024 * 1024;

const FACT = 'The keeper of the lighthouse is called Ottilie Brandt.';
const CODE = 'The code of the door is 4711-0815.';

const LOOK = tool({ name: 'look', description: 'Looks.', input: { type: 'object' }, effect: 'pure', run: () => 'x' });

/** A text of exactly `SAID` tokens that begins with this text. */
function padded(text: string): string {
  return text.padEnd(SAID * 4, '.');
}

/** Observations of the main requests; only the last request is kept. */
interface Watch {
  requests: number;
  /** Tokens of the largest request, and of the largest window. */
  largest: number;
  largestWindow: number;
  /** Requests that do not extend the one before. */
  breaks: number;
  last: { readonly system: string; readonly messages: readonly string[] } | undefined;
  lastText: string;
  recalled: boolean;
}

function look(watch: Watch, request: ModelRequest): void {
  const system = String(request.system);
  const messages = request.messages.map((message) => JSON.stringify(message));
  const { last } = watch;
  const isExtended =
    last !== undefined && last.system === system && last.messages.every((text, index) => messages[index] === text);
  if (last !== undefined && !isExtended) watch.breaks += 1;
  watch.requests += 1;
  const { all, window } = tokensOf(request);
  watch.largest = Math.max(watch.largest, all);
  watch.largestWindow = Math.max(watch.largestWindow, window);
  watch.last = { system, messages };
  watch.lastText = messages.join('\n');
  if (watch.lastText.includes('from_mneme') && watch.lastText.includes(FACT)) watch.recalled = true;
}

/** Tokens of a request's messages, and tokens of its window, that is without the blocks before the window. */
function tokensOf({ messages }: ModelRequest): { readonly all: number; readonly window: number } {
  let all = 0;
  let before = 0;
  for (const { content } of messages) {
    const blocks = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content;
    for (const block of blocks) {
      all += blockTokens(block);
      if (isBefore(block)) before += blockTokens(block);
    }
  }
  return { all, window: all - before };
}

/** The goals with their pins, and the line above a window that begins with an answer. */
function isBefore(block: ContentBlock): boolean {
  if (block.type === 'text') return block.text === OPENING_TEXT;
  const id = String(Reflect.get(block, block.type === 'tool_use' ? 'id' : 'tool_use_id'));
  return id.startsWith('goal_snapshot');
}

function blockTokens(block: ContentBlock): number {
  if (block.type === 'tool_use') return PHANTOM_CALL_TOKENS;
  return estimate(String(Reflect.get(block, block.type === 'text' ? 'text' : 'content')));
}

function estimate(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

const use = (name: string, input: Readonly<Record<string, unknown>>): ScriptedToolUse => ({ name, input });
const call = (...toolUse: readonly ScriptedToolUse[]): Reply => ({ toolUse });

/** The goal is set in the first turn, and reworded when something is to be recalled. */
function melete(request: ModelRequest): Reply {
  if (request.messages.length > 1) return 'ready';
  const text = JSON.stringify(request.messages);
  const turn = Number(/User \(pending\): Turn (\d+)/u.exec(text)?.[1]);
  if (turn === 1) return call(use('set_goal', { description: 'Open the door' }));
  if (turn === RECALL_TURN)
    return call(use('update_goal', { goal_id: 1, description: 'Find the keeper of the lighthouse' }));
  return 'ready';
}

function recall(request: ModelRequest): Reply {
  if (request.messages.length === 1) return call(use('search_messages', { query: 'keeper lighthouse' }));
  const found = /message (endless#\d+)/u.exec(JSON.stringify(request.messages));
  if (found === null || request.messages.length > 3) return 'done';
  return call(use('surface_memory', { message_id: found[1], why: 'the keeper is asked for' }));
}

/** Mneme saves the last text it read, and pins the code when the code leaves the window. */
function mneme(request: ModelRequest): Reply {
  if (request.messages.length > 1) return 'done';
  const text = JSON.stringify(request.messages);
  if (text.includes('snapshots, oldest first'))
    return call(use('save_snapshot', { text: `Long ago: ${text.slice(0, 200)}` }));
  const zone = text.slice(0, text.indexOf('CONTEXT'));
  const save = use('save_snapshot', { text: `They spoke of ${/Turn \d+/u.exec(zone)?.[0]} and what follows it.` });
  const code = new RegExp(`message (\\d+) User: Turn \\d+: ${CODE}`, 'u').exec(zone);
  if (code === null) return call(save);
  return call(use('attach_messages_to_goals', { message_ids: [Number(code[1])], goal_ids: [1] }), save);
}

/** Summaries of messages that a window of this budget needs for this many turns of equal messages. */
function summariesFor(turns: number): number {
  let window = 0;
  let summaries = 0;
  const leave = (incoming: number): void => {
    while (window + incoming > WINDOW) {
      window -= Math.floor(ZONE / SAID) * SAID;
      summaries += 1;
    }
  };
  for (let turn = 0; turn < turns; turn += 1) {
    leave(SAID);
    window += 2 * SAID;
    leave(0);
  }
  return summaries;
}

test(
  'a conversation of many turns stays legal, within its budget and its memory, and keeps what matters',
  async () => {
    const watch: Watch = {
      requests: 0,
      largest: 0,
      largestWindow: 0,
      breaks: 0,
      last: undefined,
      lastText: '',
      recalled: false,
    };
    const provider = scripted((request) => {
      if (request.model === MELETE) return melete(request);
      if (request.model === MNEME) {
        return request.tools?.some(({ name }) => name === 'search_messages') === true
          ? recall(request)
          : mneme(request);
      }
      look(watch, request);
      return padded(`Answer ${watch.requests}.`);
    });
    const runtime = await kit.open({
      directory: await kit.directory(),
      durability: 'os',
      provider,
      // The agent has a tool, so that deliveries are sent as pairs.
      agents: [agent({ name: 'main', system: 'Be brief.', tools: [LOOK] })],
      enrichers: { melete: { model: MELETE }, mneme: { model: MNEME } },
      settings: { llm: { tokenBudget: BUDGET }, mneme: { l2SnapshotThreshold: L2_THRESHOLD } },
    });
    const session = runtime.session('endless');
    const heap: number[] = [];
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const words = turn === FACT_TURN ? FACT : turn === FACT_TURN + 1 ? CODE : 'and so on';
      await session.ask(padded(`Turn ${turn}: ${words}`));
      // The last measurement includes the search index, which exists by then.
      if (turn === SETTLED_TURN || turn === RECALL_TURN - 1 || turn === TURNS) heap.push(heapBytes());
      if (turn === RECALL_TURN) expect(watch.recalled).toBe(true);
      else if (turn < RECALL_TURN) expect(watch.recalled).toBe(false);
    }
    await runtime.drain();
    const events = await history(session);
    const evictions = events.filter(({ type }) => type === 'eviction').length;
    const [settled = 0, last = 0] = heap;
    if (process.env['TROUPE_ENDLESS_REPORT'] !== undefined) {
      const { requests, largest, largestWindow, breaks } = watch;
      const measured = { requests, largest, largestWindow, breaks, evictions, expected: summariesFor(TURNS), heap };
      process.stdout.write(`${JSON.stringify(measured)}\n`);
    }
    expect(watch.requests).toBe(TURNS);
    expect(watch.largestWindow).toBeLessThanOrEqual(WINDOW);
    expect(watch.largest).toBeLessThanOrEqual(BUDGET);
    // The goal's entries, the recalled text and its answer move some boundaries.
    expect(Math.abs(evictions - summariesFor(TURNS))).toBeLessThanOrEqual(2);
    expect(events.some(({ type }) => type === 'turn.failed')).toBe(false);
    // Each break is caused by a summary: of messages, or of snapshots.
    expect(watch.breaks).toBeLessThanOrEqual(evictions + Math.ceil(evictions / L2_THRESHOLD));
    expect(watch.last?.system).toContain('## Long-term Memory');
    expect(watch.lastText).toContain(CODE);
    expect(last - settled).toBeLessThan(HEAP_GROWTH_BYTES_MAX);
  },
  TURNS * TURN_MS + 30_000,
);
