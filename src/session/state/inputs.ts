/** The inputs of a session and the effects it asks for: arguments and results of `decide`. Both are plain data. */

import type { AuditAct } from '../../base/audit/audit-entry.ts';
import type { Limits } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { GoalChange } from '../../base/goals.ts';
import type { Json } from '../../base/json.ts';
import type { ResultBlock, Usage } from '../../base/messages.ts';
import type { CompressionSettings, Settings } from '../../base/settings.ts';
import type { AnswerFacts, AnswerForm, AnswerIssue } from './answer-form.ts';
import type { Asked, AskedQuestion } from './boundary.ts';
import type { Exit, Replies } from './child-link.ts';
import type { EditRequest, TransientMessage } from './edit-request.ts';
import type { AnsweredElicitation } from './elicitation.ts';
import type { ForkSeed } from './fork-seed.ts';
import type { ReadContent } from './messages.ts';
import type { Entry, LostAnswer, SessionRecord } from './records.ts';
import type { RemovedHistory } from './retention.ts';
import type { SessionState } from './state.ts';
import type { AnsweredInput, Judged, Question } from './verdicts.ts';
import type { UpgradeAnswer, UpgradeEffect, VersionFacts, VersionSurroundings } from './version.ts';

/** The facts `decide` needs about a tool. The tool runner has the rest. */
export interface ToolFacts {
  readonly effect: 'pure' | 'keyed' | 'once' | 'probe';
  /** Milliseconds that a call of the tool may take. */
  readonly timeoutMs: number;
  readonly adjustableTimeout: boolean;
  /** True for a tool (spawning, goals) whose calls the session's own thread handles in one batch, without a pool. */
  readonly isRuntimeTool: boolean;
  /** For a tool whose calls are questions: the recipient, and the form of the answer; missing form: text. */
  readonly asks?: { readonly asked: Asked; readonly form?: AnswerForm } | undefined;
}

/** The facts on which the opening of an epoch depends. */
export type EpochFacts = Pick<AgentFacts, 'fingerprint' | 'models' | 'next' | 'traits'>;

/** The models of an agent that has several models, and the model that the session uses now. */
export interface ModelFacts {
  /** The index of the model in use, from 0. */
  readonly place: number;
  /** The name of the model in use, as the agent gives it. */
  readonly name: string;
  /** The name of that model's provider. */
  readonly provider?: string | undefined;
  readonly count: number;
  /** The longest wait for a model, in ms. For a longer wait the next model is called instead. */
  readonly fallbackAfterMs: number;
  /** Milliseconds for which a session uses a later model before it returns to the first model. */
  readonly returnAfterMs: number;
  /** True if a later model of the list has another provider. */
  readonly hasOtherProvider: boolean;
  /** Returns the facts of an epoch that uses the model at this index. */
  readonly at: (place: number) => EpochFacts;
}

/** The facts `decide` needs about the session's agent. */
export interface AgentFacts extends VersionFacts {
  readonly name: string;
  /**
   * A fingerprint of the request's header (model, system, tools) and of the way messages are rendered. If it changes, a
   * new epoch opens.
   */
  readonly fingerprint: string;
  /** The short form of the model's traits (what it accepts) in these facts; missing: those of `model-traits.ts`. */
  readonly traits?: string | undefined;
  /** The facts of the next epoch, if the model's traits have changed meanwhile. */
  readonly next?: Pick<AgentFacts, 'fingerprint' | 'traits'> | undefined;
  /** The agent's models; missing: the agent has only one model. */
  readonly models?: ModelFacts | undefined;
  /** True if the system prompt is a function. Its text is evaluated once per epoch and remembered. */
  readonly hasSystemFunction: boolean;
  readonly toolNames: readonly string[];
  readonly tool: (name: string) => ToolFacts | undefined;
  readonly toolRounds: number;
  /** Tokens of the conversation window, including the part reserved for pins. */
  readonly tokenBudget: number;
  readonly maxActiveChildren: number;
  /** Images that the agent's model accepts in one request; missing: the number is unknown. */
  readonly imagesMax?: number | undefined;
  /** When and how the agent's conversations are compressed; missing: never. */
  readonly compression?: CompressionFacts | undefined;
  /** True if answers with calls are held for a step limit or an approval, until it is known which calls may start. */
  readonly holdsCalls?: boolean;
  /** Limit of model answers after a user's message; missing: no limit. */
  readonly maxSteps?: number;
  /** Names of the tools whose calls a person must allow. `function`: the embedder's predicate selects the calls. */
  readonly approval?: ReadonlySet<string> | 'function';
  /** How long the agent's calls wait for a person, and the effect of input meanwhile; missing: as in the settings. */
  readonly approvals?: Settings['approvals'] | undefined;
  /** `before`: guardrails run before the agent's model calls. `after`: guardrails run after them. */
  readonly guards?: { readonly before: boolean; readonly after: boolean };
  /** How the session's structured answers are asked for and judged now; missing: answers are text. */
  readonly answer?: AnswerFacts | undefined;
  /**
   * The facts while the session asks for an answer of this form; `undefined`: for a text. Another form opens an epoch,
   * like any change of the header.
   */
  readonly factsFor?: (form: AnswerForm | undefined) => EpochFacts;
  /** Enrichers of the agent's sessions; missing: none. */
  readonly enrichers?: EnricherFacts | undefined;
}

/** The models of the enrichers. A member is missing if that enricher is off. */
export interface EnricherFacts {
  /** Prepares the turns of users' messages. */
  readonly melete?: { readonly model: string };
  /** Remembers messages that leave the window. */
  readonly mneme?: { readonly model: string };
  /** Names sub-agents that have no name. A sub-agent has no other enricher. */
  readonly namer?: { readonly model: string };
}

/** When and how an agent's conversations are compressed. */
export interface CompressionFacts extends Omit<CompressionSettings, 'enabled'> {
  /** True if compression begins by itself. False if it begins only on demand, and when a prompt was too long. */
  readonly isAutomatic: boolean;
  /**
   * True if the model refuses thoughts when the history before them has changed. A round with thoughts must then stay
   * behind the same messages.
   */
  readonly bindsThinking: boolean;
}

/** Everything outside the state that a decision may use. `random` is in [0, 1) and drawn once per transition. */
export interface Environment extends VersionSurroundings {
  readonly now: number;
  readonly random: number;
  readonly limits: Limits;
  readonly settings: Settings;
  readonly agent: AgentFacts;
  /** Tool names of an agent, by the agent's name; undefined: no such agent is defined. */
  readonly toolNamesOf: (agent: string) => readonly string[] | undefined;
  /** The names of all agents, for the error about an unknown name. */
  readonly agentNames: () => Iterable<string>;
  /**
   * True if the parent supervises this session and decides what happens after its failure. Otherwise the failure is
   * only reported.
   */
  readonly isSupervised?: () => boolean;
  /**
   * Whether a half-step may start now. False if the agent is missing, if too many sessions run (`limits.liveSessions`),
   * or if edits of this session wait. Also false once the runtime starts no more work.
   */
  readonly admits: boolean;
  /** Messages of this session that the model is shown and that are never stored; missing: none. */
  readonly transients?: readonly TransientMessage[] | undefined;
  /** True if the session waits for the embedder's listeners at its message boundaries. */
  readonly isGated?: boolean;
  /** Epoch ms at which this process opened the store. A failure before this time happened in an earlier process. */
  readonly openedAt?: number;
  /** Whether a session with this id exists, however it was created. */
  readonly exists: (sessionId: string) => boolean;
  /**
   * The state of another session of the tree, read-only; undefined: there is none. Missing: there are no other
   * sessions.
   */
  readonly stateOf?: (sessionId: string) => SessionState | undefined;
  /** UTF-8 bytes that wait in the mailboxes of all sessions of this thread; missing: none. */
  readonly waitingBytes?: number;
  /** Returns the function that judges values against a form from the log. */
  readonly fitOf: (form: AnswerForm) => AnswerFacts['fit'];
  /** Reads the content of a waiting entry of this session from its log; missing: all contents are in memory. */
  readonly readContent?: ReadContent;
}

/** A request for a child. The parent checks it and names the child. */
export interface SpawnRequest {
  readonly agent?: string;
  readonly specialist?: boolean;
  readonly task: string;
  readonly name?: string;
  readonly tools?: readonly string[];
  readonly replies: Replies;
  /** Token limit of the child and of everything it spawns. */
  readonly budget?: number;
  /** The form of the child's reply. */
  readonly output?: AnswerForm;
  readonly key?: string;
  readonly fingerprint?: string;
  /** True: if this key has already spawned a child, and that child was cancelled or failed, it continues its task. */
  readonly continues?: boolean;
  /** The call of the spawn tool, if a model asked for the child. */
  readonly callId?: string;
}

/** Names a message of the conversation or of the mailbox: by its id in the history, or by the key it was sent with. */
export type ReplacedMessage = { readonly id: string } | { readonly key: string };

/** All inputs of a session. */
export type Input =
  | { readonly type: 'create'; readonly agent: string }
  | {
      readonly type: 'send';
      readonly entry: Entry;
      readonly bytes: number;
      /** The earlier message that this message replaces. */
      readonly replaces?: ReplacedMessage;
      /** True if the session was already interrupted for this message. */
      readonly hasInterrupted?: true;
    }
  | { readonly type: 'wake' }
  | AnsweredInput
  | { readonly type: 'boundary' }
  | ({ readonly type: 'verdict' } & Judged)
  | {
      readonly type: 'approve';
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
      readonly by?: string;
    }
  /** A call has asked a question, through its tool or its MCP server. The question begins to wait. */
  | ({ readonly type: 'ask'; readonly callId: string } & AskedOfModel)
  /** The answer to a question, or with `declined` the refusal to answer. `fingerprint`: of the value. */
  | {
      readonly type: 'answer';
      readonly callId: string;
      readonly reply:
        | { readonly value: Json; readonly fingerprint: string }
        | { readonly declined: true; readonly reason?: string };
      readonly by?: string;
    }
  /** A child asks its parent. `issues`: why the parent's last answer does not fit. */
  | {
      readonly type: 'childAsked';
      readonly child: string;
      readonly question: AskedOfModel;
      readonly issues?: readonly AnswerIssue[];
    }
  /** The parent has ended, or has restarted with only its task. It will not answer earlier questions. */
  | { readonly type: 'parentEnded' }
  /** The time limit of the calls that wait for a person may have passed. */
  | { readonly type: 'approvalsExpired' }
  | { readonly type: 'modelFailed'; readonly halfStep: number; readonly attempt: number; readonly error: ErrorShape }
  | { readonly type: 'retryDue'; readonly halfStep: number; readonly attempt: number }
  | { readonly type: 'dispatch'; readonly refused: Readonly<Record<string, string>> }
  | {
      readonly type: 'toolFinished';
      readonly callId: string;
      readonly content: string | readonly ResultBlock[];
      readonly success: boolean;
      readonly ms?: number;
    }
  | { readonly type: 'systemEvaluated'; readonly epoch: number; readonly text: string }
  | { readonly type: 'systemFailed'; readonly epoch: number; readonly error: ErrorShape }
  | { readonly type: 'interrupt'; readonly reason?: string }
  /** The queued child may start: its parent has room among its working children. */
  | { readonly type: 'start' }
  /** A child that has ended without completing its task continues the task. */
  | { readonly type: 'continue' }
  | { readonly type: 'childRevived'; readonly child: string }
  | { readonly type: 'recall'; readonly pendingId: number }
  /** Sends a dead letter again: in its own form, or with `as` as a user's message with its content. */
  | { readonly type: 'resendLetter'; readonly letter: number; readonly as?: 'user'; readonly by?: string }
  /** `cause`: why the runtime drops the letter; missing: a caller asks for it. */
  | { readonly type: 'dropLetter'; readonly letter: number; readonly by?: string; readonly cause?: 'retention' }
  | { readonly type: 'removeHistory'; readonly history: RemovedHistory }
  | { readonly type: 'spawn'; readonly request: SpawnRequest }
  | { readonly type: 'markGoal'; readonly callId: string; readonly result: string }
  | { readonly type: 'subagentSaid'; readonly child: string; readonly content: string }
  | ({ readonly type: 'childExited'; readonly child: string } & Pick<Exit, 'reason' | 'error'>)
  | { readonly type: 'childSpent'; readonly tokens: number }
  /** The embedder sets the budget of the session, or removes it (`tokens` missing). */
  | { readonly type: 'setBudget'; readonly tokens?: number }
  /** The parent has a budget now. The use of this session and of its descendants counts for that budget. */
  | { readonly type: 'joinBudget' }
  | { readonly type: 'parentSaid'; readonly content: string }
  /** The supervisor ends this child. `reports`: whether the parent's model is also notified. */
  | { readonly type: 'fail'; readonly error: ErrorShape; readonly reports: boolean }
  /** A child restarts with its task (supervision). */
  | { readonly type: 'restart'; readonly reason: string }
  | { readonly type: 'restartLater'; readonly delayMs: number; readonly error: ErrorShape }
  | { readonly type: 'restartDue' }
  /** A child failed and is not restarted: its failure becomes the parent's. */
  | { readonly type: 'escalated'; readonly child: string; readonly error: ErrorShape }
  | { readonly type: 'born'; readonly seed: ChildSeed }
  | { readonly type: 'goal'; readonly change: GoalChange }
  /** Shows the text of a skill or a workflow to the model. */
  | {
      readonly type: 'activate';
      readonly kind: 'skill' | 'workflow';
      readonly name: string;
      readonly content: string;
    }
  /** Shows a memory to the model. `id`: the message that the memory comes from, `<session>#<seq>`. */
  | { readonly type: 'surface'; readonly id: string; readonly content: string }
  | { readonly type: 'rename'; readonly name: string }
  /**
   * A name for a sub-agent that has none. The sub-agent proposes the name to its parent (`nameChild`), and the parent
   * answers with the final name (`nicknamed`).
   */
  | { readonly type: 'nickname'; readonly nickname: string }
  | { readonly type: 'nameChild'; readonly child: string; readonly nickname: string }
  | { readonly type: 'nicknamed'; readonly name: string }
  /** A child has its final name: a new name, or the name that it got at its spawning. */
  | { readonly type: 'childReady'; readonly child: string }
  /** A run that prepares a turn has ended. `error`: why the run failed. */
  | { readonly type: 'enriched'; readonly run: number; readonly usage: Usage; readonly error?: ErrorShape }
  | { readonly type: 'pause' }
  /** Lifts a pause and a block. `keepsPause`: true to lift only the block. */
  | { readonly type: 'resume'; readonly keepsPause?: true }
  /** The `upgrade` function has returned the edits for the session's move to the current version. */
  | UpgradeAnswer
  | { readonly type: 'recover' }
  /** A model call ended without an answer, after its answer had begun. */
  | ({ readonly type: 'answerLost' } & LostAnswer)
  /** The results of these calls are lost: no pool holds the calls any more, and no result has come. */
  | { readonly type: 'heal'; readonly callIds: readonly string[] }
  | { readonly type: 'startTask'; readonly title?: string; readonly by?: string }
  | { readonly type: 'undo'; readonly by?: string }
  | { readonly type: 'switchTask'; readonly id: number; readonly by?: string }
  | { readonly type: 'fork'; readonly id?: string; readonly at?: number; readonly by?: string }
  | { readonly type: 'forked'; readonly record: Extract<SessionRecord, { type: 'forked' }>; readonly by?: string }
  /** Compress now, if it is worth a model call. `force`: apply the lower thresholds of a forced compression. */
  | { readonly type: 'compress'; readonly force: boolean }
  /** A run of Mneme has ended: with a summary, with an error, or with neither if there was nothing to remember. */
  | {
      readonly type: 'summarised';
      readonly run: number;
      readonly text?: string;
      readonly error?: ErrorShape;
      readonly usage?: Usage;
    }
  /** One operation on the history. It never comes while a model call is in flight (`edit-queue.ts`). */
  | {
      readonly type: 'edit';
      readonly request: EditRequest;
      readonly key?: string;
      readonly fingerprint?: string;
      readonly by?: string;
    };

/**
 * The task of an enricher's run: prepare a turn, find memories worth recalling, sum up messages that leave the window,
 * or name a sub-agent.
 */
export type EnricherName = 'melete' | 'recall' | 'mneme' | 'namer';

/** A question of a model's call, or of an MCP server during a call. */
export type AskedOfModel = Pick<AskedQuestion, 'question' | 'asked' | 'choices' | 'form' | 'elicitation'>;

/** The facts that a new child begins with. */
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
  /** True if the name was generated, not given. */
  readonly unnamed?: true;
  /** True if the child is queued, because its parent already has the maximum number of working children. */
  readonly queued?: true;
  readonly budget?: { readonly tokens?: number; readonly isShared?: boolean };
  readonly output?: AnswerForm;
}

/** All effects. `again` and effects on sessions of the same tree join the batch; all others happen outside of it. */
export type Effect =
  | { readonly type: 'again'; readonly input: Input }
  | { readonly type: 'born'; readonly seed: ChildSeed }
  /** A fork begins in the same batch: its state starts with `seed`, its log with `record`. */
  | {
      readonly type: 'forkBorn';
      readonly child: string;
      readonly seed: ForkSeed;
      readonly record: Extract<SessionRecord, { type: 'forked' }>;
      readonly by?: string;
    }
  | {
      readonly type: 'sendToParent';
      readonly input: Extract<
        Input,
        { type: 'subagentSaid' | 'childExited' | 'childRevived' | 'nameChild' | 'childReady' | 'childAsked' }
      >;
    }
  /** A message from the parent to a child, the child's final name, its permission to start, or an interrupt. */
  | {
      readonly type: 'sendToChild';
      readonly child: string;
      readonly input: Extract<
        Input,
        { type: 'parentSaid' | 'nicknamed' | 'start' | 'continue' | 'interrupt' | 'joinBudget' }
      >;
    }
  /** A supervised child's turn failed. The supervisor decides what follows. */
  | { readonly type: 'childFailed'; readonly error: ErrorShape }
  /** The wait before a child's restart has ended. The supervisor decides what follows. */
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
      /** The answer to the question of the call's MCP server, if the call continues; missing: the call begins. */
      readonly elicited?: AnsweredElicitation;
    }
  | { readonly type: 'cancelTool'; readonly callId: string; readonly reason: string }
  | {
      readonly type: 'retryLater';
      readonly halfStep: number;
      readonly attempt: number;
      readonly delayMs: number;
      /** Why the call is retried; only for the first retry. */
      readonly firstError?: ErrorShape;
    }
  /** Logs that another model of the agent makes the half-step's next call. `reason`: see `EpochModel.because`. */
  | { readonly type: 'reportFallback'; readonly model: string; readonly reason: string }
  /** Logs that the turn failed. `isBlocked`: the session is blocked from now on. */
  | { readonly type: 'reportFailure'; readonly error: ErrorShape; readonly isBlocked: boolean }
  | { readonly type: 'evaluateSystem'; readonly epoch: number }
  /** Replaces the session's transient messages. */
  | { readonly type: 'transients'; readonly list: readonly TransientMessage[] }
  /** Asks functions of the embedder for a verdict, after the flush. */
  | ({ readonly type: 'consult' } & Question)
  /** Starts an enricher on the session's current state, after the flush. */
  | { readonly type: 'startEnricher'; readonly enricher: EnricherName; readonly run: number }
  | { readonly type: 'cancelEnricher'; readonly run: number }
  | UpgradeEffect
  /** Writes an act into the audit log, in the same append as the records that the act describes (`audited.ts`). */
  | { readonly type: 'audited'; readonly act: AuditAct }
  | { readonly type: 'accepted'; readonly pendingId: number; readonly seq: number; readonly duplicate: boolean }
  | { readonly type: 'spawned'; readonly child: string; readonly name: string; readonly duplicate: boolean }
  | { readonly type: 'result'; readonly value: unknown }
  | { readonly type: 'refused'; readonly error: ErrorShape }
  | { readonly type: 'stale'; readonly what: string };
