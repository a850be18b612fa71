/**
 * Keeps the address from which a request came, if a bridge knows that address. The address is kept here because a
 * `Request` has no member for it, and any client could forge a header.
 */

const peers = new WeakMap<Request, string>();

/** Stores the address of the other end of a request's connection. */
export function setPeer(request: Request, address: string): void {
  peers.set(request, address);
}

/** The address from which a request came. Undefined for a request that no bridge of this library made. */
export function peerOf(request: Request): string | undefined {
  return peers.get(request);
}
