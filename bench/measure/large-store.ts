/**
 * `--scale`: a store of 100,000 sessions with 10 million messages, opened cold and warm. The store is built once for
 * both opens, and takes gigabytes.
 */
import { statfs } from 'node:fs/promises';
import { diskBytes } from '../disk.ts';
import type { RunContext } from '../names.ts';
import type { Row } from '../report/figures.ts';
import { buildStore, builtMessages, builtSession } from '../systems/build-store.ts';
import { withDirectory } from '../systems/open-system.ts';
import { reopenRows } from './idle.ts';

const PLANS = {
  quick: { sessions: 1_000, turnsEach: 25 },
  full: { sessions: 100_000, turnsEach: 25 },
} as const;
/** Free bytes beyond the size of the store, for the rest of the machine. */
const FREE_BYTES = 20 * 1024 ** 3;

/** Rows `build`, and open cold and warm by inline and isolated, of the same store. */
export function measureLargeStore(context: RunContext): Promise<readonly Row[]> {
  const plan = context.scale === 'quick' ? PLANS.quick : PLANS.full;
  return withDirectory(async (directory) => {
    const { bavail, bsize } = await statfs(directory);
    if (bavail * bsize < FREE_BYTES) throw new Error(`the large store needs ${FREE_BYTES} free bytes at ${directory}`);
    const startedAt = performance.now();
    await buildStore(directory, plan);
    const figures = {
      buildMs: performance.now() - startedAt,
      diskBytes: await diskBytes(directory),
      sessions: plan.sessions,
      messages: plan.sessions * builtMessages(plan),
    };
    const session = builtSession(Math.floor(plan.sessions / 2));
    const rows: Row[] = [{ variant: 'build', repetitions: [figures] }];
    for (const isolation of ['inline', 'isolated'] as const) {
      for (const row of await reopenRows(isolation, directory, session)) {
        rows.push({ ...row, variant: `${isolation}, ${row.variant}` });
      }
    }
    return rows;
  });
}
