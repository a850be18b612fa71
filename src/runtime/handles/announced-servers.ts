/**
 * Writes the address of a runtime's HTTP server into the lock of its data directory. A command on the same directory
 * reads the address there, and sends its requests to that server.
 */
import type { StoreServer } from '../../journal/store/lock.ts';
import type { Runtime } from './runtime.ts';

/** Writes the address of a server into the lock of the store; `undefined` removes it. */
export type Announce = (server: StoreServer | undefined) => Promise<void>;

/** The servers of a runtime that listen now, oldest first. The lock has the address of the first one. */
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
 * Both calls do nothing for a runtime in memory, and reject with `StoreFullError` if the lock cannot be written.
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
