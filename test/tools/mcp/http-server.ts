/** Servers over HTTP in tests, each a process that the test kills, stops and starts again on the same port. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach } from 'vitest';
import type { McpAddress } from '../../../src/tools/mcp/protocol.ts';
import { freePort } from '../../support/processes.ts';

/** A server that runs. */
export interface HttpServer extends McpAddress {
  /** Sends a signal to the present process. */
  signal(signal: NodeJS.Signals): void;
  /** Kills the present process and waits for its end. */
  kill(): Promise<void>;
  /** Starts the next process, on the same port; resolves when it listens. */
  start(): Promise<void>;
}

/** Registers the end of the servers; call it once at the top of a test file. `args`: the arguments for a port. */
export function httpServersKit(): (
  args: (port: number) => readonly string[],
  environment?: Readonly<Record<string, string>>,
) => Promise<HttpServer> {
  const servers: HttpServer[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0)) await server.kill();
  });
  return async (args, environment = {}) => {
    const port = await freePort();
    let child: ChildProcess | undefined;
    const server: HttpServer = {
      url: `http://127.0.0.1:${port}/mcp`,
      signal: (signal) => void child?.kill(signal),
      async kill() {
        const present = child;
        child = undefined;
        if (present === undefined || present.exitCode !== null || present.signalCode !== null) return;
        const ended = once(present, 'exit');
        present.kill('SIGKILL');
        await ended;
      },
      async start() {
        const started = spawn(process.execPath, [...args(port)], {
          env: { ...process.env, PORT: String(port), ...environment },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        child = started;
        started.stdout.resume();
        started.stderr.resume();
        await listening(port);
      },
    };
    servers.push(server);
    await server.start();
    return server;
  };
}

/** Resolves when the port accepts connections. */
async function listening(port: number): Promise<void> {
  for (;;) {
    try {
      await fetch(`http://127.0.0.1:${port}/`);
      return;
    } catch {
      // The process has not opened its port yet.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
