/** Measurements compared with the targets: medians, ratios, tables, and the file that keeps them. */
import { describe, expect, test } from 'vitest';
import { figure, seriesOf } from '../../bench/report/columns.ts';
import { reportOf, tableOf } from '../../bench/report/report.ts';
import {
  parseResults,
  parseRows,
  RESULTS_FORMAT,
  type ResultsFile,
  type WorkloadResult,
} from '../../bench/report/results-file.ts';
import { verdictsOf } from '../../bench/report/verdicts.ts';

const rates = (system: string, round: number, ...values: readonly number[]): WorkloadResult['rounds'][number] => ({
  system,
  round,
  load: 0.5,
  rows: [{ variant: '', repetitions: values.map((rate) => ({ rate })) }],
});

const W2: WorkloadResult = {
  workload: 'W2',
  title: 'W2',
  unit: 'half-steps/s',
  rounds: [
    rates('inline', 0, 30_000, 50_000, 40_000),
    rates('loop', 0, 4_000),
    rates('inline', 1, 60_000),
    rates('loop', 1, 4_000),
    rates('inline', 2, 20_000),
    rates('loop', 2, 4_000),
  ],
};

const FULL = { cores: 2, isQuick: false };

const outcomes = (
  workloads: readonly WorkloadResult[],
  id: string,
  cores = 2,
): readonly (readonly [string, string])[] =>
  verdictsOf(workloads, { cores, isQuick: false })
    .filter((verdict) => verdict.id === id)
    .map(({ target, outcome }) => [target, outcome]);

describe('series', () => {
  test('a figure is the median over rounds of the median over repetitions', () => {
    const [inline] = seriesOf(W2);
    expect(inline?.system).toBe('inline');
    expect(inline === undefined ? 0 : figure(inline, 'rate')).toBe(40_000);
    expect(inline === undefined ? 0 : figure(inline, 'cpuUs')).toBeUndefined();
  });
});

describe('verdicts', () => {
  test('a ratio at its bound passes and is reported with its distance to the bound', () => {
    const found = verdictsOf([W2], FULL).find(({ target }) => target === 'W2 inline >= 10 x loop');
    expect(found).toMatchObject({ id: 'P1', outcome: 'holds', measured: '10.0 x', distance: 1 });
  });

  test('a target without a measurement is open, not passed', () => {
    expect(outcomes([W2], 'P1')).toEqual([
      ['W2 inline >= 10 x loop', 'holds'],
      ['W2 inline >= 0.2 x kernel', 'open'],
      ['W2 isolated >= 5 x loop', 'open'],
    ]);
    expect(new Set(outcomes([], 'P8').map(([, outcome]) => outcome))).toEqual(new Set(['open']));
  });

  test('sizes below those of the target give no verdict; ratios do', () => {
    const w8: WorkloadResult = {
      workload: 'W8',
      title: 'W8',
      unit: 'ms',
      rounds: [{ system: 'inline', round: 0, load: 0, rows: [{ variant: '', repetitions: [{ drainedMs: 1 }] }] }],
    };
    const found = verdictsOf([W2, w8], { cores: 2, isQuick: true }).filter(({ outcome }) => outcome !== 'open');
    expect(found.map(({ id }) => id)).toEqual(['P1']);
  });

  test('every target has a verdict', () => {
    const ids = new Set(verdictsOf([], FULL).map(({ id }) => id));
    expect([...ids]).toEqual(['P1', 'P2', 'P3', 'P4', 'P5', 'P7', 'P8', 'P9', 'P10', 'P11', 'P13']);
  });

  test('a steer missing from the next request fails its target, however fast the other steers were', () => {
    const row = (steersMissed: number) => ({
      variant: 'quiet',
      repetitions: [{ steerP99: 1, steersMissed }],
    });
    const w7 = (missed: number): WorkloadResult => ({
      workload: 'W7',
      title: 'W7',
      unit: '',
      rounds: [{ system: 'isolated', round: 0, load: 0, rows: [row(missed)] }],
    });
    const quiet = (missed: number): string | undefined =>
      outcomes([w7(missed)], 'P7').find(([target]) => target.includes('quiet'))?.[1];
    expect(quiet(0)).toBe('holds');
    expect(quiet(1)).toBe('fails');
  });

  test('a reader is compared with the processor time without one, and the verdict says how far processes differ', () => {
    const row = (variant: string, cpuUs: number) => ({ variant, repetitions: [{ cpuUs }] });
    const watched = (workload: string, ...ratios: readonly number[]): WorkloadResult => ({
      workload,
      title: 'watched',
      unit: '',
      rounds: ratios.map((ratio, round) => ({
        system: 'inline',
        round,
        load: 0,
        rows: [
          row('no reader', 100 + round),
          row('basic view of one session', ratio * (100 + round)),
          row('basic view of all sessions', ratio * (100 + round)),
        ],
      })),
    });
    const found = verdictsOf([watched('watched', 1.3, 1.01, 1), watched('watched-http', 1.03)], FULL).filter(
      ({ id, outcome }) => id === 'P10' && outcome !== 'open',
    );
    expect(found.map(({ target, measured, outcome }) => [target.slice(0, 36), measured, outcome])).toEqual([
      ['W2 inline: basic view of one session', '1.010 x (without: 100 to 102 us)', 'holds'],
      ['W5 inline: basic view of all session', '1.030 x (without: 100 to 100 us)', 'fails'],
    ]);
    expect(tableOf('watched', watched('watched', 1.25))[3]).toContain('1.250');
  });

  test('two session threads must be faster on four cores, and only not slower on two', () => {
    const row = (variant: string, rate: number) => ({ variant, repetitions: [{ rate }] });
    const threads: WorkloadResult = {
      workload: 'threads',
      title: '',
      unit: '',
      rounds: [
        {
          system: 'isolated',
          round: 0,
          load: 0,
          rows: [row('1 session thread', 10_000), row('2 session threads', 12_000)],
        },
      ],
    };
    expect(outcomes([threads], 'P11', 2)[0]?.[1]).toBe('holds');
    expect(outcomes([threads], 'P11', 4)[0]?.[1]).toBe('fails');
  });
});

describe('report', () => {
  const file: ResultsFile = {
    format: RESULTS_FORMAT,
    head: {
      date: '2026-11-21T00:00:00.000Z',
      commit: 'abc',
      node: 'v20.20.2',
      flags: ['--expose-gc'],
      machine: 'a machine',
      cores: 2,
      memoryGib: 24,
      load: 0.1,
      syncMs: 0.3126,
      durability: 'flush',
      transport: 'none',
      seed: 1,
      command: 'npm run bench',
      notes: [],
    },
    workloads: [W2],
    verdicts: verdictsOf([W2], FULL),
  };

  test('a row has median, extremes and ratios', () => {
    const lines = tableOf('W2', W2);
    expect(lines).toHaveLength(4);
    expect(lines[2]).toContain('40,000 (20,000 to 60,000)');
    expect(lines[2]).toContain('10.00');
  });

  test('cold figures are shown beside warm ones and change none of them', () => {
    const process = (system: string, round: number, cold: readonly number[], warm: number) => ({
      system,
      round,
      load: 0,
      rows: [{ variant: '', cold: cold.map((rate) => ({ rate })), repetitions: [{ rate: warm }] }],
    });
    const rounds = [
      process('inline', 0, [1_000, 3_000], 40_000),
      process('loop', 0, [2_000, 4_000], 4_000),
      process('inline', 1, [2_000, 6_000], 40_000),
      process('loop', 1, [2_000, 4_000], 4_000),
      process('inline', 2, [9_000, 9_000], 40_000),
      process('loop', 2, [2_000, 4_000], 4_000),
    ];
    const [header, , inline] = tableOf('W2', { ...W2, rounds });
    expect(header).toContain('half-steps/s cold / second');
    expect(inline).toContain(' 2,000 / 6,000 |');
    expect(inline).toContain(' 1.00 / 1.50 |');
    expect(inline).toContain('40,000 (40,000 to 40,000)');
    expect(tableOf('W2', W2)[2]).not.toContain(' / ');
  });

  test('the report has a head, targets and tables', () => {
    const text = reportOf(file);
    expect(text).toContain('commit: abc; Node v20.20.2 --expose-gc');
    expect(text).toContain('device: 0.313 ms for an append of 4 KiB and its fdatasync (median)');
    expect(text).toContain('| P1 ');
    expect(text).toContain('## W2');
  });

  test('the file is read back as written; another format is refused', () => {
    expect(parseResults(JSON.stringify(file))).toEqual(JSON.parse(JSON.stringify(file)));
    expect(() => parseResults(JSON.stringify({ ...file, format: RESULTS_FORMAT + 1 }))).toThrow();
    const rows = [{ variant: '', cold: [{ rate: 1 }], repetitions: [{ rate: 2 }] }];
    expect(parseRows(JSON.stringify(rows))).toEqual(rows);
    expect(() => parseRows('[{"variant":"","repetitions":[{"rate":null}]}]')).toThrow();
  });
});
