import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Journal } from '../../../src/journal/journal.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { startChild } from '../../support/children.ts';
import { temporaryDirectory } from '../support/stores.ts';

const KILLS = 5;
const SESSIONS = 8;
/**
 * The number of acknowledgements after which each child is killed: from within the first flush to well after several
 * checkpoints.
 */
const KILL_AFTER = [1, 2, 9, 33, 70, 150, 201, 333, 480, 640];

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Asserts J1, J2 and J4 over the output of the children. Returns the stored entries by session. */
function checkAgainst(journal: Journal, acknowledged: readonly number[]): readonly number[] {
  const tailed = Array.from({ length: SESSIONS }, () => 0);
  const keys = Array.from({ length: SESSIONS }, (_, index) => journal.keyOf(`s${index}`) ?? 0);
  for (const entry of journal.tail(0)) {
    const session = keys.indexOf(entry.key);
    const number = (JSON.parse(entry.data) as { n: number }).n;
    expect(number, `session ${session} by tail`).toBe(tailed[session]);
    tailed[session] = number + 1;
  }
  tailed.forEach((count, session) => {
    expect(count, `acknowledged of session ${session}`).toBeGreaterThan(acknowledged[session] ?? -1);
    const key = keys[session] ?? 0;
    if (key === 0) return;
    const numbers = [...journal.read(key, 0)].map((entry) => (JSON.parse(entry.data) as { n: number }).n);
    expect(numbers, `session ${session} by back pointers`).toEqual(Array.from({ length: count }, (_, n) => n));
    const head = journal.head(key);
    if (head !== undefined) expect((JSON.parse(head.data) as { n: number }).n).toBeLessThan(count);
  });
  for (let session = 0; session < SESSIONS; session += 2) {
    expect(tailed[session + 1], 'both halves of each turn').toBe(tailed[session]);
  }
  return tailed;
}

describe.each(['flush', 'os'] as const)('F01, F05: a killed process, durability %s', (durability) => {
  test(`loses nothing acknowledged and leaves no half transition, over ${KILLS} kills of one store`, async () => {
    const acknowledged = Array.from({ length: SESSIONS }, () => -1);
    let fence = 0;
    for (const lines of KILL_AFTER) {
      const child = startChild(new URL('../support/kill-writer.ts', import.meta.url), [directory, durability]);
      await child.said('open\n');
      await child.until((output) => output.split('\n').length >= lines + 2, `${lines} acknowledgements`);
      await child.kill();
      for (const line of child.output().split('\n').slice(1, -1)) {
        const [session = 0, number = 0] = line.split(' ').map(Number);
        acknowledged[session] = Math.max(acknowledged[session] ?? -1, number);
      }
      const journal = await openLmdbJournal({ directory, durability });
      expect(journal.fence).toBeGreaterThan(fence);
      fence = journal.fence;
      checkAgainst(journal, acknowledged);
      await journal.close();
    }
    expect(Math.min(...acknowledged)).toBeGreaterThan(10);
  });
});

describe.skipIf(process.platform === 'win32')('F06: a device that accepts no more data', () => {
  test('J3: rejects with the reason, keeps acknowledged entries, still reads, and continues when there is room', async () => {
    const child = startChild(
      new URL('../support/full-writer.ts', import.meta.url),
      [directory],
      'ulimit -f 4096; exec "$@"',
    );
    expect(await child.ended()).toBe(0);
    const report = JSON.parse(child.output()) as Record<string, unknown>;
    expect(report).toMatchObject({
      name: 'StoreFullError',
      code: 'store_full',
      cause: expect.stringMatching(/^(EIO|EFBIG|ENOSPC)$/),
      laterRejects: true,
      readableAfter: report['acknowledged'],
      recoveredTo: report['lastPosition'],
      goesOn: true,
    });
    expect(report['acknowledged']).toBeGreaterThan(0);
    const journal = await openLmdbJournal({ directory, durability: 'flush' });
    expect([...journal.tail(0)]).toHaveLength(Number(report['acknowledged']) + 1);
    await journal.close();
  });
});
