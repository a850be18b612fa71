/**
 * Reads a data directory without a runtime: no session resumes, no model is called, nothing is written to a log. The
 * store's lock is held so that the store does not change during the read. Rejects with `StoreLockedError` when the
 * directory is in use.
 */
import type { AuditEntry } from '../../base/audit/audit-entry.ts';
import { defined } from '../../base/defined.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { isInTree, shardOf } from '../../base/ids.ts';
import { addUsage, type Message, NO_USAGE, type Pending, textOf, type Usage } from '../../base/messages.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { Journal } from '../../journal/journal.ts';
import { openJournal } from '../../journal/open-journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import { acquireStoreLock } from '../../journal/store/lock.ts';
import { readSettledManifest, shardDirectory } from '../../journal/store/manifest.ts';
import { fittingKeys, type GivenKeys } from '../../journal/store/store-key.ts';
import { type AuditOptions, auditPage } from '../../runtime/handles/audit.ts';
import type { AuditRequest } from '../../runtime/protocol/audit.ts';
import { byLetter } from '../../runtime/protocol/letters.ts';
import type { Page } from '../../runtime/protocol/pages.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import { olderFirst } from '../../runtime/protocol/waiting-order.ts';
import { auditPart } from '../../runtime/reading/audit-reader.ts';
import { contentReader } from '../../runtime/reading/content-reader.ts';
import { EventReplays } from '../../runtime/reading/event-replay.ts';
import { decodeHead, summaryOf } from '../../runtime/reading/head.ts';
import { readActor } from '../../runtime/reading/session-reader.ts';
import { type Explanation, explain } from '../../session/explain.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import { budgetOf } from '../../session/rules/budget.ts';
import { type NumberedWait, type QueuedCall, queuedCalls } from '../../session/rules/queued-calls.ts';
import { withContent } from '../../session/rules/waiting-content.ts';
import { type DeadLetter, type DeadLetterSummary, letterSummary, publicLetter } from '../../session/state/letters.ts';
import type { ReadContent } from '../../session/state/messages.ts';
import { publicEntry, publicMessage } from '../../session/state/messages.ts';
import type { SessionState } from '../../session/state/state.ts';

/** A session from its log. */
export interface StoredSession extends SessionSummary {
  /** Number of messages ever logged; the last of them are in `recent`. */
  readonly messages: number;
  readonly events: number;
  readonly usage: Usage;
  /** The budget as `state()` returns it; missing: the session has no budget. */
  readonly budget?: { readonly tokens: number; readonly used: number };
  readonly why: {
    readonly reason: Explanation['reason'] | 'completed' | 'failed' | 'cancelled';
    readonly detail: string;
  };
  readonly blocked?: ErrorShape;
  readonly children: number;
  /** Messages still in the window, oldest first. */
  readonly recent: readonly Message[];
  readonly pending: readonly Pending[];
}

/** See the head of the file. */
export interface StoredSessions {
  /** All sessions, ascending by id. */
  list(): readonly SessionSummary[];
  /** The calls that wait for a person, oldest first. They have no `expiresAt`, because the settings are not stored. */
  waiting(): readonly QueuedCall[];
  /** Dead letters by session and age; with `session` only those of its tree. */
  deadLetters(session: string | undefined): readonly DeadLetterSummary[];
  /** A dead letter with its content; undefined when there is none. */
  deadLetter(session: string, id: number): DeadLetter | undefined;
  /** A page of the audit log. Rejects like `runtime.audit`. */
  audit(options: AuditOptions): Promise<Page<AuditEntry>>;
  /** Reads one session; undefined when there is none. Throws `StoreCorruptError` for a log that cannot be read. */
  session(id: string): StoredSession | undefined;
  /** The tokens of a session and all its descendants; none for an unknown session. */
  treeUsage(id: string): Usage;
  /** The result of `session.history.toArray()`; undefined for an unknown session. */
  history(id: string): readonly HistoryMessage[] | undefined;
  /** Durable events after `after`, oldest first, at most `limit`. */
  events(id: string, options: { readonly after: number; readonly limit: number }): readonly SessionEvent[];
}

/**
 * Reads a directory that has a store. The reader is valid until `read` settles. `keys`: those of an encrypted store.
 * Rejects with `StoreKeyError` for keys that do not fit.
 */
export async function readStore<T>(
  directory: string,
  read: (sessions: StoredSessions) => T | Promise<T>,
  keys?: GivenKeys,
): Promise<T> {
  const lock = await acquireStoreLock(directory);
  const journals: Journal[] = [];
  try {
    const manifest = await readSettledManifest(directory);
    const fitting = manifest && fittingKeys(directory, manifest.encryption, keys);
    // A command that reads does not replace the key of the store.
    const encryption = fitting && { ...fitting, isRotating: false };
    for (let shard = 0; shard < (manifest?.shards ?? 0); shard += 1) {
      const options = {
        directory: shardDirectory(directory, shard),
        durability: 'flush',
        shard,
        ...defined({ encryption }),
      } as const;
      journals.push(await openJournal(options));
    }
    return await read(storedSessions(journals));
  } finally {
    for (const journal of journals) await journal.close();
    await lock.release();
  }
}

function storedSessions(journals: readonly Journal[]): StoredSessions {
  const stores = journals.map((journal) => ({ journal, replays: new EventReplays(journal) }));
  const find = (id: string): ((typeof stores)[number] & { readonly key: SessionKey }) | undefined => {
    const store = stores[shardOf(id, stores.length)];
    const key = store?.journal.keyOf(id);
    return store === undefined || key === undefined ? undefined : { ...store, key };
  };
  return {
    list: () => journals.flatMap(summaries).sort((a, b) => (a.id < b.id ? -1 : 1)),
    waiting: () =>
      journals
        .flatMap(waits)
        .sort(olderFirst)
        .map(({ call }) => call),
    deadLetters: (session) => {
      const found = journals.flatMap((journal) =>
        summaries(journal).flatMap(({ id, deadLetters = 0 }) => {
          const isWanted = deadLetters > 0 && (session === undefined || isInTree(id, session));
          const key = isWanted ? journal.keyOf(id) : undefined;
          if (key === undefined) return [];
          return readActor(journal, id, key).state.deadLetters.map((letter) => letterSummary(id, letter));
        }),
      );
      return found.sort(byLetter);
    },
    deadLetter: (session, id) => {
      const found = find(session);
      if (found === undefined) return undefined;
      const { state } = readActor(found.journal, session, found.key);
      const letter = state.deadLetters.find(({ entry }) => entry.id === id);
      const read = contentReader(found.journal, found.key);
      return letter && publicLetter(session, letter, withContent(letter.entry, read));
    },
    audit: (options) => {
      const now = (): Promise<void> => Promise.resolve();
      const shards = journals.map(
        ({ audit }) =>
          (request: AuditRequest) =>
            auditPart(async (after, limit) => audit.read(after, limit), request, now),
      );
      return auditPage(shards, options);
    },
    session: (id) => {
      const found = find(id);
      if (found === undefined) return undefined;
      const { state } = readActor(found.journal, id, found.key);
      const read = contentReader(found.journal, found.key);
      return state.agent === undefined ? undefined : storedSession(state, read);
    },
    treeUsage: (id) => {
      let sum = NO_USAGE;
      const open = [id];
      for (let next = open.pop(); next !== undefined; next = open.pop()) {
        const found = find(next);
        if (found === undefined) continue;
        const { state } = readActor(found.journal, next, found.key);
        sum = addUsage(sum, state.usage);
        open.push(...state.children.keys());
      }
      return sum;
    },
    history: (id) => {
      const found = find(id);
      return found === undefined ? undefined : historyMessages(readActor(found.journal, id, found.key).state);
    },
    events: (id, options) => {
      const found = find(id);
      const bounds = { limit: options.limit, bytesMax: Number.MAX_SAFE_INTEGER };
      return found === undefined ? [] : found.replays.page(id, found.key, options.after, bounds).events;
    },
  };
}

/**
 * Summaries from the heads. Sessions that are runnable or changed since the last checkpoint are read from the log,
 * because their heads may be older.
 */
function summaries(journal: Journal): readonly SessionSummary[] {
  const changed = changedSessions(journal);
  return journal.names({}).flatMap(([name, key]) => {
    const head = changed.has(key) ? undefined : journal.head(key);
    if (head !== undefined) return [decodeHead(head.data).summary];
    const { state } = readActor(journal, name, key);
    return state.agent === undefined ? [] : [summaryOf(state)];
  });
}

/** The sessions that are runnable or changed since the last checkpoint. */
function changedSessions(journal: Journal): ReadonlySet<SessionKey> {
  const changed = new Set<SessionKey>(journal.runnable());
  for (const key of journal.tailKeys(journal.checkpointed())) changed.add(key);
  return changed;
}

/** The waiting calls of a shard. A session with such a call is runnable, so no other session is read. */
function waits(journal: Journal): readonly NumberedWait[] {
  return [...changedSessions(journal)].flatMap((key) => {
    const name = journal.nameOf(key);
    return name === undefined ? [] : queuedCalls(readActor(journal, name, key).state, null);
  });
}

function storedSession(state: SessionState, read: ReadContent): StoredSession {
  return {
    ...summaryOf(state),
    messages: state.nextMessageSeq - 1,
    events: state.eventSeq,
    usage: state.usage,
    ...defined({ budget: budgetOf(state) }),
    why: whyItRests(state),
    ...defined({ blocked: state.blocked }),
    children: state.children.size,
    recent: state.messages.map(publicMessage),
    pending: state.mailbox.map((entry) => publicEntry(withContent(entry, read))),
  };
}

/** The reason why the session does nothing. No runtime has the store open, so work in flight ended with its process. */
function whyItRests(state: SessionState): StoredSession['why'] {
  const { reason, detail } = explain(state, { now: Date.now(), isQueued: false });
  if (reason === 'nothing_waits' && state.exit !== undefined) {
    const { reason: exit, error } = state.exit;
    return { reason: exit, detail: error === undefined ? exit : `${exit}: ${error.message}` };
  }
  if (reason === 'waiting_for_model') return { reason, detail: 'interrupted in a model call; open continues it' };
  if (reason === 'waiting_for_tools') {
    const names = [...new Set([...state.openCalls.values()].map((call) => call.name))].join(', ');
    return { reason, detail: `interrupted in ${names}; open continues it` };
  }
  if (reason === 'starting') return { reason, detail: 'has work; open continues it' };
  return { reason, detail };
}

/** The text of a message or entry for one line. */
export function shortText(content: Message['content']): string {
  if (typeof content === 'string') return content;
  const others = content.filter((block) => block.type !== 'text').map((block) => `[${block.type}]`);
  return [textOf(content), ...others].join(' ').trim();
}
