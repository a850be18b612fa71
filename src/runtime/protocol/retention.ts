/** The option `retention`: how long data that sessions no longer need is kept. */

import { z } from 'zod';
import { RETENTION_MS_MIN } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';

/** How long each kind of data is kept, in milliseconds. A kind without a time is kept as long as its session exists. */
export interface Retention {
  /**
   * Messages that left the model's window, by a compression or because the window was full. They are kept for this time
   * after they left. Then they are removed, together with the part of the log that contains them.
   */
  readonly archivedHistoryMs?: number;
  /** Dead letters, from the moment at which they were set aside. */
  readonly deadLettersMs?: number;
  /**
   * Children that have ended and whose messages their parent has taken. They are deleted after this time without a
   * change.
   */
  readonly finishedChildrenMs?: number;
  /** Entries of the audit log, from the act on. */
  readonly auditMs?: number;
}

const kept = z.number().int().min(RETENTION_MS_MIN).optional();

/** The schema of the option. */
export const retentionSchema: z.ZodType<{ readonly [Key in keyof Retention]?: Retention[Key] | undefined }> =
  z.strictObject({ archivedHistoryMs: kept, deadLettersMs: kept, finishedChildrenMs: kept, auditMs: kept });

/** The given times; undefined when there are none, so that everything is kept. */
export function retentionOf(
  given: { readonly [Key in keyof Retention]?: Retention[Key] | undefined } | undefined,
): Retention | undefined {
  const retention = defined(given ?? {});
  return Object.keys(retention).length === 0 ? undefined : retention;
}
