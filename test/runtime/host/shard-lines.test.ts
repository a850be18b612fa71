/**
 * Goal: a line of one shard leads to the node that has the shard. Method: a membership and nodes that the test moves.
 */
import { expect, test } from 'vitest';
import { LINE_RETRY_MS } from '../../../src/base/bounds.ts';
import type { OtherNode } from '../../../src/cluster/plan.ts';
import type { FoundShard } from '../../../src/runtime/host/shard-finder.ts';
import { ShardLines } from '../../../src/runtime/host/shard-lines.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { createLocalEndpoints } from '../../../src/threads/batched-endpoint.ts';
import type { Endpoint } from '../../../src/threads/endpoint.ts';
import { deferred, failure } from '../../support/runtime-kit.ts';

const PLAN = { kind: 'cluster', module: '', data: {}, node: 'b', leaseMs: 1_000, holdMs: 500 } as const;
const A = { host: '10.0.0.1', port: 1 };
const OWN = { host: '10.0.0.2', port: 2 };
const C = { host: '10.0.0.3', port: 3 };

/** The lines of node `b`. `connect` reaches what `nodes` has at an address. */
function linesOf() {
  const clock = manualClock();
  const changes: (() => void)[] = [];
  const nodes = new Map<number, (line: Endpoint) => void>();
  const connected: number[] = [];
  const failures: string[] = [];
  const owners = new Map<number, OtherNode>();
  const own = new Set<number>();
  const looks = { count: 0 };
  const membership = {
    plan: PLAN,
    facts: { id: 'the cluster', shards: 2 },
    isHere: (shard: number) => own.has(shard),
    ownerOf: (shard: number) => owners.get(shard),
    placeOf: () => 'a place' as never,
    release: (shard: number) => void own.delete(shard),
    look: () => {
      looks.count += 1;
    },
    onChange: (listener: () => void) => void changes.push(listener),
  };
  const lines = new ShardLines({
    membership,
    own: OWN,
    clock,
    connect: async ({ port }) => {
      connected.push(port);
      const node = nodes.get(port);
      if (node === undefined) throw new Error('no node is there');
      const [near, far] = createLocalEndpoints();
      node(far);
      return near;
    },
    failed: (message) => failures.push(message),
  });
  const owner = (node: string, address?: { host: string; port: number }, shard = 0): void => {
    owners.set(shard, {
      node,
      stay: node,
      leaseLeftMs: 1,
      shards: [shard],
      ...(address === undefined ? {} : { address }),
    });
    for (const change of changes) change();
  };
  const claim = (shard = 0): void => {
    own.add(shard);
    owners.delete(shard);
    for (const change of changes) change();
  };
  return { clock, nodes, connected, failures, lines, owner, claim, looks };
}

const forever = new AbortController().signal;
const opening = (line: Endpoint): void => line.handle('open', () => undefined);

/** The line that was found, and whether it has ended. */
function lineIn(found: FoundShard): { readonly hasEnded: () => boolean } {
  if (!('line' in found)) throw new Error('the shard is here');
  let hasEnded = false;
  found.line.onExit(() => {
    hasEnded = true;
  });
  return { hasEnded: () => hasEnded };
}

test('LI1: a line leads to the owner, and ends when another node is the owner', async () => {
  const { clock, nodes, connected, lines, owner } = linesOf();
  nodes.set(A.port, opening);
  nodes.set(C.port, opening);
  owner('a', A);
  const first = lineIn(await lines.find(0, forever));
  owner('a', A);
  expect(first.hasEnded()).toBe(false);
  owner('c', C);
  expect(first.hasEnded()).toBe(true);
  const next = lines.find(0, forever);
  await clock.advance(LINE_RETRY_MS);
  expect(lineIn(await next).hasEnded()).toBe(false);
  expect(connected).toEqual([A.port, C.port]);
});

test('LI1: under its claims a node starts the shards, and its lines end', async () => {
  const { nodes, lines, owner, claim } = linesOf();
  nodes.set(A.port, opening);
  owner('a', A);
  const line = lineIn(await lines.find(0, forever));
  const next = lines.find(0, forever);
  claim();
  expect(line.hasEnded()).toBe(true);
  expect(await next).toEqual({ place: 'a place' });
});

test('LI1: each shard has its own place', async () => {
  const { clock, nodes, lines, owner, claim } = linesOf();
  nodes.set(A.port, opening);
  nodes.set(C.port, opening);
  owner('a', A, 0);
  owner('c', C, 1);
  const [first, second] = [lineIn(await lines.find(0, forever)), lineIn(await lines.find(1, forever))];
  claim(1);
  expect([first.hasEnded(), second.hasEnded()]).toEqual([false, true]);
  expect([lines.isHere(0), lines.isHere(1)]).toEqual([false, true]);
  await clock.advance(LINE_RETRY_MS);
  expect(await lines.find(1, forever)).toEqual({ place: 'a place' });
  lines.release(1);
  expect(lines.isHere(1)).toBe(false);
});

test('LI3: each attempt to reach a shard that no node answers for asks for a claim', async () => {
  const { clock, lines, looks, claim } = linesOf();
  const found = lines.find(0, forever);
  await clock.advance(5 * LINE_RETRY_MS);
  expect(looks.count).toBe(6);
  claim();
  expect(await found).toEqual({ place: 'a place' });
  expect(looks.count).toBe(6);
});

test('LI1: an owner that changes while the connection is made is not kept', async () => {
  const { nodes, connected, lines, owner } = linesOf();
  let hasEnded = false;
  nodes.set(A.port, (line) => {
    line.onClose(() => {
      hasEnded = true;
    });
    line.handle('open', () => owner('c', C));
  });
  nodes.set(C.port, opening);
  owner('a', A);
  expect(lineIn(await lines.find(0, forever)).hasEnded()).toBe(false);
  await expect.poll(() => hasEnded).toBe(true);
  expect(connected).toEqual([A.port, C.port]);
});

test('LI1: a node that does not even refuse a connection delays nothing once another node is the owner', async () => {
  const { nodes, lines, owner, claim } = linesOf();
  const late = deferred<undefined>();
  nodes.set(A.port, (line) => line.handle('open', () => late.promise));
  owner('a', A);
  const found = lines.find(0, forever);
  nodes.set(C.port, opening);
  owner('c', C);
  const line = lineIn(await found);
  late.resolve(undefined);
  const next = lines.find(0, forever);
  claim();
  expect(await next).toEqual({ place: 'a place' });
  expect(line.hasEnded()).toBe(true);
});

test('LI2: a node that does not answer, or refuses the shard, is asked again after a while, and reported once', async () => {
  const { clock, nodes, connected, failures, lines, owner } = linesOf();
  owner('a', A);
  const found = lines.find(0, forever);
  await clock.advance(LINE_RETRY_MS - 1);
  expect(connected).toHaveLength(1);
  await clock.advance(1);
  await expect.poll(() => connected.length).toBe(2);
  nodes.set(A.port, (line) =>
    line.handle('open', () => {
      nodes.set(A.port, opening);
      throw new Error('not yet');
    }),
  );
  while (connected.length < 4) await clock.advance(LINE_RETRY_MS);
  lineIn(await found);
  expect(failures).toEqual(['the node "a" does not answer for shard 0']);
});

test('a node does not connect to itself when its former process still counts as the owner', async () => {
  const { connected, failures, lines, owner, claim } = linesOf();
  owner('b', OWN);
  const found = lines.find(0, forever);
  claim();
  expect(await found).toEqual({ place: 'a place' });
  expect([connected, failures]).toEqual([[], []]);
});

test('LI2: a line that ends at once is not opened again at once', async () => {
  const { clock, nodes, connected, lines, owner } = linesOf();
  nodes.set(A.port, opening);
  owner('a', A);
  await lines.find(0, forever);
  const next = lines.find(0, forever);
  await clock.advance(LINE_RETRY_MS - 1);
  expect(connected).toHaveLength(1);
  await clock.advance(1);
  await next;
  expect(connected).toHaveLength(2);
});

test('the search for a shard ends with the runtime', async () => {
  const { lines } = linesOf();
  const closing = new AbortController();
  const found = failure(lines.find(0, closing.signal));
  closing.abort();
  expect(await found).toMatchObject({ code: 'cancelled' });
});

test('a line of another cluster, and one for a shard that is not served, are refused', async () => {
  const { lines } = linesOf();
  const [near, far] = createLocalEndpoints();
  lines.accept(far);
  expect(await failure(near.call('open', { cluster: 'another', shard: 0 }))).toMatchObject({ code: 'config' });
  expect(await failure(near.call('open', { cluster: 'the cluster', shard: 0 }))).toMatchObject({ code: 'shard_moved' });
  expect(await failure(near.call('host', { method: 'toString', request: {} }))).toMatchObject({ code: 'shard_moved' });
  expect((await failure(near.call('open', { shard: -1 }))).name).toBe('ZodError');
  const admitted: Endpoint[] = [];
  lines.serve([{ admit: (line) => void admitted.push(line) }], { search: async (request) => request });
  await near.call('open', { cluster: 'the cluster', shard: 0 });
  expect(admitted).toEqual([far]);
  expect(await near.call('host', { method: 'search', request: 'Q' })).toBe('Q');
});
