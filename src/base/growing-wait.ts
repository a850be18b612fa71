/** The wait between attempts that fail: it grows by a factor up to a maximum. Callers add their own jitter. Pure. */

/** The first wait and the longest one, in one unit of time, which is also that of the result. `factor`: default 2. */
export interface GrowingWait {
  readonly first: number;
  readonly longest: number;
  readonly factor?: number;
}

/** The wait after this many failures in a row, from 1. */
export function growingWait(failures: number, { first, longest, factor = 2 }: GrowingWait): number {
  return Math.min(first * factor ** (failures - 1), longest);
}
