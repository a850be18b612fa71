/** Measurements compared with the targets: medians, ratios, tables, and the file that keeps them. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CATALOG } from '../../bench/catalog.ts';
import { figure, seriesOf } from '../../bench/report/columns.ts';
import { reportOf, tableOf } from '../../bench/report/report.ts';
import {
  parseResults,
  parseRows,
  RESULTS_FORMAT,
  type ResultsFile,
  type WorkloadResult,
} from '../../bench/report/results-file.ts';
import { targetsOn } from '../../bench/report/targets.ts';
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

const SLOW_MS = 0.3;
const FAST_MS = 0.03;
const FULL = { cores: 2, syncMs: SLOW_MS, isQuick: false };

const outcomes = (
  workloads: readonly WorkloadResult[],
  id: string,
  conditions: Partial<typeof FULL> = {},
): readonly (readonly [string, string])[] =>
  verdictsOf(workloads, { ...FULL, ...conditions })
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
    const found = verdictsOf([W2], FULL).find(({ target }) => target === 'W2 inline >= 10 x loop (slow device)');
    expect(found).toMatchObject({ id: 'P1', outcome: 'holds', measured: '10.0 x', distance: 1 });
  });

  test('a target without a measurement is open, not passed', () => {
    expect(outcomes([W2], 'P1')).toEqual([
      ['W2 inline >= 0.2 x kernel', 'open'],
      ['W2 isolated >= 0.14 x kernel', 'open'],
      ['W2 inline >= 10 x loop (slow device)', 'holds'],
      ['W2 isolated >= 5 x loop (slow device)', 'open'],
      ["W2 inline: processor time of a half-step <= 0.75 x the loop's", 'open'],
      ["W2 isolated: processor time of a half-step <= 1.4 x the loop's", 'open'],
    ]);
    expect(new Set(verdictsOf([], FULL).map(({ outcome }) => outcome))).toEqual(new Set(['open']));
  });

  test('an open verdict has the command that measures the target, or says that there is none', () => {
    const measured = (id: string): ReadonlySet<string> =>
      new Set(verdictsOf([], FULL).flatMap((verdict) => (verdict.id === id ? [verdict.measured] : [])));
    expect(measured('P8')).toEqual(new Set(['not in this run: `npm run bench -- --only W8`']));
    expect(measured('P15')).toEqual(new Set(['not in this run: `npm run bench -- --only W13`']));
    expect(measured('P10')).toContain('no command measures it yet');
  });

  test('the bounds beside the loop are those of the nearer device; an unknown device gives no verdict', () => {
    const beside = (syncMs: number | undefined): readonly string[] =>
      verdictsOf([W2], { ...FULL, syncMs }).flatMap(({ target, outcome }) =>
        /[\d.] x loop/u.test(target) && /W2 i|W3/u.test(target) ? [`${target}: ${outcome}`] : [],
      );
    expect(beside(FAST_MS)).toEqual([
      'W2 inline >= 3 x loop (fast device): holds',
      'W2 isolated >= 2.2 x loop (fast device): open',
      'W3 isolated >= 2.2 x loop (fast device): open',
    ]);
    expect(beside(0.09)).toEqual(beside(FAST_MS));
    expect(beside(0.1)).toEqual(beside(SLOW_MS));
    expect(beside(undefined)).toEqual([
      'W2 inline >= 10 x loop on a slow device, 3 x on a fast one: open',
      'W2 isolated >= 5 x loop on a slow device, 2.2 x on a fast one: open',
      'W3 isolated >= 5 x loop on a slow device, 2.2 x on a fast one: open',
    ]);
  });

  test('sizes are judged in the unit of the target', () => {
    const one = (name: string, system: string, variant: string, figures: Readonly<Record<string, number>>) => ({
      workload: name,
      title: '',
      unit: '',
      rounds: [0, 1, 2].map((round) => ({ system, round, load: 0, rows: [{ variant, repetitions: [figures] }] })),
    });
    // 953.67 MiB are 10^9 bytes, and 0.293 KiB are 300.
    const measured = (rssMb: number, sessionKib: number): readonly string[] =>
      verdictsOf(
        [
          one('W6', 'inline', '', { rssMb, wallMs: 30_000 }),
          one('W4', 'inline', 'memory', { sessionKib }),
          one('W9', 'inline', 'disk', { diskRatio: 1.2 }),
        ],
        FULL,
      ).flatMap(({ outcome, measured: text }) => (outcome === 'open' ? [] : [`${text} ${outcome}`]));
    expect(measured(953, 0.29)).toEqual(['30.0 s holds', '1.00 GB holds', '0.30 kB holds', '1.20 x fails']);
    expect(measured(954, 0.3)).toEqual(['30.0 s holds', '1.00 GB fails', '0.31 kB fails', '1.20 x fails']);
  });

  test('a verdict on fewer repetitions than a target wants says so', () => {
    const few = (count: number): string | undefined =>
      verdictsOf(
        [{ ...W2, rounds: [rates('inline', 0, ...Array<number>(count).fill(20)), rates('kernel', 0, 100, 100, 100)] }],
        FULL,
      ).find(({ outcome }) => outcome !== 'open')?.measured;
    expect(few(1)).toBe('0.20 x (only 1 repetition)');
    expect(few(2)).toBe('0.20 x (only 2 repetitions)');
    expect(few(3)).toBe('0.20 x');
  });

  test('sizes below those of the target give no verdict; ratios do', () => {
    const w8: WorkloadResult = {
      workload: 'W8',
      title: 'W8',
      unit: 'ms',
      rounds: [{ system: 'inline', round: 0, load: 0, rows: [{ variant: '', repetitions: [{ drainedMs: 1 }] }] }],
    };
    const found = verdictsOf([W2, w8], { ...FULL, isQuick: true }).filter(({ outcome }) => outcome !== 'open');
    expect(found.map(({ id }) => id)).toEqual(['P1']);
  });

  test('every target has a verdict', () => {
    const ids = new Set(verdictsOf([], FULL).map(({ id }) => id));
    const numbers = [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    expect([...ids]).toEqual([...numbers.map((number) => `P${number}`), 'I1', 'I2', 'I3', 'I4', 'I5']);
  });

  test('the text of a target has the bound that decides', () => {
    for (const syncMs of [SLOW_MS, FAST_MS]) {
      for (const { target, figure: measured, least, most } of targetsOn({ cores: 2, syncMs })) {
        const bounds = [
          ...(least === undefined ? [] : [`>= ${least.toLocaleString('en-US')}`]),
          ...(most === undefined ? [] : [`<= ${most.toLocaleString('en-US')}`]),
        ];
        expect(bounds).toHaveLength(measured === undefined ? 0 : 1);
        for (const bound of bounds) expect(`${target} `).toContain(`${bound} `);
      }
    }
  });

  test('README.md has one line for each command, and names the targets that nothing measures', () => {
    const readme = readFileSync(new URL('../../bench/README.md', import.meta.url), 'utf8');
    const rows = [...readme.matchAll(/^\| ([PI]\d+) .*\| (?:`([^`]+)`|(none yet)) +\|$/gmu)];
    const listed = rows.map(([, id, command, none]) => `${id}: ${command ?? none}`);
    const wanted = new Set(targetsOn(FULL).map(({ id, command }) => `${id}: ${command ?? 'none yet'}`));
    expect(listed.toSorted()).toEqual([...wanted].sort());
    for (const [, , command] of rows) {
      const workload = /--only (\S+)/u.exec(command ?? '')?.[1];
      if (workload !== undefined) expect(Object.keys(CATALOG)).toContain(workload);
    }
  });

  test('a steer missing from the next request fails its target, however fast the other steers were', () => {
    const row = (steersMissed: number) => ({
      variant: 'full drain',
      repetitions: [{ steerP99: 1, steersMissed }],
    });
    const w7 = (missed: number): WorkloadResult => ({
      workload: 'W7',
      title: 'W7',
      unit: '',
      rounds: [{ system: 'isolated', round: 0, load: 0, rows: [row(missed)] }],
    });
    const steer = (missed: number): string | undefined =>
      outcomes([w7(missed)], 'P7').find(([target]) => target.includes('steer'))?.[1];
    expect(steer(0)).toBe('holds');
    expect(steer(1)).toBe('fails');
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
    const found = verdictsOf(
      [watched('watched', 1.3, 1.01, 1), watched('watched-http', 1.03, 1.03, 1.03)],
      FULL,
    ).filter(({ id, outcome }) => id === 'P10' && outcome !== 'open');
    expect(found.map(({ target, measured, outcome }) => [target.slice(0, 36), measured, outcome])).toEqual([
      ['W2 inline: basic view of one session', '1.010 x (without: 100 to 102 us)', 'holds'],
      ['W5s inline: basic view of all sessio', '1.030 x (without: 100 to 102 us)', 'fails'],
    ]);
    expect(tableOf('watched', watched('watched', 1.25))[3]).toContain('1.250');
  });

  test('two session threads must be faster on four cores, only not slower on two, and have no target on one', () => {
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
    expect(outcomes([threads], 'P11', { cores: 2 })[0]?.[1]).toBe('holds');
    expect(outcomes([threads], 'P11', { cores: 4 })[0]?.[1]).toBe('fails');
    expect(outcomes([threads], 'P11', { cores: 1 })[0]?.[1]).toBe('open');
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
