/**
 * Checks the audit log of a run between two lives (I39 of `invariants.ts`). The log has exactly one entry for each of
 * these acts: a decision about a call, a dead letter that was sent again or dropped, an edit by the embedder, a started
 * or activated task, a fork, a deletion. An entry never changes, and never leaves.
 *
 * Owns: the entries and the sessions that earlier checks found. Does not own: the stores.
 */
import { type AuditDetails, type AuditEntry, auditEntry } from '../../../base/audit/audit-entry.ts';
import { defined } from '../../../base/defined.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import type { Journal } from '../../../journal/journal.ts';
import { openMemoryJournal } from '../../../journal/memory-journal.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { decodeTransition, type RecordOf, type SessionRecord } from '../../../session/state/records.ts';
import type { Ledger } from '../ledger.ts';
import type { Reading } from '../store-reading.ts';

/** The parts of the simulation that the check reads. */
export interface AuditCheckParts {
  readonly stores: readonly MemoryStore[];
  readonly ledger: Ledger;
  readonly encryption: StoreEncryption | undefined;
}

/** See the head of the file. */
export class AuditTrail {
  /** Entries by number, as texts. */
  readonly #known = new Map<number, string>();
  /** The sessions that earlier readings found. */
  #seen: ReadonlySet<string> = new Set();

  /** Checks the stores after a life. */
  async check({ stores, ledger, encryption }: AuditCheckParts, { changed, stories }: Reading): Promise<void> {
    const entries: AuditEntry[] = [];
    const journals = stores.map((store) => openMemoryJournal({ store, ...defined({ encryption }) }));
    for (const { audit } of journals) {
      for (const { number, text } of audit.read(0, Number.MAX_SAFE_INTEGER)) entries.push(auditEntry(number, text));
    }
    this.#checkKept(ledger, entries);
    const deletions = new Map<string, number[]>();
    for (const { action, session = '', details } of entries) {
      if (action !== 'session.deleted') continue;
      deletions.set(session, [...(deletions.get(session) ?? []), Number(details['incarnation'])]);
    }
    checkDeletions(ledger, stores, deletions);
    for (const session of this.#seen) {
      if (!stories.has(session) && !deletions.has(session))
        ledger.violate('lost', `${session} was there and is not, and its deletion has no entry (I39)`);
    }
    this.#seen = new Set(stories.keys());
    const counts = countsOf(entries);
    for (const journal of journals) {
      for (const [name, key] of journal.names({})) {
        // A deleted session with the same id may have left entries about calls and letters with the same ids.
        if (changed.has(name) && !deletions.has(name)) checkSession(ledger, journal, { name, key }, counts);
      }
      await journal.close();
    }
  }

  #checkKept(ledger: Ledger, entries: readonly AuditEntry[]): void {
    const found = new Map(entries.map((entry) => [entry.number, JSON.stringify(entry)]));
    if (found.size < entries.length) ledger.violate('duplicated', 'two entries of the audit log have one number (I39)');
    for (const [number, text] of this.#known) {
      if (found.get(number) !== text) ledger.violate('lost', `entry ${number} of the audit log is gone: ${text} (I39)`);
    }
    for (const [number, text] of found) this.#known.set(number, text);
  }
}

/**
 * Checks that each deleted session has exactly one entry about its deletion, and that no existing session has such an
 * entry.
 */
function checkDeletions(
  ledger: Ledger,
  stores: readonly MemoryStore[],
  deletions: ReadonlyMap<string, readonly number[]>,
): void {
  for (const [session, incarnations] of deletions) {
    if (new Set(incarnations).size < incarnations.length)
      ledger.violate('duplicated', `the deletion of ${session} has two entries in the audit log (I39)`);
  }
  for (const { names, erasures, origins } of stores) {
    for (const [key, name] of names) {
      if (deletions.get(name)?.includes(key) === true)
        ledger.violate('fold', `${name} is there, and the audit log says that it was deleted (I39)`);
    }
    for (const [key, { name, keeps }] of erasures) {
      const own = deletions.get(name) ?? [];
      // A change of the layout gave the session another key, so the entry need not have this key.
      const isThere = origins.has(key) ? own.length > 0 : own.includes(key);
      if (keeps !== true && !isThere) ledger.violate('lost', `the deletion of ${name} has no entry (I39)`);
    }
  }
  for (const [session, wasThere] of ledger.deleted) {
    if (wasThere && !deletions.has(session))
      ledger.violate('lost', `the acknowledged deletion of ${session} has no entry (I39)`);
  }
}

/**
 * Checks that the audit log has one entry for each record of an act in a session's log. If the older part of that log
 * was removed, the audit log may have more entries than the log has records.
 */
function checkSession(
  ledger: Ledger,
  journal: Journal,
  { name, key }: { readonly name: string; readonly key: number },
  counts: ReadonlyMap<string, number>,
): void {
  const recorded = new Map<string, number>();
  for (const { data } of journal.read(key, 0)) {
    for (const record of decodeTransition(data).records) count(recorded, actOf(name, record));
  }
  const isWhole = journal.starts.of(key) === undefined;
  for (const [act, records] of recorded) {
    const entries = counts.get(act) ?? 0;
    if (entries < records) ledger.violate('lost', `${act} has ${entries} entries for ${records} records (I39)`);
    if (entries > records && isWhole)
      ledger.violate('duplicated', `${act} has ${entries} entries for ${records} records (I39)`);
  }
}

function actOf(session: string, record: SessionRecord): string | undefined {
  switch (record.type) {
    case 'decided':
      return `${session}: the decision about ${record.callId}, ${record.allow}, by ${record.by}`;
    case 'edited':
      return RUNTIME_EDITS.has(record.operation) ? undefined : `${session}: ${editText(editFacts(record))}`;
    case 'taskStarted':
      return `${session}: starting task ${record.id}`;
    case 'taskActivated':
      return `${session}: activating task ${record.id}, ${record.cause}`;
    case 'forked':
      return `${session}: forking ${record.origin.session}`;
    case 'letterDropped':
      return `${session}: dropping letter ${record.id}`;
    case 'accepted':
      return record.entry.letter === undefined ? undefined : `${session}: sending letter ${record.entry.letter}`;
    default:
      return undefined;
  }
}

/** Edits that the runtime makes itself: the messages of a failed turn leave, and the list of archives is renewed. */
const RUNTIME_EDITS: ReadonlySet<string> = new Set(['rollback', 'chunkIndex']);

function editFacts({ operation, added, updated, annotated, removed }: RecordOf<'edited'>): AuditDetails {
  const changed = [...(updated ?? []), ...(annotated ?? [])].length;
  return { operation, added: added?.length ?? 0, updated: changed, removed: removed?.length ?? 0 };
}

function editText({ operation, added, updated, removed }: AuditDetails): string {
  return `the edit ${operation} with ${added} added, ${updated} updated, ${removed} removed`;
}

function countsOf(entries: readonly AuditEntry[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { action, session, by, details } of entries) {
    switch (action) {
      case 'approval.decided':
        count(counts, `${session}: the decision about ${details['callId']}, ${details['allow']}, by ${by}`);
        break;
      case 'question.answered':
        count(counts, `${session}: the decision about ${details['callId']}, ${details['answered']}, by ${by}`);
        break;
      case 'history.edited':
        count(counts, `${session}: ${editText(details)}`);
        break;
      case 'task.started':
        count(counts, `${session}: starting task ${details['task']}`);
        break;
      case 'task.activated':
        count(counts, `${session}: activating task ${details['task']}, ${details['cause']}`);
        break;
      case 'session.forked':
        count(counts, `${session}: forking ${details['from']}`);
        break;
      case 'dead_letter.dropped':
        count(counts, `${session}: dropping letter ${details['letter']}`);
        break;
      case 'dead_letter.resent':
        count(counts, `${session}: sending letter ${details['letter']}`);
        break;
      default:
        break;
    }
  }
  return counts;
}

function count(counts: Map<string, number>, act: string | undefined): void {
  if (act !== undefined) counts.set(act, (counts.get(act) ?? 0) + 1);
}
