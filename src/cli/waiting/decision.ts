/** A decision about a call that waits for a person: sent to a running server, or made in a data directory. */
import type { z } from 'zod';
import { STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { open, type Runtime } from '../../index.ts';
import { agentsModule } from '../agents-module.ts';
import { type Arguments, EXIT, type OptionSpec, type PositionalSpec, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { answerOf, checked, serverAddress } from '../served-answers.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore } from '../store-directory.ts';
import type { StopSignal, Surroundings } from '../surroundings.ts';

/** The arguments that name the call. */
export const CALL_POSITIONALS: readonly PositionalSpec[] = [
  { name: 'session', required: true, help: 'Session of the call' },
  { name: 'call', required: true, help: 'Id of the call, as `troupe waiting` shows it' },
];

/** The options that name the server, or the directory and its agents. */
export const PLACE_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  url: { kind: 'text', value: 'URL', help: 'A running server, instead of a data directory' },
  token: { kind: 'text', value: 'TOKEN', help: 'Token of the server (default: $TROUPE_TOKEN)' },
  data: DATA_OPTION,
  agents: {
    kind: 'text',
    value: 'MODULE',
    help: 'Without --url: module whose default export is the agents, or the options of open()',
  },
  json: JSON_OPTION,
};

/** A request to the server at `--url`: posts `body` if there is one. Rejects for an answer of another form. */
export type Ask = <T>(path: string, schema: z.ZodType<T>, body?: object) => Promise<T>;

/** The two ways to decide. Each resolves to whether the decision holds. */
export interface Ways {
  readonly served: (ask: Ask) => Promise<boolean>;
  readonly stored: (runtime: Runtime) => Promise<boolean>;
}

/** Throws `UsageError` for options that exclude each other. */
export function checkPlace(given: Arguments): void {
  const isStored = (given.text('data') ?? given.text('agents')) !== undefined;
  if (given.text('url') !== undefined && isStored) throw new UsageError('--url excludes --data and --agents');
}

/**
 * Decides where the arguments say. Resolves to whether the decision holds, or to the exit code of the signal that
 * stopped the work.
 */
export async function decide(given: Arguments, surroundings: Surroundings, ways: Ways): Promise<boolean | number> {
  const url = given.text('url');
  if (url === undefined) return decideStored(given, surroundings, ways.stored);
  const base = serverAddress(url);
  const token = given.text('token') ?? surroundings.environment['TROUPE_TOKEN'];
  return ways.served(async (path, schema, body) => {
    const request = body === undefined ? { token } : { token, body };
    return checked(schema, await answerOf(base, path, request), base);
  });
}

async function decideStored(
  given: Arguments,
  surroundings: Surroundings,
  decideIn: Ways['stored'],
): Promise<boolean | number> {
  const module = given.text('agents');
  if (module === undefined) {
    throw new UsageError(
      '--agents MODULE is needed to decide in a data directory, since the session continues; or --url',
    );
  }
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const options = await agentsModule(module, surroundings.directory);
  const runtime = await open(data, { ...options, logger: options.logger ?? commandLogger(surroundings) });
  let stopped: StopSignal | undefined;
  const stop = new AbortController();
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  try {
    const decided = await decideIn(runtime);
    // The call must not be cut off: a call of a tool with the effect `once` would be lost.
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
