/** `troupe search`: finds messages of all sessions by their words. */
import { z } from 'zod';
import { SEARCH_FOUND_DEFAULT, SEARCH_FOUND_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { type Arguments, type Command, EXIT } from '../command.ts';
import { changeStore } from '../places/opened-store.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { agentNames } from '../places/session-change.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { counted, oneLine, printableJson } from '../text-layout.ts';

/** A message that was found. */
interface Found {
  readonly session: string;
  readonly name?: string | undefined;
  readonly seq: number;
  readonly kind: string;
  readonly snippet: string;
}

interface Result {
  readonly found: readonly Found[];
  readonly isComplete: boolean;
}

const foundSchema = z.looseObject({
  session: z.string(),
  name: z.string().optional(),
  seq: z.number(),
  kind: z.string(),
  snippet: z.string(),
});
const resultSchema: z.ZodType<Result> = z.looseObject({ found: z.array(foundSchema), isComplete: z.boolean() });

interface Wanted {
  readonly query: string;
  readonly limit: number;
  readonly session: string | undefined;
}

/** See the head of the file. */
export const searchCommand: Command = {
  positionals: [{ name: 'words', required: true, rest: true, help: 'Words to find; "a phrase" in quotes' }],
  options: {
    session: { kind: 'text', value: 'SESSION', help: 'Only this session and the others of its tree' },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: SEARCH_FOUND_MAX,
      help: `Messages at most (default: ${SEARCH_FOUND_DEFAULT})`,
    },
    ...PLACE_OPTIONS,
  },
  details: [
    'The message that fits best comes first, as <session>#<number>. Exits with 1 if nothing is found. The first search of a directory builds its index, which the later ones bring up to date. No work starts, no model is called.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, environment } = surroundings;
  const wanted: Wanted = {
    query: given.positional('words') ?? '',
    limit: given.count('limit') ?? SEARCH_FOUND_DEFAULT,
    session: given.text('session'),
  };
  const place = await findPlace(given, surroundings);
  const { found, isComplete }: Result =
    place.kind === 'server'
      ? await place.server.ask(`search?${queryOf(wanted)}`, resultSchema)
      : await changeStore(place, await readPlace(place, agentNames), surroundings, (runtime) =>
          runtime.search(wanted.query, defined({ limit: wanted.limit, session: wanted.session })),
        );
  if (!isComplete) stderr.write('The index is still being built: a later search may find more.\n');
  if (given.flag('json')) for (const each of found) stdout.write(`${printableJson(each)}\n`);
  else if (found.length === 0) stderr.write(`No message fits ${JSON.stringify(wanted.query)}.\n`);
  else {
    const view = { columns: stdout.columns, paint: paintFor(stdout, environment) };
    for (const line of tableLines(COLUMNS, found, view)) stdout.write(`${line}\n`);
    if (found.length === wanted.limit)
      stdout.write(`The best ${counted(wanted.limit, 'message')}; --limit shows more.\n`);
  }
  return found.length > 0 ? EXIT.ok : EXIT.failed;
}

const COLUMNS: readonly Column<Found>[] = [
  { title: 'message', text: ({ session, seq }) => `${oneLine(session)}#${seq}`, min: 16, keepsEnd: true },
  { title: 'name', text: ({ name }) => oneLine(name ?? ''), min: 6 },
  { title: 'kind', text: ({ kind }) => (kind === 'anima' ? 'model' : kind) },
  { title: 'text', text: ({ snippet }) => oneLine(snippet), min: 16 },
];

function queryOf({ query, limit, session }: Wanted): URLSearchParams {
  return new URLSearchParams({ query, limit: String(limit), ...defined({ session }) });
}
