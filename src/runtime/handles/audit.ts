/** The audit log: the options of `runtime.audit`, and its page over all shards. Host thread. */
import { z } from 'zod';
import { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from '../../base/audit/audit-entry.ts';
import { SERVER_PAGE_DEFAULT, SERVER_PAGE_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { filterId, shardOf } from '../../base/ids.ts';
import { parseOption } from '../../base/parse-option.ts';
import { type AuditPart, type AuditRequest, auditPositionText, readAuditPosition } from '../protocol/audit.ts';
import type { Page } from '../protocol/pages.ts';

/** Options of `runtime.audit`. */
export interface AuditOptions {
  /** The `next` of the previous page; default: the first page. */
  readonly after?: string;
  /** Maximum number of entries: 1 to 1,000, 100 by default. */
  readonly limit?: number;
  /** Only entries of this session and its descendants. The sessions may have been deleted. */
  readonly session?: string;
  /** Only entries of this kind of action. */
  readonly action?: AuditAction;
}

const schema = z.strictObject({
  after: z.string().optional(),
  limit: z.number().int().min(1).max(SERVER_PAGE_MAX).optional(),
  session: z.string().optional(),
  action: z.enum(AUDIT_ACTIONS).optional(),
});

/** An entry with the shard that wrote it. */
interface Found {
  readonly shard: number;
  readonly entry: AuditEntry;
}

/**
 * A page over these shards, oldest first. `tenant`: only entries of this tenant's sessions. Throws `ConfigError` for
 * bad options, `InvalidNameError` for a session that is not an id, and the error of a shard.
 */
export async function auditPage(
  shards: readonly ((request: AuditRequest) => Promise<AuditPart>)[],
  given: AuditOptions,
  tenant?: string,
): Promise<Page<AuditEntry>> {
  const { after, limit = SERVER_PAGE_DEFAULT, session, action } = parseOption(schema, 'audit', given);
  const from = after === undefined ? shards.map(() => 0) : checkPosition(after, shards.length);
  const within = session === undefined ? undefined : filterId(tenant, session);
  const only = within === undefined ? undefined : shardOf(within, shards.length);
  const filter = defined({ session: within, action, tenant });
  const parts = await Promise.all(
    shards.map((ask, shard): AuditPart | Promise<AuditPart> => {
      const reached = from[shard] ?? 0;
      const isAsked = only === undefined || only === shard;
      return isAsked ? ask({ after: reached, limit, ...filter }) : { entries: [], reached, hasMore: false };
    }),
  );
  // A shard that stopped early may have more entries right behind `reached`. So this page ends at the lowest `reached`
  // of these shards.
  const end = Math.min(...parts.map(({ reached, hasMore }) => (hasMore ? reached : Number.POSITIVE_INFINITY)));
  const found = parts.flatMap(({ entries }, shard) => entries.map((entry): Found => ({ shard, entry })));
  found.sort((a, b) => a.entry.number - b.entry.number || a.shard - b.shard);
  const taken = found.filter(({ entry }) => entry.number <= end).slice(0, limit);
  const items = taken.map(({ entry }) => entry);
  if (taken.length === found.length && !parts.some(({ hasMore }) => hasMore)) return { items };
  const reached = parts.map((part, shard) => {
    const own = taken.filter((each) => each.shard === shard);
    return own.length === part.entries.length ? part.reached : (own.at(-1)?.entry.number ?? from[shard] ?? 0);
  });
  return { items, next: auditPositionText(reached) };
}

function checkPosition(after: string, shards: number): readonly number[] {
  const position = readAuditPosition(after, shards);
  if (position !== undefined) return position;
  throw new ConfigError(
    `option "audit.after" must be the next of a page of the audit log, got ${describeValue(after)}`,
    { data: { key: 'audit.after' } },
  );
}
