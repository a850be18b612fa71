// Goal: calls on real model threads complete exactly once, and each context is mirrored on the thread that the pool
// names. A thread that dies or spins fails only its own calls.
import { afterEach, describe, expect, test } from 'vitest';
import { type Clock, systemClock } from '../../../src/base/clock.ts';
import { ConfigError, type ErrorShape } from '../../../src/base/errors.ts';
import type { ContextDelta, ModelCompletion, ModelPool } from '../../../src/models/pool.ts';
import { createThreadedPool } from '../../../src/models/pools/threaded-pool.ts';
import type { ModelDelta, ProviderData } from '../../../src/models/provider.ts';

const unruly: ProviderData = {
  kind: 'module',
  url: new URL('../fixtures/unruly-provider.ts', import.meta.url).href,
};
const opened: Models[] = [];
afterEach(async () => {
  for (const models of opened.splice(0)) {
    await models.pool.close();
    for (const completions of models.completions.values()) expect(completions, 'M1').toHaveLength(1);
  }
});

class Models {
  readonly completions: Map<number, ModelCompletion[]> = new Map();
  readonly deltas: { readonly id: number; readonly delta: ModelDelta }[] = [];
  readonly batches: number[] = [];
  readonly #waiters = new Set<() => void>();
  #lastId = 0;
  #pool: ModelPool | undefined;

  static async open(threads = 1, provider: ProviderData = unruly, clock: Clock = systemClock): Promise<Models> {
    const models = new Models();
    models.#pool = await createThreadedPool({
      threads,
      provider,
      clock,
      listener: {
        completed: (completions) => {
          models.batches.push(completions.length);
          for (const completion of completions) {
            models.completions.set(completion.id, [...(models.completions.get(completion.id) ?? []), completion]);
          }
          for (const wake of models.#waiters) wake();
        },
        delta: (id, _session, delta) => {
          models.deltas.push({ id, delta });
          for (const wake of models.#waiters) wake();
        },
      },
    });
    opened.push(models);
    return models;
  }

  get pool(): ModelPool {
    if (this.#pool === undefined) throw new Error('not open');
    return this.#pool;
  }

  start(session: string, context: string | ContextDelta, timeoutMs = 60_000): number {
    this.#lastId += 1;
    const delta = typeof context === 'string' ? whole(context) : context;
    this.pool.call({ id: this.#lastId, session, context: delta, wantsDeltas: true, timeoutMs, waitsForResume: true });
    return this.#lastId;
  }

  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        if (!condition()) return;
        this.#waiters.delete(wake);
        resolve();
      };
      this.#waiters.add(wake);
      wake();
    });
  }

  async outcome(id: number): Promise<string | ErrorShape> {
    await this.until(() => this.completions.has(id));
    const completion = this.completions.get(id)?.[0];
    if (completion === undefined) throw new Error('no completion');
    if ('error' in completion) return completion.error;
    const [block] = completion.response.content;
    return block?.type === 'text' ? block.text : '';
  }

  says(session: string, context: string | ContextDelta): Promise<string | ErrorShape> {
    return this.outcome(this.start(session, context));
  }
}

function whole(text: string, epoch = 1): ContextDelta {
  const header = { model: 'm', max_tokens: 10, system: 'S' };
  return { epoch, keep: 0, append: [{ role: 'user', content: text }], header };
}
const more = (text: string, keep: number, epoch = 1): ContextDelta => ({
  epoch,
  keep,
  append: [{ role: 'user', content: text }],
});

describe('calls', () => {
  test('M1: a scripted provider built on the thread answers; a batch is reported in one call', async () => {
    const models = await Models.open(1, { kind: 'scripted', script: { rules: [], otherwise: 'hello' } });
    const ids = Array.from({ length: 50 }, (_unused, at) => models.start(`s${at}`, 'hi'));
    expect(models.completions.size).toBe(0);
    for (const id of ids) expect(await models.outcome(id)).toBe('hello');
    expect(models.batches.length).toBeLessThan(50);
  });

  test('errors keep their code, status and retryable', async () => {
    const models = await Models.open();
    const error = await models.says('a', 'fail');
    expect(error).toMatchObject({ code: 'model_overloaded', retryable: true, data: { status: 529 } });
  });

  test('deltas arrive before the completion, and only for running calls', async () => {
    const models = await Models.open();
    const id = models.start('a', 'wait');
    await models.until(() => models.deltas.length > 0);
    expect(models.deltas).toEqual([{ id, delta: { type: 'text', text: 'waiting', before: [] } }]);
    models.pool.cancel(id);
    models.pool.cancel(999);
    expect(await models.outcome(id)).toMatchObject({ code: 'cancelled' });
  });

  test('a call that exceeds its time completes as model_timeout', async () => {
    const models = await Models.open();
    expect(await models.outcome(models.start('a', 'wait', 1))).toMatchObject({ code: 'model_timeout' });
  });

  test('a context that cannot be cloned fails its own call, and the next call sends it whole', async () => {
    const models = await Models.open();
    const bad = { ...whole('x'), append: [{ role: 'user', content: (() => 1) as unknown as string }] } as ContextDelta;
    expect(await models.says('a', bad)).toMatchObject({ code: 'internal' });
    expect(models.pool.holds('a', 1, 0)).toBe(false);
    expect(await models.says('a', 'fine')).toBe('S fine');
  });
});

describe('M2: mirrors', () => {
  test('a delta is sent if the thread holds the previous request', async () => {
    const models = await Models.open(2);
    expect(models.pool.holds('a', 1, 0)).toBe(false);
    expect(await models.says('a', 'one')).toBe('S one');
    expect(models.pool.holds('a', 1, 1)).toBe(true);
    expect(models.pool.holds('a', 1, 2)).toBe(false);
    expect(models.pool.holds('a', 2, 1)).toBe(false);
    expect(await models.says('a', more('two', 1))).toBe('S one,two');
    expect(await models.says('a', more('deux', 1))).toBe('S one,deux');
  });

  test('a forgotten context is not on the thread', async () => {
    const models = await Models.open();
    await models.says('a', 'one');
    models.pool.forget('a');
    expect(models.pool.holds('a', 1, 1)).toBe(false);
    expect(await models.says('a', more('two', 1))).toMatchObject({ code: 'model_connection' });
    expect(await models.says('a', 'again')).toBe('S again');
  });

  test('a session stays on its thread, and sessions are spread', async () => {
    const models = await Models.open(2);
    const seen = new Map<string, unknown>();
    for (let at = 0; at < 20; at += 1) seen.set(`s${at}`, await models.says(`s${at}`, 'thread'));
    for (const [session, thread] of seen) expect(await models.says(session, 'thread')).toBe(thread);
    expect(new Set(seen.values()).size).toBe(2);
  });
});

describe('threads that die', () => {
  test('M3, F50: running calls complete as model_connection, retryable; the next call gets a new thread', async () => {
    const models = await Models.open();
    await models.says('a', 'one');
    const ids = [models.start('a', 'wait'), models.start('b', 'wait'), models.start('c', 'exit')];
    for (const id of ids) {
      expect(await models.outcome(id)).toMatchObject({ code: 'model_connection', retryable: true });
    }
    expect(models.pool.holds('a', 1, 1)).toBe(false);
    expect(await models.says('a', 'again')).toBe('S again');
  });

  test('M3, F54: an uncaught error ends the thread like any other death', async () => {
    const models = await Models.open();
    expect(await models.says('a', 'stray')).toMatchObject({ code: 'model_connection' });
    expect(await models.says('a', 'again')).toBe('S again');
  });

  test('M4, F58: a spinning thread is ended after the grace period; a call cancelled on it stays cancelled', async () => {
    let skippedMs = 0;
    const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + skippedMs };
    const models = await Models.open(1, unruly, clock);
    await models.says('a', 'one');
    const ids = [models.start('a', 'spin', 10), models.start('b', 'wait', 10)];
    models.pool.cancel(ids[1] ?? 0);
    skippedMs = 3_600_000;
    expect(await models.outcome(ids[0] ?? 0)).toMatchObject({ code: 'model_connection' });
    expect(await models.outcome(ids[1] ?? 0)).toMatchObject({ code: 'cancelled' });
    expect(await models.says('a', 'again')).toBe('S again');
  });

  test('M5: no timer is left when no call runs', async () => {
    const timers = new Set<unknown>();
    const clock: Clock = {
      ...systemClock,
      setTimer: (run, delayMs) => {
        const timer = systemClock.setTimer(run, delayMs);
        timers.add(timer);
        return timer;
      },
      clearTimer: (timer) => {
        timers.delete(timer);
        systemClock.clearTimer(timer);
      },
    };
    const models = await Models.open(1, unruly, clock);
    expect(timers.size).toBe(0);
    const id = models.start('a', 'one');
    expect(timers.size).toBe(1);
    await models.outcome(id);
    expect(timers.size).toBe(0);
  });
});

describe('opening and closing', () => {
  test('a provider that cannot be built rejects with ConfigError', async () => {
    const missing: ProviderData = { kind: 'module', url: new URL('./fixtures/missing.ts', import.meta.url).href };
    await expect(Models.open(2, missing)).rejects.toBeInstanceOf(ConfigError);
  });

  test('M1: close completes running and later calls as cancelled', async () => {
    const models = await Models.open();
    const ids = [models.start('a', 'wait'), models.start('b', 'spin')];
    const closing = models.pool.close();
    expect(models.completions.size).toBe(0);
    await closing;
    ids.push(models.start('a', 'late'));
    for (const id of ids) expect(await models.outcome(id)).toMatchObject({ code: 'cancelled' });
  });
});
