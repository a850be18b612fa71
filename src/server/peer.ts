/**
 * The address a request came from, where a bridge knows it. A `Request` has no place for one, and a header could be sent by anyone.
 */

const peers = new WeakMap<Request, string>();

/** Says where a request came from: the other end of its connection. */
export function setPeer(request: Request, address: string): void {
  peers.set(request, address);
}

/** Where a request came from; undefined for one no bridge of ours made. */
export function peerOf(request: Request): string | undefined {
  return peers.get(request);
}
