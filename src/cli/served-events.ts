/** The durable events of a session from a running server (`GET /sessions/:id/events`). */
import { z } from 'zod';
import { TOP_TIMEOUT_MS } from '../base/bounds.ts';
import { streamEvents } from '../client/stream-parser.ts';
import type { SessionEvent } from '../events/event.ts';
import { UsageError } from './command.ts';

/** The session to read, and how. */
export interface ServedEvents {
  readonly url: string;
  readonly token: string | undefined;
  readonly session: string;
  /** Events after this number. */
  readonly after: number;
  /** The iteration ends when this signal is aborted. */
  readonly signal: AbortSignal;
}

const eventSchema = z.looseObject({
  session: z.string(),
  at: z.number(),
  seq: z.number().int().optional(),
  type: z.string(),
});
const snapshotSchema = z.looseObject({ seq: z.number().int() });

/**
 * Number of durable events of the session at present. Throws `UsageError` for an invalid address or an unknown session.
 */
export async function servedSeq(wanted: ServedEvents): Promise<number> {
  const response = await ask(wanted, '', 'application/json', AbortSignal.timeout(TOP_TIMEOUT_MS));
  const parsed = snapshotSchema.safeParse(await response.json());
  if (!parsed.success) throw new Error(`${wanted.url} answered something unexpected; is it a troupe server?`);
  return parsed.data.seq;
}

/**
 * Events in order, until the server ends the stream or the signal fires. Rejects for a response that is not an event
 * stream.
 */
export async function* servedEvents(wanted: ServedEvents): AsyncGenerator<SessionEvent, undefined> {
  const { after, signal } = wanted;
  try {
    const path = `/events?after=${after}&mode=debug&deltas=false`;
    const response = await ask(wanted, path, 'text/event-stream', signal);
    if (response.body === null) return undefined;
    for await (const { data } of streamEvents(response.body)) {
      const event = eventOf(data);
      if (event.seq !== undefined) yield event;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return undefined;
}

function eventOf(data: string): SessionEvent {
  const parsed = eventSchema.safeParse(JSON.parse(data));
  if (!parsed.success) throw new Error('the server sent something that is not an event of a session');
  return parsed.data as SessionEvent;
}

async function ask(
  { url, token, session }: ServedEvents,
  rest: string,
  accept: string,
  signal: AbortSignal,
): Promise<Response> {
  const isAddress = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  if (!isAddress) throw new UsageError(`--url must be an http or https address, got ${JSON.stringify(url)}`);
  const base = url.endsWith('/') ? url : `${url}/`;
  const response = await fetch(`${base}sessions/${encodeURIComponent(session)}${rest}`, {
    headers: { accept, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    signal,
  }).catch((cause: unknown) => {
    throw new Error(`${url} does not answer`, { cause });
  });
  if (response.ok) return response;
  await response.body?.cancel();
  if (response.status === 404) throw new UsageError(`<session> ${JSON.stringify(session)} is not at ${url}`);
  throw new Error(`${url} answered ${response.status}`);
}
