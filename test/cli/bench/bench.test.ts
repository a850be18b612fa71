/** `troupe bench` as a user runs it, shortened. No figure has a limit: a slow machine is not a failure. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agentsOf, type BenchReport, benchJson, benchText } from '../../../src/cli/bench/report.ts';
import { sessionsFor } from '../../../src/cli/bench/workloads.ts';
import { paintFor } from '../../../src/cli/surroundings.ts';
import { emptyDirectory, runProgram, startProgram } from '../support/program.ts';
import { command, keptOutput } from '../support/surroundings.ts';

const LONG_MS = 120_000;
const COLUMNS = 80;

const REPORT: BenchReport = {
  directory: '/data',
  seconds: 15,
  node: 'v20.20.0',
  machine: 'a processor',
  cores: 2,
  load: 0.5,
  sessions: 1_000,
  disk: { flushMs: 0.21, isMemory: false },
  isolated: { oneSession: 812.4, manySessions: 41_234, oneFamily: 9_876, receiptMs: 0.55 },
  inline: { oneSession: 1_234, manySessions: 61_234, oneFamily: 19_876, receiptMs: 0.35 },
  callsPerMinute: 6,
};
const PLAIN = paintFor(keptOutput(), {});

describe('the program', () => {
  test(
    'measures, explains the figures, and leaves nothing behind',
    async () => {
      const place = await emptyDirectory();
      const { code, stdout, stderr } = await runProgram(['bench', '--seconds', '1', '--directory', place], place);
      expect(code, stderr).toBe(0);
      expect(stdout).toMatch(/This machine drains about [\d,]+ half-steps\/s: about [\d,]+ concurrent agents/);
      expect(stdout).not.toContain('\u001b');
      expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(COLUMNS);
      expect(await readdir(place)).toEqual([]);
    },
    LONG_MS,
  );

  test(
    'prints one JSON object to stdout, and its progress to stderr',
    async () => {
      const place = await emptyDirectory();
      const line = ['bench', '--seconds', '1', '--directory', place, '--calls-per-minute', '60', '--json'];
      const { code, stdout, stderr } = await runProgram(line, place);
      expect(code, stderr).toBe(0);
      expect(stderr).toContain('Measuring');
      const found: unknown = JSON.parse(stdout);
      const figures = Object.fromEntries(
        ['oneSession', 'manySessions', 'oneFamily', 'receiptMs'].map((name) => [name, expect.any(Number)]),
      );
      expect(found).toMatchObject({
        isolated: figures,
        inline: figures,
        callsPerMinute: 60,
        seconds: 1,
        sessions: 100,
      });
      expect(found).toMatchObject({ flushMs: expect.any(Number), agents: expect.any(Number) });
    },
    LONG_MS,
  );

  test(
    'a run stopped by a signal removes its files',
    async () => {
      const place = await emptyDirectory();
      const program = startProgram(['bench', '--seconds', '600', '--directory', place], place);
      await program.wrote('Measuring');
      program.process.kill('SIGINT');
      expect(await program.ended).toMatchObject({ code: 130, signal: null });
      expect(await readdir(place)).toEqual([]);
    },
    LONG_MS,
  );
});

describe('arguments', () => {
  test('an invalid directory and impossible numbers are named', async () => {
    const place = await emptyDirectory();
    const missing = await command(['bench', '--directory', join(place, 'none')], place);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('--directory') });
    const calls = await command(['bench', '--calls-per-minute', '0'], place);
    expect(calls).toMatchObject({ code: 2, stderr: expect.stringContaining('--calls-per-minute') });
  });

  test('the help names every option', async () => {
    const { code, stdout } = await command(['bench', '--help'], '/');
    expect(code).toBe(0);
    for (const option of ['--seconds N', '--directory DIR', '--calls-per-minute M', '--json']) {
      expect(stdout).toContain(option);
    }
  });
});

describe('the report', () => {
  test('agents are the half-steps of a minute divided by the calls of each agent', () => {
    expect(agentsOf(41_234, 6)).toBe(412_340);
    expect(benchText(REPORT, PLAIN)).toContain(
      'This machine drains about 41,000 half-steps/s: about 410,000 concurrent agents',
    );
    expect(benchJson(REPORT)).toMatchObject({ halfStepsPerSecond: 41_234, agents: 412_340, flushMs: 0.21 });
  });

  test('the table says how many sessions and children there were', () => {
    const text = benchText({ ...REPORT, sessions: 300 }, PLAIN);
    expect(text).toContain('300 sessions at once');
    expect(text).toContain('one parent, 300 children');
  });

  test('fewer than ten seconds measure fewer sessions', () => {
    expect([1, 9, 10, 3_600].map(sessionsFor)).toEqual([100, 900, 1_000, 1_000]);
  });

  test('other work on the machine is reported', () => {
    expect(benchText({ ...REPORT, load: 1.5 }, PLAIN)).toContain('busy with other work (load 1.5 on 2 cores)');
    expect(benchText(REPORT, PLAIN)).not.toContain('busy');
  });

  test('a directory in memory is reported as no disk', () => {
    const text = benchText({ ...REPORT, disk: { flushMs: 0.002, isMemory: true } }, PLAIN);
    expect(text).toContain('This directory is in memory');
    expect(benchText(REPORT, PLAIN)).not.toContain('in memory');
  });
});
