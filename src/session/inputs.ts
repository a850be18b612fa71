/** What reaches a session and what it asks for: the two vocabularies of `decide`. Plain data, both of them. */

import type { Limits } from '../base/bounds.ts';
import type { ErrorShape } from '../base/errors.ts';
import type { GoalChange } from '../base/goals.ts';
import type { Usage } from '../base/messages.ts';
import type { Settings } from '../base/settings.ts';
import type { Entry, Replies } from './records.ts';

/** What `decide` must know of a tool; the rest is the tool runner's. */
export interface ToolFacts {
  readonly effect: 'pure' | 'keyed' | 'once' | 'probe';
  /** Milliseconds. */
  readonly timeoutMs: number;
  readonly adjustableTimeout: boolean;
  /** Handled by the session's own thread in one batch (spawning, goals), not by a pool. */
  readonly isRuntimeTool: boolean;
}

/** What `decide` must know of the session's agent. */
export interface AgentFacts {
  readonly name: string;
  /** Changes when anything of the request's header does (model, system, tools): a new epoch opens then. */
  readonly fingerprint: string;
  /** The system prompt is a function: its text is evaluated once an epoch and remembered. */
  readonly hasSystemFunction: boolean;
  readonly toolNames: readonly string[];
  readonly tool: (name: string) => ToolFacts | undefined;
  readonly toolRounds: number;
  /** Tokens of the conversation window, before the part kept for pins. */
  readonly tokenBudget: number;
  readonly maxActiveChildren: number;
}

/** Everything outside the state that a decision may depend on. `random` is in [0, 1), drawn once a turn. */
export interface Environment {
  readonly now: number;
  readonly random: number;
  readonly limits: Limits;
  readonly settings: Settings;
  readonly agent: AgentFacts;
  /** Tool names of an agent by its name; undefined: nobody defined it. */
  readonly toolNamesOf: (agent: string) => readonly string[] | undefined;
  /** The parent of this session decides what its failure means (`supervision`); missing: it is reported. */
  readonly isSupervised?: () => boolean;
  /** A half-step may start now; false while too many sessions run (`limits.liveSessions`) and while closing. */
  readonly admits: boolean;
  /** A session of this id exists, whoever made it. */
  readonly exists: (sessionId: string) => boolean;
}

/** A wish for a child, checked and named by its parent. */
export interface SpawnRequest {
  readonly agent?: string;
  readonly specialist?: boolean;
  readonly task: string;
  readonly name?: string;
  readonly tools?: readonly string[];
  readonly replies: Replies;
  readonly key?: string;
  readonly fingerprint?: string;
  /** The spawn tool's call, where a model asked. */
  readonly callId?: string;
}

/** Everything that reaches a session. */
export type Input =
  | { readonly type: 'create'; readonly agent: string }
  | { readonly type: 'send'; readonly entry: Entry; readonly bytes: number }
  | { readonly type: 'wake' }
  | {
      readonly type: 'answered';
      readonly halfStep: number;
      readonly content: unknown;
      readonly stop: string;
      readonly usage: Usage;
    }
  | { readonly type: 'modelFailed'; readonly halfStep: number; readonly attempt: number; readonly error: ErrorShape }
  | { readonly type: 'retryDue'; readonly halfStep: number; readonly attempt: number }
  | { readonly type: 'dispatch'; readonly refused: Readonly<Record<string, string>> }
  | {
      readonly type: 'toolFinished';
      readonly callId: string;
      readonly content: string;
      readonly success: boolean;
      readonly ms?: number;
    }
  | { readonly type: 'systemEvaluated'; readonly epoch: number; readonly text: string }
  | { readonly type: 'systemFailed'; readonly epoch: number; readonly error: ErrorShape }
  | { readonly type: 'interrupt'; readonly reason?: string }
  | { readonly type: 'recall'; readonly pendingId: number }
  | { readonly type: 'spawn'; readonly request: SpawnRequest }
  | { readonly type: 'markGoal'; readonly callId: string; readonly result: string }
  | { readonly type: 'subagentSaid'; readonly child: string; readonly content: string }
  | {
      readonly type: 'childExited';
      readonly child: string;
      readonly reason: 'completed' | 'failed' | 'cancelled';
      readonly error?: ErrorShape;
    }
  | { readonly type: 'parentSaid'; readonly content: string }
  /** A child's end as its supervisor decided it. `tell`: the parent's model is told as well. */
  | { readonly type: 'fail'; readonly error: ErrorShape; readonly tell: boolean }
  /** A child starts again with its task (supervision). */
  | { readonly type: 'restart'; readonly reason: string }
  | { readonly type: 'restartLater'; readonly delayMs: number; readonly error: ErrorShape }
  | { readonly type: 'restartDue' }
  /** A child failed beyond what restarts may mend: the failure is the parent's own. */
  | { readonly type: 'escalated'; readonly child: string; readonly error: ErrorShape }
  | { readonly type: 'born'; readonly seed: ChildSeed }
  | { readonly type: 'goal'; readonly change: GoalChange }
  /** The text of a skill or a workflow is to be put before the model. */
  | {
      readonly type: 'activate';
      readonly kind: 'skill' | 'workflow';
      readonly name: string;
      readonly content: string;
    }
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  | { readonly type: 'recover' }
  | { readonly type: 'heal' }
  | { readonly type: 'refine'; readonly messageSeq: number; readonly tokens: number };

/** What a new child starts from. */
export interface ChildSeed {
  readonly id: string;
  readonly parent: string;
  readonly agent: string;
  readonly depth: number;
  readonly name: string;
  readonly prompt: string;
  readonly grants?: readonly string[];
  readonly replies: Replies;
  readonly task: string;
  readonly callId?: string;
}

/** Everything a session asks for. `again`, `born` and the `tell…` effects happen in the same batch, the rest after it is durable. */
export type Effect =
  | { readonly type: 'again'; readonly input: Input }
  | { readonly type: 'born'; readonly seed: ChildSeed }
  | { readonly type: 'tellParent'; readonly input: Extract<Input, { type: 'subagentSaid' | 'childExited' }> }
  | { readonly type: 'tellChild'; readonly child: string; readonly content: string }
  /** A supervised child's turn failed; `restartDue`: its back-off is over. The supervisor says what follows. */
  | { readonly type: 'childFailed'; readonly error: ErrorShape }
  | { readonly type: 'restartDue' }
  | { readonly type: 'restartTimer'; readonly delayMs: number }
  | { readonly type: 'interruptChildren'; readonly reason?: string }
  | { readonly type: 'callModel'; readonly halfStep: number; readonly attempt: number }
  | { readonly type: 'cancelModel'; readonly halfStep: number }
  | {
      readonly type: 'runTool';
      readonly callId: string;
      readonly name: string;
      readonly input: unknown;
      readonly key: string;
      readonly timeoutMs: number;
      readonly mode: 'run' | 'probe';
      readonly isRuntimeTool: boolean;
    }
  | { readonly type: 'cancelTool'; readonly callId: string; readonly reason: string }
  | { readonly type: 'retryLater'; readonly halfStep: number; readonly attempt: number; readonly delayMs: number }
  | { readonly type: 'evaluateSystem'; readonly epoch: number }
  | { readonly type: 'accepted'; readonly pendingId: number; readonly seq: number; readonly duplicate: boolean }
  | { readonly type: 'spawned'; readonly child: string; readonly name: string; readonly duplicate: boolean }
  | { readonly type: 'result'; readonly value: unknown }
  | { readonly type: 'refused'; readonly error: ErrorShape }
  | { readonly type: 'stale'; readonly what: string };
