import { expect, test } from 'vitest';
import { createHostRunner, type HostWork } from '../../src/tools/host-tools.ts';
import type { ToolRun } from '../../src/tools/pool.ts';
import type { AnyTool } from '../../src/tools/tool.ts';

/** A tool that takes effect when the test releases it, and the order of events. */
function stage() {
  const told: string[] = [];
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let happened = false;
  const book: AnyTool = {
    name: 'book',
    description: 'Books.',
    input: { type: 'object' },
    effect: 'probe',
    async run() {
      told.push('run');
      begin();
      await held;
      happened = true;
      told.push('took effect');
      return 'booked';
    },
    probe() {
      told.push('probe');
      return happened ? 'booked' : undefined;
    },
  };
  const work: HostWork = new Map();
  const runner = () => createHostRunner({ find: () => book, progress: () => undefined, work });
  const call = (id: number, mode: ToolRun['mode']): ToolRun => ({
    id,
    mode,
    effect: 'probe',
    session: 's',
    callId: 'c',
    attempt: 1,
    key: 's#1',
    toolName: 'book',
    place: { kind: 'host', agent: 'a' },
    input: {},
    timeoutMs: 60_000,
  });
  return { told, begun, letGo, runner, call, work };
}

test('H2, I4: a probe waits for the run that a dead session thread left behind, and the effect happens once', async () => {
  // Found by the simulator: the thread died, the tool continued to run, and its probe was called before its effect.
  const { told, begun, letGo, runner, call, work } = stage();
  const first = runner();
  const lost = first.run(call(1, 'run'));
  await begun;
  await first.abort(1, 'The session thread is gone');
  const again = runner().run(call(2, 'probe'));
  letGo();
  expect(await again).toMatchObject({ content: 'booked', success: true });
  expect(told).toEqual(['run', 'took effect', 'probe']);
  expect(await lost).toMatchObject({ success: false });
  expect(work.size).toBe(0);
});

test('H2: a probe cancelled while it waits is not called', async () => {
  const { told, begun, letGo, runner, call } = stage();
  void runner().run(call(1, 'run'));
  await begun;
  const second = runner();
  const again = second.run(call(2, 'probe'));
  await second.abort(2, 'cancelled');
  expect(await again).toMatchObject({ content: 'cancelled', success: false });
  expect(told).toEqual(['run']);
  letGo();
});

test('H1: a tool does not run synchronously within `run`, and aborting all runs ends each of them', async () => {
  const told: string[] = [];
  const wait: AnyTool = {
    name: 'wait',
    description: 'Waits.',
    input: { type: 'object' },
    run: () => {
      told.push('run');
      return new Promise(() => undefined);
    },
  };
  const runner = createHostRunner({ find: () => wait, progress: () => undefined });
  const { call } = stage();
  const outcomes = [runner.run(call(1, 'run')), runner.run(call(2, 'run'))];
  expect(told).toEqual([]);
  await Promise.resolve();
  expect(told).toEqual(['run', 'run']);
  runner.abortAll('gone');
  for (const outcome of outcomes) expect(await outcome).toMatchObject({ content: 'gone', success: false });
});
