/**
 * The HTTP servers of a runtime, named in the lock of its data directory. A command on the same directory finds the
 * server to ask there.
 */
import type { StoreServer } from '../../journal/store/lock.ts';
import type { Runtime } from './runtime.ts';

/** Names a server in the lock of the store, or none. */
export type Announce = (server: StoreServer | undefined) => Promise<void>;

/** The servers of a runtime that listen now, oldest first; the lock names the first. */
interface Announced {
  readonly announce: Announce;
  readonly servers: Set<StoreServer>;
}

const announcedOf = new WeakMap<Runtime, Announced>();

/** Lets the servers of a runtime be named in the lock of its directory. */
export function keepAnnounced(runtime: Runtime, announce: Announce): void {
  announcedOf.set(runtime, { announce, servers: new Set() });
}

/**
 * Names a server of the runtime in the lock of its directory. Resolves to the function that withdraws the server. Does
 * nothing for a runtime in memory. Both functions reject with `StoreFullError` if the lock cannot be written.
 */
export async function announceServer(runtime: Runtime, server: StoreServer): Promise<() => Promise<void>> {
  const announced = announcedOf.get(runtime);
  if (announced === undefined) return () => Promise.resolve();
  const { announce, servers } = announced;
  servers.add(server);
  const write = (): Promise<void> => announce(servers.values().next().value);
  await write();
  return () => {
    servers.delete(server);
    return write();
  };
}
