/** `troupe top`: a table of the busiest sessions, redrawn periodically or printed once. Starts nothing. */
import { setTimeout as pause } from 'node:timers/promises';
import { TOP_INTERVAL_MS, TOP_SESSIONS_MAX } from '../../base/bounds.ts';
import { StoreLockedError } from '../../base/errors.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { DATA_OPTION, dataDirectory, JSON_OPTION, requireStore, shownPath } from '../store-directory.ts';
import { paintFor, type StopSignal, type Surroundings } from '../surroundings.ts';
import { printableJson } from '../text-layout.ts';
import { directorySource, serverSource, type TopSample, type TopSource } from './source.ts';
import { frameLines, inOrder, TOP_ORDERS, type TopHead, type TopOrder, type TopRow, topLines } from './texts.ts';

const HOME_AND_CLEAR = '\u001b[H\u001b[J';
const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const MS_PER_SECOND = 1_000;
const INTERVAL_MS_MIN = 50;
const INTERVAL_MS_MAX = 3_600_000;
/** The environment variable for a server's token, which keeps the token out of the command line. */
const TOKEN_VARIABLE = 'TROUPE_TOKEN';

/** See the head of the file. */
export const topCommand: Command = {
  positionals: [],
  options: {
    data: DATA_OPTION,
    url: { kind: 'text', value: 'URL', help: 'A running server, instead of a data directory' },
    token: { kind: 'text', value: 'TOKEN', help: `Token of the server (default: $${TOKEN_VARIABLE})` },
    sort: { kind: 'text', value: 'ORDER', help: `${TOP_ORDERS.join(', ')} (default: ${TOP_ORDERS[0]})` },
    limit: { kind: 'count', value: 'N', min: 1, max: TOP_SESSIONS_MAX, help: 'Sessions shown (default: what fits)' },
    interval: {
      kind: 'count',
      value: 'MS',
      min: INTERVAL_MS_MIN,
      max: INTERVAL_MS_MAX,
      help: `Milliseconds between two samples (default: ${TOP_INTERVAL_MS})`,
    },
    once: { kind: 'flag', help: 'Print once; the default without a terminal, unless --json is given' },
    json: JSON_OPTION,
  },
  details: [
    'mail: entries that wait. events/s: durable events between two samples. age: since its last change. A session at work comes before one that rests.',
    'A data directory is read once, from the log, and only while no process has it open. With --json each sample is one line.',
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
  const url = given.text('url');
  if (url !== undefined && given.text('data') !== undefined)
    throw new UsageError('--url and --data exclude each other');
  const order = TOP_ORDERS.find((each) => each === (given.text('sort') ?? TOP_ORDERS[0]));
  if (order === undefined) throw new UsageError(`--sort must be one of ${TOP_ORDERS.join(', ')}`);
  const isJson = given.flag('json');
  const source = await sourceOf(url, given, surroundings);
  return {
    source,
    order,
    limit: given.count('limit'),
    intervalMs: given.count('interval') ?? TOP_INTERVAL_MS,
    isOnce: given.flag('once') || !source.isLive || (!isJson && !surroundings.stdout.isTerminal),
    isJson,
  };
}

async function sourceOf(url: string | undefined, given: Arguments, surroundings: Surroundings): Promise<TopSource> {
  if (url !== undefined) return serverSource(url, given.text('token') ?? surroundings.environment[TOKEN_VARIABLE]);
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const source = directorySource(data, shownPath(data, surroundings));
  return {
    ...source,
    look: () =>
      source.look().catch((error: unknown) => {
        if (!(error instanceof StoreLockedError)) throw error;
        throw new StoreLockedError(`${error.message}; watch its server with --url`, {
          cause: error,
          data: error.data,
        });
      }),
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
