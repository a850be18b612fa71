/** The regression gate: the ratios it takes from a run, and when one of them fails. No time is measured. */
import { describe, expect, test } from 'vitest';
import {
  baselineFor,
  compareRatios,
  failedTwice,
  findingLine,
  GATE_FORMAT,
  type GateBaseline,
  type GateFigure,
  type GateFinding,
  type GateRatio,
  gateRatios,
  incomparable,
  isFailure,
  parseBaselines,
  readBaselines,
  withBaseline,
} from '../../bench/gate.ts';
import type { WorkloadResult } from '../../bench/report/results-file.ts';

const HERE = 'this processor';

const ratio = (
  workload: string,
  system: string,
  value: number,
  figure: GateFigure = 'work',
  reference = 1_000,
): GateRatio => ({
  workload,
  system,
  figure,
  ratio: value,
  reference,
});

const baselineOf = (...ratios: readonly GateRatio[]): GateBaseline => ({
  head: {
    date: '2026-01-01T00:00:00.000Z',
    commit: 'abc',
    node: 'v20',
    flags: ['--a'],
    machine: HERE,
    cores: 2,
    load: 0,
  },
  ratios,
});

const compare = (
  baseline: readonly GateRatio[],
  measured: readonly GateRatio[],
  machine = HERE,
): readonly GateFinding[] => compareRatios(baselineOf(...baseline), machine, measured);

const outcome = (baseline: GateRatio, measured: GateRatio, machine = HERE): string | undefined =>
  compare([baseline], [measured], machine)[0]?.outcome;

describe('the ratios of a run', () => {
  const round = (system: string, ...rates: readonly number[]): WorkloadResult['rounds'][number] => ({
    system,
    round: 0,
    load: 0,
    rows: [{ variant: '', repetitions: rates.map((rate) => ({ rate, cpuUs: 1_000_000 / (2 * rate) })) }],
  });
  const run = (workload: string, ...rounds: WorkloadResult['rounds']): WorkloadResult => ({
    workload,
    title: workload,
    unit: '',
    rounds,
  });

  test('are medians over the median of the kernel, which ran before and after', () => {
    const w2 = run('W2', round('kernel', 90, 100, 500), round('inline', 20, 40, 60), round('kernel', 300, 310, 290));
    expect(gateRatios([w2])).toEqual([
      {
        workload: 'W2',
        system: 'inline',
        figure: 'work',
        ratio: expect.closeTo(80 / 300),
        reference: expect.closeTo(300),
      },
      ratio('W2', 'inline', 0.2, 'rate', 200),
    ]);
  });

  test('are left out if one side was not measured', () => {
    expect(gateRatios([run('W1', round('inline', 5)), run('W3', round('kernel', 5))])).toEqual([]);
  });
});

describe('a ratio', () => {
  test('of work for the processor time passes at half of the baseline and fails below', () => {
    expect(outcome(ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.1))).toBe('held');
    expect(outcome(ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.099))).toBe('fallen');
    expect(outcome(ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.9))).toBe('held');
  });

  test('of a rate passes at a quarter, since other work on the machine and the disk change it', () => {
    expect(outcome(ratio('W2', 'inline', 0.2, 'rate'), ratio('W2', 'inline', 0.05, 'rate'))).toBe('held');
    expect(outcome(ratio('W2', 'inline', 0.2, 'rate'), ratio('W2', 'inline', 0.049, 'rate'))).toBe('fallen');
  });

  test('may be lower on a kind of processor without a baseline', () => {
    expect(outcome(ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.061), 'another')).toBe('held');
    expect(outcome(ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.059), 'another')).toBe('fallen');
  });

  test('fails if the run lacks it', () => {
    for (const other of [
      ratio('W3', 'inline', 0.2),
      ratio('W2', 'isolated', 0.2),
      ratio('W3', 'isolated', 0.2, 'rate'),
    ]) {
      const [finding] = compare([ratio('W3', 'isolated', 0.2)], [other]);
      expect(finding).toMatchObject({ outcome: 'missing', measured: undefined });
      expect(finding === undefined ? false : isFailure(finding)).toBe(true);
    }
  });

  test('is not compared if it is new in the run', () => {
    expect(compare([], [ratio('W2', 'inline', 0.2)])).toEqual([]);
  });

  test('is not compared if it is bound by a disk that is more than twice as fast', () => {
    const baseline = ratio('W1', 'isolated', 0.6, 'rate', 1_000);
    expect(outcome(baseline, ratio('W1', 'isolated', 0.1, 'rate', 2_001))).toBe('another-disk');
    expect(outcome(baseline, ratio('W1', 'isolated', 0.1, 'rate', 2_000))).toBe('fallen');
    expect(outcome(ratio('W1', 'isolated', 0.6), ratio('W1', 'isolated', 0.1, 'work', 9_000))).toBe('fallen');
    expect(outcome(ratio('W2', 'isolated', 0.6, 'rate'), ratio('W2', 'isolated', 0.1, 'rate', 9_000))).toBe('fallen');
  });

  test('fails the gate after two falls in a row; a single fall is chance', () => {
    const baseline = [ratio('W2', 'inline', 0.2), ratio('W2', 'inline', 0.2, 'rate'), ratio('W2', 'isolated', 0.1)];
    const rate = ratio('W2', 'inline', 0.2, 'rate');
    const first = compare(baseline, [ratio('W2', 'inline', 0.05), rate, ratio('W2', 'isolated', 0.1)]);
    const other = compare(baseline, [
      ratio('W2', 'inline', 0.2),
      { ...rate, ratio: 0.01 },
      ratio('W2', 'isolated', 0.01),
    ]);
    const both = compare(baseline, [ratio('W2', 'inline', 0.05), rate, ratio('W2', 'isolated', 0.01)]);
    expect(failedTwice(first, other)).toEqual([]);
    expect(failedTwice(first, both)).toMatchObject([{ system: 'inline', figure: 'work' }]);
    expect(failedTwice(both, compare(baseline, []))).toHaveLength(2);
  });

  test('is reported with its share of the baseline', () => {
    const [finding] = compare([ratio('W2', 'inline', 0.2)], [ratio('W2', 'inline', 0.05)]);
    const line = finding === undefined ? '' : findingLine(finding);
    expect(line).toBe('W2 inline   work  baseline 0.200  now 0.050 x kernel (25 %)  FALLEN below 0.5 of the baseline');
  });
});

describe('the baselines', () => {
  const of = (machine: string, value: number): GateBaseline => {
    const { head, ratios } = baselineOf(ratio('W2', 'inline', value));
    return { head: { ...head, machine }, ratios };
  };
  const both = withBaseline(withBaseline(undefined, of('one', 0.2)), of('two', 0.1));

  test('are read back as written; another format is refused, and a file without any', () => {
    expect(parseBaselines(JSON.stringify(both))).toEqual(both);
    expect(() => parseBaselines(JSON.stringify({ ...both, format: GATE_FORMAT + 1 }))).toThrow();
    expect(() => parseBaselines(JSON.stringify({ ...both, baselines: [] }))).toThrow();
    expect(() => parseBaselines('{}')).toThrow();
  });

  test('are one for each kind of processor; an unknown kind has the lowest', () => {
    expect(baselineFor(both, 'one')).toEqual(of('one', 0.2));
    expect(baselineFor(both, 'two')).toEqual(of('two', 0.1));
    expect(baselineFor(both, 'three')).toEqual(of('two', 0.1));
  });

  test('keep those of other processors when one is measured again', () => {
    const again = withBaseline(both, of('one', 0.05));
    expect(again.baselines).toEqual([of('two', 0.1), of('one', 0.05)]);
    expect(baselineFor(again, 'three')).toEqual(of('one', 0.05));
  });

  test('are refused if they were measured with other flags of Node, since they change the result', () => {
    const parsed = baselineFor(both, 'one');
    expect(incomparable(parsed, ['--a'])).toBeUndefined();
    expect(incomparable(parsed, [])).toContain('`node --a`');
  });

  test('may be missing', () => {
    expect(readBaselines(new URL('./no-such-baseline.json', import.meta.url))).toBeUndefined();
  });
});
