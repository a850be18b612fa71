/** The findings of a run of the loop: its violations, and its figures. */

/**
 * - `lost`: an acknowledged message is not in the log; `duplicated`, `reordered`: it is there twice, or out of its order
 * - `untrue`: an answer that was given to a caller is not in the log
 * - `orphan`: a message that spawns one sub-agent has none, or several
 * - `unfinished`: something runs after everything has ended
 * - `gap`, `digest`, `epoch`: the log itself
 * - `former`: a former owner acknowledged, or left a trace in the log, after another claim
 * - `once`: a tool with the effect `once` began twice, or its result is there without a beginning
 * - `lease`: a call of a tool or the model began after the lease of its node was over
 * - `moved`: sessions moved although no node had failed; `refused`: a message was refused although nothing was lost
 * - `silent`: a log that went back was neither healed nor reported
 * - `stuck`: the loop waited in vain
 */
export type ViolationKind =
  | 'lost'
  | 'duplicated'
  | 'reordered'
  | 'untrue'
  | 'orphan'
  | 'unfinished'
  | 'gap'
  | 'digest'
  | 'epoch'
  | 'former'
  | 'once'
  | 'lease'
  | 'moved'
  | 'refused'
  | 'silent'
  | 'stuck';

/** All kinds, in the order of a report. */
export const VIOLATION_KINDS: readonly ViolationKind[] = [
  ...(['lost', 'duplicated', 'reordered', 'untrue', 'orphan', 'unfinished', 'gap', 'digest', 'epoch'] as const),
  ...(['former', 'once', 'lease', 'moved', 'refused', 'silent', 'stuck'] as const),
];

/** A broken promise. */
export interface Violation {
  readonly kind: ViolationKind;
  readonly what: string;
}

/** Numbers of one run, added up over its clusters. */
export interface Counts {
  kills: number;
  freezes: number;
  blackHoles: number;
  cuts: number;
  lostAnswers: number;
  lateLanded: number;
  lateRefused: number;
  restarts: number;
  stalls: number;
  outages: number;
  setBacks: number;
  healed: number;
  diverged: number;
  /** Messages that a former owner was sent, and refused. */
  formerAsked: number;
  formerRefused: number;
  clusters: number;
  claims: number;
  entries: number;
  bytes: number;
  acknowledged: number;
  answers: number;
  children: number;
  toolRuns: number;
  modelCalls: number;
  onceCalls: number;
  onceUnknown: number;
  /** Calls that were on their way while their node stood still, and began when it continued. */
  thawed: number;
}

/** No numbers yet. */
export function noCounts(): Counts {
  return {
    ...{ kills: 0, freezes: 0, blackHoles: 0, cuts: 0, lostAnswers: 0, lateLanded: 0, lateRefused: 0, restarts: 0 },
    ...{ stalls: 0, outages: 0, setBacks: 0, healed: 0, diverged: 0, formerAsked: 0, formerRefused: 0, clusters: 0 },
    ...{ claims: 0, entries: 0, bytes: 0, acknowledged: 0, answers: 0, children: 0, toolRuns: 0, modelCalls: 0 },
    ...{ onceCalls: 0, onceUnknown: 0, thawed: 0 },
  };
}

/** Milliseconds that were measured, by what they are. */
export interface Times {
  /** From a kill to the claim of the next owner, and to its first commit. */
  readonly claimMs: number[];
  readonly firstCommitMs: number[];
  /** From the moment at which the database answers again to the first append. */
  readonly appendMs: number[];
  /** The longest time for which a message had no answer in each outage. */
  readonly refusalMs: number[];
}

/** The value below which this share of the numbers lies; undefined if there is none. */
export function quantile(numbers: readonly number[], share: number): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}
