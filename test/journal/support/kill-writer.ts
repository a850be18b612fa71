/**
 * Writes to the store named by the first argument until it is killed, and prints a line for each entry known to be
 * durable: `<session> <number of the session's last flushed entry>`. Entries are numbered from 0 in each session. A
 * transition writes to two sessions; heads and checkpoints are written in between.
 */
import type { Durability } from '../../../src/journal/journal.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { printLine } from '../../support/child-output.ts';
import { noiseText } from './texts.ts';

const SESSIONS = 8;
const [directory, durability] = process.argv.slice(2);
if (directory === undefined) throw new Error('a directory is needed');

const journal = await openLmdbJournal({ directory, durability: durability as Durability });
const sessions = Array.from({ length: SESSIONS }, (_, index) => {
  const key = journal.intern(`s${index}`);
  return { index, key, next: [...journal.read(key, 0)].length };
});
printLine('open');

function repeated(characters: number): string {
  return 'x'.repeat(characters);
}

async function run(first: number): Promise<never> {
  for (let step = 0; ; step += 1) {
    const pair = [sessions[first], sessions[first + 1]].filter((session) => session !== undefined);
    const position = journal.append(
      pair.map((session) => ({
        key: session.key,
        data: JSON.stringify({ n: session.next, pad: (step % 2 === 0 ? noiseText : repeated)((step * 37) % 3_000) }),
      })),
    );
    const lines = pair.map((session) => `${session.index} ${session.next}`).join('\n');
    for (const session of pair) session.next += 1;
    if (step % 25 === 0) {
      const heads = pair.map((session) => ({
        key: session.key,
        position,
        data: JSON.stringify({ n: session.next - 1 }),
        runnable: true,
      }));
      journal.checkpoint(heads, 0);
    }
    await journal.flushed();
    // The line is written directly to the pipe, so a printed line is an acknowledgement that the parent receives.
    printLine(lines);
  }
}

await Promise.all([0, 2, 4, 6].map(run));
