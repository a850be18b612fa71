/** The messages between the command that shows a staged review and the process that works on it. */
import { z } from 'zod';
import {
  ERROR_TEXT_CHARACTERS_MAX,
  REVIEW_FILES_MAX,
  STAGE_INDEX_CHARACTERS_MAX,
  STAGE_TEXT_CHARACTERS_MAX,
} from '../../base/bounds.ts';
import type { EncodedError } from '../../threads/error-codec.ts';
import { paceSchema, type ReviewPace } from '../review/pace.ts';
import { type WorkFigures, workFiguresSchema } from '../run/figures.ts';
import { newsSchema, type ReviewNews } from '../run/news.ts';
import type { Task } from '../run/work.ts';

/** The work of one process. */
export interface Begin {
  readonly type: 'begin';
  /** The reviewed directory, absolute. */
  readonly directory: string;
  /** The maximum number of files. */
  readonly limit: number;
  /** The reviewer's session. */
  readonly id: string;
  /** Data directory, absolute. */
  readonly data: string;
  readonly startsOver: Task['startsOver'];
  readonly pace: ReviewPace;
  /** True if the process kills itself in the middle. */
  readonly kills: boolean;
}

/** An order to the process. */
export type StageOrder = Begin | { readonly type: 'stop' };

/** An error without its stack and causes. */
export type Failure = Pick<EncodedError, 'name' | 'message' | 'house'> & {
  readonly code?: string | undefined;
};

/** A message of the process. */
export type StageMessage =
  | { readonly type: 'news'; readonly news: ReviewNews }
  /** The process is about to kill itself. */
  | { readonly type: 'killing' }
  /** `failed`: readers that did not complete their task. */
  | { readonly type: 'done'; readonly index: string; readonly failed: number; readonly figures: WorkFigures }
  /** The process was asked to stop, and has closed its store. */
  | { readonly type: 'stopped' }
  /** The review failed. `isUsage`: because of an argument. */
  | { readonly type: 'failed'; readonly error: Failure; readonly isUsage: boolean };

const text = z.string().max(STAGE_TEXT_CHARACTERS_MAX);

/** The schema with which the process checks an order. */
export const orderSchema: z.ZodType<StageOrder> = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('begin'),
    directory: text,
    limit: z.number().int().min(1).max(REVIEW_FILES_MAX),
    id: text,
    data: text,
    startsOver: z.enum(['always', 'finished', 'never']),
    pace: paceSchema,
    kills: z.boolean(),
  }),
  z.object({ type: z.literal('stop') }),
]);

/** The schema with which the command checks a message of the process. */
export const messageSchema: z.ZodType<StageMessage> = z.discriminatedUnion('type', [
  z.object({ type: z.literal('news'), news: newsSchema }),
  z.object({ type: z.literal('killing') }),
  z.object({
    type: z.literal('done'),
    index: z.string().max(STAGE_INDEX_CHARACTERS_MAX),
    failed: z.number().int().min(0).max(REVIEW_FILES_MAX),
    figures: workFiguresSchema,
  }),
  z.object({ type: z.literal('stopped') }),
  z.object({
    type: z.literal('failed'),
    error: z.object({
      name: text,
      message: z.string().max(ERROR_TEXT_CHARACTERS_MAX),
      code: text.optional(),
      house: z.boolean(),
    }),
    isUsage: z.boolean(),
  }),
]);
