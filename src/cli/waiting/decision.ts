/** A decision about a call that waits for a person: sent to a running server, or made in a data directory. */

import { STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { open, type Runtime } from '../../index.ts';
import { agentsModule } from '../agents-module.ts';
import { type Arguments, EXIT, type OptionSpec, type PositionalSpec, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { AUTHOR_OPTION, authorAt } from '../places/author.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import type { Server } from '../places/server.ts';
import type { StopSignal, Surroundings } from '../surroundings.ts';

/** The arguments that name the call. */
export const CALL_POSITIONALS: readonly PositionalSpec[] = [
  { name: 'session', required: true, help: 'Session of the call', completes: 'session' },
  { name: 'call', required: true, help: 'Id of the call, as `troupe waiting` shows it' },
];

/** The options that name the place of the call, and the agents that continue its session. */
export const DECISION_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  agents: {
    kind: 'text',
    value: 'MODULE',
    help: 'For a directory that no process has open: module whose default export is the agents, or the options of open()',
  },
  ...AUTHOR_OPTION,
  ...PLACE_OPTIONS,
};

/** The two ways to decide. Each resolves to whether the decision holds. */
export interface Ways {
  readonly served: (server: Server) => Promise<boolean>;
  /** `by`: the author of the decision. */
  readonly stored: (runtime: Runtime, by: string) => Promise<boolean>;
}

/**
 * Decides a call on the server or in the directory that has its session. Resolves to whether the decision holds, or to
 * the exit code of the signal that stopped the work. Rejects with `NotFoundError` for an unknown session.
 */
export async function decide(
  given: Arguments,
  session: string,
  surroundings: Surroundings,
  ways: Ways,
): Promise<boolean | number> {
  const module = given.text('agents');
  if (given.text('url') !== undefined && module !== undefined)
    throw new UsageError('--url and --agents exclude each other');
  const place = await findPlace(given, surroundings);
  const by = authorAt(place, given);
  if (place.kind === 'server') return ways.served(place.server);
  await readPlace(place, (sessions) => sessions.session(session));
  if (module !== undefined) return decideStored(place, module, surroundings, (runtime) => ways.stored(runtime, by));
  throw new UsageError(
    `no process has ${place.shown} open, so the session would continue in this one: --agents MODULE is needed; or --url`,
  );
}

async function decideStored(
  { directory, keys }: Extract<Place, { readonly kind: 'directory' }>,
  module: string,
  surroundings: Surroundings,
  decideIn: (runtime: Runtime) => Promise<boolean>,
): Promise<boolean | number> {
  const options = await agentsModule(module, surroundings.directory);
  const logger = options.logger ?? commandLogger(surroundings);
  const runtime = await open(directory, { ...options, ...defined({ encryption: keys }), logger });
  let stopped: StopSignal | undefined;
  const stop = new AbortController();
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  try {
    const decided = await decideIn(runtime);
    // The allowed call must not be cut off: if its tool has the effect `once`, the call would be lost.
    await runtime.drain({ signal: stop.signal });
    return decided;
  } catch (error) {
    if (stopped === undefined) throw error;
    return EXIT[stopped];
  } finally {
    forget();
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}
