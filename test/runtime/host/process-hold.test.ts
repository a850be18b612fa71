/** Goal: a script that never closes its runtime ends by itself, after its work, with all of it stored. */
import { spawn } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { PROCESS_HOLD_LOOK_MS } from '../../../src/base/bounds.ts';
import { ProcessHold } from '../../../src/runtime/host/process-hold.ts';
import type { ShardWorker } from '../../../src/runtime/host/shard-threads.ts';
import { createCounterMemory } from '../../../src/runtime/protocol/metrics.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Runs the script to its end; resolves with its exit code. */
function run(directory: string): Promise<number | null> {
  const line = ['--import', './test/loader/register.mjs', './test/runtime/fixtures/unclosed.ts', directory];
  return new Promise((resolve, reject) => {
    const program = spawn(process.execPath, line, { cwd: root, stdio: 'inherit' });
    program.once('error', reject);
    program.once('exit', resolve);
  });
}

test('a turn that nothing waits for is finished first; the directory is released; the exit code is 0', async () => {
  const directory = await kit.directory();
  expect(await run(directory)).toBe(0);
  expect((await readdir(directory)).filter((name) => name.endsWith('.lock'))).toEqual([]);
  const runtime = await kit.open({ directory, provider: scripted(['no']), threads: { sessions: 1 } });
  const list = await runtime.sessions.list({ order: 'id' });
  expect(list.map(({ id, lastOutcome, messageCount }) => [id, lastOutcome, messageCount])).toEqual([
    ['later', 'answered', 2],
    ['s', 'answered', 2],
  ]);
});

afterEach(() => vi.useRealTimers());

test('P1: a thread in a long step, whose figures stand still, is not released before it answers', async () => {
  vi.useFakeTimers();
  let answerDrain = (): void => undefined;
  let exited = (): void => undefined;
  const calls: string[] = [];
  const released = vi.fn();
  const thread: ShardWorker = {
    endpoint: {
      call: (method) => {
        calls.push(method);
        return new Promise((resolve) => {
          answerDrain = () => resolve(undefined);
        });
      },
      notify: () => undefined,
      notifyLate: () => undefined,
      hasten: () => undefined,
      handle: () => undefined,
      onClose: () => undefined,
      close: () => undefined,
    },
    onExit: (listener) => {
      exited = () => listener({});
    },
    exit: async () => undefined,
    serve: () => () => undefined,
    ref: () => undefined,
    unref: released,
  };
  new ProcessHold([createCounterMemory(1)], async () => undefined).watch(thread);
  await vi.advanceTimersByTimeAsync(10 * PROCESS_HOLD_LOOK_MS);
  expect(calls).toEqual(['runtime.drain']);
  expect(released).not.toHaveBeenCalled();
  answerDrain();
  await vi.advanceTimersByTimeAsync(0);
  expect(released).toHaveBeenCalledTimes(1);
  exited();
});
