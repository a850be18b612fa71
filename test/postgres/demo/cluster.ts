/**
 * The cluster of the demonstration: a PostgreSQL server and three nodes, each a process that runs
 * `examples/cluster-node.ts`.
 *
 * Owns: the server, the processes, their directory. Does not own: the work that the nodes are given.
 *  DC1 when this process ends, unless it is killed, the nodes, the server and the directory are gone;
 *  DC2 the state of a node is that of its process and of the tables, not the node's own opinion.
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { z } from 'zod';
import { asError } from '../../../src/base/errors.ts';
import { startChild, type TestChild } from '../../support/children.ts';
import { startServer, type TestServer } from '../support/server.ts';

const PROGRAM = new URL('../../../examples/cluster-node.ts', import.meta.url);
const NAMES = ['a', 'b', 'c'];
/** Milliseconds between two looks at the tables: far less than the lease of 2 s whose end they shall see. */
const LOOK_MS = 20;
/** Milliseconds that a node gets to close before it is killed. */
const CLOSE_MS = 10_000;
/** One transaction sees the owner of the only shard, and all nodes of the register. */
const LOOK = `SELECT s.epoch, s.last, o.name AS owner,
  ARRAY(SELECT name FROM troupe.troupe_node WHERE expires > clock_timestamp()) AS nodes
  FROM troupe.troupe_shard s LEFT JOIN troupe.troupe_node o ON o.stay = s.owner`;
const rowSchema = z.object({
  epoch: z.coerce.number(),
  last: z.coerce.number(),
  owner: z.string().nullable(),
  nodes: z.array(z.string()),
});

export type NodeState = 'starting' | 'owner' | 'member' | 'gone';

/** A node of the demonstration. */
export interface DemoNode {
  readonly name: string;
  readonly pid: number;
  readonly state: NodeState;
  /** The address at which it serves HTTP, after `start`. */
  readonly url: string;
}

/** The tables as they were seen last. `epoch`: the number of claims so far. */
type Look = z.infer<typeof rowSchema>;

class RunningNode implements DemoNode {
  readonly name: string;
  readonly child: TestChild;
  state: NodeState = 'starting';
  url = '';

  constructor(name: string, directory: string) {
    this.name = name;
    this.child = startChild(PROGRAM, [name, join(directory, name)]);
  }

  get pid(): number {
    return this.child.process.pid ?? 0;
  }

  /** Resolves when the node answers. */
  async answers(): Promise<void> {
    const line = new RegExp(`^${this.name} is \\w+ at (\\S+)$`, 'mu');
    await this.child.until((output) => line.test(output), 'its address');
    this.url = line.exec(this.child.output())?.[1] ?? '';
  }
}

/** See the head of the file. */
export class DemoCluster {
  readonly #server: TestServer;
  readonly #client: pg.Client;
  readonly #directory: string;
  readonly #nodes: RunningNode[] = [];
  readonly #end = (): void => {
    for (const { child } of this.#nodes) child.process.kill('SIGKILL');
    rmSync(this.#directory, { recursive: true, force: true });
  };
  #look: Look | undefined;
  #isClosing = false;
  /** The reason why the tables are not read any more. */
  #failure: Error | undefined;
  #looking: Promise<void> = Promise.resolve();

  private constructor(server: TestServer, client: pg.Client) {
    this.#server = server;
    this.#client = client;
    this.#directory = mkdtempSync(join(tmpdir(), 'troupe-cluster-'));
    process.once('exit', this.#end);
  }

  /** Starts the server and the nodes. Resolves when one node is the owner, and the others are its members. */
  static async start(): Promise<DemoCluster> {
    const server = await startServer();
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const cluster = new DemoCluster(server, client);
    process.env['DATABASE_URL'] = server.url;
    process.env['CLUSTER_SECRET'] = randomBytes(32).toString('hex');
    // The first node makes the tables, and becomes the owner.
    for (const names of [NAMES.slice(0, 1), NAMES.slice(1)]) {
      const nodes = names.map((name) => new RunningNode(name, cluster.#directory));
      cluster.#nodes.push(...nodes);
      await Promise.all(nodes.map((node) => node.answers()));
    }
    cluster.#looking = cluster.#follow().catch((error: unknown) => {
      cluster.#failure = asError(error);
    });
    await cluster.until(() => cluster.#nodes.every(({ state }) => state === 'owner' || state === 'member'));
    return cluster;
  }

  get nodes(): readonly DemoNode[] {
    return this.#nodes;
  }

  /** The address of the database. */
  get url(): string {
    return this.#server.url;
  }

  get owner(): DemoNode | undefined {
    return this.#nodes.find(({ state }) => state === 'owner');
  }

  /** Entries of the log so far. */
  get entries(): number {
    return this.#look?.last ?? 0;
  }

  /** Resolves when `isMet` holds; it is asked again after each look. Rejects if the tables cannot be read. */
  async until(isMet: () => boolean): Promise<void> {
    while (!isMet()) {
      if (this.#failure !== undefined) throw this.#failure;
      await wait(LOOK_MS);
    }
  }

  /** Kills a node with SIGKILL. Resolves when its process is gone. */
  async kill({ name }: DemoNode): Promise<void> {
    const node = this.#nodes.find((each) => each.name === name);
    await node?.child.kill();
    if (node !== undefined) node.state = 'gone';
  }

  /** Closes the nodes, as `SIGTERM` does, and ends the server. Resolves to a line for each node that failed. */
  async close(): Promise<readonly string[]> {
    const left = this.#nodes.filter(({ state }) => state !== 'gone');
    const over = new AbortController();
    for (const { child } of left) child.process.kill('SIGTERM');
    const late = wait(CLOSE_MS, 'late' as const, { signal: over.signal }).catch(() => undefined);
    const ends = await Promise.all(left.map(({ child }) => Promise.race([child.ended(), late])));
    over.abort();
    this.#isClosing = true;
    await this.#looking;
    await this.#client.end();
    await this.#server.stop();
    process.removeListener('exit', this.#end);
    this.#end();
    return left.flatMap(({ name, child }, index) =>
      ends[index] === 0 ? [] : [`node ${name} ended with ${ends[index]}: ${child.errors().trim().slice(-500)}`],
    );
  }

  async #follow(): Promise<void> {
    while (!this.#isClosing) {
      const { rows } = await this.#client.query(LOOK);
      this.#take(rowSchema.parse(rows[0]));
      await wait(LOOK_MS);
    }
  }

  #take(look: Look): void {
    this.#look = look;
    for (const node of this.#nodes) {
      const { exitCode, signalCode } = node.child.process;
      if (exitCode !== null || signalCode !== null) node.state = 'gone';
      else if (look.owner === node.name) node.state = 'owner';
      else node.state = look.nodes.includes(node.name) ? 'member' : 'starting';
    }
  }
}
