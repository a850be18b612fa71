/**
 * The server's side of lines: accepts connections of nodes that have the secret and the same version.
 *
 * Owns: the listening socket, the connections that are no lines yet, and the lines until they end. Does not own: what an
 * endpoint is asked over a line.
 *
 * Invariants:
 *  LS1 at most `LINES_MAX` connections are open. A further one is ended before its handshake;
 *  LS2 a connection that is no line after `LINE_HELLO_MS` is destroyed;
 *  LS3 `close()` ends everything and resolves when all sockets have closed. Lines send what was posted before;
 *  LS4 a kind of failure is reported at most once in `LINE_REPORT_MS`;
 *  LS5 no socket keeps the process alive: the runtime decides how long its process lives.
 */
import type { AddressInfo, Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { LINE_HELLO_MS, LINE_REPORT_MS, LINES_MAX } from '../../base/bounds.ts';
import { type Clock, setIdleTimer } from '../../base/clock.ts';
import { asError, ConfigError, LimitError, systemCodeOf } from '../../base/errors.ts';
import { createEndpoint } from '../../threads/batched-endpoint.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { NodeAddress } from '../plan.ts';
import { exchangeHellos } from './line-hello.ts';
import { createLinePort } from './line-port.ts';
import { addressText, isOtherSecret, type LineFailure, serverTls } from './line-tls.ts';

/** The parts of a line server. */
export interface LineServerParts {
  /** The place to listen at. Port 0: any free port. */
  readonly listen: NodeAddress;
  readonly secret: string;
  /** The version of troupe. Other nodes must have the same. */
  readonly version: string;
  readonly clock: Clock;
  /** Called with each line. Sets the handlers before it returns. */
  readonly accepted: (endpoint: Endpoint) => void;
  /** Called for refused connections and for lines that end by an error (LS4). */
  readonly failed: LineFailure;
}

/** A node that answers lines. */
export interface LineServer {
  /** The host that was given, and the port it listens on. */
  readonly address: NodeAddress;
  /** Ends all lines. See LS3. */
  close(): Promise<void>;
}

/** Kinds of failure, each reported by itself (LS4). */
type Kind = 'full' | 'handshake' | 'hello' | 'line' | 'secret' | 'server';

/** A connection that is no line yet. */
interface Newcomer {
  readonly raw: Socket;
  readonly deadline: unknown;
}

/** Listens for lines. Rejects with `ConfigError` if it cannot listen there (`data.key` is `postgres.listen`). */
export async function listenForLines(parts: LineServerParts): Promise<LineServer> {
  const lines = new Lines(parts);
  await lines.listen();
  return lines;
}

class Lines implements LineServer {
  readonly #parts: LineServerParts;
  readonly #server: Server;
  /** By the addresses of both sides: Node does not say which connection a secured socket has. */
  readonly #newcomers = new Map<string, Newcomer>();
  readonly #lines = new Set<Endpoint>();
  readonly #reportedMs = new Map<Kind, number>();
  #address: NodeAddress;
  #closed: Promise<void> | undefined;

  constructor(parts: LineServerParts) {
    this.#parts = parts;
    this.#address = parts.listen;
    this.#server = createServer(serverTls(parts.secret));
    this.#server.maxConnections = LINES_MAX;
    this.#server.on('drop', () => {
      const details = { data: { limit: 'lines' }, retryable: true };
      this.#report('full', 'a node was refused', new LimitError(`more than ${LINES_MAX} lines are open`, details));
    });
    this.#server.on('connection', this.#connected);
    this.#server.on('secureConnection', (socket) => void this.#secured(socket));
    this.#server.on('tlsClientError', this.#refused);
  }

  get address(): NodeAddress {
    return this.#address;
  }

  listen(): Promise<void> {
    const { host, port } = this.#parts.listen;
    return new Promise((resolve, reject) => {
      const refused = (cause: Error): void => {
        const where = addressText({ host, port });
        reject(
          new ConfigError(
            `option "postgres.listen": cannot listen at ${where}: ${systemCodeOf(cause) ?? cause.message}`,
            {
              data: { key: 'postgres.listen', host, port },
              cause,
            },
          ),
        );
      };
      this.#server.once('error', refused);
      this.#server.listen(port, host, () => {
        this.#server.off('error', refused);
        this.#server.on('error', (error) => this.#report('server', 'a connection of a node was not accepted', error));
        this.#server.unref();
        this.#address = { host, port: (this.#server.address() as AddressInfo).port };
        resolve();
      });
    });
  }

  close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const { raw } of this.#newcomers.values()) raw.destroy();
      for (const line of this.#lines) line.close();
    });
    return this.#closed;
  }

  #connected = (raw: Socket): void => {
    const key = connectionKey(raw);
    raw.unref();
    // Enforces LS2.
    const deadline = setIdleTimer(this.#parts.clock, () => raw.destroy(), LINE_HELLO_MS);
    this.#newcomers.set(key, { raw, deadline });
    raw.once('close', () => this.#dismiss(key));
  };

  #dismiss(key: string): void {
    this.#parts.clock.clearTimer(this.#newcomers.get(key)?.deadline);
    this.#newcomers.delete(key);
  }

  #refused = (error: Error, socket: TLSSocket): void => {
    socket.destroy();
    if (!isOtherSecret(error)) {
      this.#report('handshake', 'a connection of no node was refused', error);
      return;
    }
    const refusal = new ConfigError(
      'option "postgres.secret": a node has another secret; give all nodes of a cluster the same',
      { data: { key: 'postgres.secret' }, cause: error },
    );
    this.#report('secret', 'a node was refused', refusal);
  };

  async #secured(socket: TLSSocket): Promise<void> {
    const { version, clock, accepted } = this.#parts;
    const key = connectionKey(socket);
    const peer = `the node at ${socket.remoteAddress}`;
    let broken: Error | undefined;
    socket.on('error', (error) => {
      broken ??= error;
    });
    socket.setNoDelay(true);
    try {
      await exchangeHellos(socket, version, peer);
      if (broken !== undefined) throw broken;
    } catch (error) {
      this.#report('hello', 'a node was refused', asError(error));
      return;
    }
    this.#dismiss(key);
    const port = createLinePort(socket, clock);
    const endpoint = createEndpoint(port);
    this.#lines.add(endpoint);
    port.on('close', (reason) => {
      this.#lines.delete(endpoint);
      if (reason instanceof Error) this.#report('line', `the line of ${peer} broke`, reason);
    });
    if (this.#closed === undefined) accepted(endpoint);
    else endpoint.close();
  }

  #report(kind: Kind, message: string, error: Error): void {
    const nowMs = this.#parts.clock.monotonic();
    const lastMs = this.#reportedMs.get(kind);
    if (lastMs !== undefined && nowMs - lastMs < LINE_REPORT_MS) return;
    this.#reportedMs.set(kind, nowMs);
    this.#parts.failed(message, error);
  }
}

function connectionKey({ localAddress, localPort, remoteAddress, remotePort }: Socket): string {
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}
