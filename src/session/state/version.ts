/**
 * The versions of agents: what a turn's record says about its agent, and what a move to another version needs. Plain
 * data.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { EditRequest } from './edit-request.ts';

/** The facts about the version of an agent. */
export interface VersionFacts {
  /** The version of this definition of the agent; missing: the definition has no version. */
  readonly version?: string | undefined;
  /** True if this version has an `upgrade` function, which edits the history of sessions that move to it. */
  readonly upgrades?: boolean;
}

/** Facts about versions that a decision may use besides the facts of the session's agent. */
export interface VersionSurroundings {
  /** The version that new sessions of an agent get; undefined: the agent has no version. */
  readonly versionOf: (agent: string) => string | undefined;
  /** True while the `upgrade` function runs for this session, and after it failed. */
  readonly isUpgradeHeld?: boolean;
}

/** A move of a session to another version that has an `upgrade` function. */
export interface UpgradeStep {
  /** The version that the session has; missing: none. */
  readonly from?: string;
  /** The version to which the session moves. */
  readonly to: string;
  /** Epoch and next seq of the session's messages. If they differ later, the messages changed meanwhile. */
  readonly epoch: number;
  readonly nextMessageSeq: number;
}

/** The answer of the `upgrade` function: the edits of the history, in order. */
export interface UpgradeAnswer extends UpgradeStep {
  readonly type: 'upgraded';
  readonly edits: readonly EditRequest[];
}

/** Effects of a move to another version. */
export type UpgradeEffect =
  /** Wakes the session in another step of the same batch, with the facts of its current agent. */
  | { readonly type: 'nextStep' }
  /** Asks the `upgrade` function of the session's agent, after the flush. */
  | ({ readonly type: 'upgrade' } & UpgradeStep)
  /** The edits of the `upgrade` function cannot be applied. */
  | { readonly type: 'upgradeFailed'; readonly error: ErrorShape };
