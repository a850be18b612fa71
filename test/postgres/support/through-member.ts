/**
 * Opens a store through a node of a cluster that does not have its sessions: another runtime of this process owns them,
 * and each request crosses a line. `TROUPE_THROUGH=member` lets the tests of the public API run so (`npm run
 * test:member`).
 */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type OpenOptions, open, type Runtime } from '../../../src/index.ts';
import { postgres } from '../../../src/postgres/index.ts';
import { newSchema, sharedServer } from './server.ts';

/** A directory's cluster, and its owner while it is open. */
interface Cluster {
  readonly schema: string;
  owner?: Runtime;
}

const clusters = new Map<string, Cluster>();

/** A member, its owner, and the directories that were made for them. */
export interface Through {
  readonly member: Runtime;
  readonly owner: Runtime;
  readonly directories: readonly string[];
}

/** Opens the cluster of a directory: its owner with these options, then a member. */
export async function openThroughMember(path: string, options: OpenOptions): Promise<Through> {
  const made = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  const directory = path === ':memory:' ? join(made, 'owner') : path;
  const cluster: Cluster = clusters.get(directory) ?? { schema: newSchema() };
  clusters.set(directory, cluster);
  await cluster.owner?.close({ deadlineMs: 0 });
  const { url } = await sharedServer();
  const place = (node: string): Pick<OpenOptions, 'cluster'> => ({
    cluster: postgres({
      url,
      schema: cluster.schema,
      node,
      leaseMs: 60_000,
      listen: { host: '127.0.0.1', port: 0 },
      secret: 'the secret of all nodes of this test run',
    }),
  });
  const owner = await open(directory, { ...options, ...place('owner') });
  cluster.owner = owner;
  const member = await open(join(made, 'member'), { ...options, ...place('member') });
  void member.closed.then(() => owner.close({ deadlineMs: 0 }));
  return { member, owner, directories: [made] };
}
