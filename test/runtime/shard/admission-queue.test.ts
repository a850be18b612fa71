// Goal: sessions leave the queue in the order they came, each once, even if others leave it meanwhile. Pure.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AdmissionQueue } from '../../../src/runtime/shard/admission-queue.ts';

test('takes names in order; a name added twice keeps its position, a name that was removed and added is last', () => {
  const line = new AdmissionQueue();
  for (const name of ['a', 'b', 'c', 'a']) line.add(name);
  expect(line.size).toBe(3);
  line.delete('b');
  line.add('b');
  expect([line.take(), line.take(), line.take(), line.take()]).toEqual(['a', 'c', 'b', undefined]);
  line.add('d');
  expect(line.has('d')).toBe(true);
  expect([line.take(), line.take()]).toEqual(['d', undefined]);
});

test('any sequence of steps agrees with a list', () => {
  const step = fc.tuple(fc.constantFrom('add', 'delete', 'take'), fc.constantFrom('a', 'b', 'c', 'd', 'e'));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const line = new AdmissionQueue();
      let list: string[] = [];
      for (const [what, name] of steps) {
        if (what === 'add') {
          line.add(name);
          if (!list.includes(name)) list.push(name);
        } else if (what === 'delete') {
          line.delete(name);
          list = list.filter((each) => each !== name);
        } else expect(line.take()).toBe(list.shift());
        expect(line.size).toBe(list.length);
      }
    }),
  );
});
