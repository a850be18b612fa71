/**
 * Fails the n-th operation of the store, for all n. One run counts a scenario's operations; then there is one run for
 * every operation and every way it can fail. Pairs: a second crash at each operation of the recovery from the first.
 * A sample takes every n-th of these runs.
 */
import { canFail, FAULT_KINDS, type FaultKind, type PlannedFault } from './faults.ts';
import type { Scenario } from './scenario.ts';
import { type RunResult, runStory } from './story-run.ts';

/** One run with a violation. */
export interface SweepFailure {
  readonly scenario: string;
  readonly plan: readonly PlannedFault[];
  readonly result: RunResult;
}

/** The options of a sweep. */
export interface SweepOptions {
  /** Runs each planned run whose number, divided by this, leaves no rest. 1 or nothing: all. */
  readonly every?: number;
  /** Sweeps only the pairs whose first crash is at each n-th operation. 1 or nothing: at each. */
  readonly pairsEvery?: number;
  /** Runs a story. A parameter, so that a test of the sweep can break it. */
  readonly run?: typeof runStory;
}

/** The result of a sweep. */
export interface SweepReport {
  /** Operations of the run without faults. */
  readonly operations: number;
  /** Runs with one fault, and with two, that were made. */
  readonly points: number;
  readonly pairs: number;
  readonly failures: readonly SweepFailure[];
}

/** Runs that may fail before a sweep gives up: the first ones show the cause. */
const FAILURES_MAX = 3;
/** Ways to crash. Each pair takes two of them in turn. */
const CRASHES: readonly FaultKind[] = ['before', 'torn', 'after'];

/** Sweeps one scenario. */
export async function sweep(scenario: Scenario, options: SweepOptions = {}): Promise<SweepReport> {
  const { every = 1, pairsEvery = 1, run = runStory } = options;
  const failures: SweepFailure[] = [];
  const attempt = async (plan: readonly PlannedFault[]): Promise<RunResult> => {
    const result = await run(scenario, { plan });
    const missed = result.struck.length < plan.length && result.violations.length === 0;
    if (missed) failures.push({ scenario: scenario.name, plan, result: unreached(result) });
    if (result.violations.length > 0) failures.push({ scenario: scenario.name, plan, result });
    return result;
  };
  const whole = await attempt([]);
  const operations = whole.operations.length;
  let points = 0;
  let pairs = 0;
  let planned = 0;
  const isChosen = (): boolean => planned++ % every === 0;
  for (let at = 1; at <= operations && failures.length < FAILURES_MAX; at += 1) {
    const operation = whole.operations[at - 1] ?? 'write';
    for (const kind of FAULT_KINDS) {
      if (!canFail(operation, kind) || !isChosen()) continue;
      points += 1;
      await attempt([{ kind, at }]);
    }
  }
  if (scenario.pairs === true) {
    // The count begins again, so that each sample has a pair.
    planned = 0;
    for (let at = 1; at <= operations && failures.length < FAILURES_MAX; at += pairsEvery) {
      const first = { kind: crashOf(whole.operations[at - 1] ?? 'write', at), at };
      const recovery = (await run(scenario, { plan: [first] })).operations;
      for (let next = at + 1; next <= recovery.length && failures.length < FAILURES_MAX; next += 1) {
        if (!isChosen()) continue;
        pairs += 1;
        await attempt([first, { kind: crashOf(recovery[next - 1] ?? 'write', at + next), at: next }]);
      }
    }
  }
  return { operations, points, pairs, failures };
}

function crashOf(operation: RunResult['operations'][number], turn: number): FaultKind {
  const kind = CRASHES[turn % CRASHES.length] ?? 'before';
  return canFail(operation, kind) ? kind : 'before';
}

/** Reports a planned fault that was never reached: such a sweep tests less than it says. */
function unreached(result: RunResult): RunResult {
  return { ...result, violations: [{ kind: 'stuck', what: 'a planned fault was never reached' }] };
}

/** A failure as text for a person: the violation, how to repeat it, and the events of the run. */
export function describeFailure({ scenario, plan, result }: SweepFailure): string {
  const faults = plan.map(({ kind, at }) => `${kind} at operation ${at}`).join(', then ') || 'no fault';
  return [
    `${scenario}: ${faults}`,
    ...result.violations.map(({ kind, what }) => `  ${kind}: ${what}`),
    `  again: node --import ./test/loader/register.mjs test/sweep/replay.ts ${[scenario, ...plan.flatMap(({ kind, at }) => [kind, at])].join(' ')}`,
    ...result.trace.map((line) => `    ${line}`),
  ].join('\n');
}
