/** A verdict on every target: its measured value, and whether it holds. */
import type { VerdictResult, WorkloadResult } from './results-file.ts';
import { type TargetConditions, targetsOn } from './targets.ts';
import { judge, Measured } from './verdict-rules.ts';

/** Workloads whose targets are ratios of one run, which are valid at any size. */
const ANY_SIZE: ReadonlySet<string> = new Set(['W1', 'W2', 'W3', 'W5', 'W5s', 'threads', 'watched', 'watched-http']);

/** The conditions of a run. */
export interface RunConditions extends TargetConditions {
  /** The sizes are smaller than those of the targets: only ratios get a verdict. */
  readonly isQuick: boolean;
}

/** A verdict on every target; `open` where this run did not measure it. */
export function verdictsOf(
  workloads: readonly WorkloadResult[],
  { isQuick, ...conditions }: RunConditions,
): readonly VerdictResult[] {
  const measured = new Measured(isQuick ? workloads.filter(({ workload }) => ANY_SIZE.has(workload)) : workloads);
  return targetsOn(conditions).map((target) => judge(target, measured));
}
