/**
 * Decides which clients may hold connections.
 *
 * Owns: the number of open connections of each address. Does not own: requests. Belongs to one server.
 *
 *  O1  One address holds at most its share of the connections, so one client cannot take all connections.
 *  O2  A connection beyond a bound is admitted for a short time and may only request `/healthz` and `/readyz`. If there
 *      are too many such connections, the oldest of them is closed. A health probe sends its request at once, so it is
 *      answered before its connection becomes the oldest.
 *  O3  A refused request is answered with a problem.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { SERVER_FULL_RETRY_MS, SERVER_HEALTH_CONNECTIONS_MAX, SERVER_HEALTH_MS_MAX } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { LimitError } from '../index.ts';
import { problemResponse } from './problem.ts';

/** Paths allowed on a connection beyond the bounds. */
const HEALTH_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** Bounds of a gate. */
export interface GateOptions {
  readonly connections: number;
  readonly connectionsPerAddress: number;
  readonly clock: Clock;
}

/** See the file header. */
export class ConnectionGate {
  readonly #options: GateOptions;
  readonly #byAddress = new Map<string, number>();
  /** Connections beyond a bound, oldest first. */
  readonly #beyond = new Set<Socket>();
  #size = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** Takes a new connection. */
  take(socket: Socket): void {
    const { connections, connectionsPerAddress, clock } = this.#options;
    const address = socket.remoteAddress ?? '';
    const ofAddress = this.#byAddress.get(address) ?? 0;
    if (this.#size < connections && ofAddress < connectionsPerAddress) {
      this.#size += 1;
      this.#byAddress.set(address, ofAddress + 1);
      socket.once('close', () => this.#left(address));
      return;
    }
    this.#beyond.add(socket);
    const timer = clock.setTimer(() => socket.destroy(), SERVER_HEALTH_MS_MAX);
    socket.once('close', () => {
      this.#beyond.delete(socket);
      clock.clearTimer(timer);
    });
    const [oldest] = this.#beyond;
    if (this.#beyond.size > SERVER_HEALTH_CONNECTIONS_MAX) oldest?.destroy();
  }

  /** Refuses a request that its connection may not make, and answers it. Returns false if the request is allowed. */
  refuses(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    if (!this.#beyond.has(incoming.socket)) return false;
    outgoing.shouldKeepAlive = false;
    const [path = ''] = (incoming.url ?? '').split('?', 1);
    if (HEALTH_PATHS.has(path)) return false;
    const { connections, connectionsPerAddress } = this.#options;
    const error = new LimitError(`at most ${connectionsPerAddress} connections of one address, ${connections} in all`, {
      retryable: true,
      data: { limit: 'connections', retryAfterMs: SERVER_FULL_RETRY_MS },
    });
    answerProblem(error, outgoing);
    return true;
  }

  #left(address: string): void {
    this.#size -= 1;
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}

function answerProblem(error: LimitError, outgoing: ServerResponse): void {
  // The callback would receive an internal error. This error is not internal: the client sees its message.
  const response = problemResponse(error, () => undefined);
  for (const [name, value] of response.headers) outgoing.setHeader(name, value);
  outgoing.statusCode = response.status;
  response.text().then(
    (text) => outgoing.end(text),
    () => outgoing.destroy(),
  );
}
