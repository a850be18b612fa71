/** Goal: a call goes to the provider that its request names, and every call completes once. Method: pools held by the test. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ErrorShape, errorShape } from '../../../src/base/errors.ts';
import { modelErrorOf } from '../../../src/models/model-error.ts';
import type {
  CallWait,
  ModelCall,
  ModelCompletion,
  ModelPool,
  ModelPoolListener,
  RequestHeader,
} from '../../../src/models/pool.ts';
import { MirrorIndex } from '../../../src/models/pools/context-mirror.ts';
import { createProviderPools } from '../../../src/models/pools/provider-pools.ts';

const CANCELLED: ErrorShape = { name: 'CancelledError', code: 'cancelled', message: 'gone' };
const RESPONSE = { content: [], stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 1 } };

/** A provider's pool: it has an index of its mirror, and completes the calls that the test names. */
class HeldPool implements ModelPool {
  readonly index = new MirrorIndex();
  readonly out = new Set<number>();
  readonly noted: string[] = [];
  stopped = 0;
  wait: CallWait | undefined;
  readonly listener: ModelPoolListener;

  constructor(listener: ModelPoolListener) {
    this.listener = listener;
  }

  call({ id, session, context }: ModelCall): void {
    this.noted.push(`call ${id}`);
    this.out.add(id);
    if (this.index.note(session, context)) return;
    const error = errorShape(modelErrorOf({ code: 'model_connection', message: 'not held' }));
    queueMicrotask(() => this.end(id, error));
  }
  holds(session: string, epoch: number, keep: number): boolean {
    return this.index.holds(session, epoch, keep);
  }
  wantsDeltas(id: number, isWanted: boolean): void {
    this.noted.push(`wants ${id} ${isWanted}`);
  }
  cancel(id: number): void {
    this.noted.push(`cancel ${id}`);
    if (this.out.has(id)) queueMicrotask(() => this.end(id));
  }
  forget(session: string): void {
    this.noted.push(`forget ${session}`);
    this.index.forget(session);
  }
  resume(): void {
    this.noted.push('resume');
  }
  waitOf(id: number): CallWait | undefined {
    return this.out.has(id) ? this.wait : undefined;
  }
  async close(): Promise<void> {
    await Promise.resolve();
    for (const id of this.out) this.end(id);
  }

  /** Ends calls in one batch; without an error they are answered. */
  answer(...ids: readonly number[]): void {
    for (const id of ids) this.out.delete(id);
    this.listener.completed(ids.map((id) => ({ id, response: RESPONSE, ms: 1 })));
  }
  end(id: number, error: ErrorShape = CANCELLED): void {
    if (this.out.delete(id)) this.listener.completed([{ id, error, ms: 1 }]);
  }
}

function pools() {
  const held: HeldPool[] = [];
  const completions: ModelCompletion[] = [];
  const figures = { a: { calls: 0, running: -1 }, b: { calls: 0, running: -1 } };
  let lastId = 0;
  const part = (key: 'a' | 'b') => ({
    key,
    makePool: (listener: ModelPoolListener) => {
      const pool = new HeldPool(listener);
      held.push(pool);
      return pool;
    },
    onCall: () => {
      figures[key].calls += 1;
    },
    onRunning: (count: number) => {
      figures[key].running = count;
    },
  });
  const pool = createProviderPools({
    providers: [part('a'), part('b')],
    listener: { completed: (all) => completions.push(...all), delta: () => undefined },
  });
  const [a, b] = held as [HeldPool, HeldPool];
  const headerOf = (provider: string | undefined): RequestHeader => ({
    model: 'm',
    max_tokens: 1,
    ...(provider === undefined ? {} : { transport: { provider } }),
  });
  /** Calls as the shard does: with a delta if it fits, otherwise whole. Returns the id and whether it was whole. */
  const call = (session: string, provider?: string, epoch = 1, waitsForResume = true) => {
    lastId += 1;
    const isHeld = pool.holds(session, epoch, 1);
    const append = [{ role: 'user' as const, content: 'x' }];
    const header = headerOf(provider);
    const context = isHeld ? { epoch, keep: 1, append } : { epoch, keep: 0, append, header };
    pool.call({ id: lastId, session, context, wantsDeltas: false, timeoutMs: 1_000, waitsForResume });
    return { id: lastId, isWhole: !isHeld };
  };
  return { pool, a, b, completions, figures, call };
}

test('R2: a whole context goes to the provider it names, a delta to that of its session; without a name, the first', () => {
  const { a, b, call } = pools();
  expect(call('s', 'b')).toEqual({ id: 1, isWhole: true });
  expect(call('s', 'b')).toEqual({ id: 2, isWhole: false });
  call('r');
  call('q', 'a');
  expect(b.noted).toEqual(['call 1', 'call 2']);
  expect(a.noted).toEqual(['call 3', 'call 4']);
});

test('R3: the former provider forgets a session that changes; its return is sent whole', () => {
  const { a, b, pool, call } = pools();
  call('s', 'a');
  expect(call('s', 'b', 2).isWhole).toBe(true);
  expect(a.noted).toEqual(['call 1', 'forget s']);
  expect(pool.holds('s', 1, 1)).toBe(false);
  expect(pool.holds('s', 2, 1)).toBe(true);
  expect(call('s', 'a', 1).isWhole).toBe(true);
  expect(b.noted).toEqual(['call 2', 'forget s']);
});

test('R1: a call of an unknown provider ends with an error that names the known ones, and never within the call', async () => {
  const { a, b, pool, completions, call } = pools();
  const { id } = call('s', 'c');
  expect(completions).toEqual([]);
  await pool.close();
  expect(completions).toEqual([
    {
      id,
      ms: 0,
      error: expect.objectContaining({
        code: 'config',
        message: 'there is no provider "c"; known providers: "a", "b"',
        data: { key: 'providers', provider: 'c' },
      }),
    },
  ]);
  expect([...a.noted, ...b.noted]).toEqual([]);
});

test('a cancelled call, deltas and the reason of a wait belong to the pool that has the call', () => {
  const { a, b, pool, call } = pools();
  const { id } = call('s', 'b');
  b.wait = { detail: 'the circuit is open' };
  expect(pool.waitOf?.(id)).toEqual({ detail: 'provider b: the circuit is open' });
  expect(pool.waitOf?.(99)).toBeUndefined();
  pool.wantsDeltas(id, true);
  pool.cancel(id);
  pool.cancel(99);
  expect(b.noted).toEqual(['call 1', 'wants 1 true', 'cancel 1']);
  expect(a.noted).toEqual([]);
});

test('R4: stopped calls are added up, and resume reaches every provider', () => {
  const { a, b, pool } = pools();
  a.stopped = 2;
  b.stopped = 3;
  expect(pool.stopped).toBe(5);
  pool.resume?.();
  expect([a.noted, b.noted]).toEqual([['resume'], ['resume']]);
});

test('the figures of a provider: all its calls, and those in flight for which turns wait', () => {
  const { a, figures, pool, call } = pools();
  expect(figures).toEqual({ a: { calls: 0, running: 0 }, b: { calls: 0, running: 0 } });
  const first = call('s', 'a').id;
  const second = call('r', 'b').id;
  call('s: muse', 'b', 1, false);
  expect(figures).toEqual({ a: { calls: 1, running: 1 }, b: { calls: 2, running: 1 } });
  a.answer(first);
  pool.cancel(second);
  expect(figures).toEqual({ a: { calls: 1, running: 0 }, b: { calls: 2, running: 0 } });
});

test('R1, R3: whatever happens, each call completes once, and no delta reaches a mirror without its base', async () => {
  const session = fc.constantFrom('s', 'r', 'q');
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('call' as const),
      session,
      provider: fc.constantFrom(undefined, 'a', 'b', 'c'),
      epoch: fc.integer({ min: 1, max: 3 }),
    }),
    fc.record({ kind: fc.constant('cancel' as const), id: fc.integer({ min: 1, max: 20 }) }),
    fc.record({ kind: fc.constant('forget' as const), session }),
    fc.record({ kind: fc.constant('answer' as const), count: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ kind: fc.constant('tick' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { pool, a, b, completions, figures, call } = pools();
      const ids: number[] = [];
      for (const each of steps) {
        if (each.kind === 'call') ids.push(call(each.session, each.provider, each.epoch).id);
        else if (each.kind === 'cancel') pool.cancel(each.id);
        else if (each.kind === 'forget') pool.forget(each.session);
        else if (each.kind === 'answer') for (const held of [a, b]) held.answer(...[...held.out].slice(0, each.count));
        else await Promise.resolve();
      }
      await pool.close();
      expect(completions.map(({ id }) => id).sort((x, y) => x - y)).toEqual(ids);
      expect(completions.filter((each) => 'error' in each && each.error.code === 'model_connection')).toEqual([]);
      expect([figures.a.running, figures.b.running]).toEqual([0, 0]);
    }),
  );
});
