/**
 * The pace of a scripted review that a person watches: how long the model takes for an answer, and how many lines a
 * reader asks for at a time. The URL that imports the model's module carries the pace. Pure.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import {
  FILE_LINES_SHOWN_MAX,
  REVIEW_READERS_SCRIPTED,
  STAGE_DELAY_MS_MAX,
  STAGE_DELAY_MS_MIN,
  STAGE_PAGE_BYTES,
  STAGE_PAGE_LINES,
  STAGE_READING_MS,
} from '../../base/bounds.ts';

/** See the head of the file. */
export interface ReviewPace {
  /** Average milliseconds before an answer. A single answer takes 0.5 to 1.5 times this time. */
  readonly delayMs: number;
  /** Lines of a page that a reader asks for. */
  readonly pageLines: number;
}

/** The schema of a pace that comes from outside this thread. */
export const paceSchema: z.ZodType<ReviewPace> = z.object({
  delayMs: z.number().int().min(0).max(STAGE_DELAY_MS_MAX),
  pageLines: z.number().int().min(1).max(FILE_LINES_SHOWN_MAX),
});

const DIGEST_MAX = 0xffff_ffff;

/**
 * The pace at which readers of these files take about `STAGE_READING_MS` together: a reader answers once for each page,
 * and once with its report. Few files take less time, because no answer takes longer than `STAGE_DELAY_MS_MAX`.
 */
export function paceFor(files: readonly { readonly bytes: number }[]): ReviewPace {
  const answers = files.reduce((sum, { bytes }) => sum + Math.max(1, Math.ceil(bytes / STAGE_PAGE_BYTES)) + 1, 0);
  const rounds = answers / Math.max(1, Math.min(files.length, REVIEW_READERS_SCRIPTED));
  const delayMs = Math.round(STAGE_READING_MS / Math.max(1, rounds));
  return { delayMs: Math.min(STAGE_DELAY_MS_MAX, Math.max(STAGE_DELAY_MS_MIN, delayMs)), pageLines: STAGE_PAGE_LINES };
}

/** The URL of the model's module with a pace. */
export function withPace(module: URL, { delayMs, pageLines }: ReviewPace): URL {
  const url = new URL(module);
  url.searchParams.set('delayMs', String(delayMs));
  url.searchParams.set('pageLines', String(pageLines));
  return url;
}

/** The pace that a module's URL carries; undefined without one. Throws when it is not a pace. */
export function paceIn(url: string): ReviewPace | undefined {
  const { searchParams } = new URL(url);
  if (!searchParams.has('delayMs')) return undefined;
  return paceSchema.parse({
    delayMs: Number(searchParams.get('delayMs')),
    pageLines: Number(searchParams.get('pageLines')),
  });
}

/**
 * Milliseconds before one answer: spread around the mean, so that readers do not end at the same time. Equal arguments
 * give equal delays.
 */
export function delayOf({ delayMs }: ReviewPace, session: string, messages: number): number {
  const digest = createHash('sha256').update(`${session} ${messages}`).digest().readUInt32BE(0);
  return Math.round(delayMs * (0.5 + digest / DIGEST_MAX));
}
