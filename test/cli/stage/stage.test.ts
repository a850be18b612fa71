/**
 * Goal: `troupe run --stage`, as a user runs it: a process is killed in the middle by itself, the next one continues
 * from the log, a reader is steered in its turn, and the end counts what the log holds. No process outlives the command.
 */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { STEER_REQUEST } from '../../../src/cli/review/plan.ts';
import { acquireStoreLock } from '../../../src/journal/store/lock.ts';
import { isAlive } from '../../support/processes.ts';
import { directoryWith, emptyDirectory, modules, type Program, runProgram, startProgram } from '../support/program.ts';
import { readLogs } from '../support/store-log.ts';
import { command } from '../support/surroundings.ts';

/** A run starts two processes with threads. Several runs in one test take long on a busy machine. */
const LONG_MS = 180_000;
const COUNT = 20;
/** A file with more pages than any other, so that its reader is the one that is steered. */
const LARGEST = `${Array.from({ length: 300 }, (_, line) => `call(${line});`).join('\n')}\n// ${'wide '.repeat(20)}\n`;

function sources(): Promise<string> {
  return directoryWith({ ...modules(COUNT - 1), 'part-1/largest.ts': LARGEST });
}

function stage(directory: string, data: string, ...more: readonly string[]): Program {
  return startProgram(['run', '--stage', '--dir', directory, '--data', data, ...more], directory);
}

/** The number of the process in the line that begins with a word. */
function pidIn(text: string, pattern: RegExp): number {
  const pid = Number(pattern.exec(text)?.[1] ?? Number.NaN);
  expect(pid, text).toBeGreaterThan(1);
  return pid;
}

/** Over a finished staged review: the kill, the recovery, the steered reader and the file, as JSON. */
async function expectAnother(directory: string, data: string, index: string): Promise<void> {
  const { code, stdout, stderr } = await stage(directory, data, '--json').ended;
  expect(code, stderr).toBe(0);
  const result = JSON.parse(stdout);
  expect(result).toMatchObject({
    model: 'scripted',
    standing: 'new',
    files: COUNT,
    failed: 0,
    lost: [],
    steered: { path: 'part-1/largest.ts', isWithinTurn: true, line: 'longest line: 103 characters, line 301' },
    figures: { reports: COUNT },
  });
  expect(result.killed.working).toBeGreaterThan(0);
  expect(result.killed.ended).toBeLessThan(COUNT);
  expect(result.recovered.begunAgain).toBeGreaterThan(0);
  expect(result.recovered.pid).not.toBe(result.killed.pid);
  expect(result.figures.results).toBe(result.figures.calls);
  expect(await readFile(result.indexFile, 'utf8')).toBe(`${result.index}\n`);
  expect(`${result.index}\n`).toBe(index);
  expect(stderr).toMatch(KILL);
}

const BEGIN = /^begin +process (\d+) /m;
const KILL = /^kill -9 +process (\d+) is gone, with ([1-9]\d*) readers? in the middle of a turn\.$/m;
const CONTINUE = /^log +process (\d+) read it in \d+\.\d s and continues after (\d+) readers\.$/m;

describe('a staged review', () => {
  test(
    'E1: is killed and continues, steers a reader in its turn, and loses nothing; its key is not used; finished, it starts over',
    async () => {
      const directory = await sources();
      const data = await emptyDirectory();
      // A request to this address would fail, and so would the run.
      const environment = { ANTHROPIC_API_KEY: 'test-key', ANTHROPIC_BASE_URL: 'http://127.0.0.1:9' };
      const line = ['run', '--dir', directory, '--data', data];
      const { code, stdout, stderr } = await runProgram([...line, '--stage'], directory, environment);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).not.toContain('\u001b');
      const killed = pidIn(stdout, KILL);
      const next = pidIn(stdout, CONTINUE);
      expect(pidIn(stdout, BEGIN)).toBe(killed);
      expect(next).not.toBe(killed);
      expect([isAlive(killed), isAlive(next)]).toEqual([false, false]);
      expect(stdout).toContain(`steer    part-1/largest.ts is sent "${STEER_REQUEST}"`);

      const screen = stdout.slice(stdout.indexOf(`\n\n${COUNT} files read`) + 1).trimEnd();
      const lines = screen.split('\n');
      expect(lines.length).toBeLessThanOrEqual(15);
      expect(Math.max(...lines.map((each) => each.length))).toBeLessThanOrEqual(80);
      expect(screen).toContain(`kill -9    process ${killed}, with `);
      expect(screen).toContain('part-1/largest.ts, within its running turn;');
      expect(screen).toContain('its report answers: longest line: 103 characters, line 301');
      expect(screen).toContain(`lost       nothing: ${COUNT} of ${COUNT} reports`);
      expect(screen).toMatch(/^figures +\d+ half-steps, \d+ messages; send to receipt p99 \d+\.\d ms$/m);
      expect(screen.match(/^ {2}npx troupe \w+/gm)?.length).toBe(3);

      const index = await readFile(/^index +(\S+) \(/m.exec(screen)?.[1] ?? '', 'utf8');
      expect(index).toContain('part-1/largest.ts: longest line: 103 characters, line 301');
      const plain = await command([...line, '--scripted', '--json'], directory);
      const asked = /\n\n {2}Asked for while the file was read\n.*$/m;
      expect(index.replace(asked, '').trimEnd()).toBe(JSON.parse(plain.stdout).index);

      // The log, read here: one report of each reader, one result of each call, one message of the steer with its key.
      const logs = await readLogs(data);
      const staged = logs.filter(({ id }) => id.startsWith(/review-[0-9a-f]{8}/.exec(screen)?.[0] ?? '-'));
      expect(staged.length).toBe(1 + COUNT);
      const keys = staged.flatMap(({ records }) =>
        records.flatMap((record) => (record.type === 'accepted' && record.entry.key === 'steer' ? [record.entry] : [])),
      );
      expect(keys.map(({ content }) => content)).toEqual([STEER_REQUEST]);
      expect(staged.some(({ records }) => records.some(({ type }) => type === 'recovered'))).toBe(true);
      for (const { id, records } of staged) {
        const calls = records.flatMap((record) =>
          record.type === 'responded' ? record.calls.map((call) => call.id) : [],
        );
        const results = records.flatMap((record) =>
          record.type === 'accepted' && record.entry.type === 'tool_response' ? [record.entry.toolUseId] : [],
        );
        expect(results.toSorted(), id).toEqual(calls.toSorted());
      }
      await expectAnother(directory, data, index);
    },
    LONG_MS,
  );

  test(
    'of too few files is not killed, and says so',
    async () => {
      const directory = await directoryWith(modules(2));
      const { code, stdout, stderr } = await stage(directory, await emptyDirectory()).ended;
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).not.toMatch(KILL);
      expect(stdout).toContain('kill -9    not in this run: with fewer than 4 files');
      expect(stdout).toContain('Nothing was lost.');
      const first = await stage(directory, await emptyDirectory(), '--json').ended;
      expect(JSON.parse(first.stdout)).toMatchObject({ standing: 'new', files: 2, lost: [] });
    },
    LONG_MS,
  );
});

describe('a signal', () => {
  test.each([
    ['while a process works', 'SIGINT', 130, 'steer '],
    ['between the two processes', 'SIGTERM', 143, 'kill -9'],
  ] as const)(
    'W3: %s, ends the command and its process, and the printed command continues',
    async (_when, signal, code, text) => {
      const directory = await sources();
      const data = await emptyDirectory();
      const program = stage(directory, data);
      await program.wrote(text);
      program.process.kill(signal);
      const ended = await program.ended;
      expect(ended, ended.stderr).toMatchObject({ code, signal: null });
      expect(isAlive(pidIn(ended.stdout, BEGIN))).toBe(false);
      expect(ended.stdout).not.toMatch(CONTINUE);
      const again = `run --dir ${directory} --data ${data} --stage`;
      expect(ended.stdout).toContain(`npx troupe ${again}`);
      const { stdout, stderr, code: last } = await runProgram([...again.split(' '), '--json'], directory);
      expect(last, stderr).toBe(0);
      const result = JSON.parse(stdout);
      expect(result).toMatchObject({ standing: 'continued', files: COUNT, failed: 0, lost: [] });
      expect(result.steered).toMatchObject({ path: 'part-1/largest.ts', isWithinTurn: true });
    },
    LONG_MS,
  );
});

describe('a failure', () => {
  test(
    'P1, W2: a process that is killed from outside is reported with its signal, and no other is started',
    async () => {
      const directory = await sources();
      const program = stage(directory, await emptyDirectory());
      await program.wrote('steer ');
      const pid = pidIn(program.stdout(), BEGIN);
      process.kill(pid, 'SIGKILL');
      const { code, stdout, stderr } = await program.ended;
      expect(code).toBe(1);
      expect(stderr).toContain(`process ${pid} of the review ended with SIGKILL`);
      expect(stdout).not.toMatch(CONTINUE);
    },
    LONG_MS,
  );

  test(
    'W1: a killed command leaves no process behind',
    async () => {
      const directory = await sources();
      const program = stage(directory, await emptyDirectory());
      await program.wrote('steer ');
      const pid = pidIn(program.stdout(), BEGIN);
      program.process.kill('SIGKILL');
      await program.ended;
      await expect.poll(() => isAlive(pid)).toBe(false);
    },
    LONG_MS,
  );

  test(
    'P3: a process that does not stop when it is asked to is killed',
    async () => {
      const directory = await sources();
      const program = stage(directory, await emptyDirectory());
      await program.wrote('steer ');
      const pid = pidIn(program.stdout(), BEGIN);
      process.kill(pid, 'SIGSTOP');
      program.process.kill('SIGINT');
      const { code, stdout } = await program.ended;
      expect(code).toBe(130);
      expect(stdout).toContain('this command continues');
      expect(isAlive(pid)).toBe(false);
    },
    LONG_MS,
  );

  test(
    'errors of the process are those of the command: a directory in use, one without sources',
    async () => {
      const directory = await sources();
      const data = await emptyDirectory();
      const lock = await acquireStoreLock(data);
      try {
        const inUse = await stage(directory, data, '--json').ended;
        expect(inUse.code).toBe(1);
        expect(JSON.parse(inUse.stdout)).toMatchObject({ error: { code: 'store_locked' } });
        expect(inUse.stderr).toContain(`process ${process.pid}`);
      } finally {
        await lock.release();
      }
      const empty = await emptyDirectory();
      const without = await stage(empty, data).ended;
      expect(without.code).toBe(2);
      expect(without.stderr).toContain('has no source files');
    },
    LONG_MS,
  );
});
