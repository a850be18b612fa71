/**
 * The versions of agents: what a turn's record says about its agent, and what a move to another version needs. Plain
 * data.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { EditRequest } from './edit-request.ts';

/** The facts about the version of an agent. */
export interface VersionFacts {
  /** The version of this definition of the agent; missing: it has none. */
  readonly version?: string | undefined;
  /** True if sessions move to this version by its `upgrade` function. */
  readonly upgrades?: boolean;
}

/** Facts about versions that a decision may use besides the facts of the session's agent. */
export interface VersionSurroundings {
  /** The version with which new sessions of an agent begin; undefined: the agent has no version. */
  readonly versionOf: (agent: string) => string | undefined;
  /** True while the `upgrade` function runs for this session, and after it failed. */
  readonly isUpgradeHeld?: boolean;
}

/** A move of a session to another version, for which an `upgrade` function is asked. */
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
