/** A Restate server for one measurement: as shipped, in a directory, on free ports, with one service registered. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';

/** A running server. */
export interface RestateServer {
  readonly pid: number;
  readonly ingressUrl: string;
  stop(): Promise<void>;
}

const START_MS = 60_000;
const POLL_MS = 50;

/** Starts a server and registers the service at this port. Throws when it is not ready within a minute. */
export async function startServer(directory: string, servicePort: number): Promise<RestateServer> {
  const [node = 0, admin = 0, ingress = 0] = await Promise.all([freePort(), freePort(), freePort()]);
  const settings = join(directory, 'restate.toml');
  await writeFile(settings, settingsOf(join(directory, 'data'), { node, admin, ingress }));
  const child = spawn(binary(), ['--config-file', settings, '--no-logo'], { stdio: ['ignore', 'ignore', 'inherit'] });
  const deadline = performance.now() + START_MS;
  await until(deadline, child, () => isReady(`http://127.0.0.1:${admin}/health`));
  await until(deadline, child, () => register(`http://127.0.0.1:${admin}/deployments`, servicePort));
  const ingressUrl = `http://127.0.0.1:${ingress}`;
  await until(deadline, child, () => isReady(`${ingressUrl}/restate/health`));
  return {
    pid: child.pid ?? 0,
    ingressUrl,
    async stop() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

/** The binary of this platform, which npm installs beside the package that names it. */
function binary(): string {
  const platform = `${process.platform}-${process.arch}`;
  const found = createRequire(import.meta.url).resolve(`@restatedev/restate-server-${platform}/package.json`);
  return join(found, '../bin/restate-server');
}

/** Sets only its directory and its log, and turns its telemetry off. */
function settingsOf(data: string, ports: Readonly<Record<'node' | 'admin' | 'ingress', number>>): string {
  return [
    `base-dir = ${JSON.stringify(data)}`,
    'node-name = "bench"',
    'log-filter = "error,octocrab=off"',
    'disable-telemetry = true',
    'listen-mode = "tcp"',
    'bind-ip = "127.0.0.1"',
    `bind-port = ${ports.node}`,
    `advertised-address = "http://127.0.0.1:${ports.node}/"`,
    '[admin]',
    `bind-port = ${ports.admin}`,
    '[ingress]',
    `bind-port = ${ports.ingress}`,
    '',
  ].join('\n');
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function until(deadline: number, child: ChildProcess, isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone())) {
    if (child.exitCode !== null) throw new Error(`the Restate server ended with ${child.exitCode}`);
    if (performance.now() > deadline) throw new Error('the Restate server was not ready in time');
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** A server that does not listen yet refuses the connection; the request is repeated. */
async function isReady(url: string): Promise<boolean> {
  return (await answerOf(url))?.ok === true;
}

async function register(url: string, servicePort: number): Promise<boolean> {
  const body = JSON.stringify({ uri: `http://127.0.0.1:${servicePort}` });
  return (await answerOf(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body }))?.ok === true;
}

async function answerOf(url: string, request?: RequestInit): Promise<Response | undefined> {
  try {
    return await fetch(url, request);
  } catch {
    return undefined;
  }
}
