/**
 * The door: what the server says, checked and narrowed. Unknown members are ignored, so that a newer server can say more; a
 * body that is not of the form throws `WireError`. Pure.
 */
import type { ContentBlock, Message, MessageType, Pending, PendingType, Usage } from '../base/messages.ts';
import type { Phase, SessionEvent, SessionStateName } from '../events/event.ts';
import type { ViewedEvent, ViewedMessage, ViewedPending } from '../events/viewed-event.ts';

/** The server said something this page cannot read. */
export class WireError extends Error {
  override readonly name: string = 'WireError';
}

/** A session of the list. `updatedAt`: epoch ms. */
export interface ListedSession {
  readonly id: string;
  readonly agent: string;
  readonly parent?: string;
  readonly name?: string;
  readonly state: SessionStateName;
  readonly mailbox: number;
  readonly updatedAt: number;
}

/** A session asked for by its id. `seq`: the number of its newest durable event. */
export interface SessionDetail extends ListedSession {
  readonly phase?: Phase;
  /** Why nothing starts until somebody resumes. */
  readonly blocked?: string;
  readonly seq: number;
  readonly usage?: Usage;
  /** `exited`: how a child has ended; missing: it has not. */
  readonly children: readonly { readonly id: string; readonly exited?: string }[];
}

/** A call that waits for a person. */
export type ApprovalRequired = Extract<SessionEvent, { readonly type: 'approval.required' }>;

/** An event with its content, as `mode=debug` tells it. */
export type ObservedEvent = SessionEvent;

/** Any object of the wire. */
export type WireRecord = Readonly<Record<string, unknown>>;

/** One rule of the model's API that a request breaks. */
export interface RuleViolation {
  readonly rule: string;
  readonly path: string;
  readonly message: string;
  readonly fatal: boolean;
}

/** The request as it would be sent now. `violations` missing: the server checked nothing. */
export interface RequestReport {
  readonly request: WireRecord;
  readonly violations?: readonly RuleViolation[];
}

const STATES: ReadonlySet<unknown> = new Set<SessionStateName>(['idle', 'awaiting', 'executing']);
const PHASES: ReadonlySet<unknown> = new Set<Phase>(['preparing', 'retrying', 'paused', 'approval']);
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

/** The members each type of event must have in every mode, by the type of their values; types that are not here are left out. */
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
  'interrupt.acknowledged': {},
  'child.spawned': { child: 'string' },
  'child.state': { child: 'string', state: 'string' },
  'child.exited': { child: 'string', reason: 'string' },
  'subagent.evicted': { child: 'string' },
  eviction: { below: 'number' },
  'session.name': { name: 'string' },
  'session.recovered': {},
  'approval.required': { toolUseId: 'string', toolName: 'string' },
  gap: { from: 'number', to: 'number' },
};

/** The object a value is; throws `WireError` naming `what` when it is none. */
export function recordOf(value: unknown, what: string): WireRecord {
  if (!isRecord(value)) throw new WireError(`${what} is not an object`);
  return value;
}

/** True for an object that is no list. */
export function isRecord(value: unknown): value is WireRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** One page of the list of sessions. `next`: the id to ask after, missing on the last page. */
export function readSessions(body: unknown): { readonly sessions: readonly ListedSession[]; readonly next?: string } {
  const page = recordOf(body, 'the list of sessions');
  const sessions = listOf(page['sessions'], 'sessions').map((value) => readListed(recordOf(value, 'a session')));
  return typeof page['next'] === 'string' ? { sessions, next: page['next'] } : { sessions };
}

/** A session asked for by its id. */
export function readDetail(body: unknown): SessionDetail {
  const value = recordOf(body, 'the session');
  const { seq, phase, blocked, usage, children } = value;
  return {
    ...readListed(value),
    seq: typeof seq === 'number' ? seq : 0,
    children: Array.isArray(children) ? children.filter(isRecord).flatMap(readChild) : [],
    ...(PHASES.has(phase) ? { phase: phase as Phase } : {}),
    ...(isRecord(blocked) ? { blocked: String(blocked['message'] ?? blocked['code'] ?? 'blocked') } : {}),
    ...(isUsage(usage) ? { usage } : {}),
  };
}

function readChild({ id, exited }: WireRecord): SessionDetail['children'] {
  if (typeof id !== 'string') return [];
  return [typeof exited === 'string' ? { id, exited } : { id }];
}

function readListed(value: WireRecord): ListedSession {
  const { id, agent, parent, name, state, mailbox, updatedAt } = value;
  if (typeof id !== 'string' || id === '') throw new WireError('a session has no id');
  if (!STATES.has(state)) throw new WireError(`session ${id} has no state that is known`);
  return {
    id,
    agent: typeof agent === 'string' ? agent : '',
    state: state as SessionStateName,
    mailbox: typeof mailbox === 'number' ? mailbox : 0,
    updatedAt: typeof updatedAt === 'number' ? updatedAt : 0,
    ...(typeof parent === 'string' ? { parent } : {}),
    ...(typeof name === 'string' ? { name } : {}),
  };
}

/** One page of messages, ascending by `seq`. `isLast`: the server says there are no more behind it. */
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

/** The request, and what it breaks; the body is the request itself, or has it under `request`. */
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

/** Counters: the members that are numbers, and what the store refuses, if it does. */
export function readMetrics(body: unknown): {
  readonly counters: Readonly<Record<string, number>>;
  readonly degraded?: string;
} {
  const value = recordOf(body, 'the metrics');
  const counters: Record<string, number> = {};
  for (const [name, figure] of Object.entries(value)) if (typeof figure === 'number') counters[name] = figure;
  return typeof value['degraded'] === 'string' ? { counters, degraded: value['degraded'] } : { counters };
}

/** Whether what was said of a call holds; a server that says nothing of it has not refused it. */
export function readDecided(body: unknown): boolean {
  return recordOf(body, 'the decision')['decided'] !== false;
}

/** Why a session is not running: a reason and a sentence. */
export function readExplanation(body: unknown): { readonly reason: string; readonly detail: string } {
  const { reason, detail } = recordOf(body, 'the explanation');
  if (typeof reason !== 'string') throw new WireError('the explanation has no reason');
  return { reason, detail: typeof detail === 'string' ? detail : '' };
}

/** What stands in an error's body (RFC 9457). Never throws: an error without a body is an error all the same. */
export function readProblem(body: unknown): { readonly code?: string; readonly detail?: string } {
  if (!isRecord(body)) return {};
  const { code, detail, title } = body;
  const text = typeof detail === 'string' ? detail : title;
  return {
    ...(typeof code === 'string' ? { code } : {}),
    ...(typeof text === 'string' ? { detail: text } : {}),
  };
}

/** Members of content: an event has them in `debug` only. */
const CONTENT_MEMBERS: Readonly<Record<string, string>> = {
  'text.delta': 'text',
  'thinking.delta': 'text',
  bounce_back: 'content',
};

/** The event in the text of a `debug` stream; undefined for one of a type this page does not know, or that is not of its form. */
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
  // Its members were checked here and by `readViewedEvent`, name by name.
  return event as ObservedEvent;
}

/** The event in the text of a stream of any mode, read without its content; undefined as for `readEvent`. */
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
  // Its members were checked above, name by name.
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

/** A list of an answer; throws `WireError` for anything else. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new WireError(`"${name}" is not a list`);
  return value;
}
