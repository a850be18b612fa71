/** The client's side of a line: connects, proves the secret, compares the hellos, and makes an endpoint. */
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import { type Clock, setIdleTimer } from '../../base/clock.ts';
import { asError, ConfigError, TimeoutError, TroupeError } from '../../base/errors.ts';
import { createEndpoint } from '../../threads/batched-endpoint.ts';
import { type Endpoint, endpointWith } from '../../threads/endpoint.ts';
import type { NodeAddress } from '../plan.ts';
import { exchangeHellos } from './line-hello.ts';
import { createLinePort } from './line-port.ts';
import { addressText, clientTls, isOtherSecret, type LineFailure } from './line-tls.ts';

/** The parts of a line that a node opens. */
export interface LineRequest {
  readonly address: NodeAddress;
  readonly secret: string;
  /** The version of troupe. The other node must have the same. */
  readonly version: string;
  readonly clock: Clock;
  /** Milliseconds for the connection, the handshake and the hello together. */
  readonly timeoutMs: number;
  /** Called when an open line ends by an error, with the reason. */
  readonly failed: LineFailure;
}

/** An open line. Its socket keeps the process alive until `unref`. */
export interface Line extends Endpoint {
  ref(): void;
  unref(): void;
}

/**
 * Opens a line to the node at `address`. Rejects with a retryable `TimeoutError` after `timeoutMs`, and with a retryable
 * `TroupeError` if no node can be reached there. Rejects with `ConfigError` if the node has another secret
 * (`data.key` is `postgres.secret`), or another version (retryable, `data.key` is `cluster`). The caller sets its
 * handlers before the next tick.
 */
export async function connectLine(request: LineRequest): Promise<Line> {
  const { address, secret, version, clock, timeoutMs, failed } = request;
  const peer = `the node at ${addressText(address)}`;
  const socket = connect({ ...clientTls(secret), host: address.host, port: address.port });
  socket.setNoDelay(true);
  const deadline = setIdleTimer(
    clock,
    () => socket.destroy(new TimeoutError(`${peer} did not answer within ${timeoutMs} ms`, { data: { ...address } })),
    timeoutMs,
  );
  // A socket that ends after a refusal may take a moment, and has the same deadline.
  socket.once('close', () => clock.clearTimer(deadline));
  try {
    await greeted(socket, version, peer);
  } catch (error) {
    throw refusal(error, peer, address);
  }
  clock.clearTimer(deadline);
  const port = createLinePort(socket, clock);
  port.on('close', (reason) => {
    if (reason instanceof Error) failed(`the line to ${peer} broke`, reason);
  });
  const endpoint = createEndpoint(port);
  return { ...endpointWith(endpoint, {}), ref: () => void socket.ref(), unref: () => void socket.unref() };
}

async function greeted(socket: TLSSocket, version: string, peer: string): Promise<void> {
  let broken: Error | undefined;
  // Each step has its own listener. This one is for an error between two steps.
  socket.on('error', (error) => {
    broken ??= error;
  });
  await once(socket, 'secureConnect');
  if (broken !== undefined) throw broken;
  await exchangeHellos(socket, version, peer);
}

function refusal(thrown: unknown, peer: string, address: NodeAddress): TroupeError {
  const cause = asError(thrown);
  if (isOtherSecret(cause)) {
    return new ConfigError(
      `option "postgres.secret": ${peer} has another secret; give all nodes of a cluster the same`,
      { data: { key: 'postgres.secret', ...address }, cause },
    );
  }
  if (cause instanceof TroupeError) return cause;
  return new TroupeError('internal', `no line to ${peer}: ${cause.message}`, {
    retryable: true,
    data: { ...address },
    cause,
  });
}
