/**
 * The reports of the victims over all lives, which every check compares with the store. The ledger also finds
 * contradictions among the reports themselves: an answer with two contents, a key with two receipts, acceptances out of
 * order.
 */
import { HistoryStories } from './history-stories.ts';
import type { CallLine, Line, Outcome, SentMessage, SpawnWish, ToolLine } from './protocol.ts';
import { SessionStories } from './session-stories.ts';

/**
 * Kinds of violation, in the words of the invariants. I1: lost, duplicated, reordered. I2: changed. I3: illegal. I4:
 * repeated. I5: lost, duplicated. I6: orphan, unbalanced. I7: stuck. `torn`: a transition that is stored in part.
 * `redone`: work after an orderly end. `resurrected`: a deleted session that is there again. `left`: bytes of a session
 * that is erased.
 */
export type ViolationKind =
  | 'lost'
  | 'duplicated'
  | 'reordered'
  | 'torn'
  | 'illegal'
  | 'orphan'
  | 'resurrected'
  | 'left'
  | 'redone'
  | 'changed'
  | 'repeated'
  | 'unbalanced'
  | 'stuck'
  | 'failed';

/** One broken promise. */
export interface Violation {
  readonly kind: ViolationKind;
  readonly what: string;
}

/** A message with the reports to its sender. */
export interface MessageStory {
  readonly message: SentMessage;
  /** Highest acknowledged id of the session when the message was sent. */
  readonly sentAfter: number;
  pendingId?: number;
  isRefused?: true;
}

/** A spawn with the reports to its caller. */
export interface SpawnStory {
  readonly wish: SpawnWish;
  child?: string;
}

/** An answer as it was reported to its sender. */
export interface AnswerStory {
  readonly session: string;
  readonly pendingId: number;
  readonly outcome: Outcome;
}

/** Numbers of reports (acknowledged messages and spawns, answers, events) and of runs. */
export interface Counts {
  acknowledged: number;
  spawned: number;
  answers: number;
  events: number;
  recalled: number;
  deleted: number;
  /** Acknowledged changes of notes, and forks. */
  edits: number;
  forks: number;
  modelCalls: number;
  museCalls: number;
  toolRuns: number;
  probes: number;
}

/** Counts of zero. */
export function noCounts(): Counts {
  const told = { acknowledged: 0, spawned: 0, answers: 0, events: 0, recalled: 0, deleted: 0, edits: 0, forks: 0 };
  return { ...told, modelCalls: 0, museCalls: 0, toolRuns: 0, probes: 0 };
}

/** All starts of one tool call, and the effects it reported. */
export interface ToolStory {
  readonly tool: string;
  readonly starts: number[];
  /** Lives in which the probe of the call ran. */
  readonly asks: number[];
  ends: number;
}

/** See the head of the file. */
export class Ledger {
  readonly messages: Map<string, MessageStory> = new Map();
  readonly spawns: Map<string, SpawnStory> = new Map();
  /** By receipt: `<session>/<pending id>`. */
  readonly answers: Map<string, AnswerStory> = new Map();
  readonly replies: Map<string, Outcome> = new Map();
  readonly events: Map<string, Map<number, string>> = new Map();
  /** Numbers of events that a gap reported to a reader as missing, by session. */
  readonly gaps: Map<string, { readonly from: number; readonly to: number }[]> = new Map();
  readonly tools: Map<string, ToolStory> = new Map();
  /** Model calls in order, by session. */
  readonly calls: Map<string, CallLine[]> = new Map();
  readonly violations: Violation[] = [];
  readonly counts: Counts = noCounts();
  readonly sessions: SessionStories = new SessionStories();
  readonly histories: HistoryStories = new HistoryStories();
  readonly #acknowledgedUpTo = new Map<string, number>();

  violate(kind: ViolationKind, what: string): void {
    this.violations.push({ kind, what });
  }

  /** Takes a line of a victim. */
  hear(line: Line): void {
    this.sessions.hear(line);
    this.histories.hear(line);
    switch (line.type) {
      case 'intent': {
        const { message } = line;
        if (this.messages.has(message.uid)) return;
        this.messages.set(message.uid, { message, sentAfter: this.#acknowledgedUpTo.get(message.session) ?? 0 });
        return;
      }
      case 'acknowledged':
        return this.#acknowledged(line);
      case 'refused': {
        const story = this.messages.get(line.uid);
        if (story !== undefined) story.isRefused = true;
        return;
      }
      case 'answer':
        return this.#answered(line);
      case 'spawning':
        if (!this.spawns.has(line.wish.uid)) this.spawns.set(line.wish.uid, { wish: line.wish });
        return;
      case 'spawned':
        return this.#spawned(line);
      case 'reply':
        return this.#replied(line);
      case 'event':
        return this.#event(line);
      case 'gap': {
        const gaps = this.gaps.get(line.session) ?? [];
        this.gaps.set(line.session, [...gaps, { from: line.from, to: line.to }]);
        return;
      }
      case 'state':
        if (line.why !== '') this.violate('stuck', `${line.session} is ${line.state}: ${line.why}`);
        return;
      case 'trouble':
        this.violate('failed', line.what);
        return;
      case 'recalled':
        if (line.won) this.counts.recalled += 1;
        return;
      case 'deleted':
        this.counts.deleted += 1;
        return;
      case 'noted':
        this.counts.edits += 1;
        return;
      case 'forked':
        this.counts.forks += 1;
        return;
      default:
        return;
    }
  }

  /** Takes lines of the tools. */
  hearTools(lines: readonly ToolLine[]): void {
    for (const { type, tool, key, life } of lines) {
      const story = this.tools.get(key) ?? { tool, starts: [], asks: [], ends: 0 };
      this.tools.set(key, story);
      if (type === 'started') {
        story.starts.push(life);
        this.counts.toolRuns += 1;
      } else if (type === 'asked') {
        story.asks.push(life);
        this.counts.probes += 1;
      } else story.ends += 1;
    }
  }

  /** Takes lines of the provider. */
  hearCalls(lines: readonly CallLine[]): void {
    for (const line of lines) {
      for (const text of line.illegal)
        this.violate('illegal', `request of ${line.session} in life ${line.life}: ${text}`);
      // An enricher's call begins again after each kill: no caller received its result.
      if (line.isEnricher === true) {
        this.counts.museCalls += 1;
        continue;
      }
      this.counts.modelCalls += 1;
      const calls = this.calls.get(line.session);
      if (calls === undefined) this.calls.set(line.session, [line]);
      else calls.push(line);
    }
  }

  #acknowledged({ uid, pendingId, duplicate }: Extract<Line, { type: 'acknowledged' }>): void {
    const story = this.messages.get(uid);
    if (story === undefined) return this.violate('failed', `an acknowledgement of ${uid}, which was never sent`);
    const { session } = story.message;
    if (story.pendingId !== undefined && story.pendingId !== pendingId) {
      this.violate('duplicated', `${uid} of ${session} has two receipts: ${story.pendingId} and ${pendingId}`);
    }
    // An acknowledged key is known, so accepting it again would be a duplicate message.
    if (story.pendingId !== undefined && !duplicate)
      this.violate('duplicated', `${uid} of ${session} was accepted again`);
    if (story.pendingId === undefined) {
      this.counts.acknowledged += 1;
      if (pendingId <= story.sentAfter) {
        this.violate(
          'reordered',
          `${uid} of ${session} is ${pendingId}, sent after ${story.sentAfter} was acknowledged`,
        );
      }
    }
    story.pendingId = pendingId;
    this.#acknowledgedUpTo.set(session, Math.max(pendingId, this.#acknowledgedUpTo.get(session) ?? 0));
  }

  #answered(line: Extract<Line, { type: 'answer' }>): void {
    const { session, pendingId, outcome } = line;
    const receipt = `${session}/${pendingId}`;
    const before = this.answers.get(receipt)?.outcome;
    if (before === undefined) this.counts.answers += 1;
    else if (!isSame(before, outcome))
      this.violate('changed', `the answer of ${receipt}: ${show(before)}, then ${show(outcome)}`);
    this.answers.set(receipt, { session, pendingId, outcome });
  }

  #spawned({ uid, child }: Extract<Line, { type: 'spawned' }>): void {
    const story = this.spawns.get(uid);
    if (story === undefined) return this.violate('failed', `${uid} was spawned and never asked for`);
    if (story.child === undefined) this.counts.spawned += 1;
    else if (story.child !== child) this.violate('duplicated', `${uid} is ${story.child} and ${child}`);
    story.child = child;
  }

  #replied({ child, outcome }: Extract<Line, { type: 'reply' }>): void {
    const before = this.replies.get(child);
    // A child that has completed has one reply; one that was cancelled or failed may end again.
    if (before?.kind === 'text' && !isSame(before, outcome)) {
      this.violate('changed', `the reply of ${child}: ${show(before)}, then ${show(outcome)}`);
    }
    this.replies.set(child, outcome);
  }

  #event({ session, seq, digest }: Extract<Line, { type: 'event' }>): void {
    const told = this.events.get(session) ?? new Map<number, string>();
    this.events.set(session, told);
    const before = told.get(seq);
    if (before === undefined) this.counts.events += 1;
    else if (before !== digest) this.violate('changed', `event ${seq} of ${session}`);
    told.set(seq, digest);
  }
}

function isSame(a: Outcome, b: Outcome): boolean {
  return a.kind === b.kind && a.text === b.text;
}

function show({ kind, text }: Outcome): string {
  return `${kind} ${JSON.stringify(text)}`;
}
