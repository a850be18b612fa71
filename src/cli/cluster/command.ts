/**
 * `troupe cluster`: `status` shows the owner and the log of each shard of a cluster, `init` makes a cluster, and
 * `migrate` changes the tables to those of this version. None of them takes a place in the cluster.
 */
import { SHARDS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError } from '../../base/errors.ts';
import { keyIdOf } from '../../journal/encryption/master-keys.ts';
import type { ClusterOverview, NodeOverview, ShardOverview } from '../../postgres/overview.ts';
import { type Arguments, type Command, EXIT, NotFoundError, UsageError } from '../command.ts';
import { JSON_OPTION } from '../places/data-directory.ts';
import { KEY_FILE_OPTION, keysOf } from '../places/key-file.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { ageText, counted, number, oneLine, printable, printableJson, wrap } from '../text-layout.ts';

/** The environment variable for an address whose password must not appear in a list of processes. */
const ADDRESS_VARIABLE = 'TROUPE_CLUSTER';
const BYTES_PER_KIB = 1_024;

/** See the head of the file. */
export const clusterCommand: Command = {
  positionals: [
    { name: 'action', required: true, help: 'status, init or migrate', completes: ['status', 'init', 'migrate'] },
    {
      name: 'address',
      required: false,
      help: `postgres://user@host:port/database (default: $${ADDRESS_VARIABLE}, better for one with a password)`,
    },
  ],
  options: {
    schema: { kind: 'text', value: 'NAME', help: 'Schema of the tables (default: troupe)' },
    shards: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: SHARDS_MAX,
      help: 'init: the number of shards, which cannot change later',
    },
    'key-file': { ...KEY_FILE_OPTION, help: `init, if the cluster is encrypted. ${KEY_FILE_OPTION.help}` },
    json: JSON_OPTION,
  },
  details: [
    'status: a line for each shard: its owner, the number of claims so far (epoch), the time until the lease ends if it is not renewed, the number of the last log entry, the entries that the database keeps and their size, the last entry that the snapshot contains, and the age of the snapshot. Standbys wait in open().',
    'It reads the tables in one read-only transaction, without a place in the cluster. A role that may read the tables is enough. The exit code is 0 whatever they say.',
    'init: makes the tables and the cluster, with a role that may make tables. The nodes then need only to read and write them. A cluster that is there with the same number of shards and the same key stays as it is.',
    'migrate: changes the tables of an earlier version to those of this version. Otherwise the first node of this version does so.',
    'All actions need the package pg.',
  ],
  run,
};

/** The result of an action: data for `--json`, and lines for a person. */
interface Shown {
  readonly data: unknown;
  readonly lines: readonly string[];
}

/** The database and the schema of a cluster. */
interface Address {
  readonly url: string;
  readonly schema: string;
}

type Action = (address: Address, given: Arguments, surroundings: Surroundings) => Promise<Shown>;

const ACTIONS: Readonly<Record<string, Action>> = { status, init, migrate };

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, environment } = surroundings;
  const name = given.positional('action') ?? '';
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) {
    throw new UsageError(`<action> must be ${Object.keys(ACTIONS).join(', ')}; got ${JSON.stringify(name)}`);
  }
  if (name !== 'init') {
    if (given.count('shards') !== undefined) throw new UsageError('--shards belongs to init');
    if (given.text('key-file') !== undefined) throw new UsageError('--key-file belongs to init');
  }
  const url = given.positional('address') ?? environment[ADDRESS_VARIABLE] ?? '';
  if (url.trim() === '') throw new UsageError(`<address> is missing; ${ADDRESS_VARIABLE} may have it`);
  const address = { url, schema: given.text('schema') ?? 'troupe' };
  const { data, lines } = await action(address, given, surroundings).catch((error: unknown) => {
    throw usageErrorOf(error);
  });
  stdout.write(given.flag('json') ? `${printableJson(data)}\n` : `${lines.join('\n')}\n`);
  return EXIT.ok;
}

async function status(address: Address, _given: Arguments, surroundings: Surroundings): Promise<Shown> {
  const { readOverview } = await import('../../postgres/driver.ts');
  const overview = await readOverview(address);
  if (overview === undefined) throw noCluster(address);
  return { data: overview, lines: linesOf(overview, surroundings) };
}

async function init(address: Address, given: Arguments, surroundings: Surroundings): Promise<Shown> {
  const shards = given.count('shards');
  if (shards === undefined) {
    throw new UsageError(
      '--shards is missing: at least the number of nodes, and as many as all of them can run threads',
    );
  }
  const keys = await keysOf(given, surroundings);
  const { makeCluster } = await import('../../postgres/driver.ts');
  const birth = { shards, ...defined({ keyId: keys && keyIdOf(keys.key) }) };
  const { id, schema, isNew, keyId } = await makeCluster(address, birth);
  const facts = `${counted(shards, 'shard')}${keyId === undefined ? '' : ', encrypted'}`;
  return {
    data: { cluster: id, schema, shards, isEncrypted: keyId !== undefined, isNew },
    lines: [`Cluster ${printable(id)}, schema ${schema}: ${isNew ? 'made' : 'was there already'}, with ${facts}.`],
  };
}

async function migrate(address: Address): Promise<Shown> {
  const { changeTables } = await import('../../postgres/driver.ts');
  const change = await changeTables(address);
  if (change === undefined) throw noCluster(address);
  const { from, to } = change;
  const text = from === to ? `have version ${to} already` : `had version ${from}, and have version ${to} now`;
  return { data: { schema: address.schema, from, to }, lines: [`The tables in the schema ${address.schema} ${text}.`] };
}

function noCluster({ schema }: Address): NotFoundError {
  return new NotFoundError(`the database has no cluster in the schema ${schema}; --schema names another`);
}

/** An error about an option of `postgres()`, as one about the argument that gave it. */
function usageErrorOf(error: unknown): unknown {
  const words = /^option "postgres\.(url|schema)":? (.*?)(?:; got .*)?$/su.exec(
    error instanceof ConfigError ? error.message : '',
  );
  if (words === null) return error;
  const [, option, text = ''] = words;
  return new UsageError(`${option === 'url' ? '<address>' : '--schema'} ${text}`, { cause: error });
}

function linesOf(overview: ClusterOverview, { stdout, environment }: Surroundings): readonly string[] {
  const { cluster, schema, isEncrypted, shards, standbys } = overview;
  const paint = paintFor(stdout, environment);
  const warnings = warningsOf(overview);
  const entries = shards.reduce((sum, { log }) => sum + log.entries, 0);
  const logBytes = shards.reduce((sum, { log }) => sum + log.bytes, 0);
  const snapshotBytes = shards.reduce((sum, { snapshot }) => sum + (snapshot?.bytes ?? 0), 0);
  const lines = [
    `Cluster ${printable(cluster)}, schema ${schema}`,
    `${counted(shards.length, 'shard')}${isEncrypted ? ', encrypted' : ''}: ` +
      `${counted(entries, 'log entry', 'log entries')} of ${kib(logBytes)} KiB, ` +
      `${snapshotBytes === 0 ? 'no snapshot' : `snapshots of ${kib(snapshotBytes)} KiB`}`,
    `Standbys: ${standbys.length === 0 ? 'none' : standbys.map(standbyText).join(', ')}`,
  ];
  const columns = Math.max(1, stdout.columns - 1);
  return [
    ...lines.flatMap((line) => wrap(line, columns)),
    '',
    ...tableLines(COLUMNS, shards, { columns: stdout.columns, paint }, (shard, line) =>
      isOwned(shard) ? line : paint.yellow(line),
    ),
    ...(warnings.length === 0 ? [] : ['']),
    ...warnings.flatMap((text) => wrap(text, columns)).map((line) => paint.yellow(line)),
  ];
}

const COLUMNS: readonly Column<ShardOverview>[] = [
  { title: 'shard', text: ({ shard }) => String(shard), isRight: true },
  { title: 'owner', text: ({ owner }) => (owner === undefined ? 'none' : oneLine(owner.node)), min: 8, keepsEnd: true },
  { title: 'epoch', text: ({ epoch }) => number(epoch), isRight: true },
  { title: 'lease', text: ({ owner }) => (owner === undefined ? '' : leaseText(owner)), isRight: true },
  { title: 'last entry', text: ({ lastEntry }) => number(lastEntry), isRight: true },
  { title: 'kept', text: ({ log }) => number(log.entries), isRight: true },
  { title: 'KiB', text: ({ log }) => kib(log.bytes), isRight: true },
  { title: 'snapshot', text: ({ snapshot }) => (snapshot === undefined ? '' : number(snapshot.entry)), isRight: true },
  { title: 'age', text: ({ snapshot }) => (snapshot === undefined ? '' : ageText(snapshot.ageMs)), isRight: true },
];

/** The lines about shards that no node works on. */
function warningsOf({ shards, standbys }: ClusterOverview): readonly string[] {
  const free = shards.filter(({ owner }) => owner === undefined);
  const over = shards.flatMap(({ owner }) => (owner === undefined || owner.leaseLeftMs > 0 ? [] : [owner]));
  const owners = new Map(over.map((owner) => [owner.node, owner]));
  // A node with an address claims the shards of another one, also if it has shards itself.
  const isShared = shards.some(({ owner }) => owner?.address !== undefined && owner.leaseLeftMs > 0);
  const others = isShared ? '. Another node takes over.' : ', and no standby waits.';
  return [
    ...(free.length === 0
      ? []
      : [`${counted(free.length, 'shard')} without an owner: no work is done there until a node opens the cluster.`]),
    ...[...owners.values()].map(
      ({ node, leaseLeftMs }) =>
        `The lease of ${oneLine(node)} ran out ${ageText(-leaseLeftMs)} ago` +
        `${standbys.length === 0 ? others : '. A standby takes over.'}`,
    ),
  ];
}

function isOwned({ owner }: ShardOverview): boolean {
  return owner !== undefined && owner.leaseLeftMs > 0;
}

function standbyText(standby: NodeOverview): string {
  return `${oneLine(standby.node)} (lease ${leaseText(standby)})`;
}

function leaseText({ leaseLeftMs }: NodeOverview): string {
  return leaseLeftMs > 0 ? ageText(leaseLeftMs) : 'over';
}

function kib(bytes: number): string {
  return number(Math.ceil(bytes / BYTES_PER_KIB));
}
