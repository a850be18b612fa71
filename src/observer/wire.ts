/**
 * Checks the server's answers and reads the members that the page uses. Unknown members are ignored, so that a newer
 * server may send more. A malformed body throws `WireError`. Pure.
 */
import type { AnswerDraft, LossReason } from '../base/answer-draft.ts';
import type { ContentBlock, Message, MessageType, Pending, PendingType, Usage } from '../base/messages.ts';
import type { Phase, SessionEvent, SessionStateName, SessionStatus } from '../events/event.ts';
import type { ViewedEvent, ViewedMessage, ViewedPending } from '../events/viewed-event.ts';

/** The server sent something that this page cannot read. */
export class WireError extends Error {
  override readonly name: string = 'WireError';
}

/** A session of the list. `updatedAt`: epoch ms. */
export interface ListedSession {
  readonly id: string;
  /** The name of its agent; `name@version` if the agent has a version. */
  readonly agent: string;
  readonly parent?: string;
  readonly name?: string;
  readonly state: SessionStateName;
  /** Missing if the server sends a status that this page does not know. */
  readonly status?: SessionStatus;
  /** The message of the error with which the last turn failed. */
  readonly lastError?: string;
  readonly mailbox: number;
  /** Number of dead letters; missing: none. */
  readonly deadLetters?: number;
  readonly updatedAt: number;
}

/** A session that was requested by its id. `seq`: the seq of the session's newest durable event. */
export interface SessionDetail extends ListedSession {
  readonly phase?: Phase;
  /** The reason why the session is blocked until it is resumed. */
  readonly blocked?: string;
  readonly seq: number;
  readonly usage?: Usage;
  /** The text of the running model call, or of a lost one. */
  readonly draft?: AnswerDraft;
  /** `exited`: the reason of a child's end; missing: the child has not ended. */
  readonly children: readonly { readonly id: string; readonly exited?: string }[];
}

/** An event with its content, as in `mode=debug`. */
export type ObservedEvent = SessionEvent;

/** Any JSON object of an answer. */
export type WireRecord = Readonly<Record<string, unknown>>;

/** One violation of a rule of the model's API by a request. */
export interface RuleViolation {
  readonly rule: string;
  readonly path: string;
  readonly message: string;
  readonly fatal: boolean;
}

/** The request as it would be sent now. `violations` is missing if the server did not check the request. */
export interface RequestReport {
  readonly request: WireRecord;
  readonly violations?: readonly RuleViolation[];
}

const STATUSES: ReadonlySet<unknown> = new Set<SessionStatus>([
  'blocked',
  'waiting',
  'running',
  'suspended',
  'paused',
  'queued',
  'failed',
  'idle',
]);
const STATES: ReadonlySet<unknown> = new Set<SessionStateName>(['idle', 'awaiting', 'executing']);
const PHASES: ReadonlySet<unknown> = new Set<Phase>(['preparing', 'retrying', 'paused', 'approval', 'question']);
const LOSS_REASONS: ReadonlySet<unknown> = new Set<LossReason>(['restart', 'cancelled', 'failed']);
const MESSAGE_TYPES: ReadonlySet<unknown> = new Set<MessageType>([
  'user_message',
  'agent_message',
  'tool_call',
  'tool_response',
  'system_message',
]);
const PENDING_TYPES: ReadonlySet<unknown> = new Set<PendingType>([
  'user_message',
  'tool_response',
  'subagent',
  'from_mneme',
  'from_melete_skill',
  'from_melete_workflow',
  'from_melete_goal',
]);

/**
 * The members that each type of event must have in every mode, with the types of their values. Events of types that are
 * not listed are ignored.
 */
const EVENT_MEMBERS: Readonly<
  Record<string, Readonly<Record<string, 'string' | 'number' | 'boolean' | 'object' | 'list'>>>
> = {
  'message.created': { message: 'object' },
  'message.updated': { message: 'object' },
  'message.removed': { messageSeq: 'number', reason: 'string' },
  'history.changed': { operation: 'string', removed: 'list', created: 'list', updated: 'list' },
  'compaction.applied': { number: 'number', archived: 'list', created: 'list' },
  'pending.created': { pending: 'object' },
  'pending.removed': { pendingId: 'number', reason: 'string' },
  'dead_letter.created': { letter: 'number' },
  'dead_letter.removed': { letter: 'number' },
  'session.state': { state: 'string' },
  'text.delta': {},
  'thinking.delta': {},
  'tool.started': { toolUseId: 'string', toolName: 'string' },
  'tool.finished': { toolUseId: 'string', toolName: 'string', success: 'boolean' },
  'tool.progress': { toolUseId: 'string' },
  'turn.finished': { turn: 'string', reason: 'string', usage: 'object' },
  'turn.failed': { turn: 'string', error: 'object' },
  bounce_back: { error: 'object' },
  authentication_required: { error: 'object' },
  'llm.retry': { attempt: 'number', waitMs: 'number' },
  'llm.lost': { turn: 'string', attempt: 'number', reason: 'string' },
  'interrupt.acknowledged': {},
  'child.spawned': { child: 'string' },
  'child.state': { child: 'string', state: 'string' },
  'child.exited': { child: 'string', reason: 'string' },
  'subagent.evicted': { child: 'string' },
  eviction: { below: 'number' },
  'session.name': { name: 'string' },
  'session.recovered': {},
  'agent.upgraded': { agent: 'string' },
  'approval.required': { toolUseId: 'string', toolName: 'string' },
  'approval.decided': { toolUseId: 'string', toolName: 'string', allow: 'boolean', by: 'string' },
  'question.asked': { toolUseId: 'string', toolName: 'string', asked: 'string' },
  gap: { from: 'number', to: 'number' },
};

/** The value as an object; throws `WireError` naming `what` for any other value. */
export function recordOf(value: unknown, what: string): WireRecord {
  if (!isRecord(value)) throw new WireError(`${what} is not an object`);
  return value;
}

/** True for an object that is not a list. */
export function isRecord(value: unknown): value is WireRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** One page of the list of sessions. `next`: the id after which to continue; missing on the last page. */
export function readSessions(body: unknown): { readonly sessions: readonly ListedSession[]; readonly next?: string } {
  const page = recordOf(body, 'the list of sessions');
  const sessions = listOf(page['sessions'], 'sessions').map((value) => readListed(recordOf(value, 'a session')));
  return typeof page['next'] === 'string' ? { sessions, next: page['next'] } : { sessions };
}

/** Reads a session requested by its id. */
export function readDetail(body: unknown): SessionDetail {
  const value = recordOf(body, 'the session');
  const { seq, phase, blocked, usage, children, draft } = value;
  return {
    ...readListed(value),
    seq: typeof seq === 'number' ? seq : 0,
    children: Array.isArray(children) ? children.filter(isRecord).flatMap(readChild) : [],
    ...(PHASES.has(phase) ? { phase: phase as Phase } : {}),
    ...readDraft(draft),
    ...(isRecord(blocked) ? { blocked: String(blocked['message'] ?? blocked['code'] ?? 'blocked') } : {}),
    ...(isUsage(usage) ? { usage } : {}),
  };
}

function readChild({ id, exited }: WireRecord): SessionDetail['children'] {
  if (typeof id !== 'string') return [];
  return [typeof exited === 'string' ? { id, exited } : { id }];
}

function readListed(value: WireRecord): ListedSession {
  const { id, agent, version, parent, name, state, status, lastError, mailbox, deadLetters, updatedAt } = value;
  if (typeof id !== 'string' || id === '') throw new WireError('a session has no id');
  if (!STATES.has(state)) throw new WireError(`session ${id} has no state that is known`);
  return {
    id,
    agent: typeof agent !== 'string' ? '' : typeof version === 'string' ? `${agent}@${version}` : agent,
    state: state as SessionStateName,
    mailbox: typeof mailbox === 'number' ? mailbox : 0,
    updatedAt: typeof updatedAt === 'number' ? updatedAt : 0,
    ...(typeof deadLetters === 'number' ? { deadLetters } : {}),
    ...(typeof parent === 'string' ? { parent } : {}),
    ...(typeof name === 'string' ? { name } : {}),
    ...(STATUSES.has(status) ? { status: status as SessionStatus } : {}),
    ...(isRecord(lastError) ? { lastError: String(lastError['message'] ?? lastError['code'] ?? 'failed') } : {}),
  };
}

/** One page of messages, ascending by `seq`. `isLast`: no further page follows. */
export function readMessages(body: unknown): { readonly messages: readonly Message[]; readonly isLast: boolean } {
  const page = recordOf(body, 'the messages');
  return { messages: listOf(page['messages'], 'messages').map(readMessage), isLast: page['next'] === undefined };
}

/** The messages of a viewport: a list, or a list under `messages`. */
export function readViewport(body: unknown): readonly Message[] {
  return (Array.isArray(body) ? body : listOf(recordOf(body, 'the viewport')['messages'], 'messages')).map(readMessage);
}

/** The entries of a mailbox, in drain order: a list, or a list under `pending`. */
export function readPendingList(body: unknown): readonly Pending[] {
  return (Array.isArray(body) ? body : listOf(recordOf(body, 'the mailbox')['pending'], 'pending')).map(readPending);
}

/** The request and its violations; the body is the request itself, or has it under `request`. */
export function readRequest(body: unknown): RequestReport {
  const report = recordOf(body, 'the request');
  const { violations: found, request: inner, ...outer } = report;
  const request = isRecord(inner) ? inner : outer;
  if (!Array.isArray(found)) return { request };
  const violations = found.map((value: unknown) => {
    const { rule, path, message, fatal } = recordOf(value, 'a violation');
    return {
      rule: String(rule ?? ''),
      path: String(path ?? ''),
      message: String(message ?? ''),
      fatal: fatal !== false,
    };
  });
  return { request, violations };
}

/** Counters of the runtime, and of each provider. */
export interface ReadMetrics {
  readonly counters: Readonly<Record<string, number>>;
  /** The counters of each provider by its name. */
  readonly providers: ReadonlyMap<string, Readonly<Record<string, number>>>;
  /** The store's failure while the store refuses writes. */
  readonly degraded?: string;
}

/** Reads the counters: the members that are numbers, the counters of each provider, and the store's failure. */
export function readMetrics(body: unknown): ReadMetrics {
  const value = recordOf(body, 'the metrics');
  const counters = numbersOf(value);
  const given = value['providers'];
  const providers = new Map(
    Object.entries(isRecord(given) ? given : {}).flatMap(([name, figures]) =>
      isRecord(figures) ? [[name, numbersOf(figures)] as const] : [],
    ),
  );
  const { degraded } = value;
  return { counters, providers, ...(typeof degraded === 'string' ? { degraded } : {}) };
}

function numbersOf(value: Readonly<Record<string, unknown>>): Readonly<Record<string, number>> {
  const numbers: Record<string, number> = {};
  for (const [name, figure] of Object.entries(value)) if (typeof figure === 'number') numbers[name] = figure;
  return numbers;
}

/** A call that waits for a person. */
export interface WaitingCall {
  readonly session: string;
  readonly callId: string;
  readonly toolName: string;
  /** `approval`: the person decides whether the call may run. Any other kind: the person gives an answer. */
  readonly kind: string;
  readonly input: unknown;
  /** The text of a question. */
  readonly question?: string;
  /** The JSON Schema that an answer must fit; missing: an answer is a text. */
  readonly schema?: WireRecord;
  /** Answers that the model proposes. */
  readonly choices?: readonly string[];
  /** The MCP server that asks. */
  readonly server?: string;
  /** Epoch ms. */
  readonly at: number;
  readonly expiresAt?: number;
}

/** The first calls of the queue. */
export interface WaitingPage {
  readonly calls: readonly WaitingCall[];
  readonly hasMore: boolean;
}

/** A page of the calls that wait for a person. */
export function readWaiting(body: unknown): WaitingPage {
  const page = recordOf(body, 'the waiting calls');
  const calls = listOf(page['waiting'], 'waiting').map((value): WaitingCall => {
    const given = recordOf(value, 'a waiting call');
    const { session, callId, toolName, kind, input, at, expiresAt } = given;
    if (typeof session !== 'string' || typeof callId !== 'string' || typeof at !== 'number') {
      throw new WireError('a waiting call is not of the known form');
    }
    const names = { session, callId, toolName: String(toolName ?? ''), kind: String(kind ?? '') };
    const call = { ...names, input, ...readQuestion(given), at };
    return typeof expiresAt === 'number' ? { ...call, expiresAt } : call;
  });
  return { calls, hasMore: page['next'] !== undefined };
}

/** The members of a question, in a waiting call or in the event that announces it. */
export function readQuestion(value: object): Pick<WaitingCall, 'question' | 'schema' | 'choices' | 'server'> {
  const { question, schema, choices, server }: WireRecord = { ...value };
  return {
    ...(typeof question === 'string' ? { question } : {}),
    ...(isRecord(schema) ? { schema } : {}),
    ...(Array.isArray(choices) ? { choices: choices.filter((each) => typeof each === 'string') } : {}),
    ...(typeof server === 'string' ? { server } : {}),
  };
}

/** False if the body says that the answer to a question was not accepted; otherwise true. */
export function readAnswered(body: unknown): boolean {
  return recordOf(body, 'the answer')['answered'] !== false;
}

/** False if the body says that the decision about a call had no effect; otherwise true. */
export function readDecided(body: unknown): boolean {
  return recordOf(body, 'the decision')['decided'] !== false;
}

/** Why a session is not running: a reason and a sentence. */
export function readExplanation(body: unknown): { readonly reason: string; readonly detail: string } {
  const { reason, detail } = recordOf(body, 'the explanation');
  if (typeof reason !== 'string') throw new WireError('the explanation has no reason');
  return { reason, detail: typeof detail === 'string' ? detail : '' };
}

/** The contents of an error's body (RFC 9457). Never throws: an error may have no body. */
export function readProblem(body: unknown): { readonly code?: string; readonly detail?: string } {
  if (!isRecord(body)) return {};
  const { code, detail, title } = body;
  const text = typeof detail === 'string' ? detail : title;
  return {
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof text === 'string' ? { detail: text } : {}),
  };
}

/** Content members, which an event has only in `debug`. */
const CONTENT_MEMBERS: Readonly<Record<string, string>> = {
  'text.delta': 'text',
  'thinking.delta': 'text',
  'llm.lost': 'text',
  bounce_back: 'content',
  'question.asked': 'question',
};

function readDraft(value: unknown): Pick<SessionDetail, 'draft'> {
  if (!isRecord(value) || typeof value['text'] !== 'string' || typeof value['turn'] !== 'string') return {};
  const { turn, text, thinking, lost } = value;
  return {
    draft: {
      turn,
      text,
      ...(typeof thinking === 'string' ? { thinking } : {}),
      ...(LOSS_REASONS.has(lost) ? { lost: lost as LossReason } : {}),
    },
  };
}

/** The event in a text of a `debug` stream. Undefined for an unknown type of event or a malformed event. */
export function readEvent(text: string): ObservedEvent | undefined {
  const event = readViewedEvent(text);
  if (event === undefined) return undefined;
  const value: WireRecord = { ...event };
  const content = CONTENT_MEMBERS[event.type];
  if (content !== undefined && typeof value[content] !== 'string') return undefined;
  for (const name of ['message', 'pending']) {
    const member = value[name];
    if (isRecord(member) && !isContent(member['content'])) return undefined;
  }
  for (const name of ['created', 'updated']) {
    const listed = value[name];
    if (Array.isArray(listed) && !listed.every(isMessage)) return undefined;
  }
  // The members were checked by name, here and by `readViewedEvent`.
  return event as ObservedEvent;
}

/**
 * The event in a text of a stream of any mode, checked without its content. Undefined for an unknown type of event or a
 * malformed event.
 */
export function readViewedEvent(text: string): ViewedEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value) || typeof value['session'] !== 'string' || typeof value['at'] !== 'number') return undefined;
  const { type } = value;
  if (typeof type !== 'string' || !Object.hasOwn(EVENT_MEMBERS, type)) return undefined;
  for (const [name, kind] of Object.entries(EVENT_MEMBERS[type] ?? {})) {
    if (!isOfKind(value[name], kind)) return undefined;
  }
  if (type === 'session.state' && !STATES.has(value['state'])) return undefined;
  if ('message' in value && !isViewedMessage(value['message'])) return undefined;
  if ('pending' in value && !isViewedPending(value['pending'])) return undefined;
  for (const name of ['created', 'updated']) {
    const listed = value[name];
    if (Array.isArray(listed) && !listed.every(isViewedMessage)) return undefined;
  }
  // The members were checked by name above.
  return value as unknown as ViewedEvent;
}

function isOfKind(value: unknown, kind: 'string' | 'number' | 'boolean' | 'object' | 'list'): boolean {
  if (kind === 'list') return Array.isArray(value);
  return kind === 'object' ? isRecord(value) : typeof value === kind;
}

function readMessage(value: unknown): Message {
  if (!isMessage(value)) throw new WireError('a message is not of the known form');
  return value;
}

function readPending(value: unknown): Pending {
  if (!isPending(value)) throw new WireError('a mailbox entry is not of the known form');
  return value;
}

function isMessage(value: unknown): value is Message {
  return isRecord(value) && isContent(value['content']) && isViewedMessage(value);
}

function isPending(value: unknown): value is Pending {
  return isRecord(value) && isContent(value['content']) && isViewedPending(value);
}

function isViewedMessage(value: unknown): value is ViewedMessage {
  if (!isRecord(value)) return false;
  const { seq, type, at } = value;
  return typeof seq === 'number' && MESSAGE_TYPES.has(type) && typeof at === 'number';
}

function isViewedPending(value: unknown): value is ViewedPending {
  if (!isRecord(value)) return false;
  const { id, type, at } = value;
  return typeof id === 'number' && PENDING_TYPES.has(type) && typeof at === 'number';
}

function isContent(value: unknown): value is string | readonly ContentBlock[] {
  if (typeof value === 'string') return true;
  return Array.isArray(value) && value.every((block) => isRecord(block) && typeof block['type'] === 'string');
}

function isUsage(value: unknown): value is Usage {
  return isRecord(value) && typeof value['input_tokens'] === 'number' && typeof value['output_tokens'] === 'number';
}

/** A list in an answer; throws `WireError` for any other value. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new WireError(`"${name}" is not a list`);
  return value;
}
