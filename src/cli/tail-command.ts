/** `troupe tail`: prints the durable events of a session from the log. Starts nothing. */
import { INSPECT_LIMIT_MAX, TAIL_EVENTS_DEFAULT } from '../base/bounds.ts';
import type { SessionEvent } from '../events/event.ts';
import { type Arguments, type Command, EXIT, UsageError } from './command.ts';
import { unknownSession } from './inspect-command.ts';
import { kindOf } from './inspect-texts.ts';
import { servedEvents, servedSeq } from './served-events.ts';
import { DATA_OPTION, dataDirectory, requireStore } from './store-directory.ts';
import { readStore, shortText } from './stored-sessions.ts';
import { type Paint, paintFor, type StopSignal, type Surroundings } from './surroundings.ts';
import { clip, left, oneLine, printableJson, right } from './text-layout.ts';

const SEQ_COLUMNS = 6;
const TIME_COLUMNS = 12;
const TYPE_COLUMNS = 17;

/** See the head of the file. */
export const tailCommand: Command = {
  positionals: [{ name: 'session', required: true, help: 'Session whose events to print' }],
  options: {
    data: DATA_OPTION,
    after: {
      kind: 'count',
      value: 'SEQ',
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
      help: 'Events after this number, the oldest first (default: the last ones)',
    },
    limit: {
      kind: 'count',
      value: 'N',
      min: 1,
      max: INSPECT_LIMIT_MAX,
      help: `Events at most (default: ${TAIL_EVENTS_DEFAULT})`,
    },
    url: { kind: 'text', value: 'URL', help: 'A running server, instead of a data directory' },
    token: { kind: 'text', value: 'TOKEN', help: 'Token of the server (default: $TROUPE_TOKEN)' },
    follow: { kind: 'flag', help: 'With --url: continue with new events, until stopped' },
    json: { kind: 'flag', help: 'Print each event whole, one JSON object a line' },
  },
  details: [
    'Every durable event of a session has a number, in one order without gaps; --after continues after the last one seen. Reads the log only. Refuses while a process has the directory open: its server can be asked with --url.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const url = given.text('url');
  if (url === undefined && given.flag('follow')) throw new UsageError('--follow is for --url');
  if (url !== undefined && given.text('data') !== undefined)
    throw new UsageError('--url and --data exclude each other');
  return url === undefined ? tailDirectory(given, surroundings) : tailServer(url, given, surroundings);
}

async function tailServer(url: string, given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout, environment } = surroundings;
  const stop = new AbortController();
  let stopped: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  try {
    const session = given.positional('session') ?? '';
    const token = given.text('token') ?? environment['TROUPE_TOKEN'];
    const limit = given.count('limit') ?? (given.flag('follow') ? Number.POSITIVE_INFINITY : TAIL_EVENTS_DEFAULT);
    const wanted = { url, token, session, signal: stop.signal };
    const newest = await servedSeq({ ...wanted, after: 0 });
    const shownFirst = Math.max(0, newest - Math.min(limit, TAIL_EVENTS_DEFAULT));
    const after = given.count('after') ?? shownFirst;
    const line = lineFor(given, surroundings);
    let count = 0;
    if (given.flag('follow') || after < newest) {
      for await (const event of servedEvents({ ...wanted, after })) {
        stdout.write(`${line(event)}\n`);
        count += 1;
        if (count >= limit || (!given.flag('follow') && (event.seq ?? 0) >= newest)) break;
      }
    }
    return stopped === undefined ? EXIT.ok : EXIT[stopped];
  } finally {
    forget();
    stop.abort();
  }
}

function lineFor(given: Arguments, { stdout, environment }: Surroundings): (event: SessionEvent) => string {
  const paint = paintFor(stdout, environment);
  return given.flag('json') ? printableJson : (event) => eventLine(event, stdout.columns - 1, paint);
}

async function tailDirectory(given: Arguments, surroundings: Surroundings): Promise<number> {
  const data = dataDirectory(given, surroundings);
  await requireStore(data);
  const id = given.positional('session') ?? '';
  const limit = given.count('limit') ?? TAIL_EVENTS_DEFAULT;
  const events = await readStore(data, (sessions) => {
    const session = sessions.session(id);
    if (session === undefined) throw unknownSession(id, data, surroundings);
    return sessions.events(id, { after: given.count('after') ?? Math.max(0, session.events - limit), limit });
  });
  const line = lineFor(given, surroundings);
  for (const event of events) surroundings.stdout.write(`${line(event)}\n`);
  return EXIT.ok;
}

function eventLine(event: SessionEvent, columns: number, paint: Paint): string {
  const time = new Date(event.at).toISOString().slice(11, 23);
  const label = `${right(String(event.seq ?? ''), SEQ_COLUMNS)}  ${left(time, TIME_COLUMNS)}  `;
  const room = columns - SEQ_COLUMNS - TIME_COLUMNS - TYPE_COLUMNS - 6;
  return `${paint.dim(label)}${left(event.type, TYPE_COLUMNS)}  ${clip(oneLine(textOfEvent(event)), Math.max(room, 10))}`.trimEnd();
}

function textOfEvent(event: SessionEvent): string {
  switch (event.type) {
    case 'message.created':
    case 'message.updated': {
      const { message } = event;
      const call = message.type === 'tool_call' && message.source?.type !== 'subagent';
      const text = call ? `${message.toolName} ${JSON.stringify(message.input)}` : shortText(message.content);
      return `#${message.seq} ${kindOf(message)}: ${text}`;
    }
    case 'pending.created': {
      const { id, source, content } = event.pending;
      return `#${id} ${source.name ?? source.type}: ${shortText(content)}`;
    }
    case 'pending.removed':
      return `#${event.pendingId} ${event.reason}`;
    case 'session.state':
      return event.phase === undefined ? event.state : `${event.state} (${event.phase})`;
    case 'tool.started':
      return event.toolName;
    case 'tool.finished':
      return `${event.toolName} ${event.success ? 'succeeded' : 'failed'}${event.ms === undefined ? '' : ` in ${event.ms} ms`}`;
    default: {
      const { session: _session, at: _at, seq: _seq, type: _type, ...rest } = event;
      return JSON.stringify(rest);
    }
  }
}
