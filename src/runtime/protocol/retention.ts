/** The option `retention`: how long data is kept that sessions no longer need. */
import { z } from 'zod';
import { RETENTION_MS_MIN } from '../../base/bounds.ts';

/** How long data is kept, each in milliseconds. What is missing is kept as long as its session. */
export interface Retention {
  /**
   * Messages that left the model's window, by a compression or because the window was full. They are kept this long after
   * they left; then they are gone, with the part of the log in which they came.
   */
  readonly archivedHistoryMs?: number;
  /** Dead letters, after they were set aside. */
  readonly deadLettersMs?: number;
  /** Children that have ended and whose messages their parent has taken, after their last change. They are deleted. */
  readonly finishedChildrenMs?: number;
}

const kept = z.number().int().min(RETENTION_MS_MIN).optional();

/** The schema of the option. */
export const retentionSchema: z.ZodType<{ readonly [Key in keyof Retention]?: Retention[Key] | undefined }> =
  z.strictObject({ archivedHistoryMs: kept, deadLettersMs: kept, finishedChildrenMs: kept });
