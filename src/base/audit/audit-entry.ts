/**
 * The audit log in plain data: the acts that it records, the form of its entries, and the text of an entry in the
 * store. Pure; runs on every thread.
 */
import { z } from 'zod';
import { AUDIT_TEXT_CHARACTERS_MAX } from '../bounds.ts';
import { defined } from '../defined.ts';
import { tenantOf } from '../ids.ts';

/** The acts of the audit log. */
export const AUDIT_ACTIONS = [
  'approval.decided',
  'question.answered',
  'session.deleted',
  'history.edited',
  'history.removed',
  'task.started',
  'task.activated',
  'session.forked',
  'dead_letter.resent',
  'dead_letter.dropped',
  'keys.rotated',
  'store.taken_over',
] as const;

/** One of the acts of the audit log. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** Facts about an act. They never have the content of a message, or the input of a tool. */
export type AuditDetails = Readonly<Record<string, string | number | boolean>>;

/** An act, without the number and the time that its entry gets. */
export interface AuditAct {
  readonly action: AuditAction;
  /** The session that the act concerns; missing for an act on the whole store. */
  readonly session?: string;
  /**
   * The person or program that acted, as the caller named it. Missing if the caller named none, or if the runtime
   * acted.
   */
  readonly by?: string;
  readonly details: AuditDetails;
}

/** An entry of the audit log. */
export interface AuditEntry extends AuditAct {
  /** No other entry of the store has this number. Later acts of a session have higher numbers. */
  readonly number: number;
  /** Epoch ms. */
  readonly at: number;
  /** The tenant of the session; missing if it has none. */
  readonly tenant?: string;
}

/** The text of an act in the store. `at`: the time of the act, epoch ms. */
export function auditText(at: number, { action, session, by, details }: AuditAct): string {
  return JSON.stringify({ at, action, session, by, details }, (_name, value: unknown) =>
    typeof value === 'string' ? value.slice(0, AUDIT_TEXT_CHARACTERS_MAX) : value,
  );
}

const schema = z.object({
  at: z.number(),
  action: z.enum(AUDIT_ACTIONS),
  session: z.string().optional(),
  by: z.string().optional(),
  details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
});

/**
 * The entry that a text of the store describes. `number`: the number of its row. Throws `ZodError` for another text,
 * which only an error in this library could have written.
 */
export function auditEntry(number: number, text: string): AuditEntry {
  const { at, action, session, by, details } = schema.parse(JSON.parse(text));
  const tenant = session === undefined ? undefined : tenantOf(session);
  return { number, at, action, ...defined({ tenant, session, by }), details };
}
