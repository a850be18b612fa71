/** Reads the sessions of a place: from the logs of a directory, or from a running server. Changes nothing. */
import type { AuditEntry } from '../../base/audit/audit-entry.ts';
import { EXPORT_PAGE_MESSAGES, SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Message } from '../../base/messages.ts';
import { byOrder, passes } from '../../runtime/protocol/list-order.ts';
import { NotFoundError } from '../command.ts';
import type { Place } from './place.ts';
import { servedReader } from './served-reader.ts';
import type { SessionReader } from './session-reader.ts';
import { readStore, type StoredSession, type StoredSessions } from './stored-sessions.ts';

/** Reads a place. The reader is valid until `read` settles; a directory is locked until then. */
export function readPlace<T>(place: Place, read: (sessions: SessionReader) => Promise<T>): Promise<T> {
  if (place.kind === 'server') return read(servedReader(place.server));
  return readStore(place.directory, (stored) => read(storedReader(stored, place.shown)), place.keys);
}

function storedReader(stored: StoredSessions, shown: string): SessionReader {
  const known = (id: string): StoredSession => {
    const session = stored.session(id);
    if (session !== undefined) return session;
    throw new NotFoundError(`session ${JSON.stringify(id)} is not in ${shown}; \`troupe ls\` lists what is`);
  };
  return {
    list: (filter, limit) => {
      const sessions = stored
        .list()
        .filter((session) => passes(session, filter))
        .sort(byOrder('newest'));
      return Promise.resolve({ sessions: sessions.slice(0, limit), isCut: sessions.length > limit });
    },
    session: async (id) => known(id),
    treeUsage: async (id) => stored.treeUsage(known(id).id),
    messages: async (id) => {
      known(id);
      return messagesIn(stored, id);
    },
    history: async (id) => {
      known(id);
      return stored.history(id) ?? [];
    },
    events: async (id, { after, limit }) =>
      stored.events(id, { after: after ?? Math.max(0, known(id).events - limit), limit }),
    waiting: (limit) => {
      const calls = stored.waiting();
      return Promise.resolve({ calls: calls.slice(0, limit), isCut: calls.length > limit });
    },
    deadLetters: async (session, limit) => {
      const found = stored.deadLetters(session === undefined ? undefined : known(session).id);
      return { letters: found.slice(0, limit), isCut: found.length > limit };
    },
    audit: async (wanted, limit) => {
      const entries: AuditEntry[] = [];
      for (let { after } = wanted; ; ) {
        const size = Math.min(SERVER_PAGE_MAX, limit - entries.length);
        const page = await stored.audit({ ...wanted, ...defined({ after }), limit: size });
        entries.push(...page.items);
        after = page.next;
        if (after === undefined || entries.length >= limit) return { entries, ...defined({ next: after }) };
      }
    },
    deadLetter: async (session, id) => {
      const letter = stored.deadLetter(known(session).id, id);
      if (letter === undefined) throw new NotFoundError(`${JSON.stringify(session)} has no dead letter ${id}`);
      return letter;
    },
  };
}

/** All messages of a session in its log, as its durable events created and changed them, without removed messages. */
function messagesIn(stored: StoredSessions, id: string): readonly Message[] {
  const found = new Map<number, Message>();
  let after = 0;
  for (;;) {
    const events = stored.events(id, { after, limit: EXPORT_PAGE_MESSAGES });
    for (const event of events) {
      if (event.type === 'message.created' || event.type === 'message.updated') {
        found.set(event.message.seq, event.message);
      } else if (event.type === 'message.removed') found.delete(event.messageSeq);
    }
    const last = events.at(-1)?.seq ?? after;
    if (last <= after) return [...found.values()].sort((a, b) => a.seq - b.seq);
    after = last;
  }
}
