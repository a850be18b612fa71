// Goal: runs begin in the order they arrived, within the bound of their tool, including runs that were put back.
import { describe, expect, test } from 'vitest';
import { type QueuedRun, RunQueue } from '../../src/tools/run-queue.ts';

interface Run extends QueuedRun {
  readonly name: string;
}
const free = (name: string): Run => ({ name, lane: 'free', concurrency: undefined });
const bound = (name: string): Run => ({ name, lane: 'bound', concurrency: 1 });

function taken(queue: RunQueue<Run>): readonly string[] {
  const names: string[] = [];
  for (let run = queue.take(); run !== undefined; run = queue.take()) names.push(run.name);
  return names;
}

describe('RunQueue', () => {
  test('Q1, Q2: each run is taken once, in order, also when runs arrive between the takes', () => {
    const queue = new RunQueue<Run>();
    for (const name of ['a', 'b', 'c']) queue.add(free(name));
    expect(queue.take()?.name).toBe('a');
    queue.add(free('d'));
    expect(queue.ready).toBe(3);
    expect(taken(queue)).toEqual(['b', 'c', 'd']);
    queue.add(free('e'));
    expect(taken(queue)).toEqual(['e']);
    expect(queue.ready).toBe(0);
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
    queue.take();
    queue.add(free('other'));
    queue.putBack(first);
    expect(taken(queue)).toEqual(['first', 'other']);
  });

  test('Q3: removing a run frees the next one of its tool, wherever it waited', () => {
    const queue = new RunQueue<Run>();
    const [first, second, third] = [bound('first'), bound('second'), bound('third')];
    for (const run of [first, second, third]) queue.add(run);
    queue.take();
    queue.putBack(first);
    expect(queue.remove(second)).toBe(true);
    expect(queue.remove(first)).toBe(true);
    expect(queue.remove(first)).toBe(false);
    expect(taken(queue)).toEqual(['third']);
  });
});
