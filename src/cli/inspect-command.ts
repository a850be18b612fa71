/** `troupe inspect`: shows the sessions of a data directory, or one of them, from the log. Starts nothing. */
import { INSPECT_LIMIT_MAX, INSPECT_SESSIONS_DEFAULT } from '../base/bounds.ts';
import type { SessionSummary } from '../runtime/protocol/protocol.ts';
import { type Arguments, type Command, EXIT, UsageError } from './command.ts';
import { sessionText, type TreeEntry, treeText } from './inspect-texts.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore, shownPath } from './store-directory.ts';
import { readStore, type StoredSession, type StoredSessions } from './stored-sessions.ts';
import { paintFor, type Surroundings } from './surroundings.ts';
import { printableJson } from './text-layout.ts';

const MESSAGES_DEFAULT = 10;

/** See the head of the file. */
export const inspectCommand: Command = {
  positionals: [{ name: 'session', required: false, help: 'Session to show; all of them, as a tree, without it' }],
  options: {
    data: DATA_OPTION,
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Sessions shown at most (default: ${INSPECT_SESSIONS_DEFAULT}); of one session, messages (default: ${MESSAGES_DEFAULT})`,
    },
    json: JSON_OPTION,
  },
  details: [
    'For each session: its state, entries waiting in its mailbox, messages, tokens used, and why it rests. Reads the log only: nothing is resumed, no model is called. Refuses while a process has the directory open.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const id = given.positional('session');
  const limit = given.count('limit');
  return id === undefined
    ? inspectAll(data, { limit: limit ?? INSPECT_SESSIONS_DEFAULT, isJson: given.flag('json') }, surroundings)
    : inspectOne(data, { id, limit: limit ?? MESSAGES_DEFAULT, isJson: given.flag('json') }, surroundings);
}

async function inspectAll(
  data: string,
  wanted: { readonly limit: number; readonly isJson: boolean },
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, environment } = surroundings;
  const { entries, all } = await readStore(data, (sessions) => {
    const list = sessions.list();
    return {
      all: list,
      entries: inTreeOrder(list)
        .slice(0, wanted.limit)
        .map((place) => withFacts(sessions, place)),
    };
  });
  if (wanted.isJson) {
    const sessions = entries.map(({ session: { recent: _recent, pending: _pending, ...facts } }) => facts);
    stdout.write(`${printableJson({ data, total: all.length, sessions })}\n`);
  } else {
    const view = { columns: stdout.columns, paint: paintFor(stdout, environment), data: shownPath(data, surroundings) };
    stdout.write(treeText(entries, all, view));
  }
  return EXIT.ok;
}

async function inspectOne(
  data: string,
  wanted: { readonly id: string; readonly limit: number; readonly isJson: boolean },
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, environment } = surroundings;
  const { id, limit } = wanted;
  const session = await readStore(data, (sessions) => sessions.session(id));
  if (session === undefined) throw unknownSession(id, data, surroundings);
  const recent = session.recent.slice(-limit);
  if (wanted.isJson) stdout.write(`${printableJson({ data, ...session, recent })}\n`);
  else
    stdout.write(
      sessionText({ ...session, recent }, { columns: stdout.columns, paint: paintFor(stdout, environment) }),
    );
  return EXIT.ok;
}

/** The error for an argument that names no session of the store. */
export function unknownSession(id: string, data: string, surroundings: Surroundings): UsageError {
  return new UsageError(
    `<session> ${JSON.stringify(id)} is not in ${shownPath(data, surroundings)}; \`troupe inspect\` lists what is`,
  );
}

interface Place {
  readonly id: string;
  readonly depth: number;
}

function withFacts(sessions: StoredSessions, { id, depth }: Place): TreeEntry {
  const session: StoredSession | undefined = sessions.session(id);
  if (session === undefined) throw new Error(`session ${id} is listed but cannot be read`);
  return { session, depth };
}

/** Roots by id, each followed by its descendants; children in order of birth. */
function inTreeOrder(list: readonly SessionSummary[]): readonly Place[] {
  const known = new Set(list.map(({ id }) => id));
  const below = new Map<string | undefined, string[]>();
  for (const { id, parent } of list) {
    const key = parent !== undefined && known.has(parent) ? parent : undefined;
    const siblings = below.get(key);
    if (siblings === undefined) below.set(key, [id]);
    else siblings.push(id);
  }
  const places: Place[] = [];
  const visit = (parent: string | undefined, depth: number): void => {
    const ids = below.get(parent)?.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })) ?? [];
    for (const id of ids) {
      places.push({ id, depth });
      visit(id, depth + 1);
    }
  };
  visit(undefined, 0);
  return places;
}
