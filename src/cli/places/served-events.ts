/** The durable events of a session from a running server (`GET /sessions/:id/events`). */
import { z } from 'zod';
import { streamEvents } from '../../client/stream-parser.ts';
import type { SessionEvent } from '../../events/event.ts';
import { ServerError } from '../command.ts';
import type { Server } from './server.ts';

const eventSchema = z.looseObject({
  session: z.string(),
  at: z.number(),
  seq: z.number().int().optional(),
  type: z.string(),
});
const snapshotSchema = z.looseObject({ seq: z.number().int() });

/** Number of durable events of the session at present. Rejects with `NotFoundError` for an unknown session. */
export async function servedSeq(server: Server, session: string): Promise<number> {
  return (await server.ask(`sessions/${encodeURIComponent(session)}`, snapshotSchema)).seq;
}

/**
 * Events after `after`, in order, until the server ends the stream or the signal fires. Rejects for a response that is
 * not an event stream.
 */
export async function* servedEvents(
  server: Server,
  session: string,
  { after, signal }: { readonly after: number; readonly signal: AbortSignal },
): AsyncGenerator<SessionEvent, undefined> {
  try {
    const path = `sessions/${encodeURIComponent(session)}/events?after=${after}&mode=debug&deltas=false`;
    const response = await server.respond(path, 'text/event-stream', { signal });
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
  if (!parsed.success) throw new ServerError('the server sent something that is not an event of a session');
  return parsed.data as SessionEvent;
}
