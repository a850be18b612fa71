import { expect, test } from 'vitest';
import { FollowedReceipts } from '../../../src/runtime/host/followed-receipts.ts';
import { ShardGuests } from '../../../src/runtime/host/shard-guests.ts';
import { ShardWatches } from '../../../src/runtime/host/shard-watches.ts';
import { createLocalEndpoints } from '../../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../../src/threads/endpoint.ts';
import { failure } from '../../support/runtime-kit.ts';

/** A guest, and the notes that it has received. */
interface Received {
  readonly line: Endpoint;
  readonly notes: unknown[];
  ask(method: string, request: unknown): Promise<unknown>;
}

/** Guests of a shard that answers `answer`, and what the shard was asked. */
function shardWith(answer: (method: string, request: unknown) => unknown = () => undefined) {
  const asked: unknown[] = [];
  const [own, receipts] = [new ShardWatches(), new FollowedReceipts()];
  const shard = {
    call: async (method: string, request: unknown): Promise<unknown> => {
      asked.push([method, request]);
      return answer(method, request);
    },
  };
  const guests = new ShardGuests({ shard, own, receipts });
  const enter = (): Received => {
    const [near, line] = createLocalEndpoints();
    const notes: unknown[] = [];
    for (const name of ['events', 'history.said', 'degraded', 'receipt.settled']) {
      line.handle(name, (note) => void notes.push([name, note]));
    }
    guests.admit(near);
    return { line, notes, ask: (method, request) => line.call('ask', { method, request }) };
  };
  return { asked, own, receipts, guests, enter };
}

const event = (session: string, seq: number) =>
  ({ session, seq, at: 0, type: 'turn.finished', turn: 1, reason: 'completed' }) as never;

test('GU2: a session is published as long as this host or a guest reads it', async () => {
  const { asked, own, guests, enter } = shardWith();
  const [a, b] = [enter(), enter()];
  await a.ask('session.watch', { session: 's', on: true });
  await b.ask('session.watch', { session: 's', on: true });
  await a.ask('session.watch', { session: 's', on: false });
  expect(asked).toEqual([
    ['session.watch', { session: 's', on: true }],
    ['session.watch', { session: 's', on: true }],
  ]);
  expect(guests.isWatched('s')).toBe(true);
  own.watch('s', true);
  await b.ask('session.watch', { session: 's', on: false });
  expect(guests.isWatched('s')).toBe(false);
  expect(asked).toHaveLength(2);
  own.watch('s', false);
  await b.ask('session.watch', { session: 's', on: true });
  await b.ask('session.watch', { session: 's', on: false });
  expect(asked.at(-1)).toEqual(['session.watch', { session: 's', on: false }]);
});

test('GU2: what a guest has read is published no longer once its line has ended', async () => {
  const { asked, enter } = shardWith();
  const [a, b] = [enter(), enter()];
  await a.ask('session.watch', { on: true });
  await a.ask('history.watch', { session: 's', on: true });
  await b.ask('history.watch', { session: 's', on: true });
  a.line.close();
  await expect.poll(() => asked.at(-1)).toEqual(['session.watch', { on: false }]);
  expect(asked).toHaveLength(4);
  b.line.close();
  await expect.poll(() => asked.at(-1)).toEqual(['history.watch', { session: 's', on: false }]);
});

test('GU2: a guest receives the events and messages that it reads, and no others', async () => {
  const { guests, enter } = shardWith();
  const [one, all, none] = [enter(), enter(), enter()];
  await one.ask('session.watch', { session: 'a', on: true });
  await one.ask('history.watch', { session: 'b', on: true });
  await all.ask('session.watch', { on: true });
  guests.events([event('a', 1), event('b', 1)]);
  guests.events([event('b', 2)]);
  guests.said({ session: 'a', messages: [] });
  guests.said({ session: 'b', messages: [] });
  await one.ask('session.state', { session: 'a' });
  await all.ask('session.state', { session: 'a' });
  await none.ask('session.state', { session: 'a' });
  expect(one.notes).toEqual([
    ['events', { events: [event('a', 1)] }],
    ['history.said', { session: 'b', messages: [] }],
  ]);
  expect(all.notes).toEqual([
    ['events', { events: [event('a', 1), event('b', 1)] }],
    ['events', { events: [event('b', 2)] }],
  ]);
  expect(none.notes).toEqual([]);
});

test('two guests that number their receipts alike each learn of their own', async () => {
  const { asked, receipts, enter } = shardWith();
  const [a, b] = [enter(), enter()];
  await a.ask('session.send', { session: 's', content: 'A', follow: 1 });
  await b.ask('session.send', { session: 's', content: 'B', follow: 1 });
  const follows = asked.map((each) => (each as [string, { readonly follow: number }])[1].follow);
  expect(new Set(follows).size).toBe(2);
  receipts.notify(follows[1] ?? 0, { status: 'failed' } as never);
  receipts.notify(follows[0] ?? 0, { status: 'answered' } as never);
  await expect.poll(() => a.notes).toEqual([['receipt.settled', { follow: 1, state: { status: 'answered' } }]]);
  await expect.poll(() => b.notes).toEqual([['receipt.settled', { follow: 1, state: { status: 'failed' } }]]);
});

test('a message that the shard refuses has no follower left', async () => {
  const { receipts, enter } = shardWith(() => {
    throw new Error('refused');
  });
  const guest = enter();
  await failure(guest.ask('session.send', { session: 's', content: 'A', follow: 7 }));
  await expect.poll(() => guest.notes).toEqual([['receipt.settled', { follow: 7, state: undefined }]]);
  receipts.abandon();
  expect(guest.notes).toHaveLength(1);
});

test.each(['runtime.close', 'runtime.copy', 'runtime.standStill', 'runtime.learn', 'history.gate', 'notices.scan'])(
  'GU3: a guest cannot ask for %s',
  async (method) => {
    const { asked, enter } = shardWith();
    expect((await failure(enter().ask(method, { deadlineMs: 0 }))).message).toContain('only the host of a shard');
    expect(asked).toEqual([]);
  },
);

test('GU1: the end of the incarnation ends the lines', async () => {
  const { guests, enter } = shardWith(() => new Promise(() => undefined));
  const guest = enter();
  const asked = failure(guest.ask('session.state', { session: 's' }));
  guests.close();
  expect(await asked).toMatchObject({ retryable: true });
});

test('a guest learns that the store refuses writes, also if it enters later', async () => {
  const { guests, enter } = shardWith();
  const early = enter();
  const error = { name: 'StoreFullError', code: 'store_full', message: 'full' } as const;
  guests.degraded(error);
  const late = enter();
  guests.degraded(undefined);
  await late.ask('session.state', { session: 's' });
  expect(late.notes).toEqual([
    ['degraded', { error }],
    ['degraded', {}],
  ]);
  expect(early.notes).toEqual(late.notes);
});
