/**
 * Records the replies and events that an embedder received over all lives of a runtime, and what its tools and its
 * model saw. The ledger outlives every crash. The invariants compare its records with the stores. The ledger itself
 * reports contradictions between its records.
 */
import { createHash } from 'node:crypto';
import { withoutOrigins } from '../../base/block-origin.ts';
import { TroupeError } from '../../base/errors.ts';
import type { EventBody } from '../../events/event.ts';
import type { Position } from '../../journal/position.ts';
import type { RequestMessage } from '../../models/provider.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { Effect, ToolRetry } from '../../tools/tool.ts';
import type { FormName } from './messages/simulated-forms.ts';
import type { SimulatedProcess } from './world.ts';

/** The kind of a violation. */
export type ViolationKind =
  | 'lost'
  | 'duplicated'
  | 'reordered'
  | 'changed'
  | 'illegal'
  | 'unstable'
  | 'repeated'
  | 'unbalanced'
  | 'stuck'
  | 'failed'
  | 'fold';

/** One violation of an invariant. */
export interface Violation {
  readonly kind: ViolationKind;
  readonly what: string;
}

/** The outcome of a message or a child, as its sender received it. */
export interface Outcome {
  readonly kind: 'text' | 'cancelled' | 'dropped' | 'failed';
  /** The text, or a structured answer as JSON. */
  readonly text: string;
  /** The structured answer. */
  readonly value?: unknown;
}

/** A message as it was sent, and whether it was accepted. */
export interface MessageStory {
  readonly uid: string;
  readonly session: string;
  readonly content: string;
  /** Base64 of the image sent behind the text, if there was one. */
  readonly image?: string;
  readonly key: string | undefined;
  readonly deliver: string | undefined;
  /** The form of the answer that the message asks for. */
  readonly form?: FormName;
  /** The highest acknowledged id of the session when the message was sent. */
  readonly sentAfter: number;
  pendingId?: number;
  /** How often it was sent. */
  attempts?: number;
  /** True if the message was refused permanently, so that it must not be in the store. */
  isRefused?: true;
  /** True if the mailbox had no room at the last attempt. A message with a key is then sent again. */
  hasNoRoom?: boolean;
}

/** A spawn as it was requested, and the child that it made. */
export interface SpawnStory {
  readonly uid: string;
  readonly session: string;
  readonly key: string | undefined;
  readonly replies: 'mailbox' | 'handle';
  /** The form of the reply that the child owes. */
  readonly form?: FormName;
  child?: string;
}

/** One start of a tool call. */
export interface ToolStart {
  /** The incarnation of the session's shard; see `SimulatedMachine.incarnationOf`. */
  readonly incarnation: number;
  /** Number of the last row that the shard's store had when the call started. */
  readonly storedRow: number;
  /** The process that runs the tool: a tool thread, or the host. */
  readonly process: SimulatedProcess;
  /** The number of the attempt, as the tool was given it. */
  readonly attempt: number;
  /** Virtual milliseconds from the beginning of the run to the start. */
  readonly atMs: number;
}

/** A tool call as its tool saw it. */
export interface ToolStory {
  readonly tool: string;
  readonly effect: Effect;
  /** When the tool's failed calls run again; missing: they do not run again. */
  readonly retry?: Required<ToolRetry> | undefined;
  readonly starts: ToolStart[];
  /** How often the call's effect on the world happened. */
  effects: number;
  /** The call's return value, if it had one. */
  result?: string;
}

/** A tool call of the log with its results. */
export interface CallFact {
  readonly tool: string;
  /**
   * Position of the last transition that the call needs to start. Usually this is the transition with the model's
   * answer. If a guardrail held the answer, it is the transition that releases the answer. If the call waited for a
   * person, it is the transition that allows the call.
   */
  startsAfter: Position;
  readonly results: { readonly content: string; readonly success: boolean }[];
  /**
   * True if the call waited in a suspended run whose branch was left. Such a call does not run, and is answered only if
   * the session returns to that branch.
   */
  isLeft: boolean;
}

/** The text that a model call streams, and the tokens that it reports meanwhile. */
export interface StreamedCall {
  readonly text: string;
  /** Missing: the call reports no tokens before its end. */
  readonly inputTokens?: number;
}

/** One model call as the model saw it. */
export interface CallStory {
  /** See `ToolStart.incarnation`. */
  readonly incarnation: number;
  /** Digest of the request's messages. */
  readonly digest: string;
  /** Digest of the whole request. */
  readonly whole: string;
  /** True if the call arrived so soon after the incarnation began that the previous incarnation may have sent it. */
  readonly isStraggler?: boolean;
  /** The version of the agent according to the system prompt; missing: none. */
  readonly version?: string | undefined;
  /** True if the call is for a summary. Its `digest` may equal that of a half-step with another system prompt. */
  readonly isSummary?: boolean;
}

/** Error codes that mean: the message is certainly not stored. */
const FINAL_CODES: ReadonlySet<string> = new Set(['session_busy', 'mailbox_full']);

/** See the file header. */
export class Ledger {
  readonly violations: Violation[] = [];
  readonly messages: Map<string, MessageStory> = new Map();
  readonly spawns: Map<string, SpawnStory> = new Map();
  /** Answers by receipt: `<session>/<pending id>`. */
  readonly answers: Map<string, { readonly session: string; readonly pendingId: number; readonly outcome: Outcome }> =
    new Map();
  readonly replies: Map<string, Outcome> = new Map();
  /** Acknowledged replies of persons to questions, by the key of the call. No value: the question was declined. */
  readonly personReplies: Map<string, { readonly form: FormName | 'text'; readonly value: unknown }> = new Map();
  /** Digests of published durable events, by session and seq. */
  readonly events: Map<string, Map<number, string>> = new Map();
  readonly tools: Map<string, ToolStory> = new Map();
  /** The keys of calls whose outcome was once lost on its way to the session. */
  readonly lostOutcomes: Set<string> = new Set();
  /** For each call of a host tool, by its key: the agent versions whose tool ran or probed the call. */
  readonly toolVersions: Map<string, Set<string>> = new Map();
  /** Model calls in order, by session. */
  readonly calls: Map<string, CallStory[]> = new Map();
  /** The number of calls that the model refused because of their credentials, by session. */
  readonly refusals: Map<string, number> = new Map();
  /** The calls that began to stream, by session. */
  readonly streams: Map<string, StreamedCall[]> = new Map();
  /** Sessions whose deletion was requested; true if the deletion was acknowledged. */
  readonly deleted: Map<string, boolean> = new Map();
  /** Sessions whose events were read from the first one to the end of the run. */
  readonly readThrough: Set<string> = new Set();
  /** Acknowledged forks: their parent, and a digest of the history they began with. */
  readonly forks: Map<string, { readonly parent: string; readonly digest: string }> = new Map();
  /** The highest task that was acknowledged, by session. */
  readonly tasks: Map<string, number> = new Map();
  /** Digests of the histories read at the very end. */
  readonly histories: Map<string, string> = new Map();
  /** True while the shards stand still for a hand-over: they begin no half-step, but still accept messages (I42). */
  standsStill = false;
  readonly #acknowledgedUpTo = new Map<string, number>();
  readonly #seen = new Set<string>();

  /** Records a violation, once. */
  violate(kind: ViolationKind, what: string): void {
    const key = `${kind} ${what}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.violations.push({ kind, what });
  }

  acknowledgedUpTo(session: string): number {
    return this.#acknowledgedUpTo.get(session) ?? 0;
  }

  /**
   * Counts a call of this caller that was refused because of the provider's key. The caller of an enricher's call is
   * `<session>: <name of the enricher>`.
   */
  keyRefused(caller: string): void {
    const session = caller.split(': ')[0] ?? caller;
    this.refusals.set(session, (this.refusals.get(session) ?? 0) + 1);
  }

  /** Notes a call of a session that streams its answer. */
  streamed(session: string, call: StreamedCall): void {
    const known = this.streams.get(session);
    if (known === undefined) this.streams.set(session, [call]);
    else known.push(call);
  }

  acknowledged(uid: string, pendingId: number, duplicate: boolean): void {
    const story = this.messages.get(uid);
    // The story is missing if the session was deleted in the meantime.
    if (story === undefined) return;
    const { session, sentAfter } = story;
    if (story.pendingId !== undefined && (story.pendingId !== pendingId || !duplicate)) {
      this.violate('duplicated', `${uid} of ${session} was accepted as ${story.pendingId} and again as ${pendingId}`);
    }
    if (story.isRefused) this.violate('changed', `${uid} of ${session} was refused, then accepted as ${pendingId}`);
    if (story.pendingId === undefined && !duplicate && pendingId <= sentAfter) {
      this.violate('reordered', `${uid} of ${session} is ${pendingId}, sent after ${sentAfter} was acknowledged`);
    }
    story.pendingId = pendingId;
    this.#acknowledgedUpTo.set(session, Math.max(pendingId, this.acknowledgedUpTo(session)));
  }

  /** Records that an attempt to send a message failed. */
  sendFailed(story: MessageStory, error: unknown): void {
    const code = error instanceof TroupeError ? error.code : undefined;
    if (code !== undefined && FINAL_CODES.has(code) && story.key === undefined) story.isRefused = true;
    story.hasNoRoom = code === 'mailbox_full';
  }

  answered(session: string, pendingId: number, outcome: Outcome): void {
    const receipt = `${session}/${pendingId}`;
    const before = this.answers.get(receipt)?.outcome;
    if (before !== undefined && !isSame(before, outcome)) {
      this.violate('changed', `the answer of ${receipt}: ${show(before)}, then ${show(outcome)}`);
    }
    this.answers.set(receipt, { session, pendingId, outcome });
  }

  /** Records the reply of a child. The reply of a completed child is final; after any other end it may reply again. */
  replied(child: string, outcome: Outcome): void {
    const before = this.replies.get(child);
    if (before?.kind === 'text' && !isSame(before, outcome)) {
      this.violate('changed', `the reply of ${child}: ${show(before)}, then ${show(outcome)}`);
    }
    this.replies.set(child, outcome);
  }

  event(session: string, seq: number, digest: string): void {
    const seen = this.events.get(session) ?? new Map<number, string>();
    this.events.set(session, seen);
    const before = seen.get(seq);
    if (before !== undefined && before !== digest) this.violate('changed', `event ${seq} of ${session}`);
    seen.set(seq, digest);
  }

  /**
   * Records a start of a tool call. Within one incarnation a call may start again in two cases only. Either the process
   * of its previous run has died, or its tool has `retry` and this start is the next attempt (I26).
   */
  toolStarted(key: string, story: ToolStory, start: ToolStart): void {
    const { retry, starts } = story;
    const last = starts.at(-1);
    const before = last?.incarnation === start.incarnation ? last : undefined;
    const isNext = retry !== undefined && before !== undefined && start.attempt === before.attempt + 1;
    if (isNext && (start.attempt > retry.attempts || start.atMs < before.atMs + retry.baseMs))
      this.violate(
        'repeated',
        `attempt ${start.attempt} of ${story.tool} for ${key} is one too many, or too early (I26)`,
      );
    if (!isNext && start.attempt !== (before?.attempt ?? 1))
      this.violate('repeated', `${story.tool} started for ${key} as attempt ${start.attempt}, not the next (I26)`);
    if (before?.process.isAlive === true && !isNext)
      this.violate('repeated', `${story.tool} started twice for ${key} in one incarnation`);
    story.starts.push(start);
  }

  /** Whether the deletion of a session, or of one of its ancestors, was requested. */
  isDeleted(session: string): boolean {
    for (const id of this.deleted.keys()) if (isWithin(session, id)) return true;
    return false;
  }

  /** Drops the records about a session and its descendants that the checks would look for in their deleted logs. */
  forget(session: string): void {
    const isOf = (id: string): boolean => isWithin(id, session);
    for (const [uid, story] of this.messages) if (isOf(story.session)) this.messages.delete(uid);
    for (const [uid, story] of this.spawns) if (isOf(story.session)) this.spawns.delete(uid);
    for (const [receipt, answer] of this.answers) if (isOf(answer.session)) this.answers.delete(receipt);
    for (const child of this.replies.keys()) if (isOf(child)) this.replies.delete(child);
    for (const key of this.personReplies.keys()) if (isOf(sessionOfKey(key))) this.personReplies.delete(key);
    for (const id of this.events.keys()) if (isOf(id)) this.events.delete(id);
    for (const id of this.forks.keys()) if (isOf(id)) this.forks.delete(id);
    for (const id of this.tasks.keys()) if (isOf(id)) this.tasks.delete(id);
    for (const id of this.calls.keys()) if (isOf(id)) this.calls.delete(id);
    for (const noted of [this.tools, this.toolVersions])
      for (const key of noted.keys()) if (isOf(sessionOfKey(key))) noted.delete(key);
  }
}

/** True for a session and its descendants. A fork is no descendant, although its id may begin with its parent's id. */
export function isWithin(id: string, ancestor: string): boolean {
  if (id === ancestor) return true;
  return id.startsWith(`${ancestor}:`) && !id.slice(ancestor.length).includes(':fork-');
}

/** The session of a tool call's idempotency key. */
export function sessionOfKey(key: string): string {
  return key.slice(0, key.lastIndexOf('#'));
}

/**
 * A digest of the messages of a request in the form that the Messages API gets (`withoutOrigins`). `model`: the model
 * that is asked, with its provider; missing if the agent has only one model.
 */
export function requestDigest(messages: readonly RequestMessage[], model?: string): string {
  const sent = messages.flatMap((message) => withoutOrigins(message) ?? []);
  return digestOf(`${model ?? ''}${JSON.stringify(sent)}`);
}

/** A short digest of a text. */
export function digestOf(text: string): string {
  return createHash('sha1').update(text).digest('base64url').slice(0, 14);
}

function isSame(a: Outcome, b: Outcome): boolean {
  return a.kind === b.kind && a.text === b.text;
}

function show({ kind, text }: Outcome): string {
  return `${kind} ${JSON.stringify(text)}`;
}

/** The messages of a session's history as texts. */
export function historyTexts(state: SessionState): readonly string[] {
  return historyMessages(state).map((message) => JSON.stringify(message));
}

const ANNOUNCED: ReadonlySet<string> = new Set(['turn.finished', 'turn.failed', 'approval.required', 'question.asked']);

/**
 * True for an event that webhooks deliver. Webhooks deliver no question to a parent, because the parent receives the
 * question as a message.
 */
export function isAnnounced(event: EventBody): boolean {
  return ANNOUNCED.has(event.type) && !(event.type === 'question.asked' && event.asked === 'parent');
}
