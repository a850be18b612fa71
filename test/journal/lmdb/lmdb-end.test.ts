// Goal: a thread or a process may be ended in the middle of a commit of that thread. The end happens, and the commit is
// whole. Real threads, real files.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ThreadGate } from '../../../src/journal/journal.ts';
import { CommitPace } from '../../../src/journal/lmdb/commit-pace.ts';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { ExitLatch } from '../../../src/threads/exit-latch.ts';
import { startHeldCommits } from '../support/held-commit.ts';
import { temporaryDirectory } from '../support/stores.ts';

let directory: string;
let child: ChildProcess | undefined;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  vi.restoreAllMocks();
  child?.kill('SIGKILL');
  child = undefined;
  await rm(directory, { recursive: true, force: true });
});

async function textsOf(path: string): Promise<readonly string[]> {
  const journal = await openLmdbJournal({ directory: path, durability: 'flush' });
  const key = journal.keyOf('a');
  const texts = key === undefined ? [] : [...journal.read(key, 0)].map(({ data }) => JSON.parse(data) as string);
  await journal.close();
  return texts;
}

describe('L6: a thread that is ended in the middle of a commit', () => {
  test.each([
    ['W2', 'terminate', 0],
    ['N2', 'exit', 143],
    ['N2', 'throw', 1],
  ])('%s: a thread or process ended by %s does end, and its commit is whole', async (_rule, how, code) => {
    const script = new URL('../support/exit-in-commit.ts', import.meta.url).pathname;
    child = spawn(process.execPath, [...process.execArgv, script, directory, how], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    expect(await once(child, 'close'), errors).toEqual([code, null]);
    expect(await textsOf(directory)).toEqual([how]);
  });

  test('N2: a process exit listener exists only while such a thread lives', async () => {
    const before = process.listenerCount('exit');
    const { thread } = await startHeldCommits(directory);
    expect(process.listenerCount('exit')).toBe(before + 1);
    await thread.exit();
    expect(process.listenerCount('exit')).toBe(before);
  });
});

describe('L6: the thread that runs commits', () => {
  const gateOf = (
    isClosedBeforeEnd: boolean,
  ): { readonly gate: ThreadGate; readonly entered: () => number; close(): void } => {
    let entered = 0;
    let isClosed = false;
    const enter = (): boolean => {
      if (!isClosed) entered += 1;
      return !isClosed;
    };
    return {
      gate: { isClosedBeforeEnd, enter, leave: () => undefined },
      entered: () => entered,
      close: () => {
        isClosed = true;
      },
    };
  };

  test('a thread that may end without notice leaves its commits to the writer thread', async () => {
    vi.spyOn(CommitPace.prototype, 'isHere').mockReturnValue(true);
    for (const isClosedBeforeEnd of [true, false]) {
      const { gate, entered } = gateOf(isClosedBeforeEnd);
      const journal = await openLmdbJournal({ directory, durability: 'flush', gate });
      const opened = entered();
      journal.append([{ key: journal.intern('a'), data: JSON.stringify(`${isClosedBeforeEnd}`) }]);
      await journal.flushed();
      expect(entered() - opened).toBe(isClosedBeforeEnd ? 1 : 0);
      await journal.close();
    }
    expect(await textsOf(directory)).toEqual(['true', 'false']);
  });

  test('a thread started by another thread relies on no notice; the main thread receives it', async () => {
    const { thread } = await startHeldCommits(directory);
    expect(await thread.endpoint.call('isClosedBeforeEnd', 0)).toBe(false);
    await thread.exit();
    // The process of the tests runs its commits on its main thread.
    expect(new ExitLatch().isClosedBeforeEnd).toBe(true);
  });

  test('after the gate closed, a commit still becomes durable, and no store can be opened', async () => {
    vi.spyOn(CommitPace.prototype, 'isHere').mockReturnValue(true);
    const { gate, entered, close } = gateOf(true);
    const journal = await openLmdbJournal({ directory, durability: 'flush', gate });
    const opened = entered();
    close();
    journal.append([{ key: journal.intern('a'), data: '"late"' }]);
    await journal.flushed();
    expect(entered()).toBe(opened);
    await journal.close();
    await expect(openLmdbJournal({ directory, durability: 'flush', gate })).rejects.toMatchObject({
      code: 'cancelled',
    });
    expect(await textsOf(directory)).toEqual(['late']);
  });
});

describe('EndGate', () => {
  test('N1: a commit in progress delays the closing for a bounded time, and no other commit begins', () => {
    const gate = new ExitLatch();
    const other = new ExitLatch(gate.memory);
    expect(other.enter()).toBe(true);
    expect(gate.enter()).toBe(false);
    gate.close(1);
    other.leave();
    expect(other.enter()).toBe(false);
    gate.close();
  });

  test('N1: an empty gate closes at once; until then a thread that left may enter again', () => {
    const gate = new ExitLatch();
    expect(gate.enter()).toBe(true);
    gate.leave();
    expect(gate.enter()).toBe(true);
    gate.leave();
    gate.close();
    expect(gate.enter()).toBe(false);
  });
});
