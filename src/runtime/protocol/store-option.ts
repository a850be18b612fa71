/** The option `store`: how the files of a store are kept. */
import { z } from 'zod';
import { ERASE_WITHIN_MS_MAX, ERASE_WITHIN_MS_MIN } from '../../base/bounds.ts';

/** How the files of a store are kept while it is open. */
export interface StoreOptions {
  /**
   * Milliseconds within which the bytes of a deleted session leave the files of the store, from 100 to 2,592,000,000
   * (thirty days). Default 60,000. To remove the bytes, each session thread copies its file. A thread copies at most
   * once in half of this time, and spends at most a tenth of the time on copies. So a file that takes long to copy
   * (about 300 MB and more with the default) needs more time than this option says. A store in memory copies nothing.
   */
  readonly eraseWithinMs?: number;
}

/** The schema of the option. */
export const storeSchema: z.ZodType<{ readonly [Key in keyof StoreOptions]?: StoreOptions[Key] | undefined }> =
  z.strictObject({ eraseWithinMs: z.number().int().min(ERASE_WITHIN_MS_MIN).max(ERASE_WITHIN_MS_MAX).optional() });
