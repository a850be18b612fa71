/** Builds an event from its parts. Pure. */
import type { EventBody, SessionEvent } from './event.ts';

/**
 * A durable event of a session. For the frequent events of a half-step the members are written out. Spreading objects
 * of varying shapes would cost more than all other work for the event.
 */
export function durableEvent(session: string, at: number, seq: number, body: EventBody): SessionEvent {
  switch (body.type) {
    case 'message.created':
    case 'message.updated':
      return { session, at, seq, type: body.type, message: body.message };
    case 'pending.created':
      return { session, at, seq, type: body.type, pending: body.pending };
    case 'pending.removed':
      return { session, at, seq, type: body.type, pendingId: body.pendingId, reason: body.reason };
    case 'tool.started':
      return { session, at, seq, type: body.type, toolUseId: body.toolUseId, toolName: body.toolName };
    case 'session.state': {
      const { type, state, phase } = body;
      return phase === undefined ? { session, at, seq, type, state } : { session, at, seq, type, state, phase };
    }
    default:
      return { session, at, seq, ...body };
  }
}
