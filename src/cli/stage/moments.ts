/** The moments of a staged review: which reader is steered, and when the process kills itself. Pure. */
import {
  REVIEW_READERS_SCRIPTED,
  STAGE_KILL_FILES_MIN,
  STAGE_KILL_SHARE,
  STAGE_STEER_SHARE,
} from '../../base/bounds.ts';
import type { PlannedFile } from '../review/plan.ts';

/** One in this many files is a candidate for steering; the largest candidate is chosen. */
const STEER_WINDOW = 20;

/**
 * The file whose reader is steered: the largest among those whose readers begin when about `STAGE_STEER_SHARE` of the
 * readers have ended. Every process that works on the review chooses the same file, so that one key covers all of them.
 */
export function steeredFile(files: readonly PlannedFile[]): PlannedFile | undefined {
  const count = files.length;
  const size = count <= REVIEW_READERS_SCRIPTED ? count : Math.ceil(count / STEER_WINDOW);
  const from = Math.min(Math.floor(count * STAGE_STEER_SHARE) + REVIEW_READERS_SCRIPTED, count - size);
  return files.slice(from, from + size).reduce<PlannedFile | undefined>(larger, undefined);
}

/** The number of ended readers at which the process kills itself; undefined for a review that is too small. */
export function killAt(files: number): number | undefined {
  return files < STAGE_KILL_FILES_MIN ? undefined : Math.min(files - 1, Math.ceil(files * STAGE_KILL_SHARE));
}

function larger(best: PlannedFile | undefined, file: PlannedFile): PlannedFile {
  return best === undefined || file.bytes > best.bytes ? file : best;
}
