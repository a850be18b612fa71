/** Common parts of the queries and bodies of several routes. */
import { z } from 'zod';
import { KEY_CHARACTERS_MAX, SERVER_PAGE_DEFAULT, SERVER_PAGE_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import type { ViewMode } from '../index.ts';

/** The token, which every query may have because an event source cannot send a header. The guard checks it. */
export const token: z.ZodType<string | undefined> = z.string().optional();

/** An empty query. */
export const noQuery: z.ZodType<{ readonly token?: string | undefined }> = z.strictObject({
  token: z.string().optional(),
});

/** An empty body. */
export const noBody: z.ZodType<Record<never, never>> = z.strictObject({});

/** A whole number, which in a query is a text. */
export const wholeNumber: z.ZodType<string> = z.string().regex(/^\d{1,15}$/, 'must be a whole number');

/** Number of items of a list. */
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
