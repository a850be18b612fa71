/**
 * The protocol for the audit log between the host and the shards: the method, and a position in the log. Pure. Shards,
 * the host, and commands that read a directory share this file.
 *
 * Each shard numbers its own entries, so a position has a number for each shard. With one number for all shards, a page
 * could miss an entry that another shard wrote meanwhile under a lower number.
 */
import type { AuditAction, AuditEntry } from '../../base/audit/audit-entry.ts';

/** The entries that a reader wants. */
export interface AuditFilter {
  /** Only entries of this session and its descendants. */
  readonly session?: string;
  readonly action?: AuditAction;
  /** Only entries of this tenant's sessions. */
  readonly tenant?: string;
}

/** A request for a part of a shard's audit log: the wanted entries above a number, at most `limit`. */
export interface AuditRequest extends AuditFilter {
  readonly after: number;
  readonly limit: number;
}

/** A part of a shard's audit log. `reached`: the number of the last row that was looked at. */
export interface AuditPart {
  readonly entries: readonly AuditEntry[];
  readonly reached: number;
  /** True if there may be more entries behind `reached`. */
  readonly hasMore: boolean;
}

/** The method `audit.page` of a shard. */
export interface AuditMethods {
  'audit.page': { request: AuditRequest; answer: AuditPart };
}

/** The form of a position as text (the `next` of a page). */
const POSITION = /^[0-9a-z]{1,11}(?:\.[0-9a-z]{1,11}){0,63}$/;
const DIGITS = 36;

/** A position as text. `reached`: a number for each shard. */
export function auditPositionText(reached: readonly number[]): string {
  return reached.map((number) => number.toString(DIGITS)).join('.');
}

/**
 * Reads a position from a text: a number for each of `shards` shards. If the position was made for another number of
 * shards, every shard begins at the lowest number of the position, and entries may be repeated. Undefined: the text is
 * no position.
 */
export function readAuditPosition(text: string, shards: number): readonly number[] | undefined {
  if (!POSITION.test(text)) return undefined;
  const numbers = text.split('.').map((part) => Number.parseInt(part, DIGITS));
  if (!numbers.every(Number.isSafeInteger)) return undefined;
  return numbers.length === shards ? numbers : Array<number>(shards).fill(Math.min(...numbers));
}
