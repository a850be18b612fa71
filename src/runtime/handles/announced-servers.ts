/**
 * Writes the address of a runtime's HTTP server into the lock of its data directory. A command on the same directory
 * reads there which server it can send its requests to.
 */
import type { StoreServer } from '../../journal/store/lock.ts';
import type { Runtime } from './runtime.ts';

/** Writes the address of a server into the lock of the store; `undefined` removes it. */
export type Announce = (server: StoreServer | undefined) => Promise<void>;

/** The servers of a runtime that listen now, oldest first; the lock names the first. */
interface Announced {
  readonly announce: Announce;
  readonly servers: Set<StoreServer>;
}

const announcedOf = new WeakMap<Runtime, Announced>();

/** Sets the function that `announceServer` uses for a runtime. */
export function keepAnnounced(runtime: Runtime, announce: Announce): void {
  announcedOf.set(runtime, { announce, servers: new Set() });
}

/**
 * Announces a server of the runtime in the lock of its directory. Resolves to the function that withdraws the server.
 * For a runtime in memory both do nothing. Both reject with `StoreFullError` if the lock cannot be written.
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
