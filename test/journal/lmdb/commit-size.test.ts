/** Goal: no commit writes more pages than are prepared for it (D1 of `src/journal/lmdb/data-file.ts`). */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { PageFile } from '../../../src/journal/lmdb/pages.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { temporaryDirectory } from '../support/stores.ts';
import { noiseText } from '../support/texts.ts';

/** Texts are pieces of it: making 20 MB of noise would take longer than writing them. */
const NOISE = noiseText(1_000_000, 'commit sizes');

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function usedBytes(path: string): number {
  const file = new PageFile(path);
  const { lastPage, pageBytes } = file.meta();
  file.close();
  return (lastPage + 1) * pageBytes;
}

test('D1: 100 commits of every kind use only pages prepared before, with free blocks behind them', async () => {
  const random = new SeededRandom(20_261_122);
  const path = join(directory, 'data.mdb');
  const journal = await openLmdbJournal({ directory, durability: 'flush' });
  let blobs: string[] = [];
  for (let commit = 0; commit < 100; commit += 1) {
    const text = (characters: number): string => {
      const from = random.between(0, NOISE.length - characters);
      return JSON.stringify(NOISE.slice(from, from + characters));
    };
    const before = await stat(path);
    for (let turn = random.pick([1, 1, 3, 40]); turn > 0; turn -= 1) {
      const key = journal.intern(`${'n'.repeat(random.pick([1, 400]))}${random.between(1, 3_000)}`);
      const position = journal.append([{ key, data: text(random.pick([10, 900, 2_100, 60_000])) }]);
      if (random.chance(0.3)) blobs.push(journal.putBlob(text(random.pick([10, 5_000, 300_000]))));
      if (random.chance(0.1)) {
        const gone = blobs.slice(0, 5);
        blobs = blobs.slice(5);
        journal.checkpoint([{ key, position, data: text(random.pick([10, 3_000])), runnable: true }], position, gone);
      }
      if (random.chance(0.05)) journal.remove([key]);
    }
    await journal.flushed();
    const after = await stat(path);
    expect(usedBytes(path), `commit ${commit}`).toBeLessThanOrEqual(after.size);
    // The file did not grow for these pages. Without the preparation LMDB itself would have made the file longer.
    if (after.size === before.size) expect(usedBytes(path)).toBeLessThanOrEqual(before.size);
    if (process.platform !== 'win32') expect(after.blocks * 512, 'no holes').toBeGreaterThanOrEqual(after.size);
    // The file grows in whole pieces, and nothing else extends it: LMDB never wrote beyond its end.
    expect(after.size % (256 * 1024)).toBe(0);
  }
  await journal.close();
});
