/**
 * The facts of a session's log, collected while the runtime's own `apply` replays the log. The facts are fates of
 * messages, requests as they must have been sent, calls and their results, and messages between child and parent.
 * `invariants.ts` checks them.
 */

import { withoutOrigins } from '../../base/block-origin.ts';
import { defined } from '../../base/defined.ts';
import type { Json } from '../../base/json.ts';
import { addUsage, NO_USAGE, textOf, type Usage } from '../../base/messages.ts';
import { compactionMessages } from '../../context/compaction-request.ts';
import { checkRequest, fatalOf } from '../../context/legality/legality.ts';
import { renderSession } from '../../context/render.ts';
import type { EventBody } from '../../events/event.ts';
import type { Position } from '../../journal/position.ts';
import { apply } from '../../session/apply/apply.ts';
import type { Observer } from '../../session/apply/fold.ts';
import { callKey } from '../../session/decide/tools.ts';
import { taskOf } from '../../session/history/tasks.ts';
import { answerText } from '../../session/rules/answer.ts';
import type { Entry, SessionRecord, TransitionRecords } from '../../session/state/records.ts';
import { emptyState, type ReceiptState, type SessionState } from '../../session/state/state.ts';
import { contentBytes, formBytes } from '../../session/state/tokens.ts';
import { claimFaults, waitsForProvider } from './claim-order.ts';
import { type EndFault, EndTrail } from './end-trail.ts';
import { type BudgetFault, BudgetTrail } from './families/budget-trail.ts';
import { draftFault, type LostFact } from './families/drafts.ts';
import { type LineFault, SpawnLine } from './families/spawn-line.ts';
import { type CallFact, digestOf, historyTexts, isAnnounced, requestDigest } from './ledger.ts';
import { isAnswerTool } from './messages/simulated-forms.ts';
import type { ModelRendering } from './models/agent-models.ts';
import { ModelTrail, type TrailFault } from './models/model-trail.ts';
import { QuestionTrail } from './questions/simulated-questions.ts';
import { VersionTrail } from './versions/version-trail.ts';

/** Agents have tools and no manual thinking, so deliveries are sent as phantom pairs (a call with its result). */
const RENDERING: ModelRendering = { options: { timestamps: false, deliveriesAsText: false } };
/** Stop reasons of answers that give no structured answer. */
const NO_ANSWER_STOPS: ReadonlySet<string> = new Set(['refusal', 'max_tokens', 'model_context_window_exceeded']);

/** Returns how requests are rendered for the model at this index of the agent's list. */
export type RenderingAt = (place: number) => ModelRendering;

/** A transition and its position in the journal. */
export type StoredTransition = TransitionRecords & { readonly position: Position };

/** Everything about one session that the invariants look at. */
export interface SessionStory {
  readonly id: string;
  readonly state: SessionState;
  /** Accepted entries by id; several if several records accept the same id. */
  readonly accepted: Map<number, Entry[]>;
  /** The reasons why entries left the mailbox, by id; several if several records remove the same entry. */
  readonly fates: Map<number, string[]>;
  /** Promoted entries in order of promotion. */
  readonly promoted: number[];
  readonly settled: Map<number, ReceiptState>;
  /** Texts of the user messages of the log, including removed ones. */
  readonly userTexts: string[];
  readonly keys: Map<string, number[]>;
  /** Tool calls by idempotency key. */
  readonly calls: Map<string, CallFact>;
  /** Half-steps by the digest of their request's messages. */
  readonly requests: Map<string, number>;
  readonly responded: Set<number>;
  readonly usage: Usage;
  /** The lost answers, in order. */
  readonly lost: LostFact[];
  /** The texts that the session sent to its parent, as answers or reports, in order. */
  readonly said: string[];
  /** Messages received from each child, by nickname, in order. */
  readonly heard: Map<string, string[]>;
  readonly spawned: Map<string, { readonly name: string; readonly replies: string; readonly key: string | undefined }>;
  readonly childExits: Map<string, number>;
  readonly line: SpawnLine;
  readonly versions: VersionTrail;
  readonly exits: { readonly reason: string; readonly reply: string; readonly output?: Json }[];
  /** How often the model was asked to correct a structured answer, by turn. */
  readonly corrections: Map<number, number>;
  /** The decisions about calls that needed approval, by idempotency key; true if the call was allowed. */
  readonly decided: Map<string, boolean>;
  /** The history at the time of each fork of this session, by the fork's number. */
  readonly forksMade: Map<number, { readonly child: string; readonly texts: readonly string[] }>;
  /** The history with which the session begins, if it is a fork. */
  begins: readonly string[] | undefined;
  /** Digests of durable events; index 0 is event 1. */
  readonly events: string[];
  /** Events that webhooks deliver. */
  readonly announced: { readonly seq: number; readonly type: string }[];
  /** The most entries that already waited when a message was accepted. */
  fullest: number;
  /** The most UTF-8 bytes in the mailbox after it accepted a message. Messages to an empty mailbox do not count. */
  fullestBytes: number;
  /** The number of turns that failed because the credentials were refused. */
  refused: number;
  /** Faults visible in this log alone. */
  readonly faults: {
    readonly kind: 'illegal' | 'unstable' | 'failed' | 'repeated' | 'reordered';
    readonly what: string;
  }[];
}

/**
 * Folds a session's transitions. `plant` gives the state of a fork its beginning. `rendering` returns how requests of
 * the agent's models are rendered. Throws if the runtime would report the log as corrupt.
 */
export function writeStory(
  id: string,
  turns: Iterable<StoredTransition>,
  plant: (state: SessionState, first: TransitionRecords) => void = () => undefined,
  rendering: RenderingAt = () => RENDERING,
): SessionStory {
  const teller = new Teller(id, rendering);
  let isFirst = true;
  for (const turn of turns) {
    if (isFirst) teller.plant((state) => plant(state, turn));
    isFirst = false;
    teller.turn(turn);
  }
  return teller.finish();
}

class Teller {
  readonly #story: SessionStory;
  readonly #observer: Observer;
  readonly #callKeys = new Map<string, string>();
  /** The last answered request as text, without its closing bracket, with its epoch. */
  #answered = { epoch: -1, text: '' };
  #usage = NO_USAGE;
  /** Position of the transition that is folded now. */
  #position: Position = 0;
  /** Entries whose preparation has ended. */
  readonly #prepared = new Set<number>();
  readonly #renderingAt: RenderingAt;
  readonly #trail = new ModelTrail();
  readonly #questions = new QuestionTrail();
  readonly #budget = new BudgetTrail();
  readonly #ends = new EndTrail();
  /** The half-step and the epoch whose request was noted last. In a new epoch the half-step has a new request. */
  #noted = '';
  /** The stop reason of the last answer. */
  #stop = '';

  constructor(id: string, rendering: RenderingAt) {
    this.#renderingAt = rendering;
    this.#story = {
      id,
      state: emptyState(id),
      accepted: new Map(),
      fates: new Map(),
      promoted: [],
      settled: new Map(),
      userTexts: [],
      keys: new Map(),
      calls: new Map(),
      requests: new Map(),
      responded: new Set(),
      usage: NO_USAGE,
      lost: [],
      said: [],
      heard: new Map(),
      spawned: new Map(),
      childExits: new Map(),
      line: new SpawnLine(),
      versions: new VersionTrail(),
      exits: [],
      corrections: new Map(),
      decided: new Map(),
      forksMade: new Map(),
      begins: undefined,
      events: [],
      announced: [],
      fullest: 0,
      fullestBytes: 0,
      refused: 0,
      faults: [],
    };
    this.#observer = {
      event: (body) => this.#event(body),
      settled: (pendingId, receipt) => this.#settle(pendingId, receipt),
    };
  }

  /** Plants a fork's beginning, before the first transition. */
  plant(plant: (state: SessionState) => void): void {
    plant(this.#story.state);
  }

  turn({ at, records, position }: StoredTransition): void {
    const { state } = this.#story;
    this.#position = position;
    let leavesUses = false;
    for (const record of records) {
      if (record.type === 'epoch') leavesUses = waitsForProvider(state);
      if (record.type === 'responded') this.#sealRequest();
      if (record.type === 'accepted') this.#noteFilling(record.entry);
      if (record.type === 'claimed') {
        const claim = { chosen: record.entries, accepted: this.#story.accepted, leavesUses };
        this.#story.faults.push(...claimFaults(this.#story.id, state, claim));
      }
      this.#noteTrail(this.#trail.before(state, record));
      this.#noteTrail(this.#story.line.note(state.id, record) ?? this.#budget.before(state, record));
      const pending = state.suspended === undefined ? [] : [...state.openCalls.keys()];
      apply(state, record, at, this.#observer);
      this.#noteTrail(this.#trail.after(state, record) ?? this.#questions.after(state, record));
      this.#noteTrail(this.#ends.after(state, record) ?? this.#story.versions.after(state, record));
      this.#noteTrail(draftFault(state, record));
      if (record.type === 'taskActivated' || record.type === 'taskStarted') this.#leave(pending);
      this.#record(record);
    }
    this.#story.line.endTransition();
    const halfStep = state.current?.halfStep;
    if (halfStep === undefined) return;
    const noted = `${halfStep} ${state.epoch}`;
    if (noted === this.#noted) return;
    this.#noted = noted;
    this.#checkBranch(halfStep);
    this.#noteRequest(halfStep);
  }

  finish(): SessionStory {
    this.#checkLegality();
    return { ...this.#story, usage: this.#usage };
  }

  #noteTrail(fault: TrailFault | LineFault | BudgetFault | EndFault | undefined): void {
    if (fault !== undefined) this.#story.faults.push(fault);
  }

  /** How requests are rendered for the model that the session uses now (I22). */
  get #rendering(): ModelRendering {
    return this.#renderingAt(this.#story.state.fallback?.place ?? 0);
  }

  #messages(): ReturnType<typeof renderSession> {
    return renderSession(this.#story.state, this.#rendering.options);
  }

  #noteRequest(halfStep: number): void {
    const { state, requests, faults, id } = this.#story;
    const compaction = state.current?.compaction;
    const { name, options } = this.#rendering;
    const messages = compaction === undefined ? this.#messages() : compactionMessages(state, compaction, options);
    requests.set(this.#story.versions.sent(requestDigest(messages, name), state), halfStep);
    if (compaction?.tail !== undefined) return;
    const text = JSON.stringify(messages);
    if (this.#answered.epoch === state.epoch && !text.startsWith(this.#answered.text)) {
      faults.push({ kind: 'unstable', what: `half-step ${halfStep} of ${id} changes what was answered` });
    }
  }

  /** Notes a structured answer. The stop reason of the model's answer must be neither a refusal nor a limit (I19). */
  #takeAnswer(output: Json): void {
    if (NO_ANSWER_STOPS.has(this.#stop))
      this.#story.faults.push({ kind: 'failed', what: `${this.#story.id} takes an answer of ${this.#stop} (I19)` });
    this.#say(JSON.stringify(output));
  }

  /** Notes the end of a message. A message that asks for a structured answer has one end (I19). */
  #settle(pendingId: number, receipt: ReceiptState): void {
    const { id, settled, accepted, faults } = this.#story;
    if (settled.has(pendingId) && accepted.get(pendingId)?.[0]?.output !== undefined)
      faults.push({ kind: 'repeated', what: `the structured answer to ${id}/${pendingId} was given twice (I19)` });
    settled.set(pendingId, receipt);
  }

  #noteFilling({ type, seed, content, output }: Entry): void {
    const isSent = type === 'user_message' && seed === undefined && !textOf(content).startsWith('[from parent]');
    if (!isSent) return;
    const { state } = this.#story;
    this.#story.fullest = Math.max(this.#story.fullest, state.mailbox.length);
    // An empty mailbox takes a message of any size.
    if (state.mailboxBytes === 0) return;
    const bytes = contentBytes(content) + (output === undefined ? 0 : formBytes(output));
    this.#story.fullestBytes = Math.max(this.#story.fullestBytes, state.mailboxBytes + bytes);
  }

  /** Keeps the answered request, which must be a prefix of the next request of the same epoch (A8). */
  #sealRequest(): void {
    const text = JSON.stringify(this.#messages());
    this.#answered = { epoch: this.#story.state.epoch, text: text.slice(0, -1) };
  }

  /** Checks that the messages that a compression archived are no longer shown. */
  #checkArchived({ archived, number }: Extract<SessionRecord, { type: 'compacted' }>): void {
    const { state, faults, id } = this.#story;
    const isShown = ({ seq, prompt }: { readonly seq: number; readonly prompt?: boolean }): boolean =>
      prompt !== true && archived.some(([from, to]) => from <= seq && seq <= to);
    const shown = state.messages.find(isShown);
    if (shown !== undefined)
      faults.push({ kind: 'failed', what: `compression ${number} of ${id} archived ${shown.seq}, which is shown` });
  }

  /** Checks that a request has only messages of the active task and the tasks above it. */
  #checkBranch(halfStep: number): void {
    const { state, faults, id } = this.#story;
    const { tasks } = state;
    if (tasks.parents.size === 0 && tasks.active === tasks.current) return;
    const line = new Set([0]);
    for (let task = tasks.active; task > 0; task = tasks.parents.get(task) ?? task - 1) line.add(task);
    for (const message of state.messages) {
      const task = taskOf(tasks, message);
      if (task === undefined || line.has(task)) continue;
      faults.push({
        kind: 'failed',
        what: `half-step ${halfStep} of ${id} shows message ${message.seq} of task ${task}`,
      });
      return;
    }
  }

  /** Checks the request that would be sent if the turn continued here. */
  #checkLegality(): void {
    const messages = this.#messages();
    if (messages.length === 0) return;
    const isOpen = messages.at(-1)?.role !== 'user' || this.#story.state.openCalls.size > 0;
    if (isOpen && this.#story.state.openCalls.size > 0) return;
    const { state } = this.#story;
    const goOn = { seq: state.nextMessageSeq, at: 0, type: 'user_message', content: 'go on', tokens: 0 } as const;
    const whole = isOpen ? renderSession(state, this.#rendering.options, [...state.messages, goOn]) : messages;
    const body = {
      model: 'simulated',
      max_tokens: 1,
      messages: whole.flatMap((message) => withoutOrigins(message) ?? []),
      tools: [
        { name: 'any', description: '', input_schema: { type: 'object' } },
        { type: 'web_search_20250305', name: 'web_search' },
      ],
    };
    for (const { rule, path, message } of fatalOf(checkRequest(body))) {
      this.#story.faults.push({ kind: 'illegal', what: `the log of ${this.#story.id}: ${rule} ${path}: ${message}` });
    }
  }

  #record(record: SessionRecord): void {
    const story = this.#story;
    switch (record.type) {
      case 'accepted':
        push(story.accepted, record.id, record.entry);
        if (record.entry.key !== undefined) push(story.keys, record.entry.key, record.id);
        if (record.entry.type === 'subagent')
          push(story.heard, record.entry.source?.name ?? '', textOf(record.entry.content));
        if (record.entry.toolUseId !== undefined) this.#result(record.entry.toolUseId, record.entry);
        return;
      case 'claimed':
      case 'closed':
      case 'compacting':
        for (const id of record.entries) {
          story.promoted.push(id);
          push(story.fates, id, 'promoted');
        }
        if (record.type === 'closed' && record.output !== undefined) this.#takeAnswer(record.output);
        return;
      case 'corrected': {
        const { id = 0 } = story.state.turn ?? {};
        story.corrections.set(id, (story.corrections.get(id) ?? 0) + 1);
        return;
      }
      case 'retried':
        // The model answered, but the next attempt replaces the answer. Its tokens still count.
        if (record.usage !== undefined) this.#usage = addUsage(this.#usage, record.usage);
        return;
      case 'dropped':
      case 'recalled':
      case 'poisoned':
        push(story.fates, record.id, record.type);
        return;
      case 'failed':
        if (record.error.code === 'model_authentication') story.refused += 1;
        return;
      case 'responded':
        if (story.responded.has(record.halfStep)) {
          const what = `half-step ${record.halfStep} of ${story.id} was answered twice`;
          story.faults.push({ kind: 'repeated', what });
        }
        story.responded.add(record.halfStep);
        this.#usage = addUsage(this.#usage, record.usage);
        this.#stop = record.stop;
        // The parent does not receive an answer whose form is not checked yet.
        if (record.then !== 'form') this.#say(answerText(record.content));
        return;
      case 'preparing':
        if (this.#prepared.has(record.entry)) {
          story.faults.push({ kind: 'repeated', what: `the turn of ${story.id}/${record.entry} is prepared again` });
        }
        return;
      case 'recalling':
      case 'prepared':
        if (record.type === 'prepared' && record.entry !== undefined) this.#prepared.add(record.entry);
        if (record.usage !== undefined) this.#usage = addUsage(this.#usage, record.usage);
        return;
      case 'summaryEnded':
      case 'compactionFailed':
        if (record.usage !== undefined) this.#usage = addUsage(this.#usage, record.usage);
        return;
      case 'goalCompleted':
        this.#say(record.result);
        return;
      case 'edited':
        this.#answerByEdit(record);
        return;
      case 'forked':
        story.begins = historyTexts(story.state);
        return;
      case 'forkMade':
        story.forksMade.set(record.fork, { child: record.child, texts: historyTexts(story.state) });
        return;
      case 'lost':
        story.lost.push(record);
        this.#usage = addUsage(this.#usage, record.usage ?? NO_USAGE);
        return;
      case 'compacted':
        this.#usage = addUsage(this.#usage, record.usage);
        this.#checkArchived(record);
        return;
      case 'decided':
        story.decided.set(this.#callKeys.get(record.callId) ?? '', record.allow);
        return;
      case 'spawned':
        story.spawned.set(record.child, { name: record.name, replies: record.replies, key: record.key });
        return;
      case 'childNamed': {
        const child = story.spawned.get(record.child);
        if (child !== undefined) story.spawned.set(record.child, { ...child, name: record.name });
        return;
      }
      case 'childExited':
        story.childExits.set(record.child, (story.childExits.get(record.child) ?? 0) + 1);
        return;
      case 'exited':
        story.exits.push({ reason: record.reason, reply: record.reply, ...defined({ output: record.output }) });
        return;
      default:
        return;
    }
  }

  #say(text: string): void {
    if (this.#story.state.parent !== undefined && text.trim() !== '') this.#story.said.push(text);
  }

  #event(body: EventBody): void {
    const story = this.#story;
    story.events.push(digestOf(JSON.stringify(body)));
    this.#ends.note(body);
    if (isAnnounced(body)) story.announced.push({ seq: story.events.length, type: body.type });
    if (body.type === 'tool.started') this.#start(body.toolUseId);
    if (body.type !== 'message.created') return;
    const { message } = body;
    if (message.type === 'user_message') story.userTexts.push(textOf(message.content));
    // A delivery is a phantom pair, not a call of the model.
    if (message.type !== 'tool_call' || message.toolUseId === undefined || message.source !== undefined) return;
    const key = callKey(story.state, message);
    this.#callKeys.set(message.toolUseId, key);
    const tool = message.toolName ?? '';
    story.versions.called(key, story.state);
    story.calls.set(key, { tool, startsAfter: this.#position, results: [], isLeft: false });
  }

  /** Notes that the transition lets the call start. */
  #start(toolUseId: string): void {
    const call = this.#story.calls.get(this.#callKeys.get(toolUseId) ?? '');
    if (call === undefined) return;
    call.startsAfter = this.#position;
    if (isAnswerTool(call.tool))
      this.#story.faults.push({ kind: 'failed', what: `${this.#story.id} starts a call of ${call.tool} (I19)` });
  }

  /** Notes that a branch was left. `pending`: its open calls before that. Those that are no longer open stay in it. */
  #leave(pending: readonly string[]): void {
    const { state, calls } = this.#story;
    for (const callId of pending) {
      const call = calls.get(this.#callKeys.get(callId) ?? '');
      if (call !== undefined && !state.openCalls.has(callId)) call.isLeft = true;
    }
  }

  /** Notes the results that an edit gives to the calls of a suspended run when it discards these calls. */
  #answerByEdit({ added }: Extract<SessionRecord, { type: 'edited' }>): void {
    for (const { message } of added ?? []) {
      if (message.role === 'tool')
        this.#result(message.toolCallId, { content: message.content, success: message.error === undefined });
    }
  }

  #result(toolUseId: string, result: Pick<Entry, 'content' | 'success'>): void {
    const call = this.#story.calls.get(this.#callKeys.get(toolUseId) ?? '');
    if (call === undefined) {
      this.#story.faults.push({ kind: 'failed', what: `${this.#story.id} has a result for no call: ${toolUseId}` });
    }
    call?.results.push({ content: textOf(result.content), success: result.success ?? true });
  }
}

function push<Key, Value>(map: Map<Key, Value[]>, key: Key, value: Value): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
