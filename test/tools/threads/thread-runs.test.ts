// Goal: calls on one thread do not affect each other by a death, a deadline or a slow call. Method:
// threads held by the test, and a clock driven by hand. The test decides which calls begin, and how they end.
import { describe, expect, test } from 'vitest';
import { TOOL_KILL_MS, TOOL_LOAD_MS } from '../../../src/base/bounds.ts';
import { BATCH_CALLS_MAX } from '../../../src/tools/batch-cursor.ts';
import type { ToolRun } from '../../../src/tools/pool.ts';
import { type HeldBatch, HeldTasks } from '../held-tasks.ts';
import { HandClock, PoolUnderTest } from '../support.ts';

/** A pool over held threads with this many runs of one turn, and the batches handed to the threads. */
async function handed(
  runs: number,
  threads = 1,
  options: Partial<ToolRun> = {},
): Promise<{ under: PoolUnderTest; clock: HandClock; tasks: HeldTasks; batches: readonly HeldBatch[] }> {
  const clock = new HandClock();
  const tasks = new HeldTasks(clock);
  const under = new PoolUnderTest({ threads, clock, makeTaskPool: tasks.make });
  for (let n = 0; n < runs; n += 1) under.start('add', { timeoutMs: 1_000, ...options });
  await turn();
  return { under, clock, tasks, batches: tasks.next() };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Every outcome so far, by the run's id. */
function told(under: PoolUnderTest): readonly (readonly [number, string])[] {
  return [...under.outcomes].map(([id, outcomes]) => {
    // P1
    expect(outcomes).toHaveLength(1);
    return [id, outcomes[0]?.content ?? ''];
  });
}

describe('handing over', () => {
  test('the runs of a turn are shared evenly among the threads, at most a batch each', async () => {
    const even = await handed(10, 2);
    expect(even.batches.map(({ ids }) => ids)).toEqual([
      [1, 2, 3, 4, 5],
      [6, 7, 8, 9, 10],
    ]);
    const many = await handed(BATCH_CALLS_MAX + 1);
    expect(many.batches.map(({ ids }) => ids.length)).toEqual([BATCH_CALLS_MAX]);
    many.batches[0]?.finishAll();
    await turn();
    expect(many.tasks.next().map(({ ids }) => ids)).toEqual([[BATCH_CALLS_MAX + 1]]);
  });

  test('R1: outcomes are reported as the thread sends them, the last one with the end of the batch', async () => {
    const { under, batches } = await handed(3);
    const [batch] = batches;
    batch?.finishNext();
    await turn();
    expect(told(under)).toEqual([[1, 'result 1']]);
    const second = batch?.begin() ?? 0;
    expect(under.pool.counts()).toMatchObject({ running: 1, waiting: 1 });
    batch?.finish(second);
    batch?.finishAll();
    await turn();
    expect(told(under).map(([, content]) => content)).toEqual(['result 1', 'result 2', 'result 3']);
    expect(under.pool.counts()).toMatchObject({ running: 0, waiting: 0 });
  });

  test('a run that cannot be sent fails alone: the others of its batch are sent one by one', async () => {
    const { under, tasks, batches } = await handed(3);
    batches[0]?.fail(new Error('could not be cloned'));
    for (const id of [1, 2, 3]) {
      await turn();
      const [single] = tasks.next();
      expect(single?.ids).toEqual([id]);
      if (id === 2) single?.fail(new Error('could not be cloned'));
      else single?.finishAll();
    }
    await turn();
    expect(told(under)).toEqual([
      [1, 'result 1'],
      [2, 'Error: could not be cloned'],
      [3, 'result 3'],
    ]);
  });
});

describe('a thread that dies', () => {
  test('R1, P3: the call it had begun fails; calls behind it move to the next thread, calls before it are answered', async () => {
    const { under, tasks, batches } = await handed(4);
    batches[0]?.finishNext();
    batches[0]?.begin();
    batches[0]?.die();
    await turn();
    const [again] = tasks.next();
    expect(again?.ids).toEqual([3, 4]);
    again?.finishAll();
    await turn();
    expect(told(under)).toEqual([
      [1, 'result 1'],
      [2, 'tool worker died: exit code 3'],
      [3, 'result 3'],
      [4, 'result 4'],
    ]);
  });

  test('R1: a death between two calls fails neither', async () => {
    const { under, tasks, batches } = await handed(2);
    batches[0]?.finishNext();
    batches[0]?.die();
    await turn();
    tasks.next()[0]?.finishAll();
    await turn();
    expect(told(under).map(([, content]) => content)).toEqual(['result 1', 'result 2']);
  });

  test('R1: a death before its first call fails that call, so that the call gets an outcome', async () => {
    const { under, tasks, batches } = await handed(3);
    batches[0]?.die();
    await turn();
    expect(told(under)).toEqual([[1, 'tool worker died: exit code 3']]);
    expect(tasks.next().map(({ ids }) => ids)).toEqual([[2, 3]]);
  });
});

describe('deadlines', () => {
  test('R2: the time of a call starts at the end of the one before', async () => {
    const { under, clock, batches } = await handed(2);
    clock.advance(700);
    batches[0]?.finishNext();
    batches[0]?.begin();
    clock.advance(999);
    expect(batches[0]?.aborts).toEqual([]);
    clock.advance(1);
    expect(batches[0]?.aborts).toEqual([{ id: 2, reason: 'Tool "add" timed out after 1 seconds' }]);
    clock.advance(TOOL_KILL_MS);
    expect(batches[0]?.isKilled).toBe(true);
    await turn();
    expect(told(under)).toEqual([
      [1, 'result 1'],
      [2, 'Tool "add" timed out after 1 seconds'],
    ]);
    expect(clock.timers).toBe(0);
  });

  test('R2: loading a module within a batch has its own time limit', async () => {
    const { clock, batches } = await handed(2);
    batches[0]?.finishNext();
    const id = batches[0]?.begin() ?? 0;
    batches[0]?.load(id);
    clock.advance(TOOL_LOAD_MS - 1);
    batches[0]?.run(id);
    clock.advance(999);
    expect(batches[0]?.aborts).toEqual([]);
    clock.advance(1);
    expect(batches[0]?.aborts).toHaveLength(1);
  });

  test('R2: a call whose module was loading at a check is aborted at its timeout', async () => {
    const { clock, batches } = await handed(1);
    const id = batches[0]?.begin() ?? 0;
    batches[0]?.load(id);
    clock.advance(1_500);
    batches[0]?.run(id);
    clock.advance(999);
    expect(batches[0]?.aborts).toEqual([]);
    clock.advance(1);
    expect(batches[0]?.aborts).toEqual([{ id, reason: 'Tool "add" timed out after 1 seconds' }]);
  });

  test('R4: after the decision to kill, the thread begins no other call; they wait for the next thread', async () => {
    const { under, clock, tasks, batches } = await handed(3);
    batches[0]?.begin();
    clock.advance(1_000);
    expect(batches[0]?.cursor.claim()).toBeUndefined();
    clock.advance(TOOL_KILL_MS);
    await turn();
    tasks.next()[0]?.finishAll();
    await turn();
    expect(told(under).map(([id]) => id)).toEqual([1, 2, 3]);
    expect(told(under).map(([, content]) => content.startsWith('result'))).toEqual([false, true, true]);
  });

  test('R4: a thread that has moved to its next call meanwhile is not killed', async () => {
    const { under, clock, batches } = await handed(2);
    const first = batches[0]?.begin() ?? 0;
    clock.advance(1_000);
    // The thread has ended its first call, and the report has not arrived yet.
    const late = batches[0]?.end(first);
    clock.advance(TOOL_KILL_MS);
    expect(batches[0]?.isKilled).toBe(false);
    if (late !== undefined) batches[0]?.post(late);
    await turn();
    expect(told(under)).toEqual([[1, 'Tool "add" timed out after 1 seconds']]);
    expect(batches[0]?.aborts.map(({ id }) => id)).toEqual([1]);
  });

  test('R2: a call that ignores its signal is answered; its thread lives, and the calls behind it move', async () => {
    const { under, clock, tasks, batches } = await handed(3, 2);
    const first = batches[0]?.begin() ?? 0;
    batches[1]?.finishAll();
    clock.advance(1_000);
    batches[0]?.notice(first);
    clock.advance(TOOL_KILL_MS);
    await turn();
    expect(batches[0]?.isKilled).toBe(false);
    expect(tasks.next().map(({ ids, task }) => [ids, task.shift])).toEqual([[[2], 3]]);
    expect(told(under)).toContainEqual([1, 'Tool "add" timed out after 1 seconds']);
    expect(under.pool.counts()).toMatchObject({ running: 1, waiting: 0 });
    // Its late outcome reaches no listener.
    batches[0]?.leave(batches[0].end(first));
    await turn();
  });
});

describe('an outcome that is lost while its thread lives', () => {
  const lost = 'The result of this call was lost on its way from the tool thread. It may have taken effect.';

  test('R5: the loss is detected at the next message of the thread, and the call is answered then', async () => {
    const { under, clock, batches } = await handed(3);
    batches[0]?.end(batches[0].begin());
    batches[0]?.finishNext();
    await turn();
    expect(told(under)).toEqual([
      [1, lost],
      [2, 'result 2'],
    ]);
    expect(under.pool.holds(1)).toBe(false);
    expect(under.pool.holds(3)).toBe(true);
    batches[0]?.finishAll();
    await turn();
    expect(told(under).map(([id]) => id)).toEqual([1, 2, 3]);
    expect(clock.timers).toBe(0);
  });

  test('R5: an outcome overtaken by the end of the batch is not lost', async () => {
    const { under, clock, tasks, batches } = await handed(3);
    const ids = [batches[0]?.begin() ?? 0, batches[0]?.begin() ?? 0];
    for (const id of ids) batches[0]?.end(id);
    batches[0]?.finishNext();
    await turn();
    expect(told(under)).toEqual([[3, 'result 3']]);
    // The thread is free for other calls.
    under.start('add');
    await turn();
    tasks.next()[0]?.finishAll();
    clock.advance(TOOL_KILL_MS - 1);
    for (const id of ids)
      batches[0]?.post({ kind: 'finished', id, outcome: { content: `result ${id}`, success: true, ms: 0 } });
    await turn();
    expect([...told(under)].sort(([a], [b]) => a - b).map(([, content]) => content)).toEqual(
      [1, 2, 3, 4].map((id) => `result ${id}`),
    );
    expect(clock.timers).toBe(0);
  });

  test('R5: the loss is detected some time after the end of the batch', async () => {
    const { under, clock, batches } = await handed(3);
    for (let n = 0; n < 2; n += 1) batches[0]?.end(batches[0].begin());
    batches[0]?.finishNext();
    await turn();
    clock.advance(TOOL_KILL_MS);
    await turn();
    expect(told(under)).toEqual([
      [3, 'result 3'],
      [1, lost],
      [2, lost],
    ]);
    expect(clock.timers).toBe(0);
    expect(under.pool.counts()).toMatchObject({ running: 0, waiting: 0 });
  });

  test('R5, R2: the pool waits once beyond the deadline; the call is answered, and the next call has its full time', async () => {
    const { under, clock, batches } = await handed(2);
    batches[0]?.end(batches[0].begin());
    const second = batches[0]?.begin() ?? 0;
    clock.advance(1_000);
    expect(batches[0]?.aborts).toEqual([{ id: second, reason: 'Tool "add" timed out after 1 seconds' }]);
    batches[0]?.notice(second);
    clock.advance(TOOL_KILL_MS);
    await turn();
    expect(told(under)).toEqual([
      [1, lost],
      [2, 'Tool "add" timed out after 1 seconds'],
    ]);
    expect(batches[0]?.isKilled).toBe(false);
  });

  test('R5: if the end of a shift is lost with its last outcome, its thread is ended', async () => {
    const { under, clock, batches } = await handed(1);
    batches[0]?.end(batches[0].begin());
    clock.advance(1_000 + TOOL_KILL_MS);
    await turn();
    expect(told(under)).toEqual([[1, lost]]);
    expect(batches[0]?.isKilled).toBe(false);
    clock.advance(TOOL_KILL_MS);
    expect(batches[0]?.isKilled).toBe(true);
    await turn();
    expect(clock.timers).toBe(0);
  });
});

describe('a slow call', () => {
  test('R3: calls that wait behind it move to a free thread', async () => {
    const { clock, tasks, batches } = await handed(8, 2);
    const [slow, quick] = batches;
    slow?.begin();
    quick?.finishAll();
    await turn();
    expect(tasks.next()).toEqual([]);
    clock.advance(5);
    const [shared] = tasks.next();
    expect(shared?.ids).toEqual([3, 4]);
    shared?.finishAll();
    await turn();
    expect(tasks.next().map(({ ids }) => ids)).toEqual([[2]]);
    expect(slow?.cursor.claim()).toBeUndefined();
  });

  test('R3: calls that arrive meanwhile go to the free thread at once', async () => {
    const { under, tasks, batches } = await handed(2, 2);
    batches[0]?.begin();
    batches[1]?.finishAll();
    await turn();
    under.start('add');
    await turn();
    expect(tasks.next().map(({ ids }) => ids)).toEqual([[3]]);
  });
});

describe('cancelling', () => {
  test('a call handed over but not begun never runs, and is answered at once', async () => {
    const { under, batches, tasks } = await handed(4);
    const first = batches[0]?.begin() ?? 0;
    under.pool.cancel(3, 'not now');
    await turn();
    expect(told(under)).toEqual([[3, 'not now']]);
    expect(batches[0]?.cursor.end).toBe(2);
    batches[0]?.finish(first);
    batches[0]?.finishAll();
    await turn();
    expect(tasks.next().map(({ ids }) => ids)).toEqual([[4]]);
  });

  test('a call that has begun is asked to stop, even before its thread has reported its begin', async () => {
    const { under, clock, batches } = await handed(2);
    const first = batches[0]?.end(batches[0].begin());
    batches[0]?.begin();
    under.pool.cancel(2, 'stop');
    expect(batches[0]?.aborts).toEqual([{ id: 2, reason: 'stop' }]);
    if (first !== undefined) batches[0]?.post(first);
    clock.advance(TOOL_KILL_MS);
    expect(batches[0]?.isKilled).toBe(true);
    await turn();
    expect(told(under)).toEqual([
      [1, 'result 1'],
      [2, 'stop'],
    ]);
  });

  test('a batch whose calls were all taken back ends without a report for any of them', async () => {
    const { under, clock, batches } = await handed(1);
    under.pool.cancel(1, 'never mind');
    expect(batches[0]?.cursor.claim()).toBeUndefined();
    expect(under.pool.counts()).toMatchObject({ running: 0, waiting: 0 });
    // A thread that does not start is given up.
    clock.advance(TOOL_LOAD_MS);
    expect(batches[0]?.isKilled).toBe(true);
    await turn();
    expect(told(under)).toEqual([[1, 'never mind']]);
    expect(clock.timers).toBe(0);
  });
});
