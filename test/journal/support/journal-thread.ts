/**
 * A worker thread that owns a journal: it opens the directory in `workerData`, appends for ever, and posts how many
 * entries are durable. Any message ends it, without closing the journal.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';

parentPort?.on('message', () => process.exit(1));
const { directory, callers } = workerData as { directory: string; callers: number };
const journal = await openLmdbJournal({ directory, durability: 'flush' });
const key = journal.intern('a');
let next = [...journal.read(key, 0)].length;
parentPort?.postMessage({ fence: journal.fence, found: next });

async function run(): Promise<never> {
  for (;;) {
    const number = next;
    next += 1;
    journal.append([{ key, data: JSON.stringify({ number, pad: 'x'.repeat(1_000) }) }]);
    await journal.flushed();
    parentPort?.postMessage({ durable: number });
  }
}

await Promise.all(Array.from({ length: callers }, run));
