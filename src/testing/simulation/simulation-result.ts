/** The options and the result of a simulated run. */
import type { FaultKind } from './faults.ts';
import type { Violation } from './ledger.ts';

/** The options of `simulate`. */
export interface SimulationOptions {
  /** A whole number, from which the run follows. */
  readonly seed: number;
  /** The faults to draw. Missing: a subset that the seed chooses. */
  readonly faults?: readonly FaultKind[];
  /**
   * The number of the message between threads that is delayed until nothing else is left to run. Messages are counted
   * from 1 for each close of the runtime.
   */
  readonly heldAtClose?: number;
  /** Takes each line of the trace as it happens. Missing: the last lines are kept for the result. */
  readonly onTrace?: (line: string) => void;
}

/** The result of a run. */
export interface SimulationResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** The last lines of the trace, oldest first. */
  readonly trace: readonly string[];
  /** Virtual milliseconds. */
  readonly simulatedMs: number;
  readonly lives: number;
  readonly tasks: number;
  readonly messages: number;
  readonly modelCalls: number;
  readonly toolRuns: number;
  /** The number of messages between threads during a close, in the life with the most such messages. */
  readonly closeMessages: number;
  /** How often each fault struck. */
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** A digest of the whole trace: equal for equal seeds on any machine. */
  readonly fingerprint: number;
}
