// Goal: tasks on real threads settle exactly once, and a dying thread fails only its own task.
import { afterEach, describe, expect, test } from 'vitest';
import { CancelledError, ConfigError, ContentError, LimitError } from '../../src/base/errors.ts';
import { LazyAbort } from '../../src/base/lazy-abort.ts';
import { createTaskPool, type TaskPool, type TaskPoolOptions, threadDeathOf } from '../../src/threads/task-pool.ts';
import { workerUrl } from '../../src/threads/worker-url.ts';

const pools: TaskPool[] = [];
function poolOf(options: Partial<TaskPoolOptions> = {}): TaskPool {
  const entry = workerUrl('./fixtures/tasks.worker', import.meta.url);
  const pool = createTaskPool({ entry, threads: 1, queueMax: 100, ...options });
  pools.push(pool);
  return pool;
}
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('createTaskPool', () => {
  test('P2: no thread starts before the first task, and there are never more than the bound', async () => {
    const pool = poolOf({ threads: 2 });
    expect(pool.counts().threads).toBe(0);
    const tasks = Array.from({ length: 20 }, (_unused, value) => pool.run({ kind: 'echo', value }));
    expect(pool.counts()).toMatchObject({ running: 2, waiting: 18 });
    expect(await Promise.all(tasks)).toEqual(tasks.map((_task, at) => at));
    expect(pool.counts()).toEqual({ running: 0, waiting: 0, threads: 2 });
  });

  test('P1: a task rejects with its own error, class and data kept', async () => {
    const error = await failureOf(poolOf().run({ kind: 'fail', value: 9 }));
    expect(error).toBeInstanceOf(ContentError);
    expect(error).toMatchObject({ data: { at: 9 } });
    expect(threadDeathOf(error)).toBeUndefined();
  });

  test('P3: the exit of a thread fails its own task; waiting tasks get a new thread', async () => {
    const pool = poolOf();
    const before = await pool.run({ kind: 'thread' });
    const dying = failureOf(pool.run({ kind: 'exit', value: 5 }));
    const waiting = pool.run({ kind: 'thread' });
    expect(threadDeathOf(await dying)).toBe('exit code 5');
    expect(await waiting).not.toBe(before);
  });

  test('F51: out of memory fails its own task', async () => {
    const pool = poolOf({ resourceLimits: { heapMb: 32 } });
    expect(threadDeathOf(await failureOf(pool.run({ kind: 'leak' })))).toBe('out of memory');
    expect(await pool.run({ kind: 'echo', value: 1 })).toBe(1);
  });

  test('F52: aborting kills a spinning thread; the next task gets another', async () => {
    const stop = new LazyAbort();
    const pool = poolOf({ onNote: () => stop.abort(new Error('deadline')) });
    const spinning = failureOf(pool.run({ kind: 'spin' }, { abort: stop }));
    const waiting = pool.run({ kind: 'echo', value: 1 });
    const error = await spinning;
    expect(error).toBeInstanceOf(CancelledError);
    expect((error as Error).cause).toMatchObject({ message: 'deadline' });
    expect(await waiting).toBe(1);
  });

  test('P1: aborting a waiting task removes it, an aborted signal starts nothing', async () => {
    const pool = poolOf();
    const first = pool.run({ kind: 'echo', value: 1 });
    const stop = new LazyAbort();
    const waiting = failureOf(pool.run({ kind: 'exit', value: 1 }, { abort: stop }));
    stop.abort();
    expect(await waiting).toBeInstanceOf(CancelledError);
    expect(await failureOf(pool.run({ kind: 'exit', value: 1 }, { abort: stop }))).toBeInstanceOf(CancelledError);
    expect(await first).toBe(1);
    expect(await pool.run({ kind: 'echo', value: 2 })).toBe(2);
  });

  test('a thread and its pool can exchange messages while a task runs', async () => {
    const pool = poolOf({ onNote: (note, line) => line.post(`answer to ${String(note)}`) });
    expect(await pool.run({ kind: 'wait' })).toBe('answer to waiting');
  });

  test('A9: a full queue refuses with LimitError', async () => {
    const pool = poolOf({ queueMax: 1 });
    const tasks = [1, 2].map((value) => pool.run({ kind: 'echo', value }));
    expect(await failureOf(pool.run({ kind: 'echo', value: 3 }))).toBeInstanceOf(LimitError);
    expect(await Promise.all(tasks)).toEqual([1, 2]);
  });

  test('P1: an entry that cannot be loaded fails every task', async () => {
    const pool = poolOf({ entry: new URL('./fixtures/missing.worker.ts', import.meta.url), threads: 2 });
    const errors = await Promise.all([1, 2, 3].map((value) => failureOf(pool.run({ kind: 'echo', value }))));
    for (const error of errors) {
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as Error).message).toMatch(/missing\.worker.*--packages=external/u);
    }
  });

  test('P1: a task that cannot be cloned rejects, and the thread stays alive', async () => {
    const pool = poolOf();
    const id = await pool.run({ kind: 'thread' });
    expect(await failureOf(pool.run({ kind: 'echo', value: () => 1 }))).toBeInstanceOf(Error);
    expect(await pool.run({ kind: 'thread' })).toBe(id);
  });

  test('P1: close rejects running and waiting tasks', async () => {
    const pool = poolOf();
    const tasks = [failureOf(pool.run({ kind: 'hang' })), failureOf(pool.run({ kind: 'echo' }))];
    await pool.close();
    for (const task of tasks) expect(await task).toBeInstanceOf(CancelledError);
    expect(await failureOf(pool.run({ kind: 'echo' }))).toBeInstanceOf(CancelledError);
  });
});
