/** Goal: a lease is believed for less time than the database grants it, and an outage of the database moves nothing. */
import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { createLeaseMemory, Lease } from '../../src/cluster/lease.ts';
import type { ShardDirectory } from '../../src/cluster/plan.ts';
import { Stay } from '../../src/cluster/stay.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';

const LEASE_MS = 1_000;

/** A register in which another node has the shards. */
function takenDirectory(): { readonly directory: ShardDirectory; readonly asked: boolean[]; isOut: boolean } {
  const state = { asked: [] as boolean[], isOut: false };
  const answer = async <T>(value: T): Promise<T> => {
    if (state.isOut) throw new Error('no connection');
    return value;
  };
  const directory: ShardDirectory = {
    prepare: () => answer({ id: 'c', shards: 1 }),
    join: () => answer(undefined),
    renew: () => answer(true),
    claimAll: (mayEndOthers) => {
      state.asked.push(mayEndOthers);
      return answer({ owner: { node: 'other', leaseLeftMs: 0 } });
    },
    owner: () => answer(undefined),
    leave: () => answer(undefined),
    close: async () => undefined,
  };
  return Object.assign(state, { directory });
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
  const clock = manualClock();
  const state = takenDirectory();
  const stay = new Stay({
    directory: state.directory,
    lease: new Lease(createLeaseMemory(), clock),
    clock,
    node: 'standby',
    leaseMs: LEASE_MS,
    lost: () => undefined,
    failed: () => undefined,
  });
  const entering = stay.enter({ shards: 1 }, { isCounted: false }, 20 * LEASE_MS);
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
});

test('ST1: after an outage in which only the lease of the owner ran out, the owner renews it first', async () => {
  const clock = manualClock();
  const state = takenDirectory();
  const stay = new Stay({
    directory: state.directory,
    lease: new Lease(createLeaseMemory(), clock),
    clock,
    node: 'standby',
    leaseMs: LEASE_MS,
    lost: () => undefined,
    failed: () => undefined,
  });
  const refused = expect(stay.enter({ shards: 1 }, { isCounted: false }, 10 * LEASE_MS)).rejects.toThrow();
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
