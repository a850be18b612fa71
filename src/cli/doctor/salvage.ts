/**
 * `troupe doctor salvage`: writes readable sessions as lines of JSON into a new directory.
 *
 * `sessions.jsonl`: `{ type: 'session', id, agent, parent?, name?, state, createdAt, updatedAt, usage, messages,
 * pending, cut? }`, followed by its lines `{ type: 'message', session, message }` and `{ type: 'pending', session,
 * pending }`, oldest first. `cut` is the reason of the first damage in the session's log, or else in its head, the
 * stored summary. Damage in the log ends the readable part. `audit.jsonl`: one entry of the audit log per line, as
 * `runtime.audit()` gives it, ascending within each shard. `damage.jsonl`: one finding per line.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type AuditEntry, auditEntry } from '../../base/audit/audit-entry.ts';
import { systemCodeOf } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import type { Finding, SalvageStore } from '../../journal/check/salvage-store.ts';
import { withContent } from '../../session/rules/waiting-content.ts';
import { publicEntry } from '../../session/state/messages.ts';
import { UsageError } from '../command.ts';
import { type FoldedSession, foldedSessions } from './sessions.ts';

/** The counts of saved items. */
export interface Salvaged {
  readonly sessions: number;
  readonly messages: number;
  readonly pending: number;
  /** Entries of the audit log. */
  readonly audit: number;
  /**
   * Sessions with damage. A session with damage in its log is saved up to the damage; damage in the head loses nothing.
   */
  readonly cut: number;
  /** Findings in `damage.jsonl`. */
  readonly damage: number;
}

/**
 * Writes everything readable to the new directory `to`. Rejects with `UsageError` when `to` exists or is inside the
 * store.
 */
export async function salvageStore(store: SalvageStore, directory: string, to: string): Promise<Salvaged> {
  const inside = relative(directory, to);
  if (inside === '' || !(inside.startsWith('..') || inside === to)) {
    throw new UsageError(`--to ${to} lies in the store; nothing is written there`);
  }
  await makeNew(to);
  const findings: Finding[] = [...store.findings, ...store.shards.flatMap((shard) => shard.findings)];
  const saved = { sessions: 0, messages: 0, pending: 0, cut: 0 };
  const sessions = await open(join(to, 'sessions.jsonl'), 'wx', PRIVATE_FILE_MODE);
  try {
    for (const session of foldedSessions(store)) {
      if (session.damage !== undefined) {
        findings.push({ path: session.shard.path, session: session.id, ...session.damage });
        saved.cut += 1;
      }
      // If the damage comes before the first transition, only the name of the session and the damage are saved.
      await writeSession(sessions, session);
      saved.sessions += 1;
      saved.messages += session.messages.length;
      saved.pending += session.state.mailbox.length;
    }
    await sessions.sync();
  } finally {
    await sessions.close();
  }
  const audit = await writeLines(join(to, 'audit.jsonl'), auditEntries(store));
  await writeLines(join(to, 'damage.jsonl'), findings);
  return { ...saved, audit, damage: findings.length };
}

async function makeNew(path: string): Promise<void> {
  try {
    await mkdir(path, PRIVATE_DIRECTORY_MODE);
  } catch (error) {
    const code = systemCodeOf(error);
    const reason = code === 'EEXIST' ? 'already exists; give a new directory' : `cannot be made: ${String(code)}`;
    throw new UsageError(`--to ${path} ${reason}`, { cause: error });
  }
}

async function writeSession(file: FileHandle, { id, state, messages, damage }: FoldedSession): Promise<void> {
  const { agent, parent, name, createdAt, updatedAt, usage, mailbox } = state;
  const meta = { type: 'session', id, agent, parent, name, state: state.state, createdAt, updatedAt, usage };
  const counts = { messages: messages.length, pending: mailbox.length, cut: damage?.reason };
  await file.write(line({ ...meta, ...counts }));
  for (const message of messages) await file.write(line({ type: 'message', session: id, message }));
  for (const entry of mailbox) {
    // The session was built from its whole log, so the contents are in memory.
    const pending = publicEntry(withContent(entry, undefined));
    await file.write(line({ type: 'pending', session: id, pending }));
  }
}

function* auditEntries({ shards }: SalvageStore): Iterable<AuditEntry> {
  for (const shard of shards) for (const { number, text } of shard.audit()) yield auditEntry(number, text);
}

/** Writes each value as a line of JSON to a new file. Returns the number of lines. */
async function writeLines(path: string, values: Iterable<unknown>): Promise<number> {
  let lines = 0;
  const file = await open(path, 'wx', PRIVATE_FILE_MODE);
  try {
    for (const value of values) {
      await file.write(line(value));
      lines += 1;
    }
    await file.sync();
    return lines;
  } finally {
    await file.close();
  }
}

function line(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
