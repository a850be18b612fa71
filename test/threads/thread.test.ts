// Goal: threads started from a worker entry answer, and their end is reported once, whatever ends them. Real threads.
import { afterEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/base/errors.ts';
import { startThread, type Thread, type ThreadExit } from '../../src/threads/thread.ts';
import { workerUrl } from '../../src/threads/worker-url.ts';

const threads: Thread[] = [];
function start(workerData?: unknown): Thread {
  const entry = workerUrl('./fixtures/echo.worker', import.meta.url);
  const thread = startThread(entry, { name: 'echo', workerData, resourceLimits: { heapMb: 64 } });
  threads.push(thread);
  return thread;
}
afterEach(async () => {
  await Promise.all(threads.splice(0).map((thread) => thread.terminate()));
});
const exitOf = (thread: Thread): Promise<ThreadExit> => new Promise((resolve) => thread.onExit(resolve));

describe('startThread', () => {
  test('calls, notes and data reach the other side', async () => {
    const { endpoint } = start({ given: 1 });
    expect(await endpoint.call('data', 0)).toEqual({ given: 1 });
    expect(await endpoint.call('later', 'x')).toBe('x');
    const pong = new Promise((resolve) => endpoint.handle('pong', resolve));
    endpoint.notify('ping', 5);
    expect(await pong).toBe(5);
  });

  test('T1: errors arrive as their own class with causes', async () => {
    const error = await start()
      .endpoint.call('fail', 0)
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ code: 'unknown_agent', data: { key: 'x' } });
    expect((error as Error).cause).toBeInstanceOf(TypeError);
  });

  test('T3: an answer that cannot be cloned rejects its call; the thread stays alive', async () => {
    const { endpoint } = start();
    await expect(endpoint.call('uncloneable', 0)).rejects.toThrow();
    expect(await endpoint.call('echo', 1)).toBe(1);
  });

  test('W1: a thread that exits by itself is reported once, with the code; open calls reject', async () => {
    const thread = start();
    let exits = 0;
    thread.onExit(() => {
      exits += 1;
    });
    const call = thread.endpoint.call('exit', 4);
    await expect(call).rejects.toMatchObject({ code: 'internal', retryable: true });
    expect(await exitOf(thread)).toEqual({ exitCode: 4 });
    await thread.terminate();
    expect(exits).toBe(1);
  });

  test('W1: an uncaught error is reported with its exit', async () => {
    const thread = start();
    thread.endpoint.notify('throwOutside', 0);
    const exit = await exitOf(thread);
    expect(exit.error).toMatchObject({ name: 'RangeError', message: 'nobody catches this' });
  });

  test('W1: a spinning thread can be terminated', async () => {
    const thread = start();
    await thread.endpoint.call('echo', 0);
    const call = thread.endpoint.call('spin', 0).catch((error: unknown) => error);
    await new Promise((resolve) => setImmediate(resolve));
    await thread.terminate();
    expect(await call).toMatchObject({ code: 'internal' });
  });

  test('W1: a thread asked to end ends by itself, and is not terminated in the middle of its work', async () => {
    const thread = start();
    await thread.endpoint.call('echo', 0);
    await thread.exit();
    expect(await exitOf(thread)).toEqual({ exitCode: 1 });
    expect(await thread.endpoint.call('said', 0).catch((error: unknown) => error)).toMatchObject({ code: 'internal' });
  });

  test('W1: a spinning thread asked to end is terminated', async () => {
    const thread = start();
    await thread.endpoint.call('echo', 0);
    const call = thread.endpoint.call('spin', 0).catch((error: unknown) => error);
    await thread.exit();
    expect(await call).toMatchObject({ code: 'internal' });
  });

  test('W1: a missing entry file is reported as an exit, not thrown', async () => {
    const thread = startThread(new URL('./fixtures/missing.worker.ts', import.meta.url), { name: 'missing' });
    const { error } = await exitOf(thread);
    expect(error).toBeInstanceOf(ConfigError);
    expect(error?.message).toContain('--packages=external');
  });
});

test('workerUrl keeps the extension of its base', () => {
  expect(workerUrl('./a.worker', 'file:///src/x/b.ts').href).toBe('file:///src/x/a.worker.ts');
  expect(workerUrl('../a.worker', 'file:///dist/src/x/b.js').href).toBe('file:///dist/src/a.worker.js');
});
