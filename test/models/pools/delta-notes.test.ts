// Goal: deltas cross threads whole and in order, many in a note, and do not wait for the end of the tick.
import { MessageChannel } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { DELTAS_OF_NOTE_MAX } from '../../../src/base/bounds.ts';
import type { StreamedDelta } from '../../../src/models/pool.ts';
import { type DeltaNote, deltaNotes, readDeltas } from '../../../src/models/pools/delta-notes.ts';
import { createEndpoint, createLocalEndpoints } from '../../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../../src/threads/endpoint.ts';

const open: Endpoint[] = [];
afterEach(() => {
  for (const endpoint of open.splice(0)) endpoint.close();
});

interface Read {
  readonly id: number;
  readonly delta: StreamedDelta;
}

const TEXTS: readonly Read[] = Array.from({ length: 2 * DELTAS_OF_NOTE_MAX + 3 }, (_, index) => ({
  id: index % 7,
  delta:
    index % 5 === 0
      ? { type: 'thinking', text: `${index}`, before: [{ type: 'text', text: 'earlier' }] }
      : index % 11 === 0
        ? { type: 'text', text: '', draft: { pieces: [{ type: 'text', text: `${index}` }], isCut: true } }
        : { type: 'text', text: `${index}` },
}));

test('V1, V2: deltas arrive equal and in order, in full notes, and before an answer sent after them', async () => {
  const { port1, port2 } = new MessageChannel();
  const [near, far] = [createEndpoint(port1), createEndpoint(port2)];
  open.push(near, far);
  const sizes: number[] = [];
  const read: Read[] = [];
  far.handle('deltas', (note) => {
    const before = read.length;
    readDeltas(note as DeltaNote, (id, delta) => read.push({ id, delta }));
    sizes.push(read.length - before);
  });
  far.handle('seen', () => read.length);
  const tell = deltaNotes(near);
  for (const { id, delta } of TEXTS) tell(id, `s${id}`, delta);
  expect(await near.call('seen', undefined)).toBe(TEXTS.length);
  expect(read).toEqual(TEXTS);
  expect(sizes).toEqual([DELTAS_OF_NOTE_MAX, DELTAS_OF_NOTE_MAX, 3]);
});

test('V3: deltas leave with the running callback, and later ones of the tick in a note of their own', async () => {
  const ticks: (() => void)[] = [];
  const [near, far] = createLocalEndpoints({ soon: (run) => void ticks.push(run), clock: { monotonic: () => 0 } });
  open.push(near, far);
  const read: string[][] = [];
  far.handle('deltas', (note) => {
    const texts: string[] = [];
    readDeltas(note as DeltaNote, (_id, { text }) => texts.push(text));
    read.push(texts);
  });
  const tell = deltaNotes(near);
  tell(1, 's', { type: 'text', text: 'a' });
  tell(2, 's', { type: 'text', text: 'b' });
  expect(read, 'never synchronously').toEqual([]);
  await Promise.resolve();
  expect(read).toEqual([['a', 'b']]);
  tell(1, 's', { type: 'text', text: 'c' });
  await Promise.resolve();
  for (const run of ticks.splice(0)) run();
  expect(read).toEqual([['a', 'b'], ['c']]);
});
