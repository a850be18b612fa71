/** Parts that the queries and bodies of several routes have in common. */
import { z } from 'zod';
import {
  KEY_CHARACTERS_MAX,
  LIST_FAMILIES_DEFAULT,
  LIST_FAMILIES_MAX,
  SERVER_PAGE_DEFAULT,
  SERVER_PAGE_MAX,
} from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { SESSION_STATUSES } from '../events/event.ts';
import type { SessionStatus, ViewMode } from '../index.ts';

/**
 * The token in a query. Every query may have it, because an event source cannot send a header. The guard checks the
 * token.
 */
export const token: z.ZodType<string | undefined> = z.string().optional();

/** A query with nothing but the token. */
export const noQuery: z.ZodType<{ readonly token?: string | undefined }> = z.strictObject({
  token: z.string().optional(),
});

/** An empty body. */
export const noBody: z.ZodType<Record<never, never>> = z.strictObject({});

/** A whole number as a text, because a query has only texts. */
export const wholeNumber: z.ZodType<string> = z.string().regex(/^\d{1,15}$/, 'must be a whole number');

/** Number of items of one page of a list. */
export const pageSize: z.ZodType<string> = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a whole number')
  .refine((text) => Number(text) >= 1 && Number(text) <= SERVER_PAGE_MAX, `must be from 1 to ${SERVER_PAGE_MAX}`)
  .describe(`1 to ${SERVER_PAGE_MAX}, default ${SERVER_PAGE_DEFAULT}`);

/** Level of detail. */
export const viewMode: z.ZodType<ViewMode> = z
  .enum(['basic', 'verbose', 'debug'])
  .describe(
    'basic, verbose: content only as `rendered`, where the mode shows it; debug: everything. Default: settings.session.defaultViewMode',
  );

/** An idempotency key. */
export const key: z.ZodType<string> = z
  .string()
  .min(1)
  .max(KEY_CHARACTERS_MAX)
  .describe('Idempotency: the same key and content are accepted once');

/** The requested page size, or the default. */
export function sizeOf(limit: string | undefined): number {
  return limit === undefined ? SERVER_PAGE_DEFAULT : Number(limit);
}

/** The page that a query asks for. */
export function pageOf({
  after,
  limit,
}: {
  readonly after?: string | undefined;
  readonly limit?: string | undefined;
}): {
  readonly after?: string;
  readonly limit: number;
} {
  return { limit: sizeOf(limit), ...defined({ after }) };
}

/** The `next` of a page whose cursors are numbers. */
export function numberOf(next: string | undefined): number | undefined {
  return next === undefined ? undefined : Number(next);
}

/** Statuses of sessions, joined by commas. */
export const statusList: z.ZodType<string> = z
  .string()
  .refine((text) => areStatuses(text.split(',')), `must be of ${SESSION_STATUSES.join(', ')}`)
  .describe(`One or more of ${SESSION_STATUSES.join(', ')}, joined by commas`);

/** The statuses in a text of `statusList`. */
export function statusesOf(text: string | undefined): readonly SessionStatus[] | undefined {
  const statuses = text?.split(',') ?? [];
  return areStatuses(statuses) && statuses.length > 0 ? statuses : undefined;
}

function areStatuses(texts: readonly string[]): texts is readonly SessionStatus[] {
  return texts.every((text) => (SESSION_STATUSES as readonly string[]).includes(text));
}

/** A time. */
export const time: z.ZodType<string> = z
  .string()
  .refine((text) => Number.isFinite(timeOf(text)), 'must be epoch ms, or a date as 2026-11-24T10:00:00Z')
  .describe('Epoch ms, or a date of ISO 8601');

/** The epoch ms of a text of `time`. */
export function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  return /^\d{1,16}$/.test(text) ? Number(text) : Date.parse(text);
}

/** The page size of a list of sessions with their children. */
export function familySizeOf(limit: string | undefined): number {
  return limit === undefined ? LIST_FAMILIES_DEFAULT : Math.min(Number(limit), LIST_FAMILIES_MAX);
}
