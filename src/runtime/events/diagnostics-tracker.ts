/**
 * Turns the events of sessions into operations: turns, model calls, tools, children, waits in a mailbox.
 *
 * Owns: the open operations of the sessions whose events it takes. Does not own: the source of events, the subscribers.
 *  G1 An end is published after its start, once. For a turn that began before the first event seen, publishing begins
 *     with its next half-step.
 *  G2 A hole in a session's durable events, or a call of `cutOff` because some were lost, ends the session's open
 *     operations as `unseen`.
 *  G3 A session without open operations is not held. Beyond the bound the session that was held longest is dropped, and
 *     its operations end as `unseen`.
 *
 * Events do not carry whole operations: an end would have to repeat parts of earlier events, such as the messages of a
 * turn or the input of a tool. Then each content would cross threads twice. No event marks the start of a model call
 * either: it is inferred from `session.state`, from the wait in `llm.retry`, or from an answer that paused its turn. An
 * event `llm.started` took 0.85 us more per half-step between threads (Xeon, two cores, Node 20.20). As a durable event
 * it would also renumber the events of stored sessions.
 */
import { DIAGNOSED_MESSAGES_MAX, DIAGNOSED_SESSIONS_MAX } from '../../base/bounds.ts';
import {
  type DiagnosticsMessages,
  type DiagnosticsName,
  isSubscribed,
  publishDiagnostics,
  type SessionFacts,
} from '../../base/diagnostics.ts';
import type { Draft } from '../../base/draft.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { Message, Pending, Usage } from '../../base/messages.ts';
import type { SessionEvent } from '../../events/event.ts';

type EventOf<T extends SessionEvent['type']> = Extract<SessionEvent, { readonly type: T }>;
/**
 * A message under construction. Its members are assigned to one object without a spread, because adding a member after
 * a spread costs a microsecond.
 */
type Started<N extends DiagnosticsName> = Draft<Extract<DiagnosticsMessages[N], { readonly phase: 'start' }>>;
type Ended<N extends DiagnosticsName> = Draft<Extract<DiagnosticsMessages[N], { readonly phase: 'end' }>>;
/** The common members of all messages of a session. */
type OfSession = SessionFacts & { readonly runtime: object; readonly at: number };

interface Turn {
  readonly at: number;
  modelCalls: number;
  toolCalls: number;
  readonly messages: readonly Message[];
}

interface Call {
  readonly at: number;
  readonly attempt: number;
  firstChunkAt?: number;
}

/**
 * A call that the model asked for, until it ends. There are few at a time, so they are in a list: a map would be
 * created in each turn.
 */
interface AskedTool {
  readonly toolUseId: string;
  readonly input: unknown;
  /** The start time of the call and the tool's name; missing until the call starts. */
  started?: { readonly at: number; readonly toolName: string };
}

/** The open operations of one session. */
interface Followed {
  readonly facts: SessionFacts;
  /** The number of the newest durable event seen. */
  seq: number;
  turn: Turn | undefined;
  call: Call | undefined;
  /** The next attempt with its inferred start time. */
  next: { readonly at: number; readonly attempt: number } | undefined;
  /** The answer of `call`, kept until it is known why the model stopped. */
  answer: Message[];
  answeredAt: number;
  usage: Usage | undefined;
  tools: AskedTool[];
  /** Waiting entries. They are in a list too, since there are few and the oldest leaves first. */
  readonly pending: Pending[];
  /** The session's children; missing until there is one. */
  children: Set<string> | undefined;
  /** Messages of users that the open turn, or the next turn, consumes. */
  messages: Message[];
}

/** The end of an attempt. */
interface CallEnd {
  readonly stop?: string;
  readonly status?: number;
  readonly error?: ErrorShape;
  readonly retryAfterMs?: number;
}

interface ToolEnd {
  readonly at: number;
  readonly success: boolean;
  readonly ms?: number | undefined;
  readonly result?: Pending['content'] | undefined;
}

interface TurnEnd {
  readonly reason: string;
  readonly turn?: string;
  readonly usage?: Usage;
  readonly error?: ErrorShape;
}

/** See the head of the file. Lives on the host thread, and publishes synchronously. */
export class DiagnosticsTracker {
  readonly #runtime: object;
  readonly #sessions = new Map<string, Followed>();
  readonly #turnEnded: (facts: SessionFacts, at: number) => void;
  /** The session of the last event, and its id: consecutive events are mostly of one session. */
  #latest: Followed | undefined;
  #latestName = '';

  /** `turnEnded`: called after each end of a turn. */
  constructor(runtime: object, turnEnded: (facts: SessionFacts, at: number) => void) {
    this.#runtime = runtime;
    this.#turnEnded = turnEnded;
  }

  /** Number of sessions with open operations. */
  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Takes the next event of a session with open operations. For any other session it returns false and does nothing.
   * Never throws.
   */
  takeFollowed(event: SessionEvent): boolean {
    if (event.session !== this.#latestName) {
      this.#latestName = event.session;
      this.#latest = this.#sessions.get(event.session);
    }
    if (this.#latest === undefined) return false;
    this.#takeOf(this.#latest, event);
    return true;
  }

  /** Takes the next event of a session with these facts. Never throws. */
  take(event: SessionEvent, facts: SessionFacts): void {
    if (this.takeFollowed(event)) return;
    this.#takeOf(this.#begin(event.session, facts), event);
    if (this.#sessions.size > DIAGNOSED_SESSIONS_MAX) this.#loseOldest(event.at);
  }

  /** Ends the session's open operations as `unseen`, because the events that end them were lost. */
  cutOff(session: string, at: number): void {
    const known = this.#sessions.get(session);
    if (known !== undefined) this.#lose(known, at);
  }

  #takeOf(followedBefore: Followed, event: SessionEvent): void {
    let session = followedBefore;
    const { seq } = event;
    if (seq !== undefined && session.seq > 0) {
      if (seq <= session.seq) return;
      if (seq > session.seq + 1) {
        this.#lose(session, event.at);
        session = this.#begin(event.session, session.facts);
      }
    }
    if (seq !== undefined) session.seq = seq;
    this.#follow(session, event);
    if (isQuiet(session)) this.#forget(event.session);
  }

  /** Ends all open operations as `unseen`: no more events will come. */
  end(at: number): void {
    for (const session of this.#sessions.values()) this.#lose(session, at);
  }

  #begin(id: string, facts: SessionFacts): Followed {
    const session = followed(facts);
    this.#sessions.set(id, session);
    this.#latestName = id;
    this.#latest = session;
    return session;
  }

  #forget(id: string): void {
    this.#sessions.delete(id);
    if (id === this.#latestName) this.#latest = undefined;
  }

  #follow(session: Followed, event: SessionEvent): void {
    switch (event.type) {
      case 'pending.created':
        this.#accepted(session, event);
        break;
      case 'pending.removed':
        this.#left(session, event);
        break;
      case 'session.state':
        this.#entered(session, event);
        break;
      case 'message.created':
        this.#logged(session, event.message, event.at);
        break;
      case 'text.delta':
      case 'thinking.delta': {
        const call = this.#openCall(session, event.at);
        if (call !== undefined) call.firstChunkAt ??= event.at;
        break;
      }
      case 'llm.retry': {
        this.#openCall(session, event.at);
        const { attempt, waitMs, status } = event;
        const how: Draft<CallEnd> = { retryAfterMs: waitMs };
        if (status !== undefined) how.status = status;
        this.#endCall(session, event.at, how);
        session.next = { at: event.at + waitMs, attempt: attempt + 1 };
        break;
      }
      case 'tool.started':
        this.#toolStarted(session, event);
        break;
      case 'tool.finished':
        this.#toolFinished(session, event);
        break;
      case 'turn.finished':
        this.#endTurn(session, event.at, { reason: event.reason, turn: event.turn, usage: event.usage });
        break;
      case 'turn.failed':
        this.#endTurn(session, event.at, { reason: 'failed', turn: event.turn, error: event.error });
        break;
      case 'child.spawned':
        this.#spawned(session, event);
        break;
      case 'child.exited':
        this.#exited(session, event);
        break;
      default:
        break;
    }
  }

  #accepted(session: Followed, event: EventOf<'pending.created'>): void {
    const { id, type } = event.pending;
    session.pending.push(event.pending);
    if (!isSubscribed('mailbox')) return;
    publishDiagnostics('mailbox', this.#of(session, event.at, { pendingId: id, type, phase: 'start' }));
  }

  #left(session: Followed, event: EventOf<'pending.removed'>): void {
    this.#leave(session, event.pendingId, event.reason, event.at);
  }

  #leave(
    session: Followed,
    pendingId: number,
    reason: EventOf<'pending.removed'>['reason'] | 'unseen',
    at: number,
  ): void {
    const entry = taken(session.pending, 'id', pendingId);
    if (entry === undefined || !isSubscribed('mailbox')) return;
    publishDiagnostics(
      'mailbox',
      this.#of(session, at, {
        pendingId,
        type: entry.type,
        phase: 'end',
        waitMs: at - entry.at,
        reason,
      }),
    );
  }

  #entered(session: Followed, { state, phase, at }: EventOf<'session.state'>): void {
    if (phase !== undefined) return;
    if (state === 'executing') this.#endCall(session, at, { stop: 'tool_use' });
    if (state !== 'awaiting') return;
    if (session.turn === undefined) {
      session.turn = { at, modelCalls: 0, toolCalls: 0, messages: session.messages };
      if (isSubscribed('turn')) publishDiagnostics('turn', this.#of(session, at, { phase: 'start' }));
    }
    // A state that is published again after `resume` begins nothing.
    if (session.call === undefined) session.next ??= { at, attempt: 1 };
    if (session.next?.attempt === 1) this.#openCall(session, at);
  }

  #logged(session: Followed, message: Message, at: number): void {
    if (message.type === 'user_message') {
      if (session.messages.length < DIAGNOSED_MESSAGES_MAX) session.messages.push(message);
      return;
    }
    const isAnswer = message.type === 'agent_message' || (message.type === 'tool_call' && message.source === undefined);
    if (!isAnswer || session.turn === undefined) return;
    const { toolUseId, input } = message;
    if (toolUseId !== undefined) session.tools.push({ toolUseId, input });
    if (message.usage !== undefined) {
      this.#openCall(session, at);
      session.usage = message.usage;
      session.answeredAt = at;
    }
    if (session.call !== undefined && session.answer.length < DIAGNOSED_MESSAGES_MAX) session.answer.push(message);
  }

  /** The attempt in flight, started now if needed; undefined outside a followed turn. */
  #openCall(session: Followed, at: number): Call | undefined {
    // The open call already has its answer, so this event belongs to the next call. The state did not change between
    // the two, so the answer stopped with `pause_turn`.
    if (session.call !== undefined && session.answer.length > 0) {
      this.#endCall(session, session.answeredAt, { stop: 'pause_turn' });
      session.next = { at: session.answeredAt, attempt: 1 };
    }
    const { turn, next } = session;
    if (session.call !== undefined || turn === undefined || next === undefined) return session.call;
    session.next = undefined;
    const call: Call = { at: Math.min(next.at, at), attempt: next.attempt };
    session.call = call;
    turn.modelCalls += 1;
    if (isSubscribed('modelCall')) {
      const { attempt } = call;
      publishDiagnostics('modelCall', this.#of(session, call.at, { phase: 'start', attempt }));
    }
    return call;
  }

  #endCall(session: Followed, at: number, { stop, status, error, retryAfterMs }: CallEnd): void {
    const { call, usage, answer } = session;
    if (call === undefined) return;
    const endedAt = answer.length > 0 ? session.answeredAt : at;
    session.call = undefined;
    session.answer = [];
    session.usage = undefined;
    if (!isSubscribed('modelCall')) return;
    const { attempt, firstChunkAt } = call;
    const ms = endedAt - call.at;
    const message: Ended<'modelCall'> = this.#of(session, endedAt, { phase: 'end', attempt, ms, answer });
    if (stop !== undefined) message.stop = stop;
    if (status !== undefined) message.status = status;
    if (error !== undefined) message.error = error;
    if (retryAfterMs !== undefined) message.retryAfterMs = retryAfterMs;
    if (usage !== undefined) message.usage = usage;
    if (firstChunkAt !== undefined) message.firstChunkMs = firstChunkAt - call.at;
    publishDiagnostics('modelCall', message);
  }

  #toolStarted(session: Followed, { toolUseId, toolName, at }: EventOf<'tool.started'>): void {
    const { turn, tools } = session;
    if (turn === undefined) return;
    let tool = tools[placeOf(tools, 'toolUseId', toolUseId)];
    if (tool === undefined) {
      tool = { toolUseId, input: undefined };
      tools.push(tool);
    }
    tool.started = { at, toolName };
    turn.toolCalls += 1;
    if (!isSubscribed('tool')) return;
    publishDiagnostics('tool', this.#of(session, at, { toolUseId, toolName, phase: 'start', input: tool.input }));
  }

  #toolFinished(session: Followed, { toolUseId, success, at, ms }: EventOf<'tool.finished'>): void {
    const tool = taken(session.tools, 'toolUseId', toolUseId);
    if (tool !== undefined) this.#endTool(session, tool, { at, success, ms, result: resultOf(session, toolUseId) });
  }

  #endTool(session: Followed, { toolUseId, started }: AskedTool, { at, success, ms, result }: ToolEnd): void {
    if (started === undefined || !isSubscribed('tool')) return;
    const { toolName } = started;
    const took = ms ?? at - started.at;
    const message: Ended<'tool'> = this.#of(session, at, { toolUseId, toolName, phase: 'end', ms: took, success });
    if (result !== undefined) message.result = result;
    publishDiagnostics('tool', message);
  }

  #endTurn(session: Followed, at: number, { reason, turn: name, usage, error }: TurnEnd): void {
    const { turn } = session;
    // An attempt that still waits for its start time has not begun and never will.
    if (session.next !== undefined && session.next.at > at) session.next = undefined;
    if (session.call === undefined) this.#openCall(session, at);
    this.#endCall(session, at, error === undefined || session.answer.length > 0 ? { stop: reason } : { error });
    for (const tool of session.tools) this.#endTool(session, tool, { at, success: false });
    session.tools = [];
    session.turn = undefined;
    session.next = undefined;
    session.messages = [];
    if (turn === undefined) return;
    if (isSubscribed('turn')) {
      const { modelCalls, toolCalls, messages } = turn;
      const ms = at - turn.at;
      const message: Ended<'turn'> = this.#of(session, at, {
        phase: 'end',
        ms,
        reason,
        modelCalls,
        toolCalls,
        messages,
      });
      if (name !== undefined) message.turn = name;
      if (usage !== undefined) message.usage = usage;
      if (error !== undefined) message.error = error;
      publishDiagnostics('turn', message);
    }
    this.#turnEnded(session.facts, at);
  }

  #spawned(session: Followed, { child, name, at }: EventOf<'child.spawned'>): void {
    session.children ??= new Set();
    session.children.add(child);
    if (!isSubscribed('spawn')) return;
    const message: Started<'spawn'> = this.#of(session, at, { child, phase: 'start' });
    if (name !== undefined) message.name = name;
    publishDiagnostics('spawn', message);
  }

  #exited(
    session: Followed,
    { child, name, reason, at }: Pick<EventOf<'child.exited'>, 'child' | 'name' | 'reason' | 'at'>,
  ): void {
    if (session.children?.delete(child) !== true || !isSubscribed('spawn')) return;
    const message: Ended<'spawn'> = this.#of(session, at, { child, phase: 'end', reason });
    if (name !== undefined) message.name = name;
    publishDiagnostics('spawn', message);
  }

  /**
   * Adds the common members of a session to a message. Changes the given object: a second object would double the cost.
   */
  #of<T extends object>({ facts }: Followed, at: number, rest: T): OfSession & T {
    const { session, provider, agent, parent, model } = facts;
    const message = rest as T & Draft<OfSession>;
    message.runtime = this.#runtime;
    message.at = at;
    message.session = session;
    message.provider = provider;
    message.agent = agent;
    if (parent !== undefined) message.parent = parent;
    if (model !== undefined) message.model = model;
    return message;
  }

  #loseOldest(at: number): void {
    for (const session of this.#sessions.values()) {
      this.#lose(session, at);
      return;
    }
  }

  #lose(session: Followed, at: number): void {
    this.#endTurn(session, at, { reason: 'unseen' });
    for (const { id } of [...session.pending]) this.#leave(session, id, 'unseen', at);
    for (const child of [...(session.children ?? [])]) this.#exited(session, { child, reason: 'unseen', at });
    this.#forget(session.facts.session);
  }
}

/** The content of the tool's response, which was accepted into the mailbox directly before `tool.finished`. */
function resultOf({ pending }: Followed, toolUseId: string): Pending['content'] | undefined {
  return pending[placeOf(pending, 'toolUseId', toolUseId)]?.content;
}

/** The index of the first element with this value; -1: none. For few elements a loop costs less than closures. */
function placeOf<T, K extends keyof T>(list: readonly T[], key: K, value: T[K]): number {
  for (let place = 0; place < list.length; place += 1) if (list[place]?.[key] === value) return place;
  return -1;
}

/** Removes the first element with this value from a list, and returns it. */
function taken<T, K extends keyof T>(list: T[], key: K, value: T[K]): T | undefined {
  const place = placeOf(list, key, value);
  if (place === 0) return list.shift();
  return place < 0 ? undefined : list.splice(place, 1)[0];
}

function followed(facts: SessionFacts): Followed {
  return {
    facts,
    seq: 0,
    turn: undefined,
    call: undefined,
    next: undefined,
    answer: [],
    answeredAt: 0,
    usage: undefined,
    tools: [],
    pending: [],
    children: undefined,
    messages: [],
  };
}

function isQuiet({ turn, pending, children, messages }: Followed): boolean {
  return turn === undefined && pending.length === 0 && (children?.size ?? 0) === 0 && messages.length === 0;
}
