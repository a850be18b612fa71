/**
 * Compacts a store that is written meanwhile, and kills its process before one of its changes of the file system.
 * Arguments: the directory, the durability, and the number of the change, from 0. Prints a line for each durable entry,
 * and `survived` if there are fewer changes.
 */
import type { Durability } from '../../../src/journal/journal.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { printLine } from '../../support/child-output.ts';
import { killAtStep, survive } from '../../support/killed-at-step.ts';
import { removeAndErase } from './erase.ts';
import { noiseText } from './texts.ts';

const CANARY = 'canary-live-31';
const [directory, durability, step = '0'] = process.argv.slice(2);
if (directory === undefined) throw new Error('a directory is needed');

const journal = await openLmdbJournal({ directory, durability: durability as Durability });
const kept = journal.intern('kept');
const gone = journal.intern(`gone-${step}`);
let entries = 0;

async function write(): Promise<void> {
  const entry = `entry ${step} ${entries}`;
  entries += 1;
  journal.append([{ key: kept, data: JSON.stringify({ entry, noise: noiseText(2_000, entry) }) }]);
  await journal.flushed();
  printLine(entry);
}

await write();
journal.append([{ key: gone, data: JSON.stringify({ CANARY, noise: noiseText(20_000, step) }) }]);
await journal.flushed();
await removeAndErase(journal, [gone]);
killAtStep(Number(step));
let isOver = false;
const running = journal.compaction.run().finally(() => {
  isOver = true;
});
while (!isOver) await write();
await running;
await write();
survive();
await journal.close();
printLine('survived');
