/** `troupe serve`: serves the sessions of a data directory over HTTP until a signal arrives. */
import { resolve } from 'node:path';
import { SERVE_DRAIN_MS, SERVE_PORT_DEFAULT, SERVER_CONNECTIONS_MAX, STOP_DEADLINE_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { asError } from '../base/errors.ts';
import { anthropic, CancelledError, open, type Runtime } from '../index.ts';
import { type RunningServer, serve } from '../server/index.ts';
import { agentsModule } from './agents-module.ts';
import { type Arguments, type Command, EXIT } from './command.ts';
import { commandLogger } from './command-logger.ts';
import { DATA_OPTION, dataDirectory, prepareDataDirectory, shownPath } from './places/data-directory.ts';
import { KEY_FILE_OPTION, keysOf } from './places/key-file.ts';
import { tokenOf } from './places/place.ts';
import { hasCredentials } from './review/agents.ts';
import type { StopSignal, Surroundings } from './surroundings.ts';
import { printable, printableJson } from './text-layout.ts';
import { readTokensFile } from './tokens-file.ts';

/** The environment variable for a token that must not appear in a list of processes. */
const TOKEN_VARIABLE = 'TROUPE_TOKEN';

/** See the head of the file. */
export const serveCommand: Command = {
  positionals: [
    {
      name: 'dir',
      required: false,
      help: 'Data directory, created if missing; may also be given with --data',
      completes: 'directory',
    },
  ],
  options: {
    data: DATA_OPTION,
    port: {
      kind: 'count',
      value: 'PORT',
      min: 0,
      max: 65_535,
      help: `Port to listen on; 0: any free one (default: ${SERVE_PORT_DEFAULT})`,
    },
    host: { kind: 'text', value: 'ADDRESS', help: 'Address to listen on (default: 127.0.0.1); others need a token' },
    token: { kind: 'text', value: 'TOKEN', help: `Required in every request; better set as ${TOKEN_VARIABLE}` },
    tokens: {
      kind: 'text',
      value: 'FILE',
      help: 'JSON list of { "token", "role", "tenant"?, "name"? }, readable by its owner alone',
    },
    'connections-per-address': {
      kind: 'count',
      value: 'N',
      min: 1,
      max: SERVER_CONNECTIONS_MAX,
      help: 'Connections one address may hold (default: a quarter of all); behind a proxy all clients share one',
    },
    backups: { kind: 'text', value: 'DIR', help: 'Directory for the backups that clients ask for (default: none)' },
    agents: {
      kind: 'text',
      value: 'MODULE',
      help: 'Module whose default export is the agents, or the options of open()',
    },
    'key-file': KEY_FILE_OPTION,
    json: { kind: 'flag', help: 'Print one JSON object with the address once it listens' },
  },
  details: [
    'POST /sessions, POST /sessions/:id/messages, GET /sessions/:id/events and the rest are in GET /openapi.json; the observer page is at /observer/, figures for Prometheus at /metrics.',
    'Without --agents there is one agent, answered by Claude with the key in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN. Sessions of other agents are shown but do not run.',
    'Opening a data directory continues all interrupted work of its agents. A signal drains: nothing new is accepted (503), running turns have ten seconds, event streams end, the directory is closed. After SIGTERM the exit code is 0; a second signal ends the process at once.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, environment, directory } = surroundings;
  const data = dataDirectory(given, surroundings, given.positional('dir'));
  const module = given.text('agents');
  const options = module === undefined ? { provider: anthropic() } : await agentsModule(module, directory);
  if (module === undefined && !hasCredentials(environment)) {
    stderr.write('Without ANTHROPIC_API_KEY sessions can be read; messages to them reach no model.\n');
  }
  const tokensFile = given.text('tokens');
  const tokens = tokensFile === undefined ? undefined : await readTokensFile(tokensFile, directory);
  await prepareDataDirectory(data);
  let stop: (signal: StopSignal) => void = () => undefined;
  const stopped = new Promise<StopSignal>((resolve) => {
    stop = resolve;
  });
  const forget = surroundings.onStop((signal) => {
    // The next signal ends the process as usual.
    forget();
    stop(signal);
  });
  const logger = options.logger ?? commandLogger(surroundings);
  const encryption = await keysOf(given, surroundings);
  const runtime = await open(data, { ...options, ...defined({ encryption }), logger });
  let server: RunningServer | undefined;
  try {
    const token = tokenOf(given, surroundings);
    const host = given.text('host');
    const backups = given.text('backups');
    const connectionsPerAddress = given.count('connections-per-address');
    server = await serve(runtime, {
      port: given.count('port') ?? SERVE_PORT_DEFAULT,
      onError: (error) => {
        if (logger !== false) logger.error({ err: asError(error) }, 'a request failed');
      },
      ...defined({
        host,
        connectionsPerAddress,
        backups: backups === undefined ? undefined : resolve(directory, backups),
      }),
      ...defined({ token, tokens }),
    });
    stdout.write(
      given.flag('json')
        ? `${printableJson({ url: server.url, directory: data })}\n`
        : `Serving ${printable(shownPath(data, surroundings))} at ${server.url}\nObserver: ${server.url}/observer/\n`,
    );
    const signal = await stopped;
    // Running turns get time to end, and their callers are answered. Reads and probes are still answered.
    server.drain();
    await drained(runtime);
    // After SIGTERM the server ended because a process manager asked for that, which is not a failure.
    return signal === 'SIGTERM' ? EXIT.ok : EXIT[signal];
  } finally {
    forget();
    // Streams receive all events so far and end. The listening socket closes last, so that `/readyz` still answers that
    // the server is closing.
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
    await server?.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

/** Resolves when no work runs or waits, or the deadline has passed. Interrupted work continues at the next open. */
async function drained(runtime: Runtime): Promise<void> {
  try {
    await runtime.drain({ signal: AbortSignal.timeout(SERVE_DRAIN_MS) });
  } catch (error) {
    if (!(error instanceof CancelledError)) throw error;
  }
}
