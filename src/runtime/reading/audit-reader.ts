/** Reads the audit log of a journal in parts, for a shard and for commands that read a directory. */
import { type AuditEntry, auditEntry } from '../../base/audit/audit-entry.ts';
import { AUDIT_SCAN_MAX, AUDIT_SLICE_ROWS } from '../../base/bounds.ts';
import { isInTree, isOfTenant } from '../../base/ids.ts';
import type { AuditRow } from '../../journal/stored-audit.ts';
import type { AuditFilter, AuditPart, AuditRequest } from '../protocol/audit.ts';

/**
 * A part of the audit log. `read`: reads rows above a number, ascending, at most `limit`. `pause` is awaited between
 * two slices. Rejects like `read`.
 */
export async function auditPart(
  read: (after: number, limit: number) => Promise<readonly AuditRow[]>,
  { after, limit, ...filter }: AuditRequest,
  pause: () => Promise<void>,
): Promise<AuditPart> {
  const entries: AuditEntry[] = [];
  let reached = after;
  for (let looked = AUDIT_SLICE_ROWS; ; looked += AUDIT_SLICE_ROWS) {
    const rows = await read(reached, AUDIT_SLICE_ROWS);
    for (const { number, text } of rows) {
      reached = number;
      const entry = auditEntry(number, text);
      if (!isWanted(entry, filter)) continue;
      entries.push(entry);
      if (entries.length >= limit) return { entries, reached, hasMore: true };
    }
    if (rows.length < AUDIT_SLICE_ROWS) return { entries, reached, hasMore: false };
    if (looked >= AUDIT_SCAN_MAX) return { entries, reached, hasMore: true };
    await pause();
  }
}

function isWanted({ session = '', action }: AuditEntry, filter: AuditFilter): boolean {
  if (filter.action !== undefined && filter.action !== action) return false;
  if (filter.session !== undefined && !isInTree(session, filter.session)) return false;
  return isOfTenant(filter.tenant, session);
}
