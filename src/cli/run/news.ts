/**
 * The reports of a running review to its display, as plain data, because the display may be in another process. The
 * same code draws staged and other reviews, because both send these reports.
 */
import { z } from 'zod';
import { REVIEW_FILES_MAX, STAGE_TEXT_CHARACTERS_MAX } from '../../base/bounds.ts';
import type { ReviewStanding } from '../review/command.ts';
import type { ReviewPlan } from '../review/plan.ts';

/** One report. */
export type ReviewNews =
  /** The plan exists. `before`: readers that had ended by then. */
  | {
      readonly type: 'planned';
      readonly plan: ReviewPlan;
      readonly standing: ReviewStanding;
      readonly before: number;
    }
  /** A file has a reader; `session` is its id. */
  | { readonly type: 'spawned'; readonly path: string; readonly session: string }
  /** A reader changed its state; `state` is a session's state. */
  | { readonly type: 'state'; readonly session: string; readonly state: string }
  /** The report of a reader arrived; `note` is its summary in a few words. */
  | { readonly type: 'reported'; readonly path: string; readonly note: string }
  /** A reader ended. */
  | { readonly type: 'ended'; readonly path: string; readonly reason: 'completed' | 'failed' | 'cancelled' }
  /** A message or spawn was accepted, `ms` after it was sent. */
  | { readonly type: 'accepted'; readonly ms: number }
  | { readonly type: 'rate'; readonly halfStepsPerSecond: number }
  /** A line for the user. */
  | { readonly type: 'notice'; readonly text: string }
  /** A warning that is shown until the next one. Without a text: no warning. */
  | { readonly type: 'warning'; readonly text?: string | undefined }
  /** A reader was steered in its turn; `text` is the message. */
  | { readonly type: 'steered'; readonly path: string; readonly session: string; readonly text: string }
  /** All readers have ended, and the index is requested. */
  | { readonly type: 'asking' };

const text = z.string().max(STAGE_TEXT_CHARACTERS_MAX);
const count = z.number().int().min(0);
const amount = z.number().min(0);
const plan = z.object({
  directory: text,
  model: z.enum(['scripted', 'claude']),
  files: z.array(z.object({ path: text, reader: text, bytes: count })).max(REVIEW_FILES_MAX),
  leftOut: count,
});
const standing = z.enum(['new', 'continued', 'finished']);
const reason = z.enum(['completed', 'failed', 'cancelled']);

/** The schema of a report. It checks reports that another process sends. */
export const newsSchema: z.ZodType<ReviewNews> = z.discriminatedUnion('type', [
  z.object({ type: z.literal('planned'), plan, standing, before: count }),
  z.object({ type: z.literal('spawned'), path: text, session: text }),
  z.object({ type: z.literal('state'), session: text, state: text }),
  z.object({ type: z.literal('reported'), path: text, note: text }),
  z.object({ type: z.literal('ended'), path: text, reason }),
  z.object({ type: z.literal('accepted'), ms: amount }),
  z.object({ type: z.literal('rate'), halfStepsPerSecond: amount }),
  z.object({ type: z.literal('notice'), text }),
  z.object({ type: z.literal('warning'), text: text.optional() }),
  z.object({ type: z.literal('steered'), path: text, session: text, text }),
  z.object({ type: z.literal('asking') }),
]);
