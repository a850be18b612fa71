/**
 * The address a request came from, if a bridge knows it. A `Request` has no member for the address, and a header could
 * be sent by any client.
 */

const peers = new WeakMap<Request, string>();

/** Stores the origin of a request: the other end of its connection. */
export function setPeer(request: Request, address: string): void {
  peers.set(request, address);
}

/** The origin of a request. Undefined for a request that no bridge of ours made. */
export function peerOf(request: Request): string | undefined {
  return peers.get(request);
}
