/**
 * Fills a disk: opens the store named by the first argument and writes until the device refuses, again and again, while
 * the ballast files named by the third argument are removed one by one. The second argument seeds the writes. Prints a
 * line for every entry known to be durable, and one for each refusal. The refusal must come before LMDB itself meets
 * the full disk.
 */
import { rm } from 'node:fs/promises';
import { StoreFullError } from '../../src/base/errors.ts';
import type { Journal } from '../../src/journal/journal.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import type { SessionKey } from '../../src/journal/position.ts';
import { openManifest } from '../../src/journal/store/birth.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { shardDirectory } from '../../src/journal/store/manifest.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { noiseText } from '../journal/support/texts.ts';
import { printLine } from '../support/child-output.ts';

const SESSIONS = 24;
const [directory, seed, ...ballast] = process.argv.slice(2);
if (directory === undefined || seed === undefined) throw new Error('a directory and a seed are needed');

const random = new SeededRandom(Number(seed));
let steps = 0;

/** Appends to one to three sessions, sometimes with heads, blobs or a checkpoint. Prints the acknowledged entries. */
async function write(journal: Journal, written: Map<string, number>): Promise<void> {
  steps += 1;
  const lines: string[] = [];
  for (let turn = random.between(1, 6); turn > 0; turn -= 1) {
    const name = `s${random.between(0, SESSIONS - 1)}`;
    const key = journal.intern(name);
    const next = written.get(name) ?? 0;
    const characters = random.pick([20, 300, 2_000, 9_000, 60_000]);
    const position = journal.append([
      { key, data: JSON.stringify({ n: next, pad: noiseText(characters, `${seed} ${steps} ${turn}`) }) },
    ]);
    written.set(name, next + 1);
    lines.push(`durable ${name} ${next}`);
    if (random.chance(0.2)) journal.putBlob(noiseText(random.between(10, 200_000), `blob ${seed} ${steps}`));
    if (random.chance(0.2)) journal.checkpoint([headOf(key, position)], position);
  }
  await journal.flushed();
  for (const line of lines) printLine(line);
}

function headOf(key: SessionKey, position: number) {
  return {
    key,
    position,
    data: JSON.stringify({ pad: noiseText(random.between(10, 3_000), `head ${steps}`) }),
    runnable: true,
  };
}

/** The entries in the log, by session. */
function counted(journal: Journal): Map<string, number> {
  const found = new Map<string, number>();
  for (let index = 0; index < SESSIONS; index += 1) {
    const key = journal.keyOf(`s${index}`);
    if (key !== undefined) found.set(`s${index}`, [...journal.read(key, 0)].length);
  }
  return found;
}

function refused(error: unknown): void {
  if (!(error instanceof StoreFullError)) throw error;
  const { cause } = error;
  printLine(`refused ${cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause)}`);
}

async function openStore(path: string): Promise<Journal> {
  const lock = await acquireStoreLock(path);
  try {
    await openManifest(path, 1);
    return await openLmdbJournal({ directory: shardDirectory(path, 0), durability: 'flush' });
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Undefined if there is no room to open the store, even with all ballast removed. */
async function openWithRoom(path: string): Promise<Journal | undefined> {
  for (;;) {
    try {
      return await openStore(path);
    } catch (error) {
      refused(error);
    }
    const next = ballast.shift();
    if (next === undefined) return undefined;
    await rm(next);
  }
}

const journal = await openWithRoom(directory);
if (journal !== undefined) {
  let written = counted(journal);
  for (;;) {
    try {
      for (;;) await write(journal, written);
    } catch (error) {
      refused(error);
    }
    // Reads continue meanwhile.
    written = counted(journal);
    const next = ballast.shift();
    if (next === undefined) break;
    await rm(next);
    try {
      await journal.recover();
      written = counted(journal);
    } catch (error) {
      refused(error);
    }
  }
}
printLine('full');
process.exit(0);
