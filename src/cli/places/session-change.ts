/** Changes a session where it is: a running server changes it, or the command itself opens the directory. */
import type { Runtime } from '../../index.ts';
import type { Surroundings } from '../surroundings.ts';
import { changeStore } from './opened-store.ts';
import type { Place } from './place.ts';
import { readPlace } from './read-place.ts';
import type { Server } from './server.ts';
import type { SessionReader } from './session-reader.ts';

/** The two ways to change a session. */
export interface ChangeWays<T> {
  readonly served: (server: Server) => Promise<T>;
  readonly stored: (runtime: Runtime) => Promise<T>;
}

/**
 * Changes a session that exists. In a directory only its log changes: nothing starts. Rejects with `NotFoundError` for
 * an unknown session.
 */
export async function changeSession<T>(
  place: Place,
  id: string,
  surroundings: Surroundings,
  { served, stored }: ChangeWays<T>,
): Promise<T> {
  if (place.kind === 'server') return served(place.server);
  const agents = await readPlace(place, async (reader) => {
    await reader.session(id);
    return agentNames(reader);
  });
  return changeStore(place, agents, surroundings, stored);
}

/** The names of the agents that sessions of a store have. */
export async function agentNames(reader: SessionReader): Promise<ReadonlySet<string>> {
  const { sessions } = await reader.list({}, Number.POSITIVE_INFINITY);
  return new Set(sessions.map(({ agent }) => agent));
}
