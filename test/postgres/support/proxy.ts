/** A line to a server that a test can cut at any byte. */
import { connect, createServer, type Socket } from 'node:net';

/** A proxy in front of a server's socket. */
export interface TestProxy {
  /** The address of the database behind the proxy. */
  readonly url: string;
  /** Connections that were made. */
  readonly connections: number;
  /** Cuts every connection. What the server had answered may not have arrived. */
  cut(): void;
  /** Lets requests pass and drops answers, on the connections that are open and on new ones, until `cut`. */
  dropAnswers(): void;
  /** Refuses new connections, or accepts them again. */
  refuse(isRefusing: boolean): void;
  close(): Promise<void>;
}

/** Starts a proxy in front of the socket at this path. */
export async function startProxy(path: string): Promise<TestProxy> {
  const open = new Set<Socket>();
  let isRefusing = false;
  let isDropping = false;
  let connections = 0;
  const server = createServer((client) => {
    connections += 1;
    if (isRefusing) {
      client.destroy();
      return;
    }
    const far = connect(path);
    for (const [from, to] of [
      [client, far],
      [far, client],
    ] as const) {
      open.add(from);
      from.on('data', (bytes: Buffer) => {
        if (from === client || !isDropping) to.write(bytes);
      });
      from.on('error', () => undefined);
      from.on('close', () => {
        open.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  const cut = (): void => {
    isDropping = false;
    for (const socket of open) socket.destroy();
  };
  return {
    url: `postgres://troupe@127.0.0.1:${address.port}/postgres`,
    get connections() {
      return connections;
    },
    cut,
    dropAnswers() {
      isDropping = true;
    },
    refuse(now) {
      isRefusing = now;
    },
    async close() {
      cut();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
