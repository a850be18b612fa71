import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { GOVERNED_MODELS_MAX } from '../../../src/base/bounds.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createRateMemory, RateTable } from '../../../src/models/governor/rate-table.ts';

const CHANGES = 20_000;
const THREADS = 2;

/** The memory that a thread of the test works on. */
interface Work {
  readonly memory: SharedArrayBuffer;
  readonly changes: number;
}

/** Starts a thread with the sources of the table; `body` sees them as `table`, `clock` and `work`. */
function thread(body: string, work: Work): Worker {
  const address = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
  const source = `
    const { workerData: work, parentPort } = await import('node:worker_threads');
    const { RateTable } = await import(${address('../../../src/models/governor/rate-table.ts')});
    const { systemClock: clock } = await import(${address('../../../src/base/clock.ts')});
    const table = new RateTable(work.memory);
    ${body}`;
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`), { workerData: work });
}

describe('the rates that session threads share', () => {
  it('T1: no change of one thread is lost to another', async () => {
    const memory = createRateMemory();
    const body =
      'const row = table.make("m"); for (let n = 0; n < work.changes; n += 1) table.change(() => { row[0] += 1; });';
    const threads = Array.from({ length: THREADS }, () => thread(body, { memory, changes: CHANGES }));
    await Promise.all(threads.map((each) => once(each, 'exit')));
    expect(new RateTable(memory).find('m')?.[0]).toBe(THREADS * CHANGES);
  });

  it('T2: a thread that ended in the middle of a change holds no other back for ever', async () => {
    const memory = createRateMemory();
    const body = 'table.make("m"); table.change(() => process.exit());';
    await once(thread(body, { memory, changes: 0 }), 'exit');
    const table = new RateTable(memory);
    const LOCK = 0;
    expect(new Int32Array(memory)[LOCK]).toBe(1);
    expect(table.change(() => 'changed')).toBe('changed');
    expect(table.change(() => 'again')).toBe('again');
  });

  it('T3: a model has one row in every thread; the rows are bounded, and models without one are not held back', () => {
    const memory = createRateMemory();
    const [one, other] = [new RateTable(memory), new RateTable(memory)];
    for (let index = 0; index < GOVERNED_MODELS_MAX; index += 1) {
      const row = (index % 2 === 0 ? one : other).make(`model-${index}`);
      if (row !== undefined) row[0] = index;
    }
    for (let index = 0; index < GOVERNED_MODELS_MAX; index += 1) {
      expect(one.find(`model-${index}`)?.[0]).toBe(index);
      expect(other.make(`model-${index}`)?.[0]).toBe(index);
    }
    expect([one.make('one more'), other.find('one more')]).toEqual([undefined, undefined]);
    expect([one.size, other.size]).toEqual([GOVERNED_MODELS_MAX, GOVERNED_MODELS_MAX]);
  });

  it('T1: threads read one clock', async () => {
    const before = systemClock.monotonic();
    const worker = thread('parentPort.postMessage(clock.monotonic());', { memory: createRateMemory(), changes: 0 });
    const [there]: number[] = await once(worker, 'message');
    expect(there).toBeGreaterThanOrEqual(before);
    expect(there).toBeLessThanOrEqual(systemClock.monotonic());
  });
});
