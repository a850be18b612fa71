/** What reaches a session and what it asks for: the two vocabularies of `decide`. Plain data, both of them. */

import type { Limits } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { GoalChange } from '../../base/goals.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import type { Usage } from '../../base/messages.ts';
import type { CompressionSettings, Settings } from '../../base/settings.ts';
import type { Held } from './boundary.ts';
import type { EditRequest, TransientMessage } from './edit-request.ts';
import type { ForkSeed } from './fork-seed.ts';
import type { ReadContent } from './messages.ts';
import type { Entry, SessionRecord } from './records.ts';
import type { Replies, SessionState } from './state.ts';

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
  /** Changes when the request's header does (model, system, tools), or the way messages are rendered: a new epoch opens then. */
  readonly fingerprint: string;
  /** The system prompt is a function: its text is evaluated once an epoch and remembered. */
  readonly hasSystemFunction: boolean;
  readonly toolNames: readonly string[];
  readonly tool: (name: string) => ToolFacts | undefined;
  readonly toolRounds: number;
  /** Tokens of the conversation window, before the part kept for pins. */
  readonly tokenBudget: number;
  readonly maxActiveChildren: number;
  /** Missing: the agent's conversations are not compressed. */
  readonly compression?: CompressionFacts | undefined;
  /** Its answers with calls are held until it is known what may start: it has a step limit, or calls need a person. */
  readonly holdsCalls?: boolean;
  /** Model answers after a user's message; missing: no limit. */
  readonly maxSteps?: number;
  /** Tools whose calls a person must allow, by name; or a predicate outside says which. */
  readonly approval?: ReadonlySet<string> | 'function';
  /** Guardrails stand before its model calls, after them. */
  readonly guards?: { readonly before: boolean; readonly after: boolean };
  /** What watches its sessions; missing: nothing does. */
  readonly enrichers?: EnricherFacts | undefined;
}

/** The models that watch a session, each missing where it is off. */
export interface EnricherFacts {
  /** Prepares the turns of users' messages. */
  readonly melete?: { readonly model: string };
  /** Remembers. */
  readonly mneme?: { readonly model: string };
  /** Names sub-agents that have no name: of these, and the only one they have. */
  readonly namer?: { readonly model: string };
}

/** When and how an agent's conversations are compressed. */
export interface CompressionFacts extends Omit<CompressionSettings, 'enabled'> {
  /** Of itself; false: only on demand, and when a prompt was too long. */
  readonly isAutomatic: boolean;
  /** The model refuses thoughts about another history: a round that was thought about cannot be moved (R20, R21). */
  readonly bindsThinking: boolean;
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
  /** Messages of this session that are shown and never stored; missing: none. */
  readonly transients?: readonly TransientMessage[] | undefined;
  /** Listeners outside are waited for at this session's message boundaries. */
  readonly isGated?: boolean;
  /** Epoch ms at which this process took the session's store: what failed before was read from the log. */
  readonly openedAt?: number;
  /** A session of this id exists, whoever made it. */
  readonly exists: (sessionId: string) => boolean;
  /** The state of another session of the tree, to be read only; undefined: there is none. Missing: there are no others. */
  readonly stateOf?: (sessionId: string) => SessionState | undefined;
  /** UTF-8 bytes that wait in the mailboxes of all sessions of this thread; missing: none. */
  readonly waitingBytes?: number;
  /** Reads the content of a waiting entry of this session back from its log; missing: no content is there alone. */
  readonly readContent?: ReadContent;
}

/** A wish for a child, checked and named by its parent. */
export interface SpawnRequest {
  readonly agent?: string;
  readonly specialist?: boolean;
  readonly task: string;
  readonly name?: string;
  readonly tools?: readonly string[];
  readonly replies: Replies;
  /** Tokens it and what it spawns may use. */
  readonly budget?: number;
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
      /** What was sent held transient messages: the next request is another one. */
      readonly unbound?: true;
      /** The guardrails have passed it. */
      readonly isGuarded?: true;
    }
  | { readonly type: 'boundary' }
  | ({ readonly type: 'consulted'; readonly at: Held['at']; readonly halfStep: number } & (
      | { readonly word: BoundaryWord }
      | { readonly error: ErrorShape }
    ))
  | {
      readonly type: 'guardedBefore';
      readonly halfStep: number;
      readonly word: GuardWord<readonly HistoryMessage[]>;
    }
  | { readonly type: 'callGuarded'; readonly halfStep: number }
  | { readonly type: 'guardedAfter'; readonly answer: AnsweredInput; readonly word: GuardWord<AssistantMessage> }
  | { readonly type: 'guardFailed'; readonly halfStep: number; readonly error: ErrorShape }
  | {
      readonly type: 'approve';
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
    }
  /** The calls that wait for a person may have waited long enough. */
  | { readonly type: 'approvalsExpired' }
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
  | { readonly type: 'childSpent'; readonly tokens: number }
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
  /** A memory is to be put before the model. `id`: the message it is of, `<session>#<seq>`. */
  | { readonly type: 'surface'; readonly id: string; readonly content: string }
  | { readonly type: 'rename'; readonly name: string }
  /** A name for a sub-agent that has none; asked of its parent (`nameChild`), which tells it what it is called (`nicknamed`). */
  | { readonly type: 'nickname'; readonly nickname: string }
  | { readonly type: 'nameChild'; readonly child: string; readonly nickname: string }
  | { readonly type: 'nicknamed'; readonly name: string }
  /** A child has its name, or will have none but that of its birth. */
  | { readonly type: 'childReady'; readonly child: string }
  /** A run that prepares a turn is over. `error`: it failed. */
  | { readonly type: 'enriched'; readonly run: number; readonly usage: Usage; readonly error?: ErrorShape }
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  | { readonly type: 'recover' }
  /** No pool holds these calls any more, and no result of theirs has come. */
  | { readonly type: 'heal'; readonly callIds: readonly string[] }
  | { readonly type: 'startTask'; readonly title?: string }
  | { readonly type: 'undo' }
  | { readonly type: 'switchTask'; readonly id: number }
  | { readonly type: 'fork'; readonly id?: string; readonly at?: number }
  | { readonly type: 'forked'; readonly record: Extract<SessionRecord, { type: 'forked' }> }
  /** Compress now, if it is worth it; `force`: from the lower bounds on. */
  | { readonly type: 'compress'; readonly force: boolean }
  /** A summary is written: its text, nothing where there was nothing to remember, or why there is none. */
  | {
      readonly type: 'summarised';
      readonly run: number;
      readonly text?: string;
      readonly error?: ErrorShape;
      readonly usage?: Usage;
    }
  /** One operation on the history; never while a model call is out: see `edit-gate.ts`. */
  | { readonly type: 'edit'; readonly request: EditRequest; readonly key?: string; readonly fingerprint?: string };

/**
 * What an enricher is started for: to prepare a turn, to look for what is worth recalling, to sum up what leaves the window, to name
 * a sub-agent.
 */
export type MuseName = 'melete' | 'recall' | 'mneme' | 'namer';

/** A model's answer. */
export type AnsweredInput = Extract<Input, { type: 'answered' }>;

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
  /** Nobody gave it its name. */
  readonly unnamed?: true;
  readonly budget?: { readonly tokens?: number; readonly isShared?: boolean };
}

/** Everything a session asks for. `again`, `born` and the `tell…` effects happen in the same batch, the rest after it is durable. */
export type Effect =
  | { readonly type: 'again'; readonly input: Input }
  | { readonly type: 'born'; readonly seed: ChildSeed }
  /** A fork begins, in the same batch: its state is given `seed`, its log `record`. */
  | {
      readonly type: 'forkBorn';
      readonly child: string;
      readonly seed: ForkSeed;
      readonly record: Extract<SessionRecord, { type: 'forked' }>;
    }
  | {
      readonly type: 'tellParent';
      readonly input: Extract<Input, { type: 'subagentSaid' | 'childExited' | 'nameChild' | 'childReady' }>;
    }
  | { readonly type: 'tellChildName'; readonly child: string; readonly name: string }
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
  | {
      readonly type: 'retryLater';
      readonly halfStep: number;
      readonly attempt: number;
      readonly delayMs: number;
      /** Why the call is made again, for the first time. */
      readonly firstError?: ErrorShape;
    }
  | { readonly type: 'evaluateSystem'; readonly epoch: number }
  /** A model of its own looks at the session. */
  | { readonly type: 'startMuse'; readonly muse: 'mneme'; readonly run: number }
  /** The session's transient messages from now on. */
  | { readonly type: 'transients'; readonly list: readonly TransientMessage[] }
  /** Somebody outside has a say at the boundary at which the session is held. */
  | {
      readonly type: 'consult';
      readonly at: Held['at'];
      readonly halfStep: number;
      readonly tellsListeners: boolean;
      readonly asksApproval: boolean;
    }
  | { readonly type: 'guardBefore'; readonly halfStep: number }
  /** An enricher starts on the session as it stands: behind the flush. */
  | { readonly type: 'startMuse'; readonly muse: MuseName; readonly run: number }
  | { readonly type: 'cancelMuse'; readonly run: number }
  | {
      readonly type: 'guardAfter';
      readonly halfStep: number;
      readonly message: AssistantMessage;
      readonly answer: AnsweredInput;
    }
  | { readonly type: 'accepted'; readonly pendingId: number; readonly seq: number; readonly duplicate: boolean }
  | { readonly type: 'spawned'; readonly child: string; readonly name: string; readonly duplicate: boolean }
  | { readonly type: 'result'; readonly value: unknown }
  | { readonly type: 'refused'; readonly error: ErrorShape }
  | { readonly type: 'stale'; readonly what: string };

/** What was said at a boundary. */
export interface BoundaryWord {
  /** A listener stops the run, for this reason. */
  readonly interrupt?: { readonly reason: string | null };
  /** Calls a person must decide, by id. */
  readonly approve: readonly string[];
}

/** What the guardrails of one side said: the last transformation, or the first block. */
export type GuardWord<T> =
  | { readonly verdict: 'pass' }
  | { readonly verdict: 'transform'; readonly value: T }
  | { readonly verdict: 'block'; readonly reason: string };
