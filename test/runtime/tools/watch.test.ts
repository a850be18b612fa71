// Goal: a tool that holds the host thread is named in the log and counted, before and after its first wait. Method: the
// public API; tools that compute for a while, on the real loop.
import { expect, test } from 'vitest';
import { TOOL_BLOCK_MS, TOOL_WATCH_INTERVAL_MS } from '../../../src/base/bounds.ts';
import { agent, type OpenOptions, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import { eventually, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** Holds the thread. */
function hold(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

const nextTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function toolOf(name: string, run: () => unknown): AnyTool {
  return tool({ name, description: 'Computes.', input: { type: 'object' }, effect: 'pure', run });
}

/** A runtime whose sessions each call the tool that their message names; and its log. */
async function runtimeWith(tools: readonly AnyTool[]) {
  const lines: string[] = [];
  const write = (_fields: object, message: string): void => void lines.push(message);
  const logger: OpenOptions['logger'] = { debug: write, info: write, warn: write, error: write };
  const rules = tools.map(({ name }) => ({ when: { text: name, result: false }, reply: { toolUse: { name } } }));
  const provider = scripted({ rules, otherwise: '{{result}}' });
  const runtime = await kit.open({ logger, provider, agents: [agent({ name: 'a', tools: [...tools] })] });
  return { runtime, lines: () => lines.filter((line) => line.includes('host thread')) };
}

const LONG_MS = TOOL_BLOCK_MS + 2 * TOOL_WATCH_INTERVAL_MS;

test('a tool that computes until its first wait is named; it is logged once, and each block counts', async () => {
  const { runtime, lines } = await runtimeWith([toolOf('greedy', () => hold(LONG_MS)), toolOf('quick', () => 'ok')]);
  const session = runtime.session('s');
  await session.ask('quick');
  const before = runtime.metrics().toolBlocks;
  await session.ask('greedy');
  await session.ask('greedy');
  expect(runtime.metrics().toolBlocks - before).toBeGreaterThanOrEqual(2);
  const named = lines().filter((line) => line.startsWith('tool "greedy" held the host thread for'));
  expect(named).toHaveLength(1);
  expect(named[0]).toContain('a tool given by URL runs in the tool threads');
});

test('a tool that computes after a wait is reported with all tools that run, even if it ends at once', async () => {
  let release: () => void = () => undefined;
  const waiting = new Promise<void>((resolve) => {
    release = resolve;
  });
  const patient = toolOf('patient', () => waiting);
  const greedy = toolOf('greedy', async () => {
    await nextTick();
    hold(LONG_MS);
  });
  const { runtime, lines } = await runtimeWith([patient, greedy]);
  const first = runtime.session('first').ask('patient');
  await eventually(() => runtime.metrics().toolCallsRunning === 1);
  await runtime.session('second').ask('greedy');
  release();
  await first;
  expect(runtime.metrics().toolBlocks).toBeGreaterThanOrEqual(1);
  expect(lines().some((line) => line.includes('while these tools ran on it: "patient", "greedy"'))).toBe(true);
});
