/** The figures at the top of the page, which most readers want first. */
import { show, showKib } from '../report/columns.ts';
import type { ResultsFile } from '../report/results-file.ts';
import { Measured } from '../report/verdict-rules.ts';

/** One figure and what it is. */
export interface Tile {
  readonly figure: string;
  readonly unit: string;
  readonly what: string;
}

/** The tiles that this run measured. */
export function tilesOf({ workloads, verdicts }: ResultsFile): readonly Tile[] {
  const measured = new Measured(workloads);
  const tile = (value: number | undefined, unit: string, what: string): readonly Tile[] =>
    value === undefined ? [] : [{ figure: show(value), unit, what }];
  const [isolated, loop] = ['isolated', 'loop'].map((system) => ({ workload: 'W2', system }));
  const quiet = { workload: 'W7', system: 'isolated', variant: 'quiet' };
  const idle = measured.figure({ workload: 'W4', system: 'inline', variant: 'memory' }, 'sessionKib');
  const count = (outcome: string): number => verdicts.filter((verdict) => verdict.outcome === outcome).length;
  return [
    ...(isolated === undefined || loop === undefined
      ? []
      : [
          ...tile(measured.figure(isolated), 'half-steps/s', 'W2, troupe with its defaults: 1,000 sessions at once'),
          ...tile(measured.ratio(isolated, loop), 'x', 'the same, beside a hand-written durable loop'),
        ]),
    ...tile(
      measured.figure(quiet, 'receiptP50'),
      'ms',
      'from send to durable receipt, median, while nothing else runs',
    ),
    ...(idle === undefined ? [] : [{ figure: showKib(idle), unit: 'KiB', what: 'memory of an idle session' }]),
    {
      figure: String(count('holds')),
      unit: `of ${count('holds') + count('fails')}`,
      what: `measured targets hold; ${count('open')} were not measured in this run`,
    },
  ];
}
