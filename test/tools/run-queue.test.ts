// Goal: runs begin in the order they arrived, within the bound of their tool, including runs that were put back.
import { describe, expect, test } from 'vitest';
import { type QueuedRun, RunQueue } from '../../src/tools/run-queue.ts';

interface Run extends QueuedRun {
  readonly name: string;
}
let order = 0;
const free = (name: string): Run => ({ name, order: order++, lane: 'free', concurrency: undefined, isAlone: false });
const bound = (name: string): Run => ({ name, order: order++, lane: 'bound', concurrency: 1, isAlone: false });
const alone = (name: string): Run => ({ ...free(name), isAlone: true });

function taken(queue: RunQueue<Run>, isAlone = false): readonly string[] {
  const names: string[] = [];
  for (let run = queue.take(isAlone); run !== undefined; run = queue.take(isAlone)) names.push(run.name);
  return names;
}

describe('RunQueue', () => {
  test('Q1, Q2: each run is taken once, in order, also when runs arrive between the takes', () => {
    const queue = new RunQueue<Run>();
    for (const name of ['a', 'b', 'c']) queue.add(free(name));
    expect(queue.take(false)?.name).toBe('a');
    queue.add(free('d'));
    expect(queue.ready(false)).toBe(3);
    expect(taken(queue)).toEqual(['b', 'c', 'd']);
    queue.add(free('e'));
    expect(taken(queue)).toEqual(['e']);
    expect(queue.ready(false)).toBe(0);
  });

  test('Q3: the next run of a tool at its bound waits for the release of the one before', () => {
    const queue = new RunQueue<Run>();
    const [first, second] = [bound('first'), bound('second')];
    queue.add(first);
    queue.add(second);
    queue.add(free('other'));
    expect(taken(queue)).toEqual(['first', 'other']);
    queue.release(first);
    expect(taken(queue)).toEqual(['second']);
  });

  test('Q3, Q4: a run put back is first, and keeps its position among the runs of its tool', () => {
    const queue = new RunQueue<Run>();
    const [first, second] = [bound('first'), bound('second')];
    queue.add(first);
    queue.add(second);
    queue.take(false);
    queue.add(free('other'));
    queue.putBack(first);
    expect(taken(queue)).toEqual(['first', 'other']);
  });

  test('Q3: removing a run frees the next one of its tool, wherever it waited', () => {
    const queue = new RunQueue<Run>();
    const [first, second, third] = [bound('first'), bound('second'), bound('third')];
    for (const run of [first, second, third]) queue.add(run);
    queue.take(false);
    queue.putBack(first);
    expect(queue.remove(second)).toBe(true);
    expect(queue.remove(first)).toBe(true);
    expect(queue.remove(first)).toBe(false);
    expect(taken(queue)).toEqual(['third']);
  });

  test('Q2: runs that need a thread alone wait in their own line; the earlier of the two next runs is known', () => {
    const queue = new RunQueue<Run>();
    expect(queue.isAloneFirst).toBe(false);
    for (const run of [free('a'), alone('b'), free('c'), alone('d')]) queue.add(run);
    expect(queue.isAloneFirst).toBe(false);
    expect(queue.take(false)?.name).toBe('a');
    expect(queue.isAloneFirst).toBe(true);
    expect([queue.ready(true), queue.ready(false)]).toEqual([2, 1]);
    expect(taken(queue, true)).toEqual(['b', 'd']);
    expect(taken(queue)).toEqual(['c']);
  });

  test('Q4: a run put back that now needs a thread alone changes its line and keeps its order', () => {
    const queue = new RunQueue<Run>();
    const changed = { ...free('changed'), isAlone: false };
    queue.add(changed);
    queue.add(free('other'));
    queue.add(alone('later'));
    expect(queue.take(false)?.name).toBe('changed');
    changed.isAlone = true;
    queue.putBack(changed);
    expect(queue.isAloneFirst).toBe(true);
    expect(taken(queue, true)).toEqual(['changed', 'later']);
  });

  test('Q1: a run that meets the condition is taken from behind others, which keep their order', () => {
    const queue = new RunQueue<Run>();
    for (const name of ['a', 'b', 'c', 'd']) queue.add(free(name));
    expect(queue.take(false, ({ name }) => name === 'c')?.name).toBe('c');
    expect(queue.take(false, () => false)).toBeUndefined();
    expect(taken(queue)).toEqual(['a', 'b', 'd']);
  });
});
