/**
 * Damages copies of a store and opens them. This is a separate process, since a damaged page may end it. Arguments: the
 * store, a directory to work in, the first seed and the number of trials after the known ones. Prints the seed and
 * damage of each trial before it, and its outcome after it: `refused`, `read error`, `whole`, or `WRONG` with the
 * difference.
 */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StoreCorruptError, StoreVersionError } from '../../../src/base/errors.ts';
import { SalvageShard } from '../../../src/journal/check/salvage-store.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { printText } from '../../support/child-output.ts';
import { type Contents, damaged, questions, seededRandom } from './damage.ts';

const [template = '', work = '', first = '1', count = '1'] = process.argv.slice(2);
const whole = readFileSync(join(template, 'data.mdb'));
const expected = JSON.parse(readFileSync(join(template, 'contents.json'), 'utf8')) as Contents;
const path = join(work, 'data.mdb');

/** Trials that once found a fault: the last page that the meta page names lies before pages in use. */
const KNOWN = [38_789];

for (const seed of [...KNOWN, ...Array.from({ length: Number(count) }, (_none, index) => Number(first) + index)]) {
  const { bytes, what } = damaged(whole, seededRandom(seed));
  printText(`${seed} ${what}: `);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  writeFileSync(path, bytes);
  if (existsSync(join(template, 'lock.mdb'))) copyFileSync(join(template, 'lock.mdb'), join(work, 'lock.mdb'));
  const isFound = salvaged();
  const outcome = typeof isFound === 'string' ? isFound : await opened(bytes);
  const isMissed = !outcome.startsWith('WRONG') && outcome !== 'whole' && isFound === false;
  printText(`${isMissed ? `WRONG, salvage finds nothing wrong: ${outcome}` : outcome}\n`);
}

/** True if reading without LMDB finds damage. A text if it returns a session that differs from the written one. */
function salvaged(): boolean | string {
  const shard = new SalvageShard(path);
  let isDamaged = shard.findings.length > 0;
  for (const [name, key] of shard.sessions()) {
    const wanted = expected[`${name} entries`];
    // Removed sessions have no expected text, since a search of single pages may find them again.
    if (wanted === undefined || wanted === '[]') continue;
    const found: unknown[] = [];
    try {
      for (const entry of shard.entries(key)) found.push(entry);
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) return `WRONG, salvage throws ${String(error)}`;
      isDamaged = true;
    }
    const all = JSON.parse(wanted) as readonly unknown[];
    const isPrefix = JSON.stringify(all.slice(0, found.length)) === JSON.stringify(found);
    if (!isPrefix) return `WRONG, salvage of ${name} gives what was not written`;
    if (found.length < all.length) isDamaged = true;
  }
  shard.close();
  return isDamaged;
}

async function opened(bytes: Buffer): Promise<string> {
  try {
    const journal = await openLmdbJournal({ directory: work, durability: 'os' });
    try {
      const verdict = asked(journal);
      if (verdict !== 'whole') return verdict;
      // Free pages may be damaged, and using them must not harm existing data.
      const key = journal.intern('another');
      for (let turn = 0; turn < 5; turn += 1) journal.append([{ key, data: JSON.stringify('y'.repeat(turn * 3_000)) }]);
      await journal.flushed();
      journal.remove([key]);
      await journal.flushed();
      return asked(journal);
    } finally {
      await journal.close();
    }
  } catch (error) {
    const isTyped = error instanceof StoreVersionError || error instanceof StoreCorruptError;
    if (!isTyped) return `WRONG, an error of no kind: ${error instanceof Error ? error.stack : String(error)}`;
    return readFileSync(path).equals(bytes) ? 'refused' : `WRONG, the file was changed: ${error.message}`;
  }
}

/** Every query returns the right answer or throws `StoreCorruptError`. */
function asked(journal: Journal): string {
  let outcome = 'whole';
  for (const [question, ask] of questions(journal)) {
    try {
      if (ask() !== expected[question]) return `WRONG, another answer to ${question}`;
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) return `WRONG, an error of no kind: ${String(error)}`;
      outcome = 'read error';
    }
  }
  return outcome;
}
