/** `troupe ls`: lists sessions, the last changed one first. */
import { INSPECT_LIMIT_MAX, LIST_SESSIONS_DEFAULT } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { agentKey } from '../../base/ids.ts';
import { SESSION_STATES, SESSION_STATUSES, TURN_OUTCOMES } from '../../events/event.ts';
import type { ListFilter } from '../../runtime/protocol/list-order.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import type { SessionList } from '../places/session-reader.ts';
import { paintFor, type Surroundings } from '../surroundings.ts';
import { type Column, tableLines } from '../table.ts';
import { ageText, counted, errorText, number, oneLine, printableJson } from '../text-layout.ts';

const SINCE = /^(\d{1,6})([smhd])$/;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** See the head of the file. */
export const listCommand: Command = {
  positionals: [],
  options: {
    status: {
      kind: 'text',
      value: 'STATUS',
      words: SESSION_STATUSES,
      help: `One or more of ${SESSION_STATUSES.join(', ')}, joined by commas`,
    },
    outcome: {
      kind: 'text',
      value: 'OUTCOME',
      words: TURN_OUTCOMES,
      help: `How the last turn ended: ${TURN_OUTCOMES.join(', ')}`,
    },
    state: { kind: 'text', value: 'STATE', words: SESSION_STATES, help: SESSION_STATES.join(', ') },
    agent: { kind: 'text', value: 'NAME', help: 'Only sessions of this agent' },
    parent: { kind: 'text', value: 'SESSION', help: 'Only children of this session' },
    roots: { kind: 'flag', help: 'Only sessions without a parent' },
    since: { kind: 'text', value: 'TIME', help: 'Changed since: an age (90s, 15m, 2h, 7d), or a date of ISO 8601' },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Sessions at most (default: ${LIST_SESSIONS_DEFAULT})`,
    },
    ...PLACE_OPTIONS,
  },
  details: [
    'The last changed session comes first. Filters are joined by "and". mail: entries that wait. msgs: messages of users and the agent, without tool calls. With --json each session is one line, whole.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, environment } = surroundings;
  const filter = filterOf(given);
  const place = await findPlace(given, surroundings);
  const limit = given.count('limit') ?? LIST_SESSIONS_DEFAULT;
  const found = await readPlace(place, (sessions) => sessions.list(filter, limit));
  if (given.flag('json')) {
    for (const session of found.sessions) stdout.write(`${printableJson(session)}\n`);
    return EXIT.ok;
  }
  const view = { columns: stdout.columns, paint: paintFor(stdout, environment), now: Date.now() };
  for (const line of listLines(found, view)) stdout.write(`${line}\n`);
  if (found.isCut) stdout.write(`Only the last ${counted(limit, 'session')} to change; --limit shows more.\n`);
  return EXIT.ok;
}

function filterOf(given: Arguments): ListFilter {
  const parent = given.text('parent');
  if (parent !== undefined && given.flag('roots')) throw new UsageError('--parent and --roots exclude each other');
  const state = given.text('state');
  const outcome = given.text('outcome');
  return defined({
    state: state === undefined ? undefined : oneOf(SESSION_STATES, 'state', state),
    status: given
      .text('status')
      ?.split(',')
      .map((word) => oneOf(SESSION_STATUSES, 'status', word)),
    outcome: outcome === undefined ? undefined : oneOf(TURN_OUTCOMES, 'outcome', outcome),
    agent: given.text('agent'),
    parent: given.flag('roots') ? null : parent,
    changedAfter: sinceOf(given.text('since')),
  });
}

function oneOf<Word extends string>(words: readonly Word[], option: string, given: string): Word {
  const word = words.find((each) => each === given);
  if (word !== undefined) return word;
  throw new UsageError(`--${option} must be one of ${words.join(', ')}, got ${JSON.stringify(given)}`);
}

function sinceOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  const [, count, unit] = SINCE.exec(given) ?? [];
  const at = unit === undefined ? Date.parse(given) : Date.now() - Number(count) * (UNIT_MS[unit] ?? 0);
  if (Number.isFinite(at)) return at;
  throw new UsageError(
    `--since must be an age such as 90s, 15m, 2h or 7d, or a date of ISO 8601, got ${JSON.stringify(given)}`,
  );
}

const COLUMNS: readonly Column<SessionSummary & { readonly age: string }>[] = [
  { title: 'session', text: ({ id }) => oneLine(id), min: 12 },
  { title: 'name', text: ({ name }) => oneLine(name ?? ''), min: 6 },
  { title: 'agent', text: ({ agent, version }) => oneLine(agentKey(agent, version)), min: 6 },
  { title: 'status', text: ({ status }) => status },
  { title: 'last turn', text: ({ lastOutcome }) => lastOutcome ?? '' },
  { title: 'mail', text: ({ mailbox }) => number(mailbox), isRight: true },
  {
    title: 'msgs',
    text: ({ messageCount }) => (messageCount === undefined ? '' : number(messageCount)),
    isRight: true,
  },
  { title: 'age', text: ({ age }) => age, isRight: true },
  { title: 'error', text: ({ lastError }) => (lastError === undefined ? '' : errorText(lastError)), min: 12 },
];

/** The lines of the table; columns that are empty in every row are left out. */
function listLines(
  { sessions }: SessionList,
  view: { readonly columns: number; readonly paint: ReturnType<typeof paintFor>; readonly now: number },
): readonly string[] {
  if (sessions.length === 0) return ['No session.'];
  const rows = sessions.map((session) => ({ ...session, age: ageText(view.now - session.updatedAt) }));
  return tableLines(COLUMNS, rows, view, (row, text) => {
    if (row.status === 'failed' || row.status === 'blocked' || row.lastOutcome === 'failed')
      return view.paint.red(text);
    return row.state === 'idle' && row.mailbox === 0 ? text : view.paint.yellow(text);
  });
}
