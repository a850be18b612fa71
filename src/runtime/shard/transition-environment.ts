/**
 * The environment that `decide` receives. A shard has one such object, and fills it again for each step of a
 * transition. So no function may keep the object after its step.
 */
import { fitOf } from '../../../actors/answer-forms.ts';
import type { Limits } from '../../base/bounds.ts';
import type { Settings } from '../../base/settings.ts';
import type { TransientMessage } from '../../session/state/edit-request.ts';
import type { AgentFacts, Environment } from '../../session/state/inputs.ts';
import type { ReadContent } from '../../session/state/messages.ts';
import type { SessionState } from '../../session/state/state.ts';

/** The members that stay the same from step to step. */
export interface LastingSurroundings {
  readonly limits: Limits;
  readonly settings: Settings;
  readonly toolNamesOf: (agent: string) => readonly string[] | undefined;
  readonly agentNames: () => Iterable<string>;
  readonly versionOf: (agent: string) => string | undefined;
  readonly exists: (sessionId: string) => boolean;
  /** Epoch ms at which the shard began. */
  readonly openedAt: number;
  /** True when the parent of the stepping session supervises it. */
  readonly isSupervised: () => boolean;
  readonly stateOf: (sessionId: string) => SessionState | undefined;
  readonly readContent: ReadContent;
}

/** See the head of the file. */
export class TransitionEnvironment implements Environment {
  readonly limits: Limits;
  readonly settings: Settings;
  readonly toolNamesOf: (agent: string) => readonly string[] | undefined;
  readonly agentNames: () => Iterable<string>;
  readonly versionOf: (agent: string) => string | undefined;
  readonly exists: (sessionId: string) => boolean;
  readonly isSupervised: () => boolean;
  readonly stateOf: (sessionId: string) => SessionState | undefined;
  readonly fitOf: Environment['fitOf'] = fitOf;
  readonly readContent: ReadContent;
  waitingBytes = 0;
  now = 0;
  random = 0;
  agent: AgentFacts;
  admits = false;
  transients: readonly TransientMessage[] | undefined;
  isGated = false;
  isUpgradeHeld = false;
  readonly openedAt: number;

  /** `nobody`: placeholder agent facts until the first step sets the agent. */
  constructor(lasting: LastingSurroundings, nobody: AgentFacts) {
    this.limits = lasting.limits;
    this.settings = lasting.settings;
    this.toolNamesOf = lasting.toolNamesOf;
    this.agentNames = lasting.agentNames;
    this.versionOf = lasting.versionOf;
    this.exists = lasting.exists;
    this.isSupervised = lasting.isSupervised;
    this.stateOf = lasting.stateOf;
    this.readContent = lasting.readContent;
    this.openedAt = lasting.openedAt;
    this.agent = nobody;
  }
}
