/**
 * Facts of a session's log, gathered transition by transition with the runtime's own fold. They are the fates of
 * messages, the requests as sent, calls and their results, and texts between child and parent. `checks.ts` judges them.
 */

import { textOf } from '../../src/base/messages.ts';
import { compactionMessages } from '../../src/context/compaction-request.ts';
import { checkRequest, fatalOf } from '../../src/context/legality/legality.ts';
import { type RenderOptions, renderSession } from '../../src/context/render.ts';
import type { EventBody } from '../../src/events/event.ts';
import { apply } from '../../src/session/apply/apply.ts';
import type { Observer } from '../../src/session/apply/fold.ts';
import { callKey } from '../../src/session/decide/tools.ts';
import { historyMessages } from '../../src/session/history/history-form.ts';
import { answerText } from '../../src/session/rules/answer.ts';
import type { Entry, SessionRecord, TransitionRecords } from '../../src/session/state/records.ts';
import { emptyState, type ReceiptState, type SessionState } from '../../src/session/state/state.ts';
import { type EnricherFacts, noEnricherFacts, noteEnrichers } from './enricher-checks.ts';
import { digestOf, noteIn, uidsIn } from './protocol.ts';

const RENDERING: RenderOptions = { timestamps: false, deliveriesAsText: false };

/** A tool call of the log with its outcome. */
export interface CallFact {
  readonly tool: string;
  readonly results: { readonly content: string; readonly success: boolean }[];
}

/** Everything that the checks read of one session. */
export interface SessionFacts {
  readonly id: string;
  readonly state: SessionState;
  /** Accepted entries by id, one for each record that accepts it. */
  readonly accepted: Map<number, Entry[]>;
  /** The causes that took an entry out of the mailbox, one for each record. */
  readonly fates: Map<number, string[]>;
  /** Promoted entries in order of promotion. */
  readonly promoted: number[];
  readonly settled: Map<number, ReceiptState>;
  /** How often a uid occurs in a user message of the log. */
  readonly logged: Map<string, number>;
  /** Ids accepted under a key. */
  readonly keys: Map<string, number[]>;
  /** By idempotency key: the session and the seq of the call. */
  readonly calls: Map<string, CallFact>;
  /** Half-steps by the digest of the request's messages. */
  readonly requests: Map<string, number>;
  readonly responded: Set<number>;
  /** The session's texts to its parent, in order. */
  readonly said: string[];
  /** The texts received from each child, by nickname, in order. */
  readonly heard: Map<string, string[]>;
  readonly spawned: Map<string, { readonly name: string; readonly replies: string; readonly key: string | undefined }>;
  readonly childExits: Map<string, number>;
  /** How often each child was to work again after an end. */
  readonly childRevivals: Map<string, number>;
  readonly exits: { readonly reason: string; readonly reply: string }[];
  readonly failures: string[];
  /** Digests of durable events; index 0 is event 1. */
  readonly events: string[];
  /** Notes now in the history, by uid: their whole texts. */
  readonly notes: Map<string, string>;
  /** For a fork: a digest of its initial history. */
  begins: string | undefined;
  /** Half-steps that began while the session was paused. */
  readonly claimedPaused: number[];
  /** Number of `session.recovered` events: how often the session was found with lost work. */
  recoveries: number;
  /** The traces of enrichers. */
  readonly enrichers: EnricherFacts;
  /** The reasons why the API would refuse a request from the current log. */
  readonly illegal: readonly string[];
}

type Gathered = Omit<SessionFacts, 'illegal'>;

/** Folds a session's transitions. Throws where the runtime would call the log corrupt. */
export function gatherFacts(id: string, turns: Iterable<TransitionRecords>): SessionFacts {
  const gatherer = new FactsGatherer(id);
  for (const turn of turns) gatherer.turn(turn);
  return gatherer.facts();
}

/** The messages of the request for this state; every agent of the workload has tools. */
function requestMessages(state: SessionState): ReturnType<typeof renderSession> {
  return renderSession(state, RENDERING);
}

/** The messages of the current half-step's request. */
function sentMessages(state: SessionState): ReturnType<typeof renderSession> {
  const compaction = state.current?.compaction;
  return compaction === undefined ? requestMessages(state) : compactionMessages(state, compaction, RENDERING);
}

/** Folds a session's log as it grows: each transition once, over all lives. */
export class FactsGatherer {
  readonly #facts: Gathered;
  readonly #callKeys = new Map<string, string>();
  readonly #observer: Observer;

  constructor(id: string) {
    const facts: Gathered = {
      id,
      state: emptyState(id),
      accepted: new Map(),
      fates: new Map(),
      promoted: [],
      settled: new Map(),
      logged: new Map(),
      keys: new Map(),
      calls: new Map(),
      requests: new Map(),
      responded: new Set(),
      said: [],
      heard: new Map(),
      spawned: new Map(),
      childExits: new Map(),
      childRevivals: new Map(),
      exits: [],
      failures: [],
      events: [],
      notes: new Map(),
      begins: undefined,
      claimedPaused: [],
      recoveries: 0,
      enrichers: noEnricherFacts(),
    };
    this.#facts = facts;
    this.#observer = {
      event: (body) => this.#event(body),
      settled: (pendingId, receipt) => facts.settled.set(pendingId, receipt),
    };
  }

  /** Gives a fork its initial history before its first transition. */
  plant(plant: (state: SessionState) => void): void {
    plant(this.#facts.state);
  }

  /** Takes the next transition. Throws where the runtime would call the log corrupt. */
  turn({ at, records }: TransitionRecords): void {
    const { state } = this.#facts;
    let claims = false;
    noteEnrichers(this.#facts.enrichers, state, records, (record) => {
      if (record.type === 'claimed' && state.paused) this.#facts.claimedPaused.push(record.halfStep);
      if (record.type === 'edited') this.#noteEdit(record);
      apply(state, record, at, this.#observer);
      this.#record(record);
      if (record.type === 'forked') this.#facts.begins = digestOf(JSON.stringify(historyMessages(state)));
      claims ||= record.type === 'claimed' || record.type === 'compacting';
    });
    if (claims && state.current !== undefined) {
      this.#facts.requests.set(digestOf(JSON.stringify(sentMessages(state))), state.current.halfStep);
    }
  }

  /** The facts of the log so far. Lists and maps are shared with earlier and later results. */
  facts(): SessionFacts {
    const { state } = this.#facts;
    const messages = requestMessages(state);
    const body = {
      model: 'model',
      max_tokens: 1,
      messages,
      tools: [{ name: 'any', description: '', input_schema: { type: 'object' } }],
    };
    // An idle session's log ends with text of the model. A request is legal only after a user's message, so a message
    // is added.
    const isOpen = messages.at(-1)?.role !== 'user';
    const illegal = fatalOf(
      checkRequest(isOpen ? { ...body, messages: [...messages, { role: 'user', content: 'go on' }] } : body),
    );
    return { ...this.#facts, illegal: illegal.map(({ rule, path, message }) => `${rule} ${path}: ${message}`) };
  }

  #record(record: SessionRecord): void {
    const facts = this.#facts;
    switch (record.type) {
      case 'accepted':
        push(facts.accepted, record.id, record.entry);
        if (record.entry.key !== undefined) push(facts.keys, record.entry.key, record.id);
        if (record.entry.type === 'subagent')
          push(facts.heard, record.entry.source?.name ?? '', textOf(record.entry.content));
        if (record.entry.toolUseId !== undefined) this.#result(record.entry.toolUseId, record.entry);
        return;
      case 'claimed':
      case 'compacting':
      case 'closed':
        for (const id of record.entries) this.#promoted(id);
        if (record.type === 'closed' && record.error !== undefined) facts.failures.push(record.error.message);
        return;
      case 'dropped':
      case 'recalled':
      case 'poisoned':
        push(facts.fates, record.id, record.type === 'dropped' ? `dropped: ${record.reason}` : record.type);
        if (record.type === 'poisoned') facts.failures.push(`poisoned: ${record.error.message}`);
        return;
      case 'responded':
        if (facts.responded.has(record.halfStep)) facts.failures.push(`half-step ${record.halfStep} responded twice`);
        facts.responded.add(record.halfStep);
        this.#said(answerText(record.content));
        return;
      case 'goalCompleted':
        this.#said(record.result);
        return;
      case 'failed':
        facts.failures.push(record.error.message);
        return;
      case 'spawned':
        facts.spawned.set(record.child, { name: record.name, replies: record.replies, key: record.key });
        return;
      case 'childNamed': {
        const link = facts.spawned.get(record.child);
        if (link !== undefined) facts.spawned.set(record.child, { ...link, name: record.name });
        return;
      }
      case 'childExited':
        facts.childExits.set(record.child, (facts.childExits.get(record.child) ?? 0) + 1);
        return;
      case 'childRevived':
        facts.childRevivals.set(record.child, (facts.childRevivals.get(record.child) ?? 0) + 1);
        return;
      case 'recovered':
        facts.recoveries += 1;
        return;
      case 'exited':
        facts.exits.push({ reason: record.reason, reply: record.reply });
        return;
      default:
        return;
    }
  }

  /** This runs before `apply`, while the state still has the removed messages. */
  #noteEdit({ removed = [], updated = [], added = [] }: Extract<SessionRecord, { type: 'edited' }>): void {
    const { notes, state } = this.#facts;
    for (const { seq, content } of state.messages) {
      const uid = removed.includes(seq) ? noteIn(textOf(content)) : undefined;
      if (uid !== undefined) notes.delete(uid);
    }
    for (const { message } of [...updated, ...added]) {
      const text = typeof message.content === 'string' ? message.content : '';
      const uid = noteIn(text);
      if (uid !== undefined) notes.set(uid, text);
    }
  }

  #promoted(id: number): void {
    this.#facts.promoted.push(id);
    push(this.#facts.fates, id, 'promoted');
  }

  #said(text: string): void {
    if (this.#facts.state.parent !== undefined && text.trim() !== '') this.#facts.said.push(text);
  }

  #event(body: EventBody): void {
    this.#facts.events.push(digestOf(JSON.stringify(body)));
    if (body.type !== 'message.created') return;
    const { message } = body;
    if (message.type === 'user_message') {
      for (const uid of uidsIn(textOf(message.content)))
        this.#facts.logged.set(uid, (this.#facts.logged.get(uid) ?? 0) + 1);
    }
    // A delivery is a pair that the runtime made, not a call of the model.
    if (message.type !== 'tool_call' || message.toolUseId === undefined || message.source !== undefined) return;
    const key = callKey(this.#facts.state, message);
    this.#callKeys.set(message.toolUseId, key);
    this.#facts.calls.set(key, { tool: message.toolName ?? '', results: [] });
  }

  #result(toolUseId: string, result: Pick<Entry, 'content' | 'success'>): void {
    const call = this.#facts.calls.get(this.#callKeys.get(toolUseId) ?? '');
    if (call === undefined) this.#facts.failures.push(`a result for no call: ${toolUseId}`);
    call?.results.push({ content: textOf(result.content), success: result.success ?? true });
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
