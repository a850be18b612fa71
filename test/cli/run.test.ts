/**
 * Goal: `troupe run`, as a user runs it, with its threads, over real files and a real store. After a
 * kill in the middle it continues, repeats no finished work, and ends with the index of an undisturbed run.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { answer } from '../../src/cli/review/model.ts';
import { pathOfTask } from '../../src/cli/review/plan.ts';
import { acquireStoreLock } from '../../src/journal/store/lock.ts';
import { strictFake } from '../../src/testing/strict-fake.ts';
import { deferred } from '../support/runtime-kit.ts';
import { directoryWith, emptyDirectory, modules, runProgram, startProgram } from './support/program.ts';
import { countOf, readLogs, type SessionLog } from './support/store-log.ts';
import { command, keptOutput } from './support/surroundings.ts';

/** A run starts threads and a store. Several runs in one test take long on a busy machine. */
const LONG_MS = 180_000;
const KILLS_MAX = 5;

interface Result {
  readonly session: string;
  readonly standing: string;
  readonly index: string;
  readonly indexFile: string;
  readonly files: number;
  readonly failed: number;
  readonly model: string;
  readonly figures: { readonly sessions: number; readonly halfSteps: number; readonly sends: number };
  readonly log: { readonly messages: number };
}

/** Runs in this process: only a kill, a signal and the environment of the model need a separate one. */
async function runToEnd(sources: string, data: string, ...more: readonly string[]): Promise<Result> {
  const line = ['run', '--dir', sources, '--data', data, '--json', ...more];
  const { code, stdout, stderr } = await command(line, sources);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Result;
}

function childrenOf(logs: readonly SessionLog[]): readonly SessionLog[] {
  return logs.filter(({ state }) => state.parent !== undefined);
}

/** Every call has one result, every child one report in its parent, and every reader's turn has ended. */
function expectNothingTwice(logs: readonly SessionLog[]): void {
  for (const { id, records, state } of logs) {
    const asked = records.flatMap((record) => (record.type === 'responded' ? record.calls.map((call) => call.id) : []));
    const answered = records.flatMap((record) =>
      record.type === 'accepted' && record.entry.type === 'tool_response' ? [record.entry.toolUseId] : [],
    );
    expect(answered.toSorted(), id).toEqual(asked.toSorted());
    expect(new Set(asked).size, id).toBe(asked.length);
    expect(state.state, id).toBe('idle');
  }
  const [reviewer] = logs.filter(({ state }) => state.parent === undefined);
  const deliveries = reviewer?.records.flatMap((record) =>
    record.type === 'accepted' && record.entry.type === 'subagent' ? [record.entry.source?.name] : [],
  );
  const names = childrenOf(logs).map(({ state }) => state.name);
  expect(deliveries?.toSorted()).toEqual(names.toSorted());
}

describe('a run without a key', () => {
  test(
    'reads every file with read_file in a separate reader, and says that the model is scripted',
    async () => {
      const sources = await directoryWith(modules(12));
      const data = await emptyDirectory();
      const { code, stdout, stderr } = await runProgram(['run', '--dir', sources, '--data', data], sources);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain('scripted: rules over tool results');
      const indexFile = /^index +(\S+) \(\d+ lines\)$/m.exec(stdout)?.[1] ?? '';
      const index = await readFile(indexFile, 'utf8');
      expect(index).toContain('Written by a scripted model');
      expect(stdout).not.toContain('Written by a scripted model');
      expect((await readdir(data)).filter((name) => name.includes('.part'))).toEqual([]);
      for (const [path, text] of Object.entries(modules(12))) {
        const [, name = ''] = path.split('/');
        const lines = text.split('\n').length - 1;
        expect(index).toMatch(new RegExp(`^ {2}${name.replace('.', '\\.')} +${lines} {2}Module number \\d+\\.$`, 'm'));
      }
      expect(stdout).toMatch(/^100 % {2}12 of 12 files read/m);
      for (const row of [
        'sessions          13',
        'half-steps        25,',
        'send to receipt   p50',
        'host loop delay   p99',
        'data  ',
      ]) {
        expect(stdout).toContain(row);
      }
      expect(stdout).toContain('npx troupe inspect');
      expect(stdout).toContain('npx troupe tail review-');
      expect(stdout).not.toContain('\u001b');
      const logs = await readLogs(data);
      expectNothingTwice(logs);
      for (const { state } of childrenOf(logs)) {
        expect(state.messages.map(({ toolName }) => toolName ?? '-')).toEqual([
          '-',
          'read_file',
          'read_file',
          'mark_goal_completed',
          'mark_goal_completed',
        ]);
      }
    },
    LONG_MS,
  );

  test(
    '--plain on a terminal: lines, without colours and without moving the cursor',
    async () => {
      const sources = await directoryWith(modules(6));
      const line = ['run', '--dir', sources, '--data', await emptyDirectory()];
      const drawn = await command(line, sources, { stdout: keptOutput(true) });
      expect([drawn.code, drawn.stdout.includes('\u001b[?25l')]).toEqual([0, true]);
      const plain = await command([...line, '--fresh', '--plain'], sources, { stdout: keptOutput(true) });
      expect([plain.code, plain.stdout.includes('\u001b')]).toEqual([0, false]);
      expect(plain.stdout).toMatch(/^100 % {2}6 of 6 files read/m);
    },
    LONG_MS,
  );

  test(
    'a finished review shows its stored index, repeats no call, and says so; --fresh starts a new review',
    async () => {
      const sources = await directoryWith(modules(6));
      const data = await emptyDirectory();
      const first = await runToEnd(sources, data);
      expect([first.standing, first.figures.halfSteps, first.figures.sends]).toEqual(['new', 13, 8]);
      expect(await readFile(first.indexFile, 'utf8')).toBe(`${first.index}\n`);
      await rm(first.indexFile);
      const before = await readLogs(data);
      const again = await runToEnd(sources, data);
      expect(again).toMatchObject({ standing: 'finished', index: first.index, figures: { halfSteps: 0, sends: 0 } });
      expect(await readFile(again.indexFile, 'utf8')).toBe(`${first.index}\n`);
      expect(countOf(await readLogs(data), 'responded')).toEqual(countOf(before, 'responded'));
      const { stdout } = await command(['run', '--dir', sources, '--data', data], sources);
      expect(stdout).toContain('was finished before');
      const fresh = await runToEnd(sources, data, '--fresh');
      expect(fresh).toMatchObject({ standing: 'new', index: first.index, figures: { halfSteps: 13 } });
    },
    LONG_MS,
  );

  test(
    'large files are read page by page; unreadable files are reported; the file limit holds',
    async () => {
      const long = Array.from({ length: 4_500 }, (_, line) => `x(${line});`).join('\n');
      const sources = await directoryWith({
        'a-long.ts': `${long}\n`,
        'b-wide.ts': `${'x'.repeat(60_000)}\n`,
        'c-empty.ts': '',
        'd.ts': 'd\n',
      });
      const data = await emptyDirectory();
      const result = await runToEnd(sources, data, '--limit', '3');
      expect(result.files).toBe(3);
      expect(result.index).toMatch(/^ {2}a-long\.ts +4,500$/m);
      expect(result.index).toMatch(/^ {2}b-wide\.ts +- {2}Line 1 exceeds 50000 bytes/m);
      expect(result.index).toMatch(/^ {2}c-empty\.ts +0$/m);
      expect(result.index).not.toContain('d.ts');
      expect(result.index).toContain('1 more source file not read');
    },
    LONG_MS,
  );
});

describe('a killed run', () => {
  test(
    'continues when started again: the same index as an undisturbed run, and no finished call is repeated',
    async () => {
      const count = 40;
      const sources = await directoryWith(modules(count));
      const undisturbed = await emptyDirectory();
      const expected = await runToEnd(sources, undisturbed);
      const reference = await readLogs(undisturbed);
      const data = await emptyDirectory();
      const line = ['run', '--dir', sources, '--data', data];
      let interrupted = 0;
      // The run is killed at a tenth of its work, then at half. If a run on a busy machine ends before it is killed, it
      // gets another attempt.
      for (let attempt = 0; attempt < KILLS_MAX && interrupted < 2; attempt += 1) {
        const program = startProgram(line, sources);
        await program.wrote(interrupted === 0 ? ' 10 %' : ' 50 %');
        program.process.kill('SIGKILL');
        await program.ended;
        const logs = await readLogs(data);
        const over = childrenOf(logs).filter(({ state }) => state.exit !== undefined).length;
        if (over > 0 && over < count) interrupted += 1;
        else if (over === count) await rm(data, { recursive: true });
      }
      expect(interrupted).toBeGreaterThan(0);
      // The plan and the pages read are in the log: a new file is not in the index, and a removed one still is.
      const done = childrenOf(await readLogs(data)).find(({ state }) => state.exit !== undefined);
      await rm(join(sources, pathOfTask(done?.state.goal?.description ?? '') ?? ''));
      await writeFile(join(sources, 'later.ts'), 'export const later = 1;\n');
      const result = await runToEnd(sources, data);
      expect(result.standing).toBe('continued');
      expect(result.index).toBe(expected.index);
      const logs = await readLogs(data);
      expectNothingTwice(logs);
      expect(countOf(logs, 'responded')).toEqual(countOf(reference, 'responded'));
      expect(countOf(logs, 'spawned')).toEqual(countOf(reference, 'spawned'));
      expect(result.log.messages).toBe(expected.log.messages);
    },
    LONG_MS,
  );

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'F13: %s closes the store, prints how to continue, and exits with %i',
    async (signal, code) => {
      const count = 20;
      const sources = await directoryWith(modules(count));
      const data = await emptyDirectory();
      // The plan, a first answer for each reader, and the end of a few. The rest is held back, so that the run is still
      // at work when the signal comes.
      let toAnswer = 1 + count + 5;
      const held = deferred();
      const fake = await strictFake({
        script: async (request) => {
          toAnswer -= 1;
          if (toAnswer < 0) await held.promise;
          return answer(request);
        },
      });
      try {
        const environment = { ANTHROPIC_API_KEY: 'test-key', ANTHROPIC_BASE_URL: fake.url };
        const line = ['run', '--dir', sources, '--data', data];
        const program = startProgram(line, sources, environment);
        await program.wrote(' 10 %');
        program.process.kill(signal);
        const ended = await program.ended;
        expect(ended, ended.stderr).toMatchObject({ code, signal: null });
        expect(ended.stdout).toContain(`npx troupe run --dir ${sources}`);
        const children = childrenOf(await readLogs(data));
        expect(children.some(({ state }) => state.exit !== undefined)).toBe(true);
        expect(children.some(({ state }) => state.exit === undefined)).toBe(true);
        held.resolve();
        const again = await runProgram([...line, '--json'], sources, environment);
        expect(again.code, again.stderr).toBe(0);
        expect(JSON.parse(again.stdout)).toMatchObject({ standing: 'continued', files: count, failed: 0 });
      } finally {
        held.resolve();
        await fake.close();
      }
    },
    LONG_MS,
  );
});

describe('one store, several runs', () => {
  test(
    'a directory open elsewhere: exit code 1 and the pid of its owner, for every command',
    async () => {
      const sources = await directoryWith(modules(2));
      const data = await emptyDirectory();
      const { session } = await runToEnd(sources, data);
      const lock = await acquireStoreLock(data);
      try {
        for (const line of [['run', '--dir', sources], ['inspect'], ['tail', session], ['send', session, 'hi']]) {
          const { code, stderr } = await command([...line, '--data', data], sources);
          expect(code, line[0]).toBe(1);
          expect(stderr, line[0]).toContain(`process ${process.pid}`);
        }
      } finally {
        await lock.release();
      }
    },
    LONG_MS,
  );

  test(
    'two reviews share a store without mixing: the interrupted one waits for its own run',
    async () => {
      const one = await directoryWith(modules(30));
      const two = await directoryWith({ 'b.ts': '/** The other. */\n' });
      const data = await emptyDirectory();
      const program = startProgram(['run', '--dir', one, '--data', data], one);
      await program.wrote(' 10 %');
      program.process.kill('SIGKILL');
      await program.ended;
      const before = countOf(await readLogs(data), 'responded');
      const other = await runToEnd(two, data);
      expect([other.standing, other.figures.halfSteps]).toEqual(['new', 3]);
      const after = countOf(await readLogs(data), 'responded');
      expect(after).toMatchObject(before);
      expect((await runToEnd(one, data)).files).toBe(30);
    },
    LONG_MS,
  );
});

describe('a run with a key', () => {
  test(
    'asks the API with valid requests only',
    async () => {
      const sources = await directoryWith(modules(5));
      const data = await emptyDirectory();
      const fake = await strictFake({ script: (request) => answer(request) });
      try {
        const environment = { ANTHROPIC_API_KEY: 'test-key', ANTHROPIC_BASE_URL: fake.url };
        const line = ['run', '--dir', sources, '--data', data, '--json'];
        const { code, stdout, stderr } = await runProgram(line, sources, environment);
        expect(code, stderr).toBe(0);
        expect(JSON.parse(stdout)).toMatchObject({ model: 'claude', files: 5, failed: 0, standing: 'new' });
        expect(fake.requests.length).toBe(11);
        expect(fake.violations).toEqual([]);
      } finally {
        await fake.close();
      }
    },
    LONG_MS,
  );

  test(
    'a refused key is reported with exit code 1, and the run continues with a good one',
    async () => {
      const sources = await directoryWith(modules(5));
      const data = await emptyDirectory();
      let isGood = false;
      const fake = await strictFake({
        script: (request) => (isGood ? answer(request) : { error: { status: 401, message: 'no such key' } }),
      });
      try {
        const environment = { ANTHROPIC_API_KEY: 'test-key', ANTHROPIC_BASE_URL: fake.url };
        const line = ['run', '--dir', sources, '--data', data, '--json'];
        const refused = await runProgram(line, sources, environment);
        expect(refused.code).toBe(1);
        expect(refused.stderr).toContain('the model refused the credentials');
        expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: 'model_authentication' } });
        isGood = true;
        const again = await runProgram(line, sources, environment);
        expect(again.code, again.stderr).toBe(0);
        const result = JSON.parse(again.stdout) as Result;
        expect(result).toMatchObject({ standing: 'continued', failed: 0 });
        expect(result.index).toContain('Totals: 5 files read of 5');
      } finally {
        await fake.close();
      }
    },
    LONG_MS,
  );
});
