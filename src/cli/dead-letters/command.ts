/** `troupe dead-letters`: lists, shows, sends again and drops messages that could not be promoted. */
import { z } from 'zod';
import { DEAD_LETTERS_LISTED, INSPECT_LIMIT_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { DeadLetter, DeadLetterSummary } from '../../session/state/letters.ts';
import { type Arguments, type Command, EXIT, NotFoundError, UsageError } from '../command.ts';
import { AUTHOR_OPTION, authorAt } from '../places/author.ts';
import { findPlace, PLACE_OPTIONS, type Place } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { pathOf } from '../places/served-reader.ts';
import { changeSession } from '../places/session-change.ts';
import { shortText } from '../places/stored-sessions.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { ageText, counted, oneLine, printable, printableJson } from '../text-layout.ts';

const ACTIONS = ['ls', 'show', 'resend', 'drop'] as const;
type Action = (typeof ACTIONS)[number];

const MS_PER_SECOND = 1_000;
const droppedSchema = z.looseObject({ dropped: z.boolean() });
const receiptSchema = z.object({ id: z.string(), pendingId: z.number(), duplicate: z.boolean() });

/** See the head of the file. */
export const deadLettersCommand: Command = {
  positionals: [
    { name: 'action', required: false, help: 'ls (default), show, resend or drop', completes: ACTIONS },
    { name: 'session', required: false, help: 'Session of the letter; with ls only its tree', completes: 'session' },
    { name: 'letter', required: false, help: 'Number of the letter, as ls shows it' },
  ],
  options: {
    as: { kind: 'text', value: 'FORM', help: "resend: user sends it as a user's message", words: ['user'] },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `ls: letters at most (default: ${DEAD_LETTERS_LISTED})`,
    },
    ...AUTHOR_OPTION,
    ...PLACE_OPTIONS,
  },
  details: [
    'A dead letter is an entry of a mailbox that could not become messages; it was set aside so that the session can continue. A session keeps at most 100 of them.',
    "resend sends it again as a new message, in its own form or with --as user as a user's message. A repeated resend names the same message. In its own form a letter is refused as long as it cannot be promoted.",
    'show, resend and drop exit with 1 if there is no such letter. In a directory that no process has open only the log changes: no work starts, no model is called.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const action = actionOf(given.positional('action') ?? 'ls');
  const session = given.positional('session');
  const number = given.positional('letter');
  const as = given.text('as');
  if (as !== undefined && (action !== 'resend' || as !== 'user')) throw new UsageError('--as user is for resend');
  if (given.count('limit') !== undefined && action !== 'ls') throw new UsageError('--limit is for ls');
  if (given.text('by') !== undefined && action !== 'resend' && action !== 'drop') {
    throw new UsageError('--by is for resend and drop');
  }
  if (action === 'ls') {
    if (number !== undefined) throw new UsageError('ls takes no <letter>');
    return list(await findPlace(given, surroundings), session, given, surroundings);
  }
  if (session === undefined || number === undefined) throw new UsageError(`${action} needs <session> and <letter>`);
  if (!/^[1-9]\d{0,14}$/.test(number)) {
    throw new UsageError(`<letter> must be the number of a letter, got ${JSON.stringify(number)}`);
  }
  const letter = { session, id: Number(number) };
  const place = await findPlace(given, surroundings);
  if (action === 'show') return show(place, letter, given, surroundings);
  if (action === 'resend') return resend(place, { ...letter, ...(as === 'user' ? { as } : {}) }, given, surroundings);
  return drop(place, letter, given, surroundings);
}

function actionOf(word: string): Action {
  const action = ACTIONS.find((each) => each === word);
  if (action === undefined) throw new UsageError(`<action> must be ${ACTIONS.join(', ')}, got ${JSON.stringify(word)}`);
  return action;
}

async function list(
  place: Place,
  session: string | undefined,
  given: Arguments,
  surroundings: Surroundings,
): Promise<number> {
  const { stdout, environment } = surroundings;
  const limit = given.count('limit') ?? DEAD_LETTERS_LISTED;
  const { letters, isCut } = await readPlace(place, (reader) => reader.deadLetters(session, limit));
  if (given.flag('json')) {
    for (const letter of letters) stdout.write(`${printableJson(letter)}\n`);
    return EXIT.ok;
  }
  const now = Date.now();
  const age = ({ setAsideAt }: DeadLetterSummary): string =>
    now - setAsideAt < MS_PER_SECOND ? 'now' : ageText(now - setAsideAt);
  const columns: readonly Column<DeadLetterSummary>[] = [
    { title: 'age', text: age, isRight: true },
    { title: 'session', text: (each) => oneLine(each.session), min: 12 },
    { title: 'letter', text: ({ id }) => String(id), isRight: true },
    { title: 'type', text: ({ type }) => type },
    { title: 'reason', text: ({ error }) => oneLine(error.message), min: 10 },
  ];
  const layout = { columns: stdout.columns, paint: paintFor(stdout, environment) };
  if (letters.length === 0) stdout.write('There are no dead letters.\n');
  else for (const line of tableLines(columns, letters, layout)) stdout.write(`${line}\n`);
  if (isCut) stdout.write(`Only the first ${counted(limit, 'letter')}; --limit shows more.\n`);
  return EXIT.ok;
}

interface Named {
  readonly session: string;
  readonly id: number;
}

async function show(place: Place, { session, id }: Named, given: Arguments, { stdout }: Surroundings): Promise<number> {
  const letter = await readPlace(place, (reader) => reader.deadLetter(session, id));
  stdout.write(given.flag('json') ? `${printableJson(letter)}\n` : letterText(letter));
  return EXIT.ok;
}

function letterText({ session, id, type, source, at, setAsideAt, error, content }: DeadLetter): string {
  const from = source.name === undefined ? source.type : `${source.type} ${source.name}`;
  const facts: readonly (readonly [string, string])[] = [
    ['letter', `${id} of ${session}`],
    ['type', `${type} from ${from}`],
    ['accepted', new Date(at).toISOString()],
    ['set aside', new Date(setAsideAt).toISOString()],
    ['reason', error.message],
  ];
  const head = facts.map(([name, value]) => `${name.padEnd(9)}  ${printable(value)}\n`).join('');
  return `${head}\n${printable(shortText(content))}\n`;
}

async function resend(
  place: Place,
  { session, id, as }: Named & { readonly as?: 'user' },
  given: Arguments,
  surroundings: Surroundings,
): Promise<number> {
  const by = authorAt(place, given);
  const sent = await changeSession(place, session, surroundings, {
    served: (server) =>
      server.ask(`${pathOf(session)}/dead-letters/${id}/resend`, receiptSchema, { body: defined({ as }) }),
    stored: (runtime) => runtime.session(session).deadLetters.resend(id, { by, ...defined({ as }) }),
  });
  const { id: receipt, pendingId, duplicate } = sent;
  const name = `${id} of ${printable(session)}`;
  surroundings.stdout.write(
    given.flag('json')
      ? `${printableJson({ session, letter: id, receipt, pendingId, duplicate })}\n`
      : `${duplicate ? 'Sent before' : 'Sent again'}: ${name}, as ${printable(receipt)}\n`,
  );
  return EXIT.ok;
}

async function drop(
  place: Place,
  { session, id }: Named,
  given: Arguments,
  surroundings: Surroundings,
): Promise<number> {
  const by = authorAt(place, given);
  const dropped = await changeSession(place, session, surroundings, {
    served: async (server) =>
      (await server.ask(`${pathOf(session)}/dead-letters/${id}`, droppedSchema, { method: 'DELETE' })).dropped,
    stored: (runtime) => runtime.session(session).deadLetters.drop(id, { by }),
  });
  if (!dropped) throw new NotFoundError(`${JSON.stringify(session)} has no dead letter ${id}`);
  surroundings.stdout.write(
    given.flag('json')
      ? `${printableJson({ session, letter: id, dropped })}\n`
      : `Dropped: ${id} of ${printable(session)}\n`,
  );
  return EXIT.ok;
}
