import { expect, test } from 'vitest';
import { ERASE_WITHIN_MS_DEFAULT, LIMIT_DEFAULTS, SHARD_CLOSE_MS } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { TroupeError } from '../../../src/base/errors.ts';
import { parseSettings } from '../../../src/base/settings.ts';
import { createRateMemory } from '../../../src/models/governor/rate-table.ts';
import { ShardLink } from '../../../src/runtime/host/shard-link.ts';
import type { ShardThread } from '../../../src/runtime/host/shard-threads.ts';
import { createCounterMemory } from '../../../src/runtime/protocol/metrics.ts';
import type { ShardPlan } from '../../../src/runtime/protocol/protocol.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';

const PLAN: ShardPlan = {
  index: 0,
  count: 1,
  directory: 'none',
  resultStore: 'none',
  durability: 'flush',
  agents: [],
  providers: [{ key: '', plan: { kind: 'host', name: 'none' }, rates: createRateMemory() }],
  settings: parseSettings({}),
  limits: LIMIT_DEFAULTS,
  eraseWithinMs: ERASE_WITHIN_MS_DEFAULT,
  threads: { models: 0, tools: 1 },
  counters: createCounterMemory(),
};

/** A thread that answers everything, or one that answers its start and dies in the same tick. */
function thread(isDying: boolean): ShardThread {
  let exited = (): void => undefined;
  let isGone = false;
  return {
    endpoint: {
      call: async (method) => {
        if (isGone) throw new TroupeError('internal', 'the other side is gone', { retryable: true });
        if (method === 'shard.start' && isDying) {
          isGone = true;
          exited();
        }
        return undefined;
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
  };
}

test('L1: a thread that dies after answering its start is replaced, and requests reach the next thread', async () => {
  // Found by the simulator, seed 414918: the request was sent to the dead thread again and again, without end.
  const threads = [thread(true), thread(false)];
  const link = new ShardLink({
    plan: PLAN,
    values: { providers: new Map(), tools: new Map(), systems: new Map() },
    learned: () => ({ models: [], mcp: [] }),
    startInPlace: undefined,
    clock: systemClock,
    random: () => 0,
    listener: {
      events: () => undefined,
      degraded: () => undefined,
      log: () => undefined,
      remind: () => undefined,
      lost: () => undefined,
    },
    startShard: () => {
      const next = threads.shift();
      if (next === undefined) throw new Error('two threads are enough');
      return next;
    },
  });
  await link.start();
  expect(await link.call('sessions.get', { session: 's' }, true)).toBeUndefined();
  expect(link.restarts).toBe(1);
  expect(threads).toEqual([]);
  await link.close(0);
});

test('L4: a close ends a thread that does not answer in time, and reports it', async () => {
  const clock = manualClock();
  const lines: string[] = [];
  const stuck = thread(false);
  let hasExited = false;
  const link = new ShardLink({
    plan: PLAN,
    values: { providers: new Map(), tools: new Map(), systems: new Map() },
    learned: () => ({ models: [], mcp: [] }),
    startInPlace: undefined,
    clock,
    random: () => 0,
    listener: {
      events: () => undefined,
      degraded: () => undefined,
      log: ({ message }) => lines.push(message),
      remind: () => undefined,
      lost: () => undefined,
    },
    startShard: () => ({
      ...stuck,
      endpoint: {
        ...stuck.endpoint,
        call: (method, payload) =>
          method === 'runtime.close' ? new Promise(() => undefined) : stuck.endpoint.call(method, payload),
      },
      exit: async () => {
        hasExited = true;
      },
    }),
  });
  await link.start();
  const closed = link.close(1_000);
  await clock.advance(1_000 + SHARD_CLOSE_MS - 1);
  expect(hasExited).toBe(false);
  await clock.advance(1);
  await closed;
  expect(hasExited).toBe(true);
  expect(lines).toEqual([`session thread 0 did not close within ${1_000 + SHARD_CLOSE_MS} ms; it is ended`]);
});
