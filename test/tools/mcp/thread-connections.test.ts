/**
 * Goal: the death of the MCP thread costs a call no more than the death of its server, and leaves no process. Method:
 * the thread is ended in the middle of calls.
 */
import { afterEach, expect, test } from 'vitest';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import { startThread, type Thread } from '../../../src/threads/thread.ts';
import type { McpEffect } from '../../../src/tools/mcp/protocol.ts';
import { ThreadConnections } from '../../../src/tools/mcp/thread-connections.ts';
import { eventually } from '../../support/eventually.ts';
import { isAlive } from '../../support/processes.ts';
import { effectsKit, textOf } from './support.ts';

const effects = effectsKit();
const opened: ThreadConnections[] = [];
afterEach(async () => {
  for (const connections of opened.splice(0)) await connections.close();
});

test('J1: pure calls are answered by the next thread, a once call is not sent again, and no server is left', async () => {
  const recorded = await effects();
  const threads: Thread[] = [];
  const warnings: string[] = [];
  const progressed: unknown[] = [];
  const listener = { tools: () => undefined, lost: () => undefined, warn: (line: string) => void warnings.push(line) };
  const connections = new ThreadConnections(listener, '0.0.0', (...given) => {
    const thread = startThread(...given);
    threads.push(thread);
    return thread;
  });
  opened.push(connections);
  await connections.configure({ s: recorded.process() });
  const controller = new AbortController();
  const call = (tool: string, effect: McpEffect, signal: AbortSignal = new AbortController().signal) =>
    connections.call(
      { server: 's', tool, input: { id: '1' }, effect, key: 'k' },
      { signal, progress: (data) => progressed.push(data) },
    );
  const pure = call('wait', 'pure', controller.signal);
  const once = call('wait', 'once');
  await eventually(() => progressed.length === 2);
  await threads[0]?.terminate();
  expect(await textOf(once)).toBe(OUTCOME_UNKNOWN);
  await eventually(() => progressed.length === 3);
  controller.abort(new Error('enough'));
  await expect(pure).rejects.toThrow('enough');
  expect(await textOf(call('read', 'pure'))).toBe('read 1 done');
  expect(warnings).toEqual([expect.stringContaining('the MCP thread ended and is started again')]);
  const pids = await recorded.pids();
  await eventually(() => pids.filter(isAlive).length === 1);
  await connections.close();
  await eventually(() => pids.filter(isAlive).length === 0);
  await expect(call('read', 'pure')).rejects.toMatchObject({ code: 'cancelled' });
});
