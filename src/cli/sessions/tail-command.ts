/** `troupe tail`: prints the durable events of a session. Starts nothing. */
import { INSPECT_LIMIT_MAX, TAIL_EVENTS_DEFAULT } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { type Arguments, type Command, EXIT, UsageError } from '../command.ts';
import { findPlace, PLACE_OPTIONS } from '../places/place.ts';
import { readPlace } from '../places/read-place.ts';
import { servedEvents, servedSeq } from '../places/served-events.ts';
import type { Server } from '../places/server.ts';
import { shortText } from '../places/stored-sessions.ts';
import { type Paint, paintFor, type StopSignal, type Surroundings } from '../surroundings.ts';
import { clip, left, oneLine, printableJson, right } from '../text-layout.ts';
import { kindOf } from './inspect-texts.ts';

const SEQ_COLUMNS = 6;
const TIME_COLUMNS = 12;
const TYPE_COLUMNS = 17;

/** See the head of the file. */
export const tailCommand: Command = {
  positionals: [{ name: 'session', required: true, help: 'Session whose events to print', completes: 'session' }],
  options: {
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
    follow: { kind: 'flag', help: 'Continue with new events of a running server, until stopped' },
    ...PLACE_OPTIONS,
    json: { kind: 'flag', help: 'Print each event whole, one JSON object a line' },
  },
  details: [
    'Every durable event of a session has a number, in one order without gaps; --after continues after the last one seen. Nothing is changed.',
  ],
  run,
};

async function run(given: Arguments, surroundings: Surroundings): Promise<number> {
  const place = await findPlace(given, surroundings);
  const id = given.positional('session') ?? '';
  if (given.flag('follow')) {
    if (place.kind === 'server') return follow(place.server, id, given, surroundings);
    throw new UsageError(`--follow is for a running server, and no process has ${place.shown} open`);
  }
  const limit = given.count('limit') ?? TAIL_EVENTS_DEFAULT;
  const events = await readPlace(place, (sessions) => sessions.events(id, { after: given.count('after'), limit }));
  const line = lineFor(given, surroundings);
  for (const event of events) surroundings.stdout.write(`${line(event)}\n`);
  return EXIT.ok;
}

async function follow(server: Server, id: string, given: Arguments, surroundings: Surroundings): Promise<number> {
  const { stdout } = surroundings;
  const stop = new AbortController();
  let stopped: StopSignal | undefined;
  const forget = surroundings.onStop((signal) => {
    stopped = signal;
    stop.abort();
  });
  try {
    const limit = given.count('limit') ?? Number.POSITIVE_INFINITY;
    const newest = await servedSeq(server, id);
    const after = given.count('after') ?? Math.max(0, newest - Math.min(limit, TAIL_EVENTS_DEFAULT));
    const line = lineFor(given, surroundings);
    let count = 0;
    for await (const event of servedEvents(server, id, { after, signal: stop.signal })) {
      stdout.write(`${line(event)}\n`);
      count += 1;
      if (count >= limit) break;
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
