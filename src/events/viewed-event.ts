/**
 * Decides which members events carry in each view mode. `debug` carries all members. `basic` and `verbose` carry ids,
 * counts, reasons and usage. The only content in these two modes is `rendered`: the event's cell in the rendering table
 * (contract, row F021). Pure.
 *
 * V2 No mode leaves out a durable event, because the seqs that a reader gets have no holes.
 * V3 If the rendering table hides an item in a mode, the event is carried without `rendered`.
 * V4 In `basic` and `verbose` an event carries only members that `EVENT_MEMBERS` names. A kind of event or a member
 *    that is missing in the table does not compile.
 */
import { describeValue, type ErrorShape } from '../base/errors.ts';
import type { Goal, SubGoal } from '../base/goals.ts';
import type { Message, Pending } from '../base/messages.ts';
import type { EventBody, SessionEvent } from './event.ts';
import type { Rendered, ViewMode } from './rendered.ts';
import { renderCall, renderMessage, renderPending, renderSpoken } from './view-modes.ts';

/** The modes that hide raw content. */
export type ShortViewMode = Exclude<ViewMode, 'debug'>;

/**
 * A message without its content. `rendered`: the message's cell in the rendering table. Only events that list several
 * messages have it here; an event with one message has `rendered` beside `message`.
 */
export type ViewedMessage = Omit<Message, 'content' | 'input' | 'blocks'> & { readonly rendered?: Rendered };
/** A mailbox entry without its content. */
export type ViewedPending = Omit<Pending, 'content'>;
/** An error without the data that may quote content. */
export type ViewedError = Omit<ErrorShape, 'data'>;
/** A part of a goal without its text. */
export type ViewedSubGoal = Omit<SubGoal, 'description'>;
/** A goal without its text. */
export type ViewedGoal = Omit<Goal, 'description' | 'subGoals'> & { readonly subGoals: readonly ViewedSubGoal[] };

/** Members of an event that are content and nothing else. */
type Content =
  | 'text'
  | 'thinking'
  | 'content'
  | 'input'
  | 'data'
  | 'output'
  | 'question'
  | 'choices'
  | 'schema'
  | 'detail';

/** The members of an event that hold content and other data, with the types of their reduced forms. */
interface Reduced {
  readonly message: ViewedMessage;
  readonly pending: ViewedPending;
  readonly created: readonly ViewedMessage[];
  readonly updated: readonly ViewedMessage[];
  readonly error: ViewedError;
  readonly goals: readonly ViewedGoal[];
}

type ViewOf<Body> = Body extends unknown
  ? { readonly [Name in keyof Body as Exclude<Name, Content>]: Name extends keyof Reduced ? Reduced[Name] : Body[Name] }
  : never;

/** An event as `basic` and `verbose` carry it: content appears only in `rendered`, and only if the mode shows it. */
export type ViewedEvent = {
  readonly session: string;
  readonly at: number;
  readonly seq?: number;
  readonly rendered?: Rendered;
} & ViewOf<EventBody>;

type Kind = EventBody['type'];
type BodyOf<Type extends Kind, Body = EventBody> = Body extends { readonly type: infer Types }
  ? Type extends Types
    ? Omit<Body, 'type'>
    : never
  : never;

/** Says how a member is carried: unchanged, hidden, or reduced by a function. */
type Carried<Name, Value> = Name extends Content
  ? 'hidden'
  : Name extends keyof Reduced
    ? (value: Value, mode: ShortViewMode) => Reduced[Name]
    : 'carried';
type Members<Body> = { readonly [Name in keyof Body]-?: Carried<Name, Body[Name]> };

const EVENT_MEMBERS: { readonly [Type in Kind]: Members<BodyOf<Type>> } = {
  'message.created': { message: viewedMessage },
  'message.updated': { message: viewedMessage },
  'message.removed': { messageSeq: 'carried', reason: 'carried' },
  'history.changed': {
    operation: 'carried',
    removed: 'carried',
    created: viewedMessages,
    updated: viewedMessages,
  },
  'compaction.applied': {
    number: 'carried',
    level: 'carried',
    archived: 'carried',
    created: viewedMessages,
    chunk: 'carried',
  },
  'compaction.failed': { reason: 'carried' },
  'pending.created': { pending: viewedPending },
  'pending.removed': { pendingId: 'carried', reason: 'carried' },
  'dead_letter.created': { letter: 'carried', error: viewedError },
  'dead_letter.removed': { letter: 'carried', reason: 'carried', pendingId: 'carried' },
  'session.state': { state: 'carried', phase: 'carried' },
  'text.delta': { text: 'hidden', turn: 'carried' },
  'thinking.delta': { text: 'hidden', turn: 'carried' },
  'tool.started': { toolUseId: 'carried', toolName: 'carried' },
  'tool.finished': { toolUseId: 'carried', toolName: 'carried', success: 'carried', ms: 'carried' },
  'tool.progress': { toolUseId: 'carried', data: 'hidden' },
  'tool.retry': { toolUseId: 'carried', toolName: 'carried', attempt: 'carried', waitMs: 'carried', reason: 'carried' },
  'turn.finished': {
    turn: 'carried',
    reason: 'carried',
    usage: 'carried',
    outcome: 'carried',
    stopDetails: 'carried',
    healedToolCallIds: 'carried',
    output: 'hidden',
    agent: 'carried',
  },
  'approval.required': { toolUseId: 'carried', toolName: 'carried', input: 'hidden' },
  'approval.decided': { toolUseId: 'carried', toolName: 'carried', allow: 'carried', by: 'carried' },
  'question.asked': {
    toolUseId: 'carried',
    toolName: 'carried',
    asked: 'carried',
    question: 'hidden',
    choices: 'hidden',
    schema: 'hidden',
    server: 'carried',
  },
  'session.rollback': { reason: 'carried', index: 'carried' },
  'turn.failed': { turn: 'carried', error: viewedError, agent: 'carried' },
  'agent.upgraded': { agent: 'carried', from: 'carried', version: 'carried' },
  bounce_back: { content: 'hidden', error: viewedError, messageSeq: 'carried' },
  authentication_required: { error: viewedError },
  'llm.retry': {
    attempt: 'carried',
    waitMs: 'carried',
    code: 'carried',
    detail: 'hidden',
    status: 'carried',
    repaired: 'carried',
  },
  'model.changed': { model: 'carried', reason: 'carried' },
  'llm.thread': { turn: 'carried', thread: 'carried', code: 'carried', bytes: 'carried' },
  'llm.lost': {
    turn: 'carried',
    attempt: 'carried',
    reason: 'carried',
    text: 'hidden',
    thinking: 'hidden',
    truncated: 'carried',
    usage: 'carried',
  },
  'interrupt.acknowledged': { reason: 'carried' },
  'child.spawned': { child: 'carried', name: 'carried' },
  'child.state': { child: 'carried', name: 'carried', state: 'carried' },
  'child.exited': { child: 'carried', name: 'carried', reason: 'carried' },
  'children.updated': { children: 'carried' },
  'subagent.evicted': { child: 'carried' },
  'goals.updated': { goals: viewedGoals },
  'skills.updated': { skills: 'carried' },
  'workflow.updated': { workflow: 'carried' },
  eviction: { below: 'carried' },
  'session.name': { name: 'carried' },
  'session.recovered': { redone: 'carried', synthesized: 'carried' },
  gap: { from: 'carried', to: 'carried' },
};

const MESSAGE_MEMBERS: {
  readonly [Name in keyof Message]-?: Name extends 'content' | 'input' | 'blocks' ? 'hidden' : 'carried';
} = {
  seq: 'carried',
  type: 'carried',
  content: 'hidden',
  at: 'carried',
  tokens: 'carried',
  toolUseId: 'carried',
  toolName: 'carried',
  input: 'hidden',
  success: 'carried',
  source: 'carried',
  usage: 'carried',
  key: 'carried',
  blocks: 'hidden',
};
const PENDING_MEMBERS: { readonly [Name in keyof Pending]-?: Name extends 'content' ? 'hidden' : 'carried' } = {
  id: 'carried',
  type: 'carried',
  kind: 'carried',
  content: 'hidden',
  at: 'carried',
  source: 'carried',
  toolUseId: 'carried',
  success: 'carried',
  deliver: 'carried',
  key: 'carried',
};
const ERROR_MEMBERS: { readonly [Name in keyof ErrorShape]-?: Name extends 'data' ? 'hidden' : 'carried' } = {
  name: 'carried',
  code: 'carried',
  message: 'carried',
  retryable: 'carried',
  data: 'hidden',
};

/**
 * An event as a mode shows it. In `debug` the event is whole, with `rendered` if it carries a message or an entry.
 * Undefined if the mode leaves the event out: `basic` has no live reasoning and no progress of tools.
 */
export function viewEvent(event: SessionEvent, mode: ViewMode): SessionEvent | ViewedEvent | undefined {
  if (mode === 'debug') return wholeEvent(event);
  if (mode === 'basic' && (event.type === 'thinking.delta' || event.type === 'tool.progress')) return undefined;
  return shortEvent(event, mode);
}

function wholeEvent(event: SessionEvent): SessionEvent {
  switch (event.type) {
    case 'message.created':
    case 'message.updated': {
      const rendered = renderMessage(event.message, 'debug');
      if (rendered === null) return event;
      const { session, at, seq, type, message } = event;
      // The members are written out, because a member after a spread costs more than the rendering.
      return seq === undefined ? { ...event, rendered } : { session, at, seq, type, message, rendered };
    }
    case 'pending.created': {
      const rendered = renderPending(event.pending, 'debug');
      if (rendered === null) return event;
      const { session, at, seq, type, pending } = event;
      return seq === undefined ? { ...event, rendered } : { session, at, seq, type, pending, rendered };
    }
    default:
      return event;
  }
}

/** One step of a copy: the name of a member, and the function that reduces it, if any. */
type Step = readonly [name: string, reduce: ((value: unknown, mode: ShortViewMode) => unknown) | undefined];

const EVENT_STEPS: ReadonlyMap<string, readonly Step[]> = new Map(
  Object.entries(EVENT_MEMBERS).map(([type, members]) => [type, stepsOf(members)]),
);
const MESSAGE_STEPS: readonly Step[] = stepsOf(MESSAGE_MEMBERS);
const PENDING_STEPS: readonly Step[] = stepsOf(PENDING_MEMBERS);
const ERROR_STEPS: readonly Step[] = stepsOf(ERROR_MEMBERS);

function stepsOf(members: object): readonly Step[] {
  const steps: Step[] = [];
  for (const [name, how] of Object.entries(members) as [string, unknown][]) {
    if (how === 'hidden') continue;
    // The types of the tables guarantee that each function takes the value of its member.
    steps.push([name, typeof how === 'function' ? (how as NonNullable<Step[1]>) : undefined]);
  }
  return steps;
}

function shortEvent(event: SessionEvent, mode: ShortViewMode): ViewedEvent {
  const { session, at, seq, type } = event;
  const steps = EVENT_STEPS.get(type);
  if (steps === undefined) throw new Error(`the members of an event ${describeValue(type)} are not listed`);
  const seen: Record<string, unknown> = seq === undefined ? { session, at, type } : { session, at, seq, type };
  copyInto(seen, event, steps, mode);
  const rendered = cellOf(event, mode);
  if (rendered !== null) seen['rendered'] = rendered;
  return seen as ViewedEvent;
}

/** Copies the members that the steps name and the source has. */
function copyInto(target: Record<string, unknown>, source: object, steps: readonly Step[], mode: ShortViewMode): void {
  const members = source as Readonly<Record<string, unknown>>;
  for (const [name, reduce] of steps) {
    const value = members[name];
    if (value !== undefined) target[name] = reduce === undefined ? value : reduce(value, mode);
  }
}

/** The cell of an event with one readable item; null if the event has no such item, or if the mode does not show it. */
function cellOf(event: SessionEvent, mode: ShortViewMode): Rendered | null {
  switch (event.type) {
    case 'message.created':
    case 'message.updated':
      return renderMessage(event.message, mode);
    case 'pending.created':
      return renderPending(event.pending, mode);
    case 'llm.lost':
      if (event.text === '') return null;
      return renderSpoken('assistant', { content: event.text, at: event.at, tokens: 0 }, mode);
    case 'text.delta':
      return renderSpoken('assistant', { content: event.text, at: event.at, tokens: 0 }, mode);
    case 'bounce_back':
      return renderSpoken('user', { content: event.content, at: event.at, tokens: 0 }, mode);
    case 'approval.required':
      return renderCall(event, mode);
    case 'question.asked':
      // A question to a person is shown in every mode. A question to a parent is internal, so `basic` hides it.
      if (mode === 'basic' && event.asked === 'parent') return null;
      return renderSpoken('assistant', { content: event.question, at: event.at, tokens: 0 }, mode);
    default:
      return null;
  }
}

function viewedMessage(message: Message, mode: ShortViewMode): ViewedMessage {
  const seen: Record<string, unknown> = {};
  copyInto(seen, message, MESSAGE_STEPS, mode);
  return seen as unknown as ViewedMessage;
}

function viewedMessages(messages: readonly Message[], mode: ShortViewMode): readonly ViewedMessage[] {
  return messages.map((message) => {
    const rendered = renderMessage(message, mode);
    const seen = viewedMessage(message, mode);
    return rendered === null ? seen : { ...seen, rendered };
  });
}

function viewedPending(pending: Pending, mode: ShortViewMode): ViewedPending {
  const seen: Record<string, unknown> = {};
  copyInto(seen, pending, PENDING_STEPS, mode);
  return seen as unknown as ViewedPending;
}

function viewedError(error: ErrorShape, mode: ShortViewMode): ViewedError {
  const seen: Record<string, unknown> = {};
  copyInto(seen, error, ERROR_STEPS, mode);
  return seen as unknown as ViewedError;
}

function viewedGoals(goals: readonly Goal[]): readonly ViewedGoal[] {
  const part = ({ id, status }: SubGoal): ViewedSubGoal => ({ id, status });
  return goals.map(({ parentId, subGoals, ...goal }) => ({
    ...part(goal),
    ...(parentId === undefined ? {} : { parentId }),
    subGoals: subGoals.map(part),
  }));
}
