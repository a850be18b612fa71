/** `troupe waiting`: lists the tool calls that wait for a person, from a running server or a data directory. */
import { z } from 'zod';
import { INSPECT_LIMIT_MAX, SERVER_PAGE_MAX, WAITING_CALLS_DEFAULT } from '../../base/bounds.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { answerOf, checked, serverAddress } from '../served-answers.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore } from '../store-directory.ts';
import { readStore } from '../stored-sessions.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { ageText, clip, counted, displayWidth, left, oneLine, printableJson, right } from '../text-layout.ts';

const AGE_COLUMNS = 5;
/** Columns that a session's id takes at most, and a tool's name. */
const NAME_COLUMNS_MAX = 32;
const WANTED_COLUMNS_MIN = 10;
const MS_PER_SECOND = 1_000;

const callSchema = z.looseObject({
  session: z.string(),
  callId: z.string(),
  toolName: z.string(),
  kind: z.string(),
  input: z.unknown(),
  question: z.string().optional(),
  choices: z.array(z.string()).readonly().optional(),
  at: z.number(),
});
const pageSchema = z.looseObject({ waiting: z.array(callSchema), next: z.string().optional() });

type Call = z.infer<typeof callSchema>;

/** The calls that are shown, and whether there are more. */
interface Found {
  readonly calls: readonly Call[];
  readonly isCut: boolean;
}

/** See the head of the file. */
export const waitingCommand: Command = {
  positionals: [],
  options: {
    data: DATA_OPTION,
    url: { kind: 'text', value: 'URL', help: 'A running server, instead of a data directory' },
    token: { kind: 'text', value: 'TOKEN', help: 'Token of the server (default: $TROUPE_TOKEN)' },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Calls at most (default: ${WAITING_CALLS_DEFAULT})`,
    },
    json: JSON_OPTION,
  },
  details: [
    'The oldest call comes first. `troupe approve` decides one, by the session and the id in its line; `troupe answer` answers a question, which has its text in place of the input. A data directory is only read, and only while no process has it open.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout } = surroundings;
  const url = given.text('url');
  if (url !== undefined && given.text('data') !== undefined)
    throw new UsageError('--url and --data exclude each other');
  const limit = given.count('limit') ?? WAITING_CALLS_DEFAULT;
  const found =
    url === undefined ? await stored(given, surroundings, limit) : await served(url, given, surroundings, limit);
  if (given.flag('json')) {
    for (const call of found.calls) stdout.write(`${printableJson(call)}\n`);
    return EXIT.ok;
  }
  if (found.calls.length === 0) stdout.write('No call waits for a person.\n');
  for (const line of table(found.calls, surroundings)) stdout.write(`${line}\n`);
  if (found.isCut) stdout.write(`Only the oldest ${counted(limit, 'call')}; --limit shows more.\n`);
  return EXIT.ok;
}

async function stored(given: Arguments, surroundings: Surroundings, limit: number): Promise<Found> {
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const all = await readStore(data, (sessions) => sessions.waiting());
  return { calls: all.slice(0, limit).map((call) => ({ ...call })), isCut: all.length > limit };
}

async function served(url: string, given: Arguments, { environment }: Surroundings, limit: number): Promise<Found> {
  const base = serverAddress(url);
  const token = given.text('token') ?? environment['TROUPE_TOKEN'];
  const calls: Call[] = [];
  for (let after = ''; calls.length < limit; ) {
    const size = Math.min(SERVER_PAGE_MAX, limit - calls.length);
    const path = `waiting?limit=${size}${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`;
    const { waiting, next } = checked(pageSchema, await answerOf(base, path, { token }), base);
    calls.push(...waiting);
    if (next === undefined) return { calls, isCut: false };
    after = next;
  }
  return { calls, isCut: true };
}

/** One line for each call: age, session, tool, id, and the input or the question. */
function table(calls: readonly Call[], { stdout, environment }: Surroundings): readonly string[] {
  const paint = paintFor(stdout, environment);
  const now = Date.now();
  const widthOf = (text: (call: Call) => string, most: number): number =>
    Math.min(most, Math.max(0, ...calls.map((call) => displayWidth(text(call)))));
  const sessionColumns = widthOf(({ session }) => session, NAME_COLUMNS_MAX);
  const toolColumns = widthOf(({ toolName }) => toolName, NAME_COLUMNS_MAX);
  const idColumns = widthOf(({ callId }) => callId, Number.POSITIVE_INFINITY);
  const taken = AGE_COLUMNS + sessionColumns + toolColumns + idColumns + 8;
  const room = Math.max(WANTED_COLUMNS_MIN, stdout.columns - 1 - taken);
  return calls.map((call) => {
    const ms = now - call.at;
    const age = right(ms < MS_PER_SECOND ? 'now' : ageText(ms), AGE_COLUMNS);
    const wanted = clip(oneLine(wantedText(call)), room);
    const names = `${left(call.session, sessionColumns)}  ${left(call.toolName, toolColumns)}`;
    return `${paint.dim(age)}  ${names}  ${paint.dim(left(call.callId, idColumns))}  ${wanted}`.trimEnd();
  });
}

/** The text that the person decides about. */
function wantedText({ input, question, choices }: Call): string {
  if (question === undefined) return JSON.stringify(input) ?? '';
  return choices === undefined ? question : `${question} [${choices.join(' | ')}]`;
}
