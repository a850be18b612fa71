import { describe, expect, test } from 'vitest';
import { CommitGate } from '../../../src/journal/lmdb/commit-gate.ts';

/** A gate over lists; the test decides when its writes end. */
class GateDriver {
  readonly writes: { readonly items: readonly string[]; end(error?: Error): void }[] = [];
  readonly log: string[] = [];
  readonly gate: CommitGate<string[]>;
  #scheduled: (() => void) | undefined;

  constructor() {
    this.gate = new CommitGate<string[]>({
      create: () => [],
      isEmpty: (batch) => batch.length === 0,
      write: (batch) =>
        new Promise((resolve, reject) => {
          this.writes.push({
            items: [...batch],
            end: (error) => (error === undefined ? resolve() : reject(error)),
          });
        }),
      written: (batch) => this.log.push(`written ${batch.join('')}`),
      refused: () => this.log.push('refused'),
      schedule: (run) => {
        if (this.#scheduled !== undefined) throw new Error('scheduled twice');
        this.#scheduled = run;
      },
    });
  }

  put(item: string): Promise<void> {
    this.gate.open.push(item);
    return this.wait(item);
  }

  wait(item: string): Promise<void> {
    return this.gate.flushed().then(
      () => void this.log.push(`resumed ${item}`),
      (error: Error) => void this.log.push(`rejected ${item} ${error.message}`),
    );
  }

  /** The end of a tick. */
  turn(): void {
    const run = this.#scheduled;
    this.#scheduled = undefined;
    run?.();
  }

  async end(error?: Error): Promise<void> {
    this.writes.at(-1)?.end(error);
    await new Promise((resolve) => setImmediate(resolve));
  }

  get items(): readonly (readonly string[])[] {
    return this.writes.map((write) => write.items);
  }
}

describe('the gate', () => {
  test('G2: callers of one tick share a write; a caller that arrives during a write joins the next one', async () => {
    const driver = new GateDriver();
    void driver.put('a');
    void driver.put('b');
    expect(driver.items).toEqual([]);
    driver.turn();
    void driver.put('c');
    driver.turn();
    expect(driver.items).toEqual([['a', 'b']]);
    await driver.end();
    driver.turn();
    expect(driver.items).toEqual([['a', 'b'], ['c']]);
    await driver.end();
    driver.turn();
    expect(driver.items.length).toBe(2);
    expect(driver.log).toEqual(['written ab', 'resumed a', 'resumed b', 'written c', 'resumed c']);
  });

  test('G2: an append by a resuming waiter is in the following write, together with the appends before it', async () => {
    const driver = new GateDriver();
    void driver.put('a').then(() => driver.put('c'));
    driver.turn();
    void driver.put('b');
    await driver.end();
    driver.turn();
    expect(driver.items).toEqual([['a'], ['b', 'c']]);
  });

  test('G3: a caller without appends waits for the write under way, or for nothing if there is none', async () => {
    const driver = new GateDriver();
    await driver.wait('idle');
    void driver.put('a');
    driver.turn();
    const first = driver.gate.flushed();
    expect(driver.gate.flushed()).toBe(first);
    await driver.end();
    await first;
    driver.turn();
    expect(driver.items).toEqual([['a']]);
  });

  test('G2: a batch without waiters is not written alone, but together with one that has a waiter', async () => {
    const driver = new GateDriver();
    driver.gate.open.push('claim');
    driver.turn();
    expect(driver.items).toEqual([]);
    void driver.put('step');
    driver.turn();
    driver.gate.open.push('claim2');
    await driver.end();
    driver.turn();
    expect(driver.items).toEqual([['claim', 'step']]);
  });

  test('G1: full batches are written one at a time, in order, even without waiters', async () => {
    const driver = new GateDriver();
    for (const item of ['a', 'b', 'c']) {
      driver.gate.open.push(item);
      driver.gate.seal();
    }
    void driver.wait('all');
    for (let turn = 0; turn < 5; turn += 1) {
      driver.turn();
      driver.turn();
      await driver.end();
    }
    expect(driver.items).toEqual([['a'], ['b'], ['c']]);
    expect(driver.log.at(-1)).toBe('resumed all');
  });

  test('G5: a refused write drops the queue and rejects all its waiters and later callers, until reset', async () => {
    const driver = new GateDriver();
    void driver.put('a');
    driver.turn();
    void driver.put('b');
    await driver.end(new Error('full'));
    expect(driver.log).toEqual(['refused', 'rejected a full', 'rejected b full']);
    expect(driver.gate.isRefused).toBe(true);
    expect(driver.gate.find((batch) => (batch.length > 0 ? batch : undefined))).toBeUndefined();
    await driver.wait('c');
    driver.turn();
    expect(driver.items).toEqual([['a']]);
    driver.gate.reset();
    void driver.put('d');
    driver.turn();
    await driver.end();
    expect(driver.items).toEqual([['a'], ['d']]);
    expect(driver.log.at(-1)).toBe('resumed d');
  });

  test('G3: find reads the newest batch first, and each batch oldest first', () => {
    const driver = new GateDriver();
    driver.gate.open.push('old');
    driver.gate.seal();
    driver.gate.open.push('new');
    const seen: string[] = [];
    driver.gate.each((batch) => seen.push(...batch));
    expect(seen).toEqual(['old', 'new']);
    expect(driver.gate.find((batch) => batch[0])).toBe('new');
  });
});
