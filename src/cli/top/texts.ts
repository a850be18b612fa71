/** The table of `troupe top`: the sessions, their order, the columns. Pure. */
import { agentKey } from '../../base/ids.ts';
import type { Paint } from '../surroundings.ts';
import { ageText, clip, counted, left, number, oneLine, right } from '../text-layout.ts';
import type { TopSample, TopSession } from './source.ts';

/** The orders of the table. */
export const TOP_ORDERS = ['mailbox', 'rate', 'age'] as const;
/** See `TOP_ORDERS`. */
export type TopOrder = (typeof TOP_ORDERS)[number];

/** A row: a session, and its durable events per second if two samples have the number of its events. */
export interface TopRow extends TopSession {
  readonly rate?: number;
}

/** The figures above the table. */
export interface TopHead {
  readonly title: string;
  /** Half-steps per second of the whole runtime, if two samples have the number of half-steps. */
  readonly halfStepsPerSecond?: number;
}

const STATE_COLUMNS = 10;
const MAIL_COLUMNS = 6;
const RATE_COLUMNS = 9;
const AGE_COLUMNS = 7;
const AGENT_COLUMNS = 14;
const SESSION_COLUMNS_MIN = 12;
const COLUMNS_MAX = 120;
/** The table shows the agent if it is at least this many characters wide. */
const AGENT_FROM = 72;
/** Lines around the rows: head, counters, blank, titles, count of hidden rows. */
const FRAME_LINES = 5;

/**
 * Rows in the requested order. Among equal rows, sessions at work come before idle ones. Then the other orders decide,
 * and finally the id.
 */
export function inOrder(rows: readonly TopRow[], order: TopOrder): readonly TopRow[] {
  const keys: Readonly<Record<TopOrder, (row: TopRow) => number>> = {
    mailbox: (row) => row.mailbox,
    rate: (row) => row.rate ?? 0,
    age: (row) => -row.updatedAt,
  };
  const others = TOP_ORDERS.filter((each) => each !== order);
  const busy = (row: TopRow): number => (row.state === 'idle' ? 0 : 1);
  return rows.toSorted((a, b) => {
    for (const key of [keys[order], busy, ...others.map((each) => keys[each])]) {
      const difference = key(b) - key(a);
      if (difference !== 0) return difference;
    }
    return a.id < b.id ? -1 : 1;
  });
}

/** The number of lines around the rows of a sample. */
export function frameLines(sample: TopSample): number {
  return FRAME_LINES + providersLine(sample).length;
}

/** The table's lines. `rows`: the rows to show, in order. */
export function topLines(
  head: TopHead,
  sample: TopSample,
  rows: readonly TopRow[],
  view: { readonly columns: number; readonly paint: Paint },
): readonly string[] {
  const { paint } = view;
  const columns = Math.max(1, Math.min(view.columns - 1, COLUMNS_MAX));
  const withAgent = columns >= AGENT_FROM;
  const fixed = STATE_COLUMNS + MAIL_COLUMNS + RATE_COLUMNS + AGE_COLUMNS + (withAgent ? AGENT_COLUMNS + 2 : 0);
  const session = Math.max(SESSION_COLUMNS_MIN, columns - fixed);
  const line = (cells: readonly [string, string, string, string, string, string]): string => {
    const [id, agent, state, mail, rate, age] = cells;
    return clip(
      [
        `${left(id, session - 1)} `,
        ...(withAgent ? ['  ', left(agent, AGENT_COLUMNS)] : []),
        left(state, STATE_COLUMNS),
        right(mail, MAIL_COLUMNS),
        right(rate, RATE_COLUMNS),
        right(age, AGE_COLUMNS),
      ].join(''),
      columns,
    );
  };
  const hidden = sample.sessions.length - rows.length;
  const states = ['executing', 'awaiting', 'idle'].flatMap((state) => {
    const count = sample.sessions.filter((each) => each.state === state).length;
    return count === 0 ? [] : [`${number(count)} ${state}`];
  });
  const total = counted(sample.sessions.length, sample.isCut ? 'or more session' : 'session');
  return [
    paint.bold(clip(`${head.title}  ${total}${states.length === 0 ? '' : `: ${states.join(', ')}`}`, columns)),
    clip(countersLine(head, sample), columns),
    ...providersLine(sample).map((text) => clip(text, columns)),
    '',
    paint.dim(line(['session', 'agent', ' state', 'mail', 'events/s', 'age'])),
    ...rows.map((row) => {
      const name = row.name === undefined ? row.id : `${row.id} ${row.name}`;
      const rate = row.rate === undefined ? '-' : number(row.rate, 1);
      const age = ageText(sample.at - row.updatedAt);
      const text = line([
        oneLine(name),
        agentKey(row.agent, row.version),
        ` ${row.state}`,
        number(row.mailbox),
        rate,
        age,
      ]);
      return row.state === 'idle' && row.mailbox === 0 ? text : paint.yellow(text);
    }),
    ...(hidden > 0 ? [paint.dim(clip(`and ${counted(hidden, 'more', 'more')}`, columns))] : []),
  ];
}

function countersLine({ halfStepsPerSecond }: TopHead, { counters }: TopSample): string {
  if (counters === undefined) return 'no process has it open';
  const rate = halfStepsPerSecond === undefined ? '-' : number(halfStepsPerSecond);
  const { modelCallsRunning = 0, modelCallsWaiting = 0, sessionsQueued = 0 } = counters;
  const { toolCallsRunning = 0, toolCallsWaiting = 0 } = counters;
  const models = `models: ${number(modelCallsRunning)} (${number(modelCallsWaiting)} waiting)`;
  const tools = `tools: ${number(toolCallsRunning)} (${number(toolCallsWaiting)} waiting)`;
  return `${rate} half-steps/s  ${models}  ${tools}  queued: ${number(sessionsQueued)}`;
}

/** One line with all providers, if there are several. */
function providersLine({ providers = {} }: TopSample): readonly string[] {
  const named = Object.entries(providers);
  if (named.length < 2) return [];
  const texts = named.map(([name, { modelCallsRunning = 0, modelCallsWaiting = 0, ...stops }]) => {
    const { circuitsOpen = 0, credentialsRefused = 0 } = stops;
    return [
      `${name === '' ? '(provider)' : oneLine(name)} ${number(modelCallsRunning)} running`,
      ...(modelCallsWaiting > 0 ? [`${number(modelCallsWaiting)} waiting`] : []),
      ...(circuitsOpen > 0 ? ['no answer'] : []),
      ...(credentialsRefused > 0 ? ['credentials refused'] : []),
    ].join(', ');
  });
  return [`providers: ${texts.join('  ')}`];
}
