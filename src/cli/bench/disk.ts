/** Measures the disk under a directory: the time until one small write is durable. */
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { median } from '../run/figures.ts';

/** Size of a page of the store. */
const WRITE_BYTES = 4_096;
const WRITES_MAX = 200;
/** Types of file systems in memory: tmpfs and ramfs, from Linux's `magic.h`. */
const MEMORY_TYPES: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** The measurements of a disk. */
export interface DiskFigures {
  /** Median of one append and `fdatasync`, ms. */
  readonly flushMs: number;
  /** True if the directory is in memory: nothing in it is durable, and the flush time does not describe a disk. */
  readonly isMemory: boolean;
}

/** Writes and flushes for at most `seconds`, one after another, in a separate file. */
export async function measureDisk(directory: string, seconds: number): Promise<DiskFigures> {
  const path = join(directory, 'flush');
  const page = Buffer.alloc(WRITE_BYTES, 1);
  const times: number[] = [];
  const endsAt = performance.now() + seconds * 1_000;
  const file = await open(path, 'w');
  try {
    while (times.length === 0 || (times.length < WRITES_MAX && performance.now() < endsAt)) {
      const startedAt = performance.now();
      await file.write(page);
      await file.datasync();
      times.push(performance.now() - startedAt);
    }
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
  return { flushMs: median(times), isMemory: MEMORY_TYPES.has((await statfs(directory)).type) };
}
