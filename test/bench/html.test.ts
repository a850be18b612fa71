/**
 * The page of a run has a drawing for all data, a sentence for missing data, and nothing that a browser must load.
 */
import { describe, expect, test } from 'vitest';
import { spansOf } from '../../bench/html/fan-out-run.ts';
import { pageOf } from '../../bench/html/page.ts';
import { closeLogDomain, logDomain, logTicks, spreadLabels } from '../../bench/html/scales.ts';
import {
  RESULTS_FORMAT,
  type ResultsFile,
  type RoundResult,
  type WorkloadResult,
} from '../../bench/report/results-file.ts';
import type { SessionEvent } from '../../src/index.ts';

const MISSING = 'not measured in this run</p>';
const PANELS = 11;
const BYTES_MAX = 1_000_000;

type Rows = Readonly<Record<string, Readonly<Record<string, number>>>>;

const round = (system: string, rows: Rows): RoundResult => ({
  system,
  round: 0,
  load: 0,
  rows: Object.entries(rows).map(([variant, figures]) => ({ variant, repetitions: [figures, figures] })),
});

const withCold = (process: RoundResult, ...cold: readonly Readonly<Record<string, number>>[]): RoundResult => ({
  ...process,
  rows: process.rows.map((each) => ({ ...each, cold })),
});

const workload = (name: string, ...rounds: readonly RoundResult[]): WorkloadResult => ({
  workload: name,
  title: `${name}: a title`,
  unit: 'things/s',
  rounds,
});

const EMPTY: ResultsFile = {
  format: RESULTS_FORMAT,
  head: {
    date: '2026-01-01T00:00:00.000Z',
    commit: 'abc1234',
    node: 'v20.20.0',
    flags: ['--expose-gc'],
    machine: 'a <fast> processor & co',
    cores: 2,
    memoryGib: 8,
    load: 0.1,
    syncMs: 0.3126,
    durability: 'flush',
    transport: 'none',
    seed: 1,
    command: 'npm run bench',
    notes: ['quick: smaller'],
  },
  workloads: [],
  verdicts: [{ id: 'P1', target: 'W2 inline >= 10 x loop', measured: '12.0 x', outcome: 'holds', distance: 1.2 }],
};

const turn = { p50: 1, p99: 4 };
const FULL: ResultsFile = {
  ...EMPTY,
  workloads: [
    ...['W1', 'W2', 'W3'].map((name) =>
      workload(
        name,
        withCold(round('inline', { '': { rate: 30_000, ...turn } }), { rate: 5_432 }),
        round('isolated', { '': { rate: 20_000, ...turn } }),
        round('loop', { '': { rate: 1_000, ...turn } }),
        round('kernel', { '': { rate: 100_000, ...turn } }),
      ),
    ),
    workload('W7', round('isolated', { quiet: { receiptP50: 0.5, receiptP99: 2 } })),
    workload('W9', round('inline', { 'half-step': { earlyUs: 400, lateUs: 420 } })),
    workload(
      'W10',
      round('isolated', {
        '100 streams, no reader': { cpuUs: 20 },
        '100 streams, a reader of everything': { cpuUs: 25, readerP99: 18 },
      }),
    ),
    workload('concurrency', round('inline', { '1 in flight': row(1), '1,000 in flight': row(9), staggered: row(3) })),
    workload('store-size', round('inline', { '10 sessions': row(1), '100,000 sessions': row(2) })),
  ],
  fanOut: {
    children: 2,
    liveSessions: 1,
    modelMs: [80, 240],
    toolMs: [10, 40],
    spans: [
      { child: 1, state: 'model', fromMs: 0, toMs: 100 },
      { child: 2, state: 'queued', fromMs: 0, toMs: 100 },
      { child: 2, state: 'tool', fromMs: 100, toMs: 130 },
    ],
  },
};

function row(factor: number): Readonly<Record<string, number>> {
  return { rate: 1_000 * factor, cpuUs: 90, rssMb: 100 * factor, p50: factor };
}

/** The same run without the repetitions before the warm-up. */
const WARM: ResultsFile = {
  ...FULL,
  workloads: FULL.workloads.map((each) => ({
    ...each,
    rounds: each.rounds.map((process) => ({
      ...process,
      rows: process.rows.map(({ variant, repetitions }) => ({ variant, repetitions })),
    })),
  })),
};

const count = (text: string, word: string): number => text.split(word).length - 1;

describe('the page', () => {
  test('of a run without measurements says so in every panel, and has a head and verdicts', () => {
    const page = pageOf(EMPTY);
    expect(count(page, MISSING)).toBe(PANELS);
    expect(page).not.toContain('<svg');
    for (const text of [
      'abc1234',
      'v20.20.0',
      'W2 inline &gt;= 10 x loop',
      'class="holds"',
      'quick: smaller',
      'v20.20.0 --expose-gc',
      '0.313 ms',
    ]) {
      expect(page).toContain(text);
    }
  });

  test('of a full run draws every panel, for wide and narrow windows', () => {
    const page = pageOf(FULL);
    expect(count(page, MISSING)).toBe(0);
    // Three drawings of W1 to W3 and ten other panels, each twice.
    expect(count(page, '<svg')).toBe(2 * (3 + PANELS - 1));
    for (const axis of [
      'sessions in flight',
      'streams at once',
      'us a half-step',
      'us an event',
      'RSS, MiB',
      'ms since the spawn',
      'log scale',
    ]) {
      expect(page).toContain(axis);
    }
    // Each of W1 to W3 has one ring and one word in each width. Systems without a cold repetition have no ring.
    expect(count(page, ', cold 5,432')).toBe(2 * 3);
    expect(count(page, '<circle')).toBe(count(pageOf(WARM), '<circle') + 2 * 3);
    expect(page).not.toContain('NaN');
    expect(Buffer.byteLength(page)).toBeLessThan(BYTES_MAX);
  });

  test('loads nothing and runs nothing', () => {
    const page = pageOf(FULL);
    expect(page).not.toMatch(/<script|<link|<img|@import|url\(["']?http|(?:src|href)="/);
  });

  test('is HTML whatever the name of the machine', () => {
    expect(pageOf(EMPTY)).toContain('a &lt;fast&gt; processor &amp; co');
    expect(pageOf(EMPTY)).not.toContain('<fast>');
  });
});

describe('axes', () => {
  test('a logarithmic domain starts at a round number and holds all values', () => {
    expect(logDomain([300, 40_000])[0]).toBe(100);
    expect(closeLogDomain([300, 40_000])[0]).toBe(200);
    expect(closeLogDomain([100, 40_000])[0]).toBe(100);
    expect(logTicks([100, 2_500])).toEqual([100, 200, 500, 1_000, 2_000]);
    expect(logTicks([1, 100_000])).toEqual([1, 10, 100, 1_000, 10_000, 100_000]);
  });

  test('labels keep their order and their distance, and stay on the axis', () => {
    const axis = { domain: [0, 100], isLog: false, length: 100 } as const;
    expect(spreadLabels([10, 90], axis)).toEqual([10, 90]);
    const places = spreadLabels([99, 100, 98], axis);
    expect(places.map((place) => Math.round(place))).toEqual([87, 100, 74]);
  });
});

describe('a fan-out', () => {
  const state = (session: string, at: number, name: 'idle' | 'awaiting' | 'executing'): SessionEvent => ({
    session,
    at,
    type: 'session.state',
    state: name,
  });

  test('is drawn from events: queued from its birth, then by its states', () => {
    const events: readonly SessionEvent[] = [
      { session: 'warm-up', at: 900, type: 'child.spawned', child: 'warm-up:1' },
      { session: 'parent', at: 1_000, type: 'child.spawned', child: 'parent:1' },
      state('parent:1', 1_040, 'awaiting'),
      state('parent:1', 1_100, 'executing'),
      state('parent:1', 1_120, 'awaiting'),
      state('parent:1', 1_200, 'idle'),
      state('parent', 1_201, 'awaiting'),
    ];
    expect(spansOf(events)).toEqual([
      { child: 1, state: 'queued', fromMs: 0, toMs: 40 },
      { child: 1, state: 'model', fromMs: 40, toMs: 100 },
      { child: 1, state: 'tool', fromMs: 100, toMs: 120 },
      { child: 1, state: 'model', fromMs: 120, toMs: 200 },
    ]);
  });

  test('with a gap in its events is not drawn', () => {
    expect(() => spansOf([{ session: 'parent', at: 1, type: 'gap', from: 1, to: 2 }])).toThrow('missed');
  });
});
