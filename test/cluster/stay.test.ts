/**
 * Goal: a lease is believed for less time than the database grants it, and an outage of the database moves nothing. A
 * member claims its share of the shards, gives away what is more, and reports who has which.
 */
import { expect, test } from 'vitest';
import { SHARD_LOOK_MS, SHARD_MOVE_MS } from '../../src/base/bounds.ts';
import { systemClock } from '../../src/base/clock.ts';
import { createLeaseMemory, Lease } from '../../src/cluster/lease.ts';
import type { NodeAddress } from '../../src/cluster/plan.ts';
import { type Entered, Stay } from '../../src/cluster/stay.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { CLAIM, claimOf, OTHER, Register, sharing } from './support/register.ts';

const LEASE_MS = 1_000;

/** A node at a register, and what its stay reports. */
interface Scene {
  readonly clock: ManualClock;
  readonly stay: Stay;
  readonly lease: Lease;
  /** The reports of the stay, in order. */
  readonly reports: unknown[];
}

function sceneAt({ directory }: Pick<Register, 'directory'>, address?: NodeAddress, leaseMs = LEASE_MS): Scene {
  const clock = manualClock();
  const lease = new Lease(createLeaseMemory(), clock);
  const reports: unknown[] = [];
  const stay = new Stay({
    directory,
    lease,
    clock,
    node: 'me',
    leaseMs,
    address,
    seen: ({ claims, others }) => void reports.push({ claims, others }),
    give: (shard) => void reports.push({ give: shard }),
    lost: (owner) => void reports.push({ lost: owner }),
    failed: (message) => void reports.push(message),
  });
  return { clock, stay, lease, reports };
}

/** Enters as a member. */
function enter({ stay }: Scene): Promise<Entered> {
  return stay.enter({ shards: 1 }, { isCounted: false }, { as: 'member' });
}

test('LE1: a lease is believed from before its renewal was sent, for nine tenths, on both clocks', async () => {
  let [monotonicMs, wallMs] = [5_000, 100_000];
  const memory = createLeaseMemory();
  const clock = { ...systemClock, monotonic: () => monotonicMs, now: () => wallMs };
  const lease = new Lease(memory, clock);
  expect(lease.isValid).toBe(false);
  const sent = lease.moment();
  monotonicMs += 300;
  wallMs += 300;
  lease.granted(sent, LEASE_MS);
  expect(new Lease(memory, clock).leftMs).toBe(600);
  // A machine that was suspended: the first clock stood still.
  wallMs += 600;
  expect(lease.isValid).toBe(false);
  // A wall clock that was set back.
  wallMs -= 10_000;
  expect(lease.leftMs).toBe(600);
  monotonicMs += 600;
  expect(lease.isValid).toBe(false);
});

test('LE2: a lost lease is not valid again', () => {
  const lease = new Lease(createLeaseMemory(), { ...systemClock, monotonic: () => 0, now: () => 0 });
  lease.granted(lease.moment(), LEASE_MS);
  lease.lose();
  lease.granted(lease.moment(), LEASE_MS);
  expect([lease.isValid, lease.isLost, lease.leftMs]).toEqual([false, true, 0]);
});

test('ST1: the leases of others are ended only after the own one has held for a whole lease without a gap', async () => {
  const state = new Register();
  const { clock, stay, reports } = sceneAt(state);
  const entering = stay.enter({ shards: 1 }, { isCounted: false }, { as: 'standby', waitMs: 20 * LEASE_MS });
  const refused = expect(entering).rejects.toMatchObject({ code: 'store_locked', data: { owner: 'other' } });
  await clock.advance(LEASE_MS - 100);
  expect(new Set(state.asked)).toEqual(new Set([false]));
  await clock.advance(200);
  expect(state.asked.at(-1)).toBe(true);
  // After an outage all leases have run out, and nodes that live renew theirs first.
  state.isOut = true;
  await clock.advance(2 * LEASE_MS);
  state.isOut = false;
  state.asked.length = 0;
  await clock.advance(LEASE_MS / 2);
  expect(state.asked.length).toBeGreaterThan(0);
  expect(state.asked).not.toContain(true);
  await clock.advance(LEASE_MS);
  expect(state.asked.at(-1)).toBe(true);
  // In a shorter outage the own lease holds, while that of an owner that had renewed before may have run out.
  state.isOut = true;
  await clock.advance(0.6 * LEASE_MS);
  state.isOut = false;
  state.asked.length = 0;
  await clock.advance(0.9 * LEASE_MS);
  expect(state.asked.length).toBeGreaterThan(0);
  expect(state.asked).not.toContain(true);
  await clock.advance(10 * LEASE_MS);
  expect(state.asked.at(-1)).toBe(true);
  await clock.advance(10 * LEASE_MS);
  await refused;
  await stay.leave();
  // A standby reports no owners.
  expect(new Set(reports)).toEqual(new Set(['the lease cannot be renewed now', 'the shards cannot be claimed now']));
});

test('ST1: after an outage in which only the lease of the owner ran out, the owner renews it first', async () => {
  const state = new Register();
  const { clock, stay } = sceneAt(state);
  const entering = stay.enter({ shards: 1 }, { isCounted: false }, { as: 'standby', waitMs: 10 * LEASE_MS });
  const refused = expect(entering).rejects.toThrow();
  // The own lease was renewed just before the outage, and is still believed after it.
  await clock.advance(2 * LEASE_MS);
  expect(state.asked.at(-1)).toBe(true);
  state.isOut = true;
  await clock.advance(0.8 * LEASE_MS);
  state.isOut = false;
  state.asked.length = 0;
  await clock.advance(LEASE_MS / 2);
  expect(state.asked.length).toBeGreaterThan(0);
  expect(state.asked).not.toContain(true);
  await clock.advance(LEASE_MS);
  expect(state.asked.at(-1)).toBe(true);
  await clock.advance(10 * LEASE_MS);
  await refused;
  await stay.leave();
});

const ADDRESS: NodeAddress = { host: '10.0.0.7', port: 4_100 };

test('ST4: a member enters at once with the owners that it sees, and claims a shard when it is free', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  const entered = await enter(scene);
  expect(entered).toEqual({ facts: { id: 'c', shards: 1 }, map: { claims: [], others: [OTHER] } });
  expect(state.joined).toEqual([['me', ADDRESS]]);
  await scene.clock.advance(LEASE_MS / 2);
  // One attempt at once, and one each twentieth of the lease.
  expect(state.asked).toHaveLength(11);
  expect(scene.reports).toEqual([]);
  state.others = [];
  await scene.clock.advance(LEASE_MS / 20);
  expect(scene.reports).toEqual([{ claims: [CLAIM], others: [] }]);
  // It continues to look at the shards, and renews its lease.
  await scene.clock.advance(10 * LEASE_MS);
  expect(state.asked).toHaveLength(212);
  expect(scene.lease.isValid).toBe(true);
  expect(scene.reports).toHaveLength(1);
  await scene.stay.leave();
});

test('ST4: a member reports another stay, another address, other shards, and that no node has shards', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  const seen: unknown[] = [];
  const see = async (...others: Register['others']): Promise<void> => {
    state.others = others;
    await scene.clock.advance(LEASE_MS / 20);
    seen.push(scene.reports.splice(0));
  };
  const again = { ...OTHER, stay: 'other-2' };
  const moved = { ...again, address: { host: 'a', port: 1 } };
  const more = { ...moved, shards: [0, 1] };
  // The time left is another each time, and no reason for a report.
  await see({ ...OTHER, leaseLeftMs: 7 });
  await see(again);
  await see(moved);
  await see({ ...moved, address: { host: 'a', port: 1 } });
  await see({ ...moved, address: { host: 'a', port: 2 } });
  await see(more);
  await see(more, sharing('c'));
  // A claim that finds its own lease ended makes none.
  state.isEnded = true;
  await see();
  const claims: unknown[] = [];
  expect(seen).toEqual([
    [],
    [{ claims, others: [again] }],
    [{ claims, others: [moved] }],
    [],
    [{ claims, others: [{ ...moved, address: { host: 'a', port: 2 } }] }],
    [{ claims, others: [more] }],
    [{ claims, others: [more, sharing('c')] }],
    [{ claims, others: [] }],
  ]);
  await scene.stay.leave();
});

test('ST5: a member gives away one shard at a time, one each second, and releases each until it has an answer', async () => {
  const state = new Register(4);
  state.others = [];
  const scene = sceneAt(state, ADDRESS);
  expect((await enter(scene)).map.claims).toHaveLength(4);
  state.others = [sharing('b')];
  await scene.clock.advance(LEASE_MS / 20);
  const claims = [0, 1, 2, 3].map((shard) => claimOf(shard, 1));
  expect(scene.reports.splice(0)).toEqual([{ claims, others: state.others }, { give: 3 }]);
  // The host takes its time. Meanwhile the node gives nothing else.
  await scene.clock.advance(5_000);
  expect([scene.reports, state.released]).toEqual([[], []]);
  state.isOut = true;
  scene.stay.release(3);
  await scene.clock.advance(LEASE_MS / 5);
  expect(scene.reports.splice(0)).toEqual(['the shards cannot be claimed now']);
  state.isOut = false;
  await scene.clock.advance(LEASE_MS / 20);
  expect(state.released).toEqual([[3, 1]]);
  // The other node has not claimed the shard yet, and this one has enough.
  expect(scene.reports.splice(0)).toEqual([{ give: 2 }]);
  scene.stay.release(2);
  state.others = [sharing('b', 2, 3)];
  await scene.clock.advance(5_000);
  expect(state.released).toEqual([
    [3, 1],
    [2, 1],
  ]);
  expect(scene.reports.splice(0)).toEqual([{ claims: claims.slice(0, 2), others: state.others }]);
  // A shard that this node does not have is not released.
  scene.stay.release(2);
  await scene.clock.advance(LEASE_MS / 20);
  expect(state.released).toHaveLength(2);
  await scene.stay.leave();
});

test('ST5: two shards are given away a second apart', async () => {
  const state = new Register(4);
  state.others = [];
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.others = [sharing('b')];
  await scene.clock.advance(LEASE_MS / 20);
  scene.stay.release(3);
  await scene.clock.advance(SHARD_MOVE_MS - 1);
  expect(scene.reports).not.toContainEqual({ give: 2 });
  await scene.clock.advance(LEASE_MS / 20);
  expect(scene.reports).toContainEqual({ give: 2 });
  await scene.stay.leave();
});

test('ST5: a claim that is answered after the host has given the shard up does not report it', async () => {
  const state = new Register(2);
  state.others = [];
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.isSlow = true;
  await scene.clock.advance(LEASE_MS / 20);
  state.others = [sharing('b')];
  scene.stay.release(1);
  state.answerClaims();
  await scene.clock.advance(0);
  expect(scene.reports).toEqual([{ claims: [claimOf(0, 1)], others: state.others }]);
  expect(state.released).toEqual([[1, 1]]);
  await scene.stay.leave();
});

test('ST5: a claim that a database shows again after it went back is released again, and not reported', async () => {
  const state = new Register(2);
  state.others = [];
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.others = [sharing('b')];
  scene.stay.release(1);
  await scene.clock.advance(0);
  state.restore(claimOf(1, 1));
  await scene.clock.advance(LEASE_MS / 10);
  expect(state.released).toEqual([
    [1, 1],
    [1, 1],
  ]);
  expect(scene.reports).toEqual([{ claims: [claimOf(0, 1)], others: state.others }]);
  await scene.stay.leave();
});

test('ST6: a search of the host leads to one attempt each tenth of a second', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS, 100_000);
  await enter(scene);
  for (let ms = 0; ms < 1_000; ms += 1) {
    scene.stay.look();
    await scene.clock.advance(1);
  }
  expect(state.asked).toHaveLength(1 + 1_000 / SHARD_LOOK_MS);
  await scene.clock.advance(1_000);
  expect(state.asked).toHaveLength(1 + 1_000 / SHARD_LOOK_MS);
  await scene.stay.leave();
});

test('ST6: a node that retires claims nothing, and still releases its shards', async () => {
  const state = new Register(2);
  state.others = [];
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  scene.stay.retire();
  await scene.clock.advance(0);
  expect(state.hasRetired).toBe(true);
  const asked = state.asked.length;
  scene.stay.release(0);
  scene.stay.look();
  await scene.clock.advance(LEASE_MS);
  expect(state.released).toEqual([[0, 1]]);
  expect([state.asked.length, scene.reports]).toEqual([asked, []]);
  expect(scene.lease.isValid).toBe(true);
  await scene.stay.leave();
});

test('a member that cannot reach the database reports it once, and claims the shards when it can', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.isOut = true;
  await scene.clock.advance(5 * LEASE_MS);
  expect(scene.reports).toEqual(['the shards cannot be claimed now']);
  state.isOut = false;
  state.others = [];
  await scene.clock.advance(LEASE_MS / 20);
  expect(scene.reports.slice(1)).toEqual([{ claims: [CLAIM], others: [] }]);
  await scene.stay.leave();
});

test('a member whose database cannot be reached at first does not enter', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  state.isOut = true;
  await expect(enter(scene)).rejects.toMatchObject({ code: 'store_full', data: { reason: 'database' } });
  expect(scene.clock.pending).toBe(0);
});

test('a member whose first claim fails does not enter, and gives its lease back', async () => {
  const state = new Register();
  const claim = (): Promise<never> => Promise.reject(new Error('no connection'));
  const scene = sceneAt({ directory: { ...state.directory, claim } }, ADDRESS);
  await expect(enter(scene)).rejects.toMatchObject({ code: 'store_full', data: { reason: 'database' } });
  await scene.stay.leave();
  await scene.clock.advance(5 * LEASE_MS);
  expect([state.hasLeft, state.asked, state.late, scene.reports]).toEqual([true, [], [], []]);
});

test('ST2: a member whose lease was ended joins again with its address; an owner has lost its shards', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.isEnded = true;
  await scene.clock.advance(LEASE_MS / 2);
  expect(state.joined).toEqual([
    ['me', ADDRESS],
    ['me', ADDRESS],
  ]);
  state.others = [];
  await scene.clock.advance(LEASE_MS / 20);
  expect(scene.reports).toEqual([{ claims: [CLAIM], others: [] }]);
  state.isEnded = true;
  state.others = [OTHER];
  await scene.clock.advance(LEASE_MS / 2);
  expect(scene.reports.slice(1)).toEqual([{ lost: OTHER }]);
  expect(state.joined).toHaveLength(2);
  expect(scene.lease.isLost).toBe(true);
  expect(scene.clock.pending).toBe(0);
});

test('ST2: a member whose lease was ended during a claim joins again after this claim', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.isSlow = true;
  await scene.clock.advance(LEASE_MS / 10);
  state.isEnded = true;
  await scene.clock.advance(LEASE_MS);
  expect(state.joined).toHaveLength(1);
  state.answerClaims();
  await scene.clock.advance(LEASE_MS / 10);
  expect(state.joined).toHaveLength(2);
  await scene.stay.leave();
});

test.each([
  ['has its answer', (state: Register) => (state.others = [])],
  ['fails', (state: Register) => (state.isOut = true)],
  ['sees another owner', (state: Register) => (state.others = [{ ...OTHER, stay: 'other-2' }])],
])('ST3, ST4: after `leave` a member reports nothing, also if a claim in flight %s', async (_what, meanwhile) => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  state.isSlow = true;
  await scene.clock.advance(LEASE_MS / 10);
  await scene.stay.leave();
  const asked = state.asked.length;
  meanwhile(state);
  state.answerClaims();
  await scene.clock.advance(5 * LEASE_MS);
  expect(state.late).toEqual(['claim']);
  expect(state.asked).toHaveLength(asked);
  expect(scene.reports).toEqual([]);
  expect([scene.clock.pending, scene.lease.isLost]).toEqual([0, true]);
});

test('ST3: a member that leaves between two claims asks for nothing more', async () => {
  const state = new Register();
  const scene = sceneAt(state, ADDRESS);
  await enter(scene);
  await scene.clock.advance(LEASE_MS / 10);
  state.others = [];
  await scene.stay.leave();
  await scene.clock.advance(5 * LEASE_MS);
  expect([state.hasLeft, state.late, scene.reports]).toEqual([true, [], []]);
});

test('a standby that leaves while it waits does not enter', async () => {
  const state = new Register();
  const { clock, stay } = sceneAt(state);
  const entering = stay.enter({ shards: 1 }, { isCounted: false }, { as: 'standby', waitMs: undefined });
  const refused = expect(entering).rejects.toMatchObject({ code: 'cancelled' });
  await clock.advance(LEASE_MS);
  await stay.leave();
  state.others = [];
  await clock.advance(LEASE_MS);
  await refused;
  expect(state.late).toEqual([]);
});
