// Goal: calls that run side by side on a thread have their own deadlines, and the death of their thread costs the
// innocent ones a repeat. Method: threads held by the test, and a clock driven by hand.
import { describe, expect, test } from 'vitest';
import {
  LEASE_LOOK_MS,
  TOOL_ABANDONED_MAX,
  TOOL_CONCURRENCY,
  TOOL_KILL_MS,
  TOOL_REPEATS_MAX,
  TOOL_THREAD_CALLS_MAX,
} from '../../../src/base/bounds.ts';
import { OUTCOME_UNKNOWN } from '../../../src/session/rules/tool-texts.ts';
import { BATCH_CALLS_MAX } from '../../../src/tools/batch-cursor.ts';
import type { ToolRun } from '../../../src/tools/pool.ts';
import { type HeldBatch, HeldTasks } from '../held-tasks.ts';
import { HandClock, PoolUnderTest } from '../support.ts';

const TIMED_OUT = 'Tool "add" timed out after 1 seconds';

/** A pool over held threads. */
class Held {
  readonly clock: HandClock = new HandClock();
  readonly tasks: HeldTasks = new HeldTasks(this.clock);
  readonly under: PoolUnderTest;

  constructor(threads = 1) {
    this.under = new PoolUnderTest({ threads, clock: this.clock, makeTaskPool: this.tasks.make });
  }

  /** Starts runs of one turn. Returns the batches that threads receive. */
  async start(runs: number, options: Partial<ToolRun> = {}): Promise<readonly HeldBatch[]> {
    for (let n = 0; n < runs; n += 1) this.under.start('add', { timeoutMs: 1_000, effect: 'pure', ...options });
    return this.next();
  }

  /** Starts runs, all of which one thread begins. */
  async begun(runs: number, options: Partial<ToolRun> = {}): Promise<HeldBatch> {
    const [batch] = await this.start(runs, options);
    if (batch === undefined) throw new Error('no thread has received the runs');
    for (let n = 0; n < runs; n += 1) batch.begin();
    return batch;
  }

  async next(): Promise<readonly HeldBatch[]> {
    await turn();
    return this.tasks.next();
  }

  /** Every outcome so far, by the run's id. */
  get told(): ReadonlyMap<number, string> {
    return new Map(
      [...this.under.outcomes].map(([id, outcomes]) => {
        // P1
        expect(outcomes).toHaveLength(1);
        return [id, outcomes[0]?.content ?? ''];
      }),
    );
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function idsOf(batches: readonly HeldBatch[]): readonly (readonly number[])[] {
  return batches.map(({ ids }) => ids);
}

describe('many calls on a thread', () => {
  test('R3: calls join a thread at work whose loop is free, in a batch of their own; none joins while a call holds it', async () => {
    const held = new Held();
    const first = await held.begun(1);
    const [joined] = await held.start(2);
    expect(joined?.ids).toEqual([2, 3]);
    expect(joined?.task).toMatchObject({ shift: first.task.shift, isSequential: false });
    // The thread has not begun these yet.
    expect(await held.start(1)).toEqual([]);
    const second = joined?.begin() ?? 0;
    joined?.begin();
    joined?.hold(second);
    held.under.pool.cancel(99, 'an event that begins nothing');
    expect(await held.next()).toEqual([]);
    joined?.cursor.letGo();
    expect(joined?.cursor.takeWish()).toBe(true);
    joined?.post({ kind: 'ready', shift: first.task.shift });
    expect(idsOf(await held.next())).toEqual([[4]]);
  });

  test('R3: no call is sent to a thread that has ended its last call, although its answer is still on its way', async () => {
    const held = new Held();
    const batch = await held.begun(1);
    batch.cursor.markOver();
    expect(await held.start(1)).toEqual([]);
    batch.leave(batch.end(1));
    expect(idsOf(await held.next())).toEqual([[2]]);
  });

  test('Q3: without a stated bound a tool has 64 calls on a thread, and does not hold back other tools', async () => {
    const held = new Held();
    const batch = await held.begun(TOOL_CONCURRENCY);
    expect(await held.start(2 * BATCH_CALLS_MAX)).toEqual([]);
    held.under.start('where', { effect: 'keyed' });
    expect(idsOf(await held.next())).toEqual([[3 * TOOL_CONCURRENCY + 1]]);
    batch.finish(1);
    expect((await held.next()).length).toBe(0);
    expect(held.under.pool.counts()).toMatchObject({ running: TOOL_CONCURRENCY, waiting: 2 * BATCH_CALLS_MAX });
  });

  test('A9: a thread has at most TOOL_THREAD_CALLS_MAX calls of all tools', async () => {
    const held = new Held();
    const concurrency = 10 * TOOL_THREAD_CALLS_MAX;
    let batches = await held.start(TOOL_THREAD_CALLS_MAX + 10, { concurrency });
    let handed = 0;
    while (batches.length > 0) {
      for (const batch of batches) {
        handed += batch.ids.length;
        while (batch.cursor.claimed < batch.cursor.end) batch.begin();
        batch.post({ kind: 'ready', shift: batch.task.shift });
      }
      batches = await held.next();
    }
    expect(handed).toBe(TOOL_THREAD_CALLS_MAX);
  });

  test('R8: a `once` call shares a thread with no other; a thread is freed for it, while other calls use the rest', async () => {
    const held = new Held(2);
    const [one, two] = await held.start(2);
    one?.begin();
    two?.begin();
    held.under.start('add', { effect: 'once' });
    // One thread is to be free; the other still takes calls.
    const joined = await held.start(1);
    expect(joined.map(({ task }) => task.shift)).toEqual([two?.task.shift]);
    one?.leave(one.end(1));
    const [alone] = await held.next();
    expect(alone?.ids).toEqual([3]);
    expect(alone?.task.isSequential).toBe(true);
    alone?.begin();
    joined[0]?.begin();
    expect((await held.start(1)).map(({ task }) => task.shift)).toEqual([two?.task.shift]);
  });

  test('R8: a `once` tool with a stated concurrency above 1 shares a thread', async () => {
    const held = new Held();
    const batch = await held.begun(1);
    const [joined] = await held.start(1, { effect: 'once', concurrency: 2 });
    expect(joined?.task.shift).toBe(batch.task.shift);
  });
});

describe('calls that may not begin', () => {
  test('R10: calls wait while none may begin, and `once` calls are handed over one by one', async () => {
    const clock = new HandClock();
    const tasks = new HeldTasks(clock);
    const state = { mayBegin: false };
    const under = new PoolUnderTest({
      ...{ threads: 1, clock, makeTaskPool: tasks.make },
      mayBegin: () => state.mayBegin,
    });
    const next = async (): Promise<readonly HeldBatch[]> => {
      await turn();
      clock.advance(LEASE_LOOK_MS);
      return tasks.next();
    };
    for (let n = 0; n < 2; n += 1) under.start('add', { effect: 'once' });
    expect(await next()).toEqual([]);
    state.mayBegin = true;
    const [first] = await next();
    expect(first?.ids).toEqual([1]);
    state.mayBegin = false;
    first?.finishNext();
    expect(await next()).toEqual([]);
    state.mayBegin = true;
    expect(idsOf(await next())).toEqual([[2]]);
  });

  test('H2: a call on the host waits while none may begin', async () => {
    const clock = new HandClock();
    const begun: number[] = [];
    const state = { mayBegin: false };
    const under = new PoolUnderTest({
      clock,
      mayBegin: () => state.mayBegin,
      hostRunner: {
        run: async ({ id }) => {
          begun.push(id);
          return { content: 'done', success: true, ms: 0 };
        },
        abort: () => undefined,
      },
    });
    const id = under.start('add', { place: { kind: 'host', agent: 'a' } });
    clock.advance(LEASE_LOOK_MS);
    expect(begun).toEqual([]);
    state.mayBegin = true;
    clock.advance(LEASE_LOOK_MS);
    expect(begun).toEqual([id]);
  });
});

describe('deadlines', () => {
  test('R2: each call has its own deadline; a tool that ignores its signal is left on its living thread', async () => {
    const held = new Held();
    const batch = await held.begun(1);
    held.clock.advance(600);
    const [joined] = await held.start(1);
    joined?.begin();
    held.clock.advance(400);
    expect(batch.aborts).toEqual([{ id: 1, reason: TIMED_OUT }]);
    batch.notice(1);
    held.clock.advance(TOOL_KILL_MS);
    expect(await held.next()).toEqual([]);
    expect([...held.told]).toEqual([[1, TIMED_OUT]]);
    joined?.finish(2);
    await turn();
    expect(held.told.get(2)).toBe('result 2');
    // The thread takes further calls, and the late outcome reaches no listener.
    const [more] = await held.start(1);
    expect(more?.task.shift).toBe(batch.task.shift);
    batch.finish(1);
    await turn();
    expect([...held.told.keys()]).toEqual([1, 2]);
    expect(batch.isKilled).toBe(false);
  });

  test('R4: a thread with too many abandoned calls receives nothing more, and is replaced once its calls are over', async () => {
    const held = new Held();
    const batch = await held.begun(TOOL_ABANDONED_MAX);
    held.clock.advance(500);
    const [joined] = await held.start(1);
    joined?.begin();
    held.clock.advance(500);
    for (const id of batch.ids) batch.notice(id);
    held.clock.advance(TOOL_KILL_MS - 100);
    expect(batch.isKilled).toBe(false);
    held.clock.advance(100);
    expect(await held.start(1)).toEqual([]);
    joined?.finish(TOOL_ABANDONED_MAX + 1);
    const [fresh] = await held.next();
    expect(batch.isKilled).toBe(true);
    expect(fresh?.ids).toEqual([TOOL_ABANDONED_MAX + 2]);
    expect(fresh?.task.shift).not.toBe(batch.task.shift);
  });

  test('R8: a thread that has only abandoned calls is ended for a call that needs a thread alone', async () => {
    const held = new Held();
    const batch = await held.begun(1, { effect: 'once' });
    held.clock.advance(1_000);
    batch.notice(1);
    held.clock.advance(TOOL_KILL_MS);
    await turn();
    expect(batch.isKilled).toBe(false);
    await held.start(1, { effect: 'once' });
    expect(batch.isKilled).toBe(true);
    expect(held.under.pool.counts()).toMatchObject({ running: 1, waiting: 0 });
  });

  test('R2: a call is not late while another one is known to hold the loop, whose own deadline decides', async () => {
    const held = new Held();
    const batch = await held.begun(1);
    const [joined] = await held.start(1, { timeoutMs: 10_000 });
    joined?.begin();
    joined?.hold(2);
    held.clock.advance(9_000);
    expect(batch.aborts).toEqual([]);
    expect(held.told.size).toBe(0);
    held.clock.advance(1_000 + TOOL_KILL_MS);
    expect(batch.isKilled).toBe(true);
    const [again] = await held.next();
    expect([...held.told]).toEqual([[2, 'Tool "add" timed out after 10 seconds']]);
    expect(again?.ids).toEqual([1]);
    again?.finishAll();
    await turn();
    expect(held.told.get(1)).toBe('result 1');
  });

  test('a call that is cancelled while another one holds the loop is answered; the thread lives', async () => {
    const held = new Held();
    const batch = await held.begun(2, { timeoutMs: 10_000 });
    batch.hold(1);
    held.under.pool.cancel(2, 'enough');
    held.clock.advance(TOOL_KILL_MS);
    await turn();
    expect([...held.told]).toEqual([[2, 'enough']]);
    expect(batch.isKilled).toBe(false);
  });

  test('R4: a thread that does not take up calls that joined it is given up; they move', async () => {
    const held = new Held();
    const batch = await held.begun(1, { timeoutMs: 10_000 });
    const [joined] = await held.start(1);
    held.clock.advance(TOOL_KILL_MS);
    expect(joined?.cursor.end).toBe(0);
    // No call is handed to a thread that does not answer, until it does.
    expect(await held.next()).toEqual([]);
    batch.post({ kind: 'ready', shift: batch.task.shift });
    expect(idsOf(await held.next())).toEqual([[2]]);
  });
});

describe('a `probe` call that begins again while its earlier run is at work', () => {
  const probe = { effect: 'probe', key: 'k', mode: 'probe' } as const;

  test('R9: it waits for the end of the earlier run', async () => {
    const held = new Held();
    const batch = await held.begun(1, { effect: 'probe', key: 'k' });
    held.under.pool.cancel(1, 'enough');
    expect(await held.start(1, probe)).toEqual([]);
    expect(held.under.pool.counts()).toMatchObject({ running: 1, waiting: 1 });
    batch.leave(batch.end(1));
    expect(idsOf(await held.next())).toEqual([[2]]);
  });

  test('R9: if the earlier run was abandoned, its thread takes no call and is ended once its other runs are over', async () => {
    const held = new Held();
    const batch = await held.begun(2, { effect: 'probe', timeoutMs: 10_000 });
    held.under.pool.cancel(1, 'enough');
    batch.notice(1);
    held.clock.advance(TOOL_KILL_MS);
    expect(await held.start(1, { ...probe, key: 'key-1' })).toEqual([]);
    expect(batch.isKilled).toBe(false);
    // Another call does not join the thread.
    expect(await held.start(1)).toEqual([]);
    batch.finish(2);
    expect(batch.isKilled).toBe(true);
    expect((await held.next()).flatMap(({ ids }) => ids).sort()).toEqual([3, 4]);
  });

  test('R9: a run that waits for an earlier one can be cancelled', async () => {
    const held = new Held();
    await held.begun(1, { effect: 'probe', key: 'k' });
    await held.start(1, probe);
    held.under.pool.cancel(2, 'enough');
    await turn();
    expect([...held.told]).toEqual([[2, 'enough']]);
  });
});

describe('a thread that dies', () => {
  test('R6: the call that held the loop fails, the others begin again as their effects allow', async () => {
    const held = new Held();
    const batch = await held.begun(1);
    for (const [effect, concurrency] of [['keyed'], ['probe'], ['once', 8], ['pure']] as const) {
      const [joined] = await held.start(1, { effect, ...(concurrency === undefined ? {} : { concurrency }) });
      joined?.begin();
      if (effect === 'pure') joined?.hold(5);
    }
    batch.die();
    const [again] = await held.next();
    expect([...held.told]).toEqual([
      [4, OUTCOME_UNKNOWN],
      [5, 'tool worker died: exit code 3'],
    ]);
    expect(again?.task.calls.map(({ run }) => [run.id, run.key, run.mode])).toEqual([
      [1, 'key-1', 'run'],
      [2, 'key-2', 'run'],
      [3, 'key-3', 'probe'],
    ]);
    expect(again?.task.isSequential).toBe(false);
  });

  test('R6: if it is not known which call held the loop, each begins again on a thread that it has to itself', async () => {
    const held = new Held();
    const batch = await held.begun(2);
    batch.die();
    const [again] = await held.next();
    expect(again?.ids).toEqual([1, 2]);
    expect(again?.task.isSequential).toBe(true);
    again?.begin();
    again?.die();
    const [last] = await held.next();
    expect([...held.told]).toEqual([[1, 'tool worker died: exit code 3']]);
    last?.finishAll();
    await turn();
    expect(held.told.get(2)).toBe('result 2');
  });

  test('R6: a timeout that the loop did not notice is no answer; a call that was cancelled does not begin again', async () => {
    const held = new Held();
    const batch = await held.begun(3);
    held.under.pool.cancel(3, 'enough');
    batch.notice(3);
    held.clock.advance(TOOL_KILL_MS);
    held.clock.advance(1_000);
    expect(batch.isKilled).toBe(true);
    const [again] = await held.next();
    expect([...held.told]).toEqual([[3, 'enough']]);
    expect(again?.ids).toEqual([1, 2]);
    expect(again?.task.isSequential).toBe(true);
  });

  test('R7: a call begins again in company a few times, and then once more alone', async () => {
    const held = new Held();
    let batch = await held.begun(1);
    for (let repeats = 1; repeats <= TOOL_REPEATS_MAX + 1; repeats += 1) {
      const [guilty] = await held.start(1);
      guilty?.hold(guilty.begin());
      batch.die();
      const [again] = await held.next();
      if (again === undefined) throw new Error('the call did not begin again');
      expect(again.ids).toEqual([1]);
      expect(again.task.isSequential).toBe(repeats > TOOL_REPEATS_MAX);
      batch = again;
      batch.begin();
    }
    batch.die();
    await turn();
    expect(held.told.get(1)).toBe('tool worker died: exit code 3');
  });

  test('R1: a report of a thread that no longer has the call is ignored', async () => {
    const held = new Held();
    const batch = await held.begun(2);
    batch.hold(2);
    batch.die();
    const [again] = await held.next();
    batch.finish(1);
    await turn();
    expect(held.told.has(1)).toBe(false);
    again?.finishAll();
    await turn();
    expect(held.told.get(1)).toBe('result 1');
  });
});
