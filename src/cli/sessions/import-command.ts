/**
 * `troupe import`: reads the history of a session from the lines that `troupe export --history` writes. Calls no model.
 */
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { IMPORT_CHARACTERS_MAX, STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { ConfigError, InvalidNameError, LimitError, StoreLockedError } from '../../base/errors.ts';
import type { HistoryDraft } from '../../base/history-message.ts';
import { checkSessionId } from '../../base/ids.ts';
import { type Agent, agent, type Logger, open } from '../../index.ts';
import { storeOwner } from '../../journal/store/lock.ts';
import { readManifest } from '../../journal/store/manifest.ts';
import { readHistoryLines } from '../../runtime/handles/history-lines.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, prepareDataDirectory, shownPath } from '../places/data-directory.ts';
import { NO_MODEL } from '../places/opened-store.ts';
import { readStore, type StoredSessions } from '../places/stored-sessions.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, printableJson } from '../text-layout.ts';

/** The agent of sessions for which no agent is named. */
const DEFAULT_AGENT = 'default';

/** See the head of the file. */
export const importCommand: Command = {
  positionals: [{ name: 'session', required: true, help: 'Session to fill; created if missing', completes: 'session' }],
  options: {
    data: DATA_OPTION,
    in: { kind: 'text', value: 'FILE', help: 'File to read (default: stdin)' },
    agent: { kind: 'text', value: 'NAME', help: `Agent of a new session (default: ${DEFAULT_AGENT})` },
    replace: { kind: 'flag', help: 'Replace the messages of an existing session' },
    json: JSON_OPTION,
  },
  details: [
    'Reads what `troupe export --history` and `session.history.export()` write: a head with the format version, then one message per line. The messages of `troupe export` without --history are refused: they lack the thoughts of the model, and which messages were one answer.',
    'Interrupted exchanges are left out: a call without a result, a result without a call. All lines become one durable event, or none does.',
    'Calls no model and runs no tool. Refuses while a process has the directory open, and while sessions of the same agent have work: their own program continues it.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const data = dataDirectory(given, surroundings);
  await requireUnused(data, surroundings);
  const id = checked(() => checkSessionId(given.positional('session')), '<session>');
  // All lines are read before anything is written, so that invalid lines change nothing.
  const drafts = await readHistoryLines(textLines(pieces(given, surroundings), IMPORT_CHARACTERS_MAX));
  await prepareDataDirectory(data);
  const isStore = (await readManifest(data)) !== undefined;
  const wanted = { id, agent: given.text('agent'), replace: given.flag('replace') };
  const name = isStore ? await readStore(data, (sessions) => agentFor(sessions, wanted)) : wanted.agent;
  const definition = checked(() => agent({ name: name ?? DEFAULT_AGENT }), '--agent');
  const messages = await seed(data, { id, agent: definition, drafts }, commandLogger(surroundings));
  surroundings.stdout.write(
    given.flag('json')
      ? `${printableJson({ session: id, agent: definition.name, lines: drafts.length, messages })}\n`
      : `${counted(messages, 'message')} of ${id} read into ${shownPath(data, surroundings)}${leftOut(drafts.length - messages)}\n`,
  );
  return EXIT.ok;
}

/**
 * Rejects with `StoreLockedError` while a process has the directory open. The HTTP interface cannot seed a history, so a
 * server of the directory is of no help.
 */
async function requireUnused(data: string, surroundings: Surroundings): Promise<void> {
  const owner = (await readManifest(data)) === undefined ? undefined : await storeOwner(data);
  if (owner === undefined) return;
  const { pid, host, since } = owner;
  const holder = `${shownPath(data, surroundings)} is in use by process ${pid} on ${host} since ${new Date(since).toISOString()}`;
  throw new StoreLockedError(
    `${holder}, and import writes the directory itself. End that process first, or let it call session.history.import() or seed()`,
    { data: { pid, host, since } },
  );
}

function leftOut(messages: number): string {
  return messages > 0 ? `; ${counted(messages, 'message')} of interrupted exchanges left out` : '';
}

/** Puts the messages into the session; resolves to the session's number of messages afterwards. */
async function seed(
  data: string,
  { id, agent, drafts }: { readonly id: string; readonly agent: Agent; readonly drafts: readonly HistoryDraft[] },
  logger: Logger,
): Promise<number> {
  const threads = { sessions: 0, models: 0, tools: 1 };
  const runtime = await open(data, { agents: [agent], provider: NO_MODEL, threads, logger });
  try {
    const { history } = runtime.session(id, agent.name);
    await history.seed(drafts);
    return (await history.toArray()).length;
  } finally {
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

interface Wanted {
  readonly id: string;
  readonly agent: string | undefined;
  readonly replace: boolean;
}

/**
 * The agent of the session, or of the session to be created. Throws `UsageError` when the lines must not be imported.
 */
function agentFor(sessions: StoredSessions, { id, agent, replace }: Wanted): string {
  const found = sessions.session(id);
  if (found !== undefined && agent !== undefined && agent !== found.agent) {
    throw new UsageError(
      `session ${JSON.stringify(id)} is of the agent ${JSON.stringify(found.agent)}; leave --agent out`,
    );
  }
  if (found !== undefined && found.messages > 0 && !replace) {
    const has = `session ${JSON.stringify(id)} has ${counted(found.messages, 'message')}`;
    throw new UsageError(`${has}; --replace replaces them`);
  }
  const name = agent ?? found?.agent ?? DEFAULT_AGENT;
  const busy = sessions.list().find((each) => each.agent === name && (each.state !== 'idle' || each.mailbox > 0));
  if (busy === undefined) return name;
  throw new ConfigError(
    `session ${JSON.stringify(busy.id)} of the agent ${JSON.stringify(name)} has work, which opening the directory would continue; let its program finish first`,
  );
}

async function* pieces(given: Arguments, { stdin, directory }: Surroundings): AsyncGenerator<string, void, undefined> {
  const file = given.text('in');
  if (file === undefined) {
    if (stdin.isTerminal) throw new UsageError('nothing is piped in; give a file: --in FILE, or < FILE');
    yield* stdin.pieces();
    return;
  }
  try {
    yield* createReadStream(resolve(directory, file), { encoding: 'utf8' }) as AsyncIterable<string>;
  } catch (error) {
    throw new UsageError(`--in ${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** Turns an invalid name into a `UsageError`. */
function checked<T>(read: () => T, name: string): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidNameError) && !(error instanceof ConfigError)) throw error;
    throw new UsageError(`${name}: ${error.message}`, { cause: error });
  }
}

/** The byte order mark with which some editors begin a file. */
const BYTE_ORDER_MARK = '\ufeff';

/**
 * The lines, without their ends (LF or CRLF). Rejects with `LimitError` once the text is longer than `charactersMax`
 * UTF-16 units: a text without line ends must not accumulate without bound.
 */
async function* textLines(
  pieces: AsyncIterable<string>,
  charactersMax: number,
): AsyncGenerator<string, void, undefined> {
  let characters = 0;
  let isFirst = true;
  /** Pieces of the unfinished line, which are joined once, not at each piece. */
  let open: string[] = [];
  const lineOf = (end: string): string => {
    open.push(end);
    const line = open.join('');
    open = [];
    const bare = isFirst && line.startsWith(BYTE_ORDER_MARK) ? line.slice(BYTE_ORDER_MARK.length) : line;
    isFirst = false;
    return bare.endsWith('\r') ? bare.slice(0, -1) : bare;
  };
  for await (const piece of pieces) {
    characters += piece.length;
    if (characters > charactersMax) {
      throw new LimitError(`at most ${charactersMax} characters can be read at once`, {
        data: { limit: 'importCharacters', value: characters },
      });
    }
    let from = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
      yield lineOf(piece.slice(from, end));
      from = end + 1;
    }
    if (from < piece.length) open.push(piece.slice(from));
  }
  if (open.length > 0) yield lineOf('');
}
