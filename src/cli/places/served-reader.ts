/** The sessions of a running server, read page by page. */
import { z } from 'zod';
import type { AuditEntry } from '../../base/audit/audit-entry.ts';
import { SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Message, Pending, Usage } from '../../base/messages.ts';
import { SESSION_STATES, SESSION_STATUSES, type SessionEvent, TURN_OUTCOMES } from '../../events/event.ts';
import { byOrder, type ListFilter, type ListOrder } from '../../runtime/protocol/list-order.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import type { DeadLetter, DeadLetterSummary } from '../../session/state/letters.ts';
import { servedEvents, servedSeq } from './served-events.ts';
import type { Server } from './server.ts';
import type { SessionReader } from './session-reader.ts';
import type { StoredSession } from './stored-sessions.ts';
import { type WaitingCall, waitingCallSchema } from './waiting-call.ts';

const next = z.union([z.string(), z.number()]).optional();
const summaryShape = {
  id: z.string(),
  agent: z.string(),
  version: z.string().optional(),
  parent: z.string().optional(),
  name: z.string().optional(),
  state: z.enum(SESSION_STATES),
  status: z.enum(SESSION_STATUSES),
  lastOutcome: z.enum(TURN_OUTCOMES).optional(),
  lastError: z.looseObject({ code: z.string(), message: z.string() }).optional(),
  mailbox: z.number(),
  deadLetters: z.number().optional(),
  messageCount: z.number().optional(),
  createdAt: z.number().optional(),
  updatedAt: z.number(),
};
const sessionsSchema = z.looseObject({ sessions: z.array(z.looseObject(summaryShape)), next });
const usageSchema = z.looseObject({ input_tokens: z.number(), output_tokens: z.number() });
const treeUsageSchema = z.looseObject({ usage: usageSchema });
const sessionSchema = z.looseObject({
  ...summaryShape,
  seq: z.number().int(),
  children: z.array(z.unknown()),
  usage: usageSchema,
  budget: z.object({ tokens: z.number(), used: z.number() }).optional(),
  blocked: z.unknown().optional(),
});
const explanationSchema = z.looseObject({ reason: z.string(), detail: z.string() });
const messagesSchema = z.looseObject({ messages: z.array(z.looseObject({ seq: z.number() })), next });
const historySchema = z.looseObject({ messages: z.array(z.looseObject({})), next });
const pendingSchema = z.looseObject({ pending: z.array(z.looseObject({ id: z.number() })), next });
const letterShape = {
  session: z.string(),
  id: z.number(),
  type: z.string(),
  source: z.looseObject({ type: z.string() }),
  at: z.number(),
  setAsideAt: z.number(),
  error: z.looseObject({ message: z.string() }),
};
const lettersSchema = z.looseObject({ letters: z.array(z.looseObject(letterShape)), next });
const letterSchema = z.looseObject({ ...letterShape, content: z.union([z.string(), z.array(z.looseObject({}))]) });
const auditSchema = z.looseObject({
  entries: z.array(
    z.looseObject({ number: z.number(), at: z.number(), action: z.string(), details: z.looseObject({}) }),
  ),
  next: z.string().optional(),
});
const waitingSchema = z.looseObject({ waiting: z.array(waitingCallSchema), next });

/** The path of a session on a server. */
export function pathOf(session: string): string {
  return `sessions/${encodeURIComponent(session)}`;
}

/** See the head of the file. */
export function servedReader(server: Server): SessionReader {
  /** Reads pages until the last one, or until there are more than `limit` items. */
  const paged = async <T>(
    path: string,
    read: (path: string) => Promise<{ readonly items: readonly T[]; readonly next?: string | number | undefined }>,
    limit = Number.POSITIVE_INFINITY,
  ): Promise<readonly T[]> => {
    const found: T[] = [];
    const size = Math.min(SERVER_PAGE_MAX, limit + 1);
    for (let after: string | number | undefined; ; ) {
      const query = new URLSearchParams({
        limit: String(size),
        ...(after === undefined ? {} : { after: String(after) }),
      });
      const page = await read(`${path}${path.includes('?') ? '&' : '?'}${query}`);
      found.push(...page.items);
      if (page.next === undefined || found.length > limit) return found;
      after = page.next;
    }
  };
  const messagesAt = (path: string): Promise<readonly Message[]> =>
    paged(path, async (each) => {
      const page = await server.ask(each, messagesSchema);
      return { items: page.messages as unknown as readonly Message[], next: page.next };
    });
  return {
    list: async (filter, limit) => {
      // In the order `newest`, a session that changes meanwhile would move to a page that was already read.
      const order = limit === Number.POSITIVE_INFINITY ? 'id' : 'newest';
      const found = await paged(
        listPath(filter, order),
        async (path) => {
          const page = await server.ask(path, sessionsSchema);
          return { items: page.sessions as unknown as readonly SessionSummary[], next: page.next };
        },
        limit,
      );
      const sessions = order === 'id' ? found.toSorted(byOrder('newest')) : found.slice(0, limit);
      return { sessions, isCut: found.length > limit };
    },
    session: async (id) => {
      const { seq, usage, budget, children, blocked, ...summary } = await server.ask(pathOf(id), sessionSchema);
      const why = await server.ask(`${pathOf(id)}/explain`, explanationSchema);
      const recent = await messagesAt(`${pathOf(id)}/viewport`);
      const pending = await paged(`${pathOf(id)}/pending`, async (path) => {
        const page = await server.ask(path, pendingSchema);
        return { items: page.pending as unknown as readonly Pending[], next: page.next };
      });
      return {
        ...(summary as unknown as SessionSummary),
        messages: recent.at(-1)?.seq ?? 0,
        events: seq,
        usage: usage as Usage,
        ...defined({ budget }),
        why: why as StoredSession['why'],
        ...defined({ blocked: blocked as ErrorShape | undefined }),
        children: children.length,
        recent,
        pending,
      };
    },
    treeUsage: async (id) => (await server.ask(`${pathOf(id)}/usage?tree=true`, treeUsageSchema)).usage as Usage,
    messages: (id) => messagesAt(`${pathOf(id)}/messages`),
    history: (id) =>
      paged(`${pathOf(id)}/history`, async (path) => {
        const page = await server.ask(path, historySchema);
        return { items: page.messages as unknown as readonly HistoryMessage[], next: page.next };
      }),
    events: (id, wanted) => eventsOf(server, id, wanted),
    waiting: async (limit) => {
      const calls: readonly WaitingCall[] = await paged(
        'waiting',
        async (path) => {
          const page = await server.ask(path, waitingSchema);
          return { items: page.waiting, next: page.next };
        },
        limit,
      );
      return { calls: calls.slice(0, limit), isCut: calls.length > limit };
    },
    deadLetters: async (session, limit) => {
      const found = await paged(
        session === undefined ? 'dead-letters' : `dead-letters?${new URLSearchParams({ session })}`,
        async (path) => {
          const page = await server.ask(path, lettersSchema);
          return { items: page.letters as unknown as readonly DeadLetterSummary[], next: page.next };
        },
        limit,
      );
      return { letters: found.slice(0, limit), isCut: found.length > limit };
    },
    audit: async (wanted, limit) => {
      const entries: AuditEntry[] = [];
      for (let { after } = wanted; ; ) {
        const size = Math.min(SERVER_PAGE_MAX, limit - entries.length);
        const query = new URLSearchParams(defined({ ...wanted, after, limit: String(size) }));
        const page = await server.ask(`audit?${query}`, auditSchema);
        entries.push(...(page.entries as unknown as readonly AuditEntry[]));
        after = page.next;
        if (after === undefined || entries.length >= limit) return { entries, ...defined({ next: after }) };
      }
    },
    deadLetter: async (session, id) =>
      (await server.ask(`${pathOf(session)}/dead-letters/${id}`, letterSchema)) as unknown as DeadLetter,
  };
}

function listPath(filter: ListFilter, order: ListOrder): string {
  const { state, status, outcome, agent, parent, changedAfter, changedBefore } = filter;
  const query = defined({
    ...{ state, status: status?.join(','), outcome, agent },
    parent: parent === null ? '' : parent,
    changedAfter: changedAfter?.toString(),
    changedBefore: changedBefore?.toString(),
  });
  return `sessions?${new URLSearchParams({ order, ...query })}`;
}

/** The events that the server has now. */
async function eventsOf(
  server: Server,
  id: string,
  { after, limit }: Parameters<SessionReader['events']>[1],
): Promise<readonly SessionEvent[]> {
  const newest = await servedSeq(server, id);
  const from = after ?? Math.max(0, newest - limit);
  const found: SessionEvent[] = [];
  if (from >= newest) return found;
  const stop = new AbortController();
  try {
    for await (const event of servedEvents(server, id, { after: from, signal: stop.signal })) {
      found.push(event);
      if (found.length >= limit || (event.seq ?? 0) >= newest) break;
    }
  } finally {
    stop.abort();
  }
  return found;
}
