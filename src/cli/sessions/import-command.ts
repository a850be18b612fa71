/**
 * `troupe import`: reads the history of a session from the lines that `troupe export --history` writes. Calls no model.
 */
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { IMPORT_CHARACTERS_MAX, SERVER_BODY_BYTES_MAX, STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, InvalidNameError, LimitError } from '../../base/errors.ts';
import type { HistoryDraft } from '../../base/history-message.ts';
import { checkSessionId } from '../../base/ids.ts';
import { agent, type Logger, open } from '../../index.ts';
import { readManifest } from '../../journal/store/manifest.ts';
import { readHistoryLines } from '../../runtime/handles/history-lines.ts';
import { type Arguments, type Command, EXIT, NotFoundError, UsageError } from '../command.ts';
import { commandLogger } from '../command-logger.ts';
import { AUTHOR_OPTION, authorAt } from '../places/author.ts';
import { prepareDataDirectory } from '../places/data-directory.ts';
import { NO_MODEL } from '../places/opened-store.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { pathOf } from '../places/served-reader.ts';
import type { SessionReader } from '../places/session-reader.ts';
import type { StoredSession } from '../places/stored-sessions.ts';
import type { Surroundings } from '../surroundings.ts';
import { counted, number, printableJson } from '../text-layout.ts';

/** The agent of sessions for which no agent is named. */
const DEFAULT_AGENT = 'default';

type ServedPlace = Extract<Place, { readonly kind: 'server' }>;
type StoredPlace = Extract<Place, { readonly kind: 'directory' }>;

/** See the head of the file. */
export const importCommand: Command = {
  positionals: [{ name: 'session', required: true, help: 'Session to fill; created if missing', completes: 'session' }],
  options: {
    in: { kind: 'text', value: 'FILE', help: 'File to read (default: stdin)' },
    agent: {
      kind: 'text',
      value: 'NAME',
      help: `Agent of a new session (default: ${DEFAULT_AGENT}; on a server, its only agent)`,
    },
    replace: { kind: 'flag', help: 'Replace the messages of an existing session' },
    ...AUTHOR_OPTION,
    ...PLACE_OPTIONS,
  },
  details: [
    'Reads what `troupe export --history` and `session.history.export()` write: a head with the format version, then one message per line. The messages of `troupe export` without --history are refused: they lack the thoughts of the model, and which messages were one answer.',
    'Incomplete rounds are left out: an answer with a call that has no result, and a result without a call. All lines become one durable event, or none does.',
    `Calls no model and runs no tool. A directory that a process has open is changed through its server, which takes at most ${number(SERVER_BODY_BYTES_MAX)} bytes at once. Without a server, the command refuses while sessions of the same agent have work: their own program continues it.`,
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const id = checked(() => checkSessionId(given.positional('session')), '<session>');
  const name = given.text('agent');
  if (name !== undefined) checked(() => agent({ name }), '--agent');
  // All lines are read before anything is written, so that invalid lines change nothing.
  const drafts = await readHistoryLines(textLines(pieces(given, surroundings), IMPORT_CHARACTERS_MAX));
  const place = await findPlace(given, surroundings, { mayCreate: true });
  const wanted: Wanted = { id, agent: name, replace: given.flag('replace'), drafts, by: authorAt(place, given) };
  const { agent: owner, messages } =
    place.kind === 'server'
      ? await importServed(place, wanted)
      : await importStored(place, wanted, commandLogger(surroundings));
  surroundings.stdout.write(
    given.flag('json')
      ? `${printableJson({ session: id, agent: owner, lines: drafts.length, messages })}\n`
      : `${counted(messages, 'message')} of ${id} read into ${place.shown}${leftOut(drafts.length - messages)}\n`,
  );
  return EXIT.ok;
}

function leftOut(messages: number): string {
  return messages > 0 ? `; ${counted(messages, 'message')} of incomplete rounds left out` : '';
}

interface Wanted {
  readonly id: string;
  readonly agent: string | undefined;
  readonly replace: boolean;
  readonly drafts: readonly HistoryDraft[];
  /** The author of a change in a directory. */
  readonly by: string;
}

/** `messages`: the number of messages in the session's history afterwards. */
interface Imported {
  readonly agent: string;
  readonly messages: number;
}

const createdSchema = z.looseObject({ agent: z.string() });
const doneSchema = z.looseObject({});

/** Lets the server of a store put the messages into the session, which is created if it is missing. */
async function importServed(place: ServedPlace, wanted: Wanted): Promise<Imported> {
  const { server } = place;
  const { id, drafts } = wanted;
  const body = { operation: 'seed', messages: drafts };
  const bytes = Buffer.byteLength(JSON.stringify(body));
  if (bytes > SERVER_BODY_BYTES_MAX) {
    throw new LimitError(
      `the history has ${number(bytes)} bytes, and a server takes at most ${number(SERVER_BODY_BYTES_MAX)} at once; end the server and import into its directory (--data DIR)`,
      { data: { limit: 'serverBodyBytes', value: bytes, max: SERVER_BODY_BYTES_MAX } },
    );
  }
  const known = await readPlace(place, (reader) => sessionIn(reader, id));
  checkTarget(known, wanted);
  const owner =
    known?.agent ??
    (await server.ask('sessions', createdSchema, { body: { id, ...defined({ agent: wanted.agent }) } })).agent;
  await server.ask(`${pathOf(id)}/history`, doneSchema, { body });
  return { agent: owner, messages: (await readPlace(place, (reader) => reader.history(id))).length };
}

/** Opens the directory, which is created if it is missing, and puts the messages into the session. */
async function importStored(place: StoredPlace, wanted: Wanted, logger: Logger): Promise<Imported> {
  const { directory, keys } = place;
  const { id, drafts } = wanted;
  await prepareDataDirectory(directory);
  const isStore = (await readManifest(directory)) !== undefined;
  const name = isStore ? await readPlace(place, (reader) => agentFor(reader, wanted)) : wanted.agent;
  const definition = agent({ name: name ?? DEFAULT_AGENT });
  const threads = { sessions: 0, models: 0, tools: 1 };
  const encryption = defined({ encryption: keys });
  const runtime = await open(directory, { agents: [definition], provider: NO_MODEL, threads, logger, ...encryption });
  try {
    const { history } = runtime.session(id, definition.name);
    await history.seed(drafts, { by: wanted.by });
    return { agent: definition.name, messages: (await history.toArray()).length };
  } finally {
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}

/**
 * The agent of the session, or of the session to be created. Rejects with `UsageError` when the lines must not be
 * imported, and with `ConfigError` when opening the directory would continue work.
 */
async function agentFor(reader: SessionReader, wanted: Wanted): Promise<string> {
  const known = await sessionIn(reader, wanted.id);
  checkTarget(known, wanted);
  const name = wanted.agent ?? known?.agent ?? DEFAULT_AGENT;
  const { sessions } = await reader.list({ agent: name }, Number.POSITIVE_INFINITY);
  const busy = sessions.find((each) => each.state !== 'idle' || each.mailbox > 0);
  if (busy === undefined) return name;
  throw new ConfigError(
    `session ${JSON.stringify(busy.id)} of the agent ${JSON.stringify(name)} has work, which opening the directory would continue; let its program finish first`,
  );
}

/** Reads the session; undefined if the session does not exist. */
async function sessionIn(reader: SessionReader, id: string): Promise<StoredSession | undefined> {
  try {
    return await reader.session(id);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Throws `UsageError` if an existing session has another agent, or messages that may not be replaced. */
function checkTarget(found: StoredSession | undefined, { id, agent, replace }: Wanted): void {
  if (found === undefined) return;
  if (agent !== undefined && agent !== found.agent) {
    throw new UsageError(
      `session ${JSON.stringify(id)} is of the agent ${JSON.stringify(found.agent)}; leave --agent out`,
    );
  }
  if (found.messages === 0 || replace) return;
  const has = `session ${JSON.stringify(id)} has ${counted(found.messages, 'message')}`;
  throw new UsageError(`${has}; --replace replaces them`);
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
  /** The pieces of the unfinished line. They are joined once, at the end of the line: joining at each piece is slow. */
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
