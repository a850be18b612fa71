/**
 * Goal: the host of a member knows who has the shards, and gets its claims once; a standby enters with its claims. The
 * cluster thread runs in place, at a register in memory.
 */
import { expect, test } from 'vitest';
import { serveCluster } from '../../src/cluster/cluster-service.ts';
import { type ClusterMembership, joinCluster } from '../../src/cluster/membership.ts';
import type { ClusterPlan } from '../../src/cluster/plan.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { createLocalEndpoints } from '../../src/threads/batched-endpoint.ts';
import { CLAIM, claimOf, OTHER, Register, sharing } from './support/register.ts';

const LEASE_MS = 1_000;
const STANDBY: ClusterPlan = { kind: 'cluster', module: 'm', data: {}, node: 'me', leaseMs: LEASE_MS, holdMs: 0 };
const ADDRESS = { host: '10.0.0.7', port: 4_100 };
const MEMBER: ClusterPlan = { ...STANDBY, line: { listen: { ...ADDRESS, port: 0 }, secret: 's'.repeat(32) } };

interface Scene {
  readonly clock: ManualClock;
  readonly joining: Promise<ClusterMembership>;
  /** Ends the cluster thread. */
  readonly end: () => void;
}

function joinAt({ directory }: Register, plan: ClusterPlan): Scene {
  const clock = manualClock();
  const [near, far] = createLocalEndpoints();
  const listeners: ((exit: { readonly exitCode: number }) => void)[] = [];
  serveCluster(far, { clock, openDirectory: async () => directory });
  const thread = {
    endpoint: near,
    onExit: (listener: (exit: { readonly exitCode: number }) => void) => void listeners.push(listener),
    exit: async () => undefined,
    unref: () => undefined,
  };
  const entering = { plan, birth: { shards: 1 }, wanted: { isCounted: false }, address: ADDRESS };
  const joining = joinCluster(entering, () => undefined, { clock, startThread: () => thread });
  const end = (): void => {
    for (const listener of listeners) listener({ exitCode: 1 });
  };
  return { clock, joining, end };
}

/** The other nodes, the claims and the state of a membership after each change. */
function changesOf(membership: ClusterMembership): unknown[] {
  const changes: unknown[] = [];
  membership.onChange(() => void changes.push([membership.others, membership.claims, membership.status().state]));
  return changes;
}

test('MB3: a member has no shards until it has claimed them, and says who has them', async () => {
  const register = new Register();
  const { clock, joining } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  const changes = changesOf(member);
  expect(register.joined).toEqual([['me', ADDRESS]]);
  expect([member.others, member.claims, member.ownerOf(0), member.isHere(0)]).toEqual([[OTHER], [], OTHER, false]);
  expect(member.status()).toEqual({
    state: 'member',
    node: 'me',
    cluster: 'c',
    others: [{ node: 'other', shards: [0] }],
    leaseLeftMs: 900,
    shards: [],
  });
  expect(() => member.placeOf(0)).toThrow('there is no claim of shard 0');
  const next = { ...OTHER, stay: 'third-1', node: 'third', address: { host: 'a', port: 1 } };
  register.others = [next];
  await clock.advance(LEASE_MS / 10);
  expect(member.status().others).toEqual([{ node: 'third', shards: [0] }]);
  register.others = [];
  await clock.advance(LEASE_MS / 10);
  expect(changes).toEqual([
    [[next], [], 'member'],
    [[], [CLAIM], 'owner'],
  ]);
  expect(member.placeOf(0)).toEqual({ plan: MEMBER, claim: CLAIM, memory: member.memory });
  expect(member.status()).toMatchObject({ state: 'owner', shards: [{ shard: 0, epoch: 1 }] });
  expect([member.status().others, member.ownerOf(0), member.isHere(0)]).toEqual([[], undefined, true]);
  await member.leave();
});

test('MB3: claims that come together with the answer to the entry are not lost', async () => {
  const register = new Register();
  register.others = [];
  const { clock, joining } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  expect([member.claims, member.others, member.status().state]).toEqual([[CLAIM], [], 'owner']);
  await member.leave();
});

test('MB1, MB3: a loss after the claim ends everything, names the owner, and is no change', async () => {
  const register = new Register();
  const { clock, joining } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  const changes = changesOf(member);
  register.others = [];
  await clock.advance(LEASE_MS / 10);
  expect(changes).toHaveLength(1);
  const losses: unknown[] = [];
  member.onLost((error) => void losses.push([error.code, error.message]));
  register.isEnded = true;
  register.others = [OTHER];
  await clock.advance(LEASE_MS);
  const text = 'the node "me" has lost its shards: the node "other" took its shards over after its lease had run out';
  expect(losses).toEqual([['shard_moved', text]]);
  expect(member.status()).toMatchObject({ state: 'lost', leaseLeftMs: 0 });
  expect(changes).toHaveLength(1);
  await member.leave();
});

test('MB1, MB3: a member whose cluster thread ends is lost, and learns of nothing more', async () => {
  const register = new Register();
  const { clock, joining, end } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  const changes = changesOf(member);
  const losses: string[] = [];
  member.onLost((error) => void losses.push(error.message));
  end();
  register.others = [];
  await clock.advance(LEASE_MS);
  expect(losses).toEqual(['the node "me" has lost its place in the cluster: its cluster thread ended']);
  expect([changes, member.claims, member.status().state]).toEqual([[], [], 'lost']);
  await member.leave();
});

test('MB4: a shard that was released is not claimed by an earlier note, and may be claimed again', async () => {
  const register = new Register(2);
  register.others = [];
  const { clock, joining } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  expect(member.claims.map(({ shard }) => shard)).toEqual([0, 1]);
  const given: number[] = [];
  register.others = [sharing('b')];
  // The note comes before the host is ready for it.
  await clock.advance(LEASE_MS / 20);
  member.onGive((shard) => void given.push(shard));
  expect(given).toEqual([1]);
  register.isSlow = true;
  await clock.advance(LEASE_MS / 20);
  register.others = [{ ...sharing('b'), shards: [5] }];
  register.answerClaims();
  const changes = changesOf(member);
  member.release(1);
  member.release(1);
  expect([member.isHere(1), changes]).toEqual([false, [[[sharing('b')], [claimOf(0, 1)], 'owner']]]);
  await clock.advance(LEASE_MS / 20);
  expect(register.released).toEqual([[1, 1]]);
  expect(member.claims).toEqual([claimOf(0, 1)]);
  register.others = [];
  member.look();
  await clock.advance(LEASE_MS / 10);
  expect(member.claims).toEqual([claimOf(0, 1), claimOf(1, 2)]);
  member.retire();
  await clock.advance(LEASE_MS / 20);
  expect(register.hasRetired).toBe(true);
  await member.leave();
});

test('MB2, MB3: a member that has left claims nothing and learns of nothing', async () => {
  const register = new Register();
  const { clock, joining } = joinAt(register, MEMBER);
  await clock.advance(0);
  const member = await joining;
  const changes = changesOf(member);
  register.isSlow = true;
  await clock.advance(LEASE_MS / 10);
  await member.leave();
  register.others = [];
  register.answerClaims();
  await clock.advance(LEASE_MS);
  expect([register.hasLeft, changes, member.status().state]).toEqual([true, [], 'lost']);
});

test('a standby enters with its claims, at the time at which the shards are free', async () => {
  const register = new Register();
  const { clock, joining } = joinAt(register, STANDBY);
  let hasEntered = false;
  const entered = joining.then((membership) => {
    hasEntered = true;
    return membership;
  });
  await clock.advance(3 * LEASE_MS);
  expect(hasEntered).toBe(false);
  register.others = [];
  await clock.advance(LEASE_MS / 20);
  const standby = await entered;
  expect([standby.claims, standby.others, standby.status().state]).toEqual([[CLAIM], [], 'owner']);
  await standby.leave();
});
