/** `troupe inspect`: shows the tree of sessions, or one session, and why each is not running. Starts nothing. */
import { INSPECT_LIMIT_MAX, INSPECT_SESSIONS_DEFAULT } from '../../base/bounds.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import type { SessionReader } from '../places/session-reader.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { type InspectedSession, sessionText, type TreeEntry, treeText } from './inspect-texts.ts';

const MESSAGES_DEFAULT = 10;

/** See the head of the file. */
export const inspectCommand: Command = {
  positionals: [
    {
      name: 'session',
      required: false,
      help: 'Session to show; all of them, as a tree, without it',
      completes: 'session',
    },
  ],
  options: {
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Sessions shown at most (default: ${INSPECT_SESSIONS_DEFAULT}); of one session, messages (default: ${MESSAGES_DEFAULT})`,
    },
    ...PLACE_OPTIONS,
  },
  details: [
    'For each session: its state, entries waiting in its mailbox, messages of users and the agent (without tool calls), tokens used, and why it rests: if its last turn was not answered, how that ended. Nothing is resumed, no model is called. `troupe ls` lists sessions with filters.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const place = await findPlace(given, surroundings);
  const id = given.positional('session');
  const limit = given.count('limit');
  return id === undefined
    ? inspectAll(place, { limit: limit ?? INSPECT_SESSIONS_DEFAULT, isJson: given.flag('json') }, surroundings)
    : inspectOne(place, { id, limit: limit ?? MESSAGES_DEFAULT, isJson: given.flag('json') }, surroundings);
}

async function inspectAll(
  place: Place,
  wanted: { readonly limit: number; readonly isJson: boolean },
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, environment } = surroundings;
  const { entries, all } = await readPlace(place, async (reader) => {
    const { sessions } = await reader.list({}, Number.POSITIVE_INFINITY);
    const entries: TreeEntry[] = [];
    for (const node of inTreeOrder(sessions).slice(0, wanted.limit)) entries.push(await withFacts(reader, node));
    return { all: sessions, entries };
  });
  if (wanted.isJson) {
    const sessions = entries.map(({ session: { recent: _recent, pending: _pending, ...facts } }) => facts);
    stdout.write(`${printableJson({ ...jsonOf(place), total: all.length, sessions })}\n`);
  } else {
    const view = { columns: stdout.columns, paint: paintFor(stdout, environment), data: place.shown };
    stdout.write(treeText(entries, all, view));
  }
  return EXIT.ok;
}

async function inspectOne(
  place: Place,
  wanted: { readonly id: string; readonly limit: number; readonly isJson: boolean },
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, environment } = surroundings;
  const { id, limit } = wanted;
  const session = await readPlace(place, async (reader): Promise<InspectedSession> => {
    const found = await reader.session(id);
    return found.children === 0 ? found : { ...found, treeUsage: await reader.treeUsage(id) };
  });
  const recent = session.recent.slice(-limit);
  if (wanted.isJson) stdout.write(`${printableJson({ ...jsonOf(place), ...session, recent })}\n`);
  else
    stdout.write(
      sessionText({ ...session, recent }, { columns: stdout.columns, paint: paintFor(stdout, environment) }),
    );
  return EXIT.ok;
}

function jsonOf(place: Place): object {
  return place.kind === 'server' ? { url: place.server.origin } : { data: place.directory };
}

interface TreeNode {
  readonly id: string;
  readonly depth: number;
}

async function withFacts(reader: SessionReader, { id, depth }: TreeNode): Promise<TreeEntry> {
  return { session: await reader.session(id), depth };
}

/** Roots by id, each followed by its descendants. Children are in the order in which they were spawned. */
function inTreeOrder(list: readonly SessionSummary[]): readonly TreeNode[] {
  const known = new Set(list.map(({ id }) => id));
  const below = new Map<string | undefined, string[]>();
  for (const { id, parent } of list) {
    const key = parent !== undefined && known.has(parent) ? parent : undefined;
    const siblings = below.get(key);
    if (siblings === undefined) below.set(key, [id]);
    else siblings.push(id);
  }
  const places: TreeNode[] = [];
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
