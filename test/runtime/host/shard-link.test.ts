import { expect, test } from 'vitest';
import { ERASE_WITHIN_MS_DEFAULT, HAND_OVER_MS, LIMIT_DEFAULTS, SHARD_CLOSE_MS } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { CancelledError, StoreFullError, TroupeError } from '../../../src/base/errors.ts';
import { parseSettings } from '../../../src/base/settings.ts';
import { createRateMemory } from '../../../src/models/governor/rate-table.ts';
import type { FoundShard, ShardFinder, ShardLine } from '../../../src/runtime/host/shard-finder.ts';
import { ShardLink } from '../../../src/runtime/host/shard-link.ts';
import type { ShardThread } from '../../../src/runtime/host/shard-threads.ts';
import { createCounterMemory } from '../../../src/runtime/protocol/metrics.ts';
import type { ShardPlan } from '../../../src/runtime/protocol/protocol.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { deferred, failure } from '../../support/runtime-kit.ts';

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

/** A line whose far side answers with `answer`, and can end. */
function lineTo(answer: (method: string) => unknown) {
  const asked: string[] = [];
  const listeners: (() => void)[] = [];
  let isOver = false;
  const over = (): void => {
    isOver = true;
    for (const listener of listeners) listener();
  };
  const line: ShardLine = {
    endpoint: {
      ...thread(false).endpoint,
      call: async (_ask, payload) => {
        const { method } = payload as { readonly method: string };
        asked.push(method);
        if (isOver) throw new TroupeError('internal', 'the other side is gone', { retryable: true });
        return answer(method);
      },
    },
    onExit: (listener) => void listeners.push(listener),
    exit: async () => over(),
  };
  return { line, asked, over };
}

/** A link that finds its shard with `find`. */
function linkOf(find: ShardFinder['find'], { clock = manualClock(), startShard = () => thread(false) } = {}) {
  const place = { isHere: false };
  const released: number[] = [];
  const logged: string[] = [];
  const degraded: unknown[] = [];
  const link = new ShardLink({
    plan: PLAN,
    values: { providers: new Map(), tools: new Map(), systems: new Map() },
    learned: () => ({ models: [], mcp: [] }),
    startInPlace: undefined,
    clock,
    random: () => 0,
    finder: {
      absenceMs: 1_000,
      find,
      isHere: () => place.isHere,
      release: (shard) => {
        place.isHere = false;
        released.push(shard);
      },
    },
    listener: {
      events: () => undefined,
      degraded: (error) => degraded.push(error),
      log: ({ message }) => logged.push(message),
      remind: () => undefined,
      lost: () => undefined,
    },
    startShard,
  });
  return { link, clock, degraded, place, released, logged };
}

test('L1, L2: after the end of a line, repeatable requests go to the next place, others have an unknown outcome', async () => {
  const ends: (() => void)[] = [];
  const first = lineTo(() => new Promise((_resolve, reject) => ends.push(() => reject(new Error('gone')))));
  const second = lineTo((method) => method);
  const lines = [first.line, second.line];
  const { link } = linkOf(async () => ({ line: lines.shift() ?? second.line }));
  await link.start();
  expect(link.isElsewhere).toBe(true);
  const read = link.call('session.state', { session: 's' }, true);
  const pause = failure(link.call('session.pause', { session: 's' }, false));
  first.over();
  for (const end of ends) end();
  expect(await read).toBe('session.state');
  expect(await pause).toMatchObject({ code: 'shard_moved', retryable: true });
  expect(link.restarts).toBe(0);
  await link.close(0);
});

test('L5: requests wait for a shard that is nowhere, and are refused when that takes too long', async () => {
  const found = deferred<FoundShard>();
  const first = lineTo(() => 'first');
  const places = [Promise.resolve({ line: first.line }), found.promise];
  const { link, clock, place } = linkOf(async () => (await places.shift()) ?? { place: 'here' as never });
  await link.start();
  first.over();
  const refused = failure(link.call('session.state', { session: 's' }, true));
  await clock.advance(999);
  await clock.advance(1);
  expect(await refused).toMatchObject({ code: 'store_full', retryable: true, data: { reason: 'owner', shard: 0 } });
  expect(await failure(link.call('session.pause', { session: 's' }, false))).toMatchObject({ code: 'store_full' });
  expect(link.isElsewhere).toBe(true);
  place.isHere = true;
  found.resolve({ place: 'here' as never });
  await expect.poll(() => link.isServing).toBe(true);
  expect(link.isElsewhere).toBe(false);
  expect(await link.call('session.state', { session: 's' }, true)).toBeUndefined();
  await link.close(0);
});

test('L2, L5: a request that was sent before its line ended has an unknown outcome if no other node is found in time', async () => {
  let end = (): void => undefined;
  const first = lineTo(() => new Promise((_resolve, reject) => (end = () => reject(new Error('gone')))));
  const places: FoundShard[] = [{ line: first.line }];
  const { link, clock } = linkOf(async () => places.shift() ?? new Promise<FoundShard>(() => undefined));
  await link.start();
  const sent = failure(link.call('session.send', { session: 's', content: 'Q', key: 'k' }, true));
  first.over();
  end();
  const later = failure(link.call('session.send', { session: 's', content: 'Q', key: 'l' }, true));
  await clock.advance(1_000);
  expect(await sent).toMatchObject({ code: 'shard_moved', retryable: true });
  expect(await later).toMatchObject({ code: 'store_full', retryable: true });
});

test('L5: a shard that cannot be started here is given up, so that another node may have it', async () => {
  const first = lineTo(() => 'first');
  const places: FoundShard[] = [{ line: first.line }];
  const { link, degraded } = linkOf(async () => {
    const place = places.shift();
    if (place === undefined) throw new Error('the copy cannot be written');
    return place;
  });
  await link.start();
  first.over();
  expect(await failure(link.call('session.state', { session: 's' }, true))).toMatchObject({ code: 'shard_moved' });
  expect(degraded.at(-1)).toMatchObject({ code: 'shard_moved' });
  await link.close(0);
});

test('L5: a shard whose store refuses it now is started again, and requests are not held longer than for another node', async () => {
  const first = lineTo(() => 'first');
  const places: (FoundShard | StoreFullError)[] = [{ line: first.line }, new StoreFullError('full')];
  const next = deferred<FoundShard>();
  const { link, clock } = linkOf(async () => {
    const place = places.shift() ?? (await next.promise);
    if (place instanceof StoreFullError) throw place;
    return place;
  });
  await link.start();
  first.over();
  const refused = failure(link.call('session.state', { session: 's' }, true));
  await clock.advance(1_000);
  expect(await refused).toMatchObject({ code: 'store_full' });
  next.resolve({ place: 'here' as never });
  await expect.poll(() => link.isServing).toBe(true);
  expect(link.restarts).toBe(0);
  await link.close(0);
});

test('a close does not wait for a shard that is nowhere, and does not close that of another node', async () => {
  const nowhere = linkOf(
    (_shard, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('closed')))),
  );
  const starting = failure(nowhere.link.start());
  await nowhere.link.close(0);
  expect(await starting).toBeDefined();
  const there = lineTo(() => undefined);
  const elsewhere = linkOf(async () => ({ line: there.line }));
  await elsewhere.link.start();
  await elsewhere.link.close(0);
  expect(there.asked).toEqual([]);
});

/** A thread that records what it is asked, and answers with `answer`. */
function recording(answer: (method: string) => unknown) {
  const asked: string[] = [];
  let exited = (): void => undefined;
  const base = thread(false);
  const recorded: ShardThread = {
    ...base,
    endpoint: {
      ...base.endpoint,
      call: async (method) => {
        asked.push(method);
        return answer(method);
      },
    },
    onExit: (listener) => {
      exited = () => listener({});
    },
    exit: async () => {
      asked.push('exit');
      exited();
    },
  };
  return { recorded, asked, die: () => exited() };
}

/** A link whose shard is here first and at the other side of a line afterwards. */
async function givingLink(answer: (method: string) => unknown) {
  const { recorded, asked, die } = recording(answer);
  const there = lineTo((method) => method);
  const threads = [recorded];
  const scene = linkOf(async () => (scene.place.isHere ? { place: 'here' as never } : { line: there.line }), {
    startShard: () => threads.shift() ?? thread(false),
  });
  scene.place.isHere = true;
  await scene.link.start();
  asked.length = 0;
  return { ...scene, asked, there, die };
}

test('L6: a shard that is given away is drained, closed and released, and its requests go to the next owner', async () => {
  const drained = deferred<undefined>();
  const closed = deferred<undefined>();
  const { link, asked, there, released } = await givingLink((method) => {
    if (method === 'runtime.standStill') return drained.promise;
    if (method === 'runtime.close') return closed.promise;
    return method === 'session.state' ? Promise.reject(new CancelledError('the runtime is closed')) : 'here';
  });
  const given = link.handOver();
  await expect.poll(() => asked).toEqual(['runtime.standStill']);
  // Messages are still taken.
  expect(await link.call('session.send', { session: 's', content: 'Q', key: 'k' }, true)).toBe('here');
  // The end of a session says the same as a closed runtime, and is an answer until the shard closes.
  expect(await failure(link.call('session.state', { session: 's' }, true))).toMatchObject({ code: 'cancelled' });
  drained.resolve(undefined);
  await expect.poll(() => asked.at(-1)).toBe('runtime.close');
  const later = link.call('session.state', { session: 's' }, true);
  expect(released).toEqual([]);
  closed.resolve(undefined);
  await given;
  expect(asked.slice(-2)).toEqual(['runtime.close', 'exit']);
  expect(released).toEqual([0]);
  expect(await later).toBe('session.state');
  expect(there.asked).toEqual(['session.state']);
  expect([link.isElsewhere, link.restarts]).toEqual([true, 0]);
  await link.close(0);
  expect(released).toEqual([0]);
});

test('L1, L2, L6: what a closing shard refuses or leaves is repeated at the next owner, or has an unknown outcome', async () => {
  const closed = deferred<undefined>();
  const refused = deferred<Error>();
  const { link, asked } = await givingLink((method) => {
    if (method === 'runtime.close') return closed.promise;
    return method.startsWith('session.') ? refused.promise.then((error) => Promise.reject(error)) : undefined;
  });
  const read = link.call('session.state', { session: 's' }, true);
  const pause = failure(link.call('session.pause', { session: 's' }, false));
  const given = link.handOver();
  await expect.poll(() => asked.at(-1)).toBe('runtime.close');
  refused.resolve(new CancelledError('the runtime is closed'));
  closed.resolve(undefined);
  await given;
  expect(await read).toBe('session.state');
  expect(await pause).toMatchObject({ code: 'shard_moved', retryable: true });
  expect((await pause).message).toContain('was given to another node');
  await link.close(0);
});

test('L6: a shard that does not close as it should is released as well, and one that never answers', async () => {
  const failing = await givingLink((method) => {
    if (method === 'runtime.close') throw new Error('the device is gone');
    return undefined;
  });
  await failing.link.handOver();
  expect(failing.released).toEqual([0]);
  expect(failing.logged).toEqual(['shard 0 did not close as it should']);
  await failing.link.close(0);
  const silent = await givingLink((method) => (method === 'shard.start' ? undefined : new Promise(() => undefined)));
  const given = silent.link.handOver();
  await silent.clock.advance(HAND_OVER_MS + SHARD_CLOSE_MS);
  await silent.clock.advance(SHARD_CLOSE_MS);
  await given;
  expect(silent.released).toEqual([0]);
  await silent.link.close(0);
});

test('L6: a shard that is to be given away while it starts leaves as soon as it serves', async () => {
  const started = deferred<undefined>();
  const { recorded, asked } = recording((method) => (method === 'shard.start' ? started.promise : undefined));
  const there = lineTo((method) => method);
  const { link, place, released } = linkOf(
    async () => (place.isHere ? { place: 'here' as never } : { line: there.line }),
    { startShard: () => recorded },
  );
  place.isHere = true;
  const starting = link.start();
  const given = link.handOver();
  started.resolve(undefined);
  await Promise.all([starting, given]);
  expect(asked).toEqual(['shard.start', 'runtime.standStill', 'runtime.close', 'exit']);
  expect(released).toEqual([0]);
  await link.close(0);
});

test('L6: a thread that dies while it is drained is replaced, and the next one is given away', async () => {
  const { link, released, die } = await givingLink((method) => {
    if (method !== 'runtime.standStill') return undefined;
    die();
    return Promise.reject(new Error('gone'));
  });
  await link.handOver();
  expect([released, link.restarts]).toEqual([[0], 1]);
  await link.close(0);
});

test('a closed runtime releases its shard once it is closed, and gives nothing away afterwards', async () => {
  const { link, asked, released } = await givingLink(() => undefined);
  await link.close(0);
  expect(asked).toEqual(['runtime.close', 'exit']);
  expect(released).toEqual([0]);
  await link.handOver();
  expect(asked).toHaveLength(2);
});
