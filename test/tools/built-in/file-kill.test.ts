// Goal: a process killed while it writes and edits leaves each file either old or new, never half written. It also
// leaves nothing that would keep the next process from writing. Method: SIGKILL at random moments, until some have
// struck in the middle of a write.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { edit_file, write_file } from '../../../src/tools/built-in/index.ts';
import type { AnyTool } from '../../../src/tools/tool.ts';
import { executeTool } from '../../support/execute-tool.ts';
import { editedText, writtenText } from '../fixtures/file-writer-texts.ts';

const KILLS = 5;
const KILLS_MAX = 200;
const loader = fileURLToPath(new URL('../../loader/register.mjs', import.meta.url));
const writer = fileURLToPath(new URL('../fixtures/file-writer.ts', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'troupe-kill-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Starts a writer and kills it some lines later. Returns the rounds it reported as done. */
async function killed(): Promise<{ readonly written: number; readonly edited: number }> {
  const child = spawn(process.execPath, ['--import', loader, writer, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit');
  const told = { written: -1, edited: 0 };
  const lines = 1 + Math.floor(Math.random() * 6);
  let heard = 0;
  for await (const line of createInterface(child.stdout)) {
    const [deed, round] = line.split(' ');
    if (deed === 'written' || deed === 'edited') told[deed] = Number(round);
    heard += 1;
    if (heard === lines) void delay(Math.random() * 12).then(() => child.kill('SIGKILL'));
  }
  const [, signal] = (await gone) as [number | null, string | null];
  expect(signal).toBe('SIGKILL');
  return told;
}

const textOf = (name: string): string => readFileSync(join(directory, name), 'utf8');
const roundOf = (text: string): number => Number(/^round (\d+)$/m.exec(text)?.[1]);
const litter = (): readonly string[] => readdirSync(directory).filter((name) => name.startsWith('.troupe-'));

test('F147, F148: after a kill in the middle a file is old or new, never half; an acknowledged write is there', async () => {
  let kills = 0;
  for (; kills < KILLS || (litter().length === 0 && kills < KILLS_MAX); kills += 1) {
    const told = await killed();
    const [written, edited] = [textOf('written.txt'), textOf('edited.txt')];
    expect(written === writtenText(roundOf(written))).toBe(true);
    expect(edited === editedText(roundOf(edited))).toBe(true);
    // The last reported round, or the next round, which the writer had no time to report.
    expect(roundOf(written) - told.written).toBeOneOf([0, 1]);
    expect(roundOf(edited) - told.edited).toBeOneOf([0, 1]);
    expect(
      readdirSync(directory)
        .filter((name) => !name.startsWith('.troupe-'))
        .toSorted(),
    ).toEqual(['edited.txt', 'written.txt']);
  }
  expect(litter().length, `after ${kills} kills`).toBeGreaterThan(0);
  const run = (tool: AnyTool, input: object): ReturnType<typeof executeTool> =>
    executeTool(tool, {
      input,
      context: { session: 's', callId: 'c', key: 'k', attempt: 1 },
      timeoutMs: 60_000,
      mode: 'run',
    });
  const written = await run(write_file, { path: join(directory, 'written.txt'), content: 'after' });
  const round = roundOf(textOf('edited.txt'));
  const call = { path: join(directory, 'edited.txt'), old_text: `round ${round}\n`, new_text: 'after\n' };
  const edited = await run(edit_file, call);
  expect([written.success, edited.success]).toEqual([true, true]);
  expect(textOf('written.txt')).toBe('after');
});
