/** The wait after a failed attempt. It grows by a factor up to a maximum; callers add their own jitter. Pure. */

/** The first and the longest wait, in the unit of time that the result has. `factor`: default 2. */
export interface GrowingWait {
  readonly first: number;
  readonly longest: number;
  readonly factor?: number;
}

/** The wait after this many failures in a row; `failures` counts from 1. */
export function growingWait(failures: number, { first, longest, factor = 2 }: GrowingWait): number {
  return Math.min(first * factor ** (failures - 1), longest);
}
