/**
 * Calls an object on another thread as if it were local: comlink over a dedicated message port.
 *
 * Used for tools that the embedder gives as values. Arguments and results are cloned. Pass no functions: comlink would
 * open a channel for each. All other requests between two threads, and the progress of tools, go over an endpoint
 * (`endpoint.ts`).
 *
 * Invariants:
 * B1 every call settles: with the result, with the far side's error (class, code and cause kept), or when the port
 *    closes.
 * B2 only the methods of the object and of its classes can be called. Methods of `Object.prototype` and methods of
 *    objects in its members cannot.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as comlink from 'comlink';
import { TroupeError } from '../base/errors.ts';
import { decodeError, type EncodedError, encodeError } from './error-codec.ts';

/** A port that can be moved to another thread in `workerData` or a message. */
export type BridgePort = MessagePort;

/** `T` seen from the other side: every method returns a promise. */
export type Remote<T> = {
  readonly [Key in keyof T as T[Key] extends (...args: never[]) => unknown ? Key : never]: T[Key] extends (
    ...args: infer Args
  ) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

/** The calling side of a bridge. */
export interface Bridge<T> {
  readonly remote: Remote<T>;
  /** Rejects open calls and closes the port. */
  close(): void;
}

/** The two ends of a new bridge; move one of them to the other thread. */
export function createBridgePorts(): { readonly exposed: BridgePort; readonly wrapped: BridgePort } {
  const { port1, port2 } = new MessageChannel();
  return { exposed: port1, wrapped: port2 };
}

type Reply = { readonly value: unknown } | { readonly error: EncodedError };
/** The only function that comlink exposes: a call by name that answers with data and never throws. */
type Invoke = (method: string, args: readonly unknown[]) => Promise<Reply>;

/**
 * Lets the other side of `port` call `object`'s methods. Returns a function that ends the exposure. The port does not
 * keep the process alive.
 */
export function exposeObject(object: object, port: BridgePort): () => void {
  const invoke: Invoke = async (method, args) => {
    try {
      return { value: await methodOf(object, method).apply(object, [...args]) };
    } catch (error) {
      return { error: encodeError(error) };
    }
  };
  comlink.expose(invoke, comlinkEndpoint(port));
  port.unref();
  return () => port.close();
}

function methodOf(object: object, method: string): (...args: unknown[]) => unknown {
  for (let owner: object | null = object; owner !== null; owner = Object.getPrototypeOf(owner) as object | null) {
    if (owner === Object.prototype || method === 'constructor') break;
    if (!Object.hasOwn(owner, method)) continue;
    const value: unknown = Reflect.get(object, method);
    if (typeof value === 'function') return value as (...args: unknown[]) => unknown;
  }
  throw new TroupeError('internal', `the exposed object has no method ${JSON.stringify(method)}`);
}

/** The object exposed on the other side of `port`. Open calls keep the process alive, an idle bridge does not. */
export function wrapObject<T extends object>(port: BridgePort): Bridge<T> {
  const invoke = comlink.wrap<Invoke>(comlinkEndpoint(port)) as unknown as Invoke;
  const open = new Set<(error: Error) => void>();
  let closed = false;
  port.unref();
  port.on('close', () => {
    closed = true;
    for (const reject of open) reject(closedError());
    open.clear();
  });
  const call = (method: string, args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (closed) return reject(closedError());
      // comlink does not notice a closed port. The `close` listener above rejects the calls in this set (B1).
      open.add(reject);
      if (open.size === 1) port.ref();
      const settle = (): void => {
        if (open.delete(reject) && open.size === 0) port.unref();
      };
      invoke(method, args).then(
        (reply) => {
          settle();
          if ('error' in reply) reject(decodeError(reply.error));
          else resolve(reply.value);
        },
        (error: unknown) => {
          settle();
          reject(error);
        },
      );
    });
  const remote = new Proxy(Object.create(null) as object, {
    get: (_target, key) =>
      // A remote must not look like a promise, or awaiting it would call the far side's `then`.
      typeof key === 'symbol' || key === 'then' ? undefined : (...args: unknown[]) => call(key, args),
  });
  return { remote: remote as Remote<T>, close: () => port.close() };
}

function closedError(): Error {
  return new TroupeError('internal', 'the bridge to the other thread is closed', { retryable: true });
}

type Listener = (event: { readonly data: unknown }) => void;
/**
 * Adapts a port of Node to comlink. comlink listens for DOM-like events with `data`; Node's ports emit the value
 * itself.
 */
function comlinkEndpoint(port: BridgePort): comlink.Endpoint {
  const taps = new Map<unknown, (data: unknown) => void>();
  const endpoint = {
    postMessage: (message: unknown, transfer?: readonly object[]) =>
      port.postMessage(message, (transfer ?? []) as never),
    addEventListener: (_type: string, listener: Listener | { handleEvent: Listener }) => {
      const tap = (data: unknown): void =>
        typeof listener === 'function' ? listener({ data }) : listener.handleEvent({ data });
      taps.set(listener, tap);
      port.on('message', tap);
    },
    removeEventListener: (_type: string, listener: unknown) => {
      const tap = taps.get(listener);
      if (tap !== undefined) port.off('message', tap);
      taps.delete(listener);
    },
  };
  return endpoint as unknown as comlink.Endpoint;
}
