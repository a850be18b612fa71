/** The option `retention`: how long data that sessions no longer need is kept. */

import { z } from 'zod';
import { RETENTION_MS_MIN } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';

/**
 * How long each kind of data is kept, in milliseconds. Without a time, data is kept as long as its session exists, and
 * entries of the audit log are kept forever.
 */
export interface Retention {
  /**
   * For messages that a compression or a full window took out of the model's window. They are kept for this time after
   * they left the window. Then they are removed, together with the part of the log that contains them.
   */
  readonly archivedHistoryMs?: number;
  /** For dead letters: the time counts from the moment at which they were set aside. */
  readonly deadLettersMs?: number;
  /**
   * For children that have ended and whose messages the parent has taken. They are deleted when they have not changed
   * for this time.
   */
  readonly finishedChildrenMs?: number;
  /** For entries of the audit log: the time counts from the logged action. */
  readonly auditMs?: number;
}

const kept = z.number().int().min(RETENTION_MS_MIN).optional();

/** The schema of the option. */
export const retentionSchema: z.ZodType<{ readonly [Key in keyof Retention]?: Retention[Key] | undefined }> =
  z.strictObject({ archivedHistoryMs: kept, deadLettersMs: kept, finishedChildrenMs: kept, auditMs: kept });

/** The given times; undefined when none is given, which means that everything is kept. */
export function retentionOf(
  given: { readonly [Key in keyof Retention]?: Retention[Key] | undefined } | undefined,
): Retention | undefined {
  const retention = defined(given ?? {});
  return Object.keys(retention).length === 0 ? undefined : retention;
}
