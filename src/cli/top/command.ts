/** `troupe top`: a table of the busiest sessions, redrawn periodically or printed once. Starts nothing. */
import { setTimeout as pause } from 'node:timers/promises';
import { TOP_INTERVAL_MS, TOP_SESSIONS_MAX } from '../../base/bounds.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { paintFor, type StopSignal, type Surroundings } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { sourceOf, type TopSample, type TopSource } from './source.ts';
import { frameLines, inOrder, TOP_ORDERS, type TopHead, type TopOrder, type TopRow, topLines } from './texts.ts';

const HOME_AND_CLEAR = '\u001b[H\u001b[J';
const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const MS_PER_SECOND = 1_000;
const INTERVAL_MS_MIN = 50;
const INTERVAL_MS_MAX = 3_600_000;

/** See the head of the file. */
export const topCommand: Command = {
  positionals: [],
  options: {
    sort: {
      kind: 'text',
      value: 'ORDER',
      words: TOP_ORDERS,
      help: `${TOP_ORDERS.join(', ')} (default: ${TOP_ORDERS[0]})`,
    },
    limit: { kind: 'count', value: 'N', min: 1, max: TOP_SESSIONS_MAX, help: 'Sessions shown (default: what fits)' },
    interval: {
      kind: 'count',
      value: 'MS',
      min: INTERVAL_MS_MIN,
      max: INTERVAL_MS_MAX,
      help: `Milliseconds between two samples (default: ${TOP_INTERVAL_MS})`,
    },
    once: { kind: 'flag', help: 'Print once; the default without a terminal, unless --json is given' },
    ...PLACE_OPTIONS,
  },
  details: [
    'mail: entries that wait. events/s: durable events between two samples. age: since its last change. Among equals, a session at work comes before one that rests.',
    'A server is sampled again and again; a directory that no process has open does not change, so it is read once. With --json each sample is one line.',
  ],
  run,
};

interface Wanted {
  readonly source: TopSource;
  readonly order: TopOrder;
  readonly limit: number | undefined;
  readonly intervalMs: number;
  readonly isOnce: boolean;
  readonly isJson: boolean;
}

/** The previous sample: its time, and the event counts of the sessions shown. */
interface Before {
  readonly sample: TopSample;
  readonly events: ReadonlyMap<string, number>;
}

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout } = surroundings;
  const wanted = await wantedOf(given, surroundings);
  const stop = new AbortController();
  let stopped: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  const isDrawn = stdout.isTerminal && !wanted.isOnce && !wanted.isJson;
  const showCursor = (): void => stdout.write(SHOW_CURSOR);
  const forgetExit = isDrawn ? surroundings.onExit(showCursor) : undefined;
  if (isDrawn) stdout.write(HIDE_CURSOR);
  try {
    await watch(wanted, surroundings, stop.signal, isDrawn);
  } finally {
    forget();
    forgetExit?.();
    if (isDrawn) showCursor();
  }
  return stopped === undefined ? EXIT.ok : EXIT[stopped];
}

async function watch(
  wanted: Wanted,
  { stdout, environment }: Surroundings,
  stop: AbortSignal,
  isDrawn: boolean,
): Promise<void> {
  const { source, order, isJson, isOnce, intervalMs } = wanted;
  const paint = paintFor(stdout, environment);
  let before: Before | undefined;
  while (!stop.aborted) {
    const sample = await source.look();
    const limit = wanted.limit ?? (isDrawn ? Math.max(1, stdout.rows - frameLines(sample) - 1) : TOP_SESSIONS_MAX);
    const events = isOnce ? new Map<string, number>() : await eventsOf(source, inOrder(sample.sessions, order), limit);
    const rows = inOrder(withRates(sample, events, before), order).slice(0, limit);
    const head = headOf(source, sample, before);
    before = { sample, events };
    if (isJson) {
      const { at, counters, providers } = sample;
      stdout.write(`${printableJson({ ...head, at, counters, providers, sessions: rows })}\n`);
    } else {
      const lines = topLines(head, sample, rows, { columns: stdout.columns, paint });
      stdout.write(`${isDrawn ? HOME_AND_CLEAR : ''}${lines.join('\n')}\n`);
    }
    if (isOnce) return;
    await pause(intervalMs, undefined, { signal: stop }).catch((error: unknown) => {
      if (!stop.aborted) throw error;
    });
  }
}

async function wantedOf(given: Arguments, surroundings: Surroundings): Promise<Wanted> {
  const order = TOP_ORDERS.find((each) => each === (given.text('sort') ?? TOP_ORDERS[0]));
  if (order === undefined) throw new UsageError(`--sort must be one of ${TOP_ORDERS.join(', ')}`);
  const isJson = given.flag('json');
  const source = sourceOf(await findPlace(given, surroundings));
  return {
    source,
    order,
    limit: given.count('limit'),
    intervalMs: given.count('interval') ?? TOP_INTERVAL_MS,
    isOnce: given.flag('once') || !source.isLive || (!isJson && !surroundings.stdout.isTerminal),
    isJson,
  };
}

/** Event counts of the sessions that may be shown. A session that was deleted meanwhile is left out. */
async function eventsOf(
  source: TopSource,
  rows: readonly TopRow[],
  limit: number,
): Promise<ReadonlyMap<string, number>> {
  const found = await Promise.all(
    rows.slice(0, limit).map(async ({ id }) => [id, await source.events(id).catch(() => undefined)] as const),
  );
  return new Map(found.flatMap(([id, events]) => (events === undefined ? [] : [[id, events] as const])));
}

function withRates(
  sample: TopSample,
  events: ReadonlyMap<string, number>,
  before: Before | undefined,
): readonly TopRow[] {
  const seconds = before === undefined ? 0 : (sample.at - before.sample.at) / MS_PER_SECOND;
  return sample.sessions.map((session) => {
    const now = events.get(session.id);
    const then = before?.events.get(session.id);
    if (now === undefined || then === undefined || seconds <= 0) return session;
    return { ...session, rate: Math.max(0, now - then) / seconds };
  });
}

function headOf({ title }: TopSource, sample: TopSample, before: Before | undefined): TopHead {
  const now = sample.counters?.['halfSteps'];
  const then = before?.sample.counters?.['halfSteps'];
  const seconds = before === undefined ? 0 : (sample.at - before.sample.at) / MS_PER_SECOND;
  if (now === undefined || then === undefined || seconds <= 0) return { title };
  return { title, halfStepsPerSecond: Math.max(0, now - then) / seconds };
}
