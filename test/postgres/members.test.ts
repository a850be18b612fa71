/**
 * Goal: nodes with a line enter one cluster at once, each with a cluster thread. One of them claims the shards; the
 * others see its address, and the next one claims them when it leaves.
 */
import { describe, expect, onTestFinished, test } from 'vitest';
import { type ClusterMembership, joinCluster } from '../../src/cluster/membership.ts';
import type { NodeAddress } from '../../src/cluster/plan.ts';
import { postgres } from '../../src/postgres/index.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';

const LEASE_MS = 20_000;
const SHARDS = 2;

/** A cluster on the shared server, and the way for a member to enter it. */
async function newCluster(): Promise<{
  readonly tables: string;
  readonly url: string;
  readonly join: (node: string, address: NodeAddress) => Promise<ClusterMembership>;
}> {
  const { url } = await sharedServer();
  const schema = newSchema();
  const join = async (node: string, address: NodeAddress): Promise<ClusterMembership> => {
    const listen = { host: address.host, port: 0 };
    const plan = postgres({ url, schema, node, leaseMs: LEASE_MS, listen, secret: 's'.repeat(32) });
    const wanted = { isCounted: false };
    const membership = await joinCluster({ plan, birth: { shards: SHARDS }, wanted, address }, () => undefined);
    onTestFinished(() => membership.leave());
    return membership;
  };
  return { url, tables: `"${schema}".troupe`, join };
}

/** Resolves once a membership fits `isMet`. */
function when(membership: ClusterMembership, isMet: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isMet()) resolve();
    };
    membership.onChange(look);
    look();
  });
}

describe.skipIf(NO_SERVER !== undefined)('members on PostgreSQL', () => {
  test('the first claims the shards, the second sees its address and gets its share of them', async () => {
    const { join } = await newCluster();
    const [one, two] = [
      { host: '10.0.0.1', port: 4_001 },
      { host: '10.0.0.2', port: 4_002 },
    ];
    const a = await join('a', one);
    expect(a.status()).toMatchObject({ state: 'owner', shards: [{ epoch: 1 }, { epoch: 1 }], others: [] });
    const b = await join('b', two);
    expect(b.ownerOf(1)).toMatchObject({ node: 'a', address: one, stay: a.claims[0]?.owner });
    expect(b.status()).toMatchObject({ state: 'member', others: [{ node: 'a', shards: [0, 1] }], shards: [] });
    expect(b.status().leaseLeftMs).toBeGreaterThan(0);
    // The host of the first has closed the shard.
    a.onGive((shard) => a.release(shard));
    await when(b, () => b.isHere(1));
    await when(a, () => a.ownerOf(1)?.node === 'b');
    expect(a.status()).toMatchObject({ shards: [{ shard: 0, epoch: 1 }], others: [{ node: 'b', shards: [1] }] });
    expect(b.status()).toMatchObject({ shards: [{ shard: 1, epoch: 2 }], others: [{ node: 'a', shards: [0] }] });
    await a.leave();
    await when(b, () => b.claims.length === 2);
    expect(b.claims.map(({ shard, epoch }) => [shard, epoch])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    expect([b.others, b.status().state, a.status().state]).toEqual([[], 'owner', 'lost']);
  });

  test('a node that retires gives its shards back one by one, and the other claims each of them', async () => {
    const { join } = await newCluster();
    const a = await join('a', { host: 'a', port: 1 });
    const b = await join('b', { host: 'b', port: 2 });
    a.retire();
    a.release(1);
    await when(b, () => b.isHere(1));
    a.release(0);
    await when(b, () => b.isHere(0));
    expect(a.status()).toMatchObject({ state: 'member', shards: [] });
  });

  test('a member whose row is removed enters again, and a member that leaves has no row', async () => {
    const { join, tables, url } = await newCluster();
    await join('a', { host: 'a', port: 1 });
    const b = await join('b', { host: 'b', port: 2 });
    const rows = (): Promise<unknown> => query(url, `SELECT stay, address FROM ${tables}_node WHERE name = 'b'`);
    const before = await rows();
    expect(before).toEqual([{ stay: expect.any(String), address: 'b:2' }]);
    await query(url, `DELETE FROM ${tables}_node WHERE name = 'b'`);
    await expect.poll(rows, { timeout: LEASE_MS }).toEqual([{ stay: expect.any(String), address: 'b:2' }]);
    expect(await rows()).not.toEqual(before);
    expect(b.status().state).toBe('member');
    await b.leave();
    expect(await rows()).toEqual([]);
  });
});
