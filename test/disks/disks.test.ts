/** Goal: a full disk ends no process and loses nothing acknowledged (F06). `npm run disks` fills 200 disks. */
import { describe, expect, test } from 'vitest';
import { fillDisk } from './full-disk.ts';

const KIB = 1024;

describe('F06: a disk is filled completely, and a little space is freed again and again', () => {
  test.for([
    [1_000, 1],
    [2_900, 2],
  ] as const)(
    '%i KiB in memory: commits are refused before they begin, LMDB never meets a full disk, nothing acknowledged is lost',
    async ([kib, seed], context) => {
      const disk = await fillDisk('tmpfs', kib * KIB, seed);
      // Without the right to mount there is no disk to fill: the test is reported as skipped.
      if (disk === undefined) return context.skip('mounting a small file system needs root');
      expect(disk.faults).toEqual([]);
      expect(disk.refusals).toBeGreaterThan(0);
      expect(disk.acknowledged).toBeGreaterThan(0);
    },
  );
});
