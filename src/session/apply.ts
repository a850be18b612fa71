/**
 * `apply`: what is remembered. Folds one record into a state, and tells an observer the durable events it stands for, so
 * that a live session and a replay of its log cannot differ.
 *
 * Pure but linear: the state given is consumed and returned changed, since copying the messages at each record would make
 * a half-step cost its history. Who needs the state before folds again. Keeps S1 to S6 of `state.ts`.
 */
import {
  CHILDREN_LISTED_MAX,
  DEAD_LETTERS_MAX,
  EDIT_KEYS_REMEMBERED_MAX,
  KEYS_REMEMBERED_MAX,
  RECEIPTS_REMEMBERED_MAX,
} from '../base/bounds.ts';
import type { Draft } from '../base/draft.ts';
import type { ErrorShape } from '../base/errors.ts';
import { addUsage, NO_USAGE, type Source, type ToolUseBlock, textOf, type Usage } from '../base/messages.ts';
import type { EventBody, SessionStateName } from '../events/event.ts';
import { activeDefinitions, sameSkills } from './activation.ts';
import { answerText } from './answer.ts';
import { applyEnrichment, forgetPrepared, isReworded, nameChild, nameSession } from './apply-enrichment.ts';
import { applyMemory, type MemoryRecord } from './apply-memory.ts';
import {
  decideCall,
  endRunLoop,
  holdAnswer,
  holdPending,
  holdResults,
  startHeldCalls,
  suspensionOf,
} from './apply-run-loop.ts';
import {
  applyGoal,
  completeTask,
  completeTaskGoal,
  type GoalRecord,
  goalsOf,
  prefixText,
  rememberPins,
  repinTask,
  unpin,
} from './goals.ts';
import { applyCompaction, noteFailedCompaction } from './history/apply-compaction.ts';
import { applyEdit, type EditOutcome } from './history/apply-edit.ts';
import { showBranch } from './history/branch.ts';
import { changedCalls, forgetHidden, settleCalls, settleSuspension } from './history/edited-calls.ts';
import { plantSeed } from './history/fork-seed.ts';
import {
  addTask,
  adoptTasks,
  areStartsMany,
  beginTurnTask,
  enterTask,
  trimStarts,
  type Wish,
} from './history/tasks.ts';
import { hasActive, KIND_OF } from './mailbox.ts';
import { afterEdit, withShown } from './memory.ts';
import { joinContents, type MessageDraft, promote } from './promotion.ts';
import type { SessionRecord } from './records.ts';
import { lastAnswerText, outcomeOfReason } from './run-loop-state.ts';
import {
  type CompactionCall,
  type LoggedMessage,
  type MailboxEntry,
  type OpenCall,
  publicEntry,
  publicMessage,
  type ReceiptState,
  type SessionState,
} from './state.ts';
import { callLabel, estimateCall, estimateContent, estimateTokens } from './tokens.ts';

/** Who listens while records are folded. Neither may change the state. */
export interface Observer {
  /** A durable event, in order; `seq` is its number. */
  readonly event?: ((body: EventBody, seq: number) => void) | undefined;
  /** An accepted entry reached a final state. */
  readonly settled?: ((pendingId: number, receipt: ReceiptState) => void) | undefined;
  /** An accepted entry was promoted into the log. */
  readonly promoted?: ((pendingId: number) => void) | undefined;
  /** Something was said: an answer, a result, or what an embedder added. The logged messages of it, first one first. */
  readonly said?: ((logged: readonly [LoggedMessage, ...LoggedMessage[]]) => void) | undefined;
}

type Edited = Extract<SessionRecord, { type: 'edited' }>;

/** Whoever a message comes from when it does not say. */
const USER: Source = Object.freeze({ type: 'user' });
const ACCEPTED: ReceiptState = Object.freeze({ status: 'accepted' });

/** Folds one record; `at` is the time of its turn. Throws an Error for a record that no writer of ours can have made. */
export function apply(state: SessionState, record: SessionRecord, at: number, observer?: Observer): SessionState {
  new Fold(state, at, observer).record(record);
  return state;
}

/** Folds all records of one turn. */
export function applyAll(
  state: SessionState,
  records: readonly SessionRecord[],
  at: number,
  observer?: Observer,
): SessionState {
  const fold = new Fold(state, at, observer);
  for (const record of records) fold.record(record);
  return state;
}

/** The fold of one turn's records into a state. Used within one call and dropped: it keeps nothing. */
export class Fold {
  readonly #state: SessionState;
  readonly #at: number;
  readonly #observer: Observer | undefined;

  constructor(state: SessionState, at: number, observer: Observer | undefined) {
    this.#state = state;
    this.#at = at;
    this.#observer = observer;
  }

  /** Folds the next record. Throws an Error for one that no writer of ours can have made. */
  record(record: SessionRecord): void {
    this.#state.updatedAt = this.#at;
    switch (record.type) {
      case 'created':
        return this.#created(record);
      case 'accepted':
        return this.#accepted(record);
      case 'claimed':
        return this.#claimed(record);
      case 'epoch':
        this.#state.fingerprint = record.fingerprint;
        return this.#openEpoch();
      case 'system':
        this.#state.system = { epoch: record.epoch, text: record.text };
        return;
      case 'evicted':
        if (this.#state.keepsAll) return;
        return this.#evicted(record.below, record.pinTokens);
      case 'responded':
        return this.#responded(record);
      case 'retried':
        return this.#retried(record);
      case 'failed':
        return this.#failed(record);
      case 'noted':
        this.#append({ type: 'system_message', content: record.content, tokens: estimateTokens(record.content) });
        return;
      case 'closed':
        return this.#closed(record);
      case 'dropped':
        this.#discard(record.id, 'dropped', record.reason);
        if (this.#state.active !== undefined) this.#tellActive();
        return;
      case 'recalled':
        return this.#discard(record.id, 'recalled', 'recalled');
      case 'poisoned':
        this.#poisoned(record);
        if (this.#state.active !== undefined) this.#tellActive();
        return;
      case 'interrupted':
        this.#state.interruptRequested = true;
        if (this.#counts()) this.#tell({ type: 'interrupt.acknowledged' });
        return;
      case 'healed':
        return this.#healed(record);
      case 'released':
        return this.#finishTurn('cancelled');
      case 'spawned':
        return this.#spawned(record);
      case 'budgetUsed':
        if (this.#state.budget !== undefined) this.#state.budget.below += record.tokens;
        return;
      case 'childExited':
        return this.#childExited(record);
      case 'goalCompleted':
        return this.#goalCompleted();
      case 'goalCreated':
      case 'goalUpdated':
      case 'goalDone':
      case 'pinned':
        return this.#goalChanged(record);
      case 'exited': {
        const { type: _type, ...exit } = record;
        // The first exit is the one a handle's `reply()` gives; a child woken again later has answered already.
        this.#state.exit ??= exit;
        // Whoever has ended is not started again; a wait left behind would keep it from ever being quiet.
        this.#state.restartAt = undefined;
        return;
      }
      case 'restartScheduled':
        this.#state.restartAt = record.dueAt;
        this.#state.restartWaitMs = Math.max(0, record.dueAt - this.#at);
        return;
      case 'restarted':
        return this.#restarted();
      case 'paused':
        this.#state.paused = true;
        if (this.#counts()) this.#tell({ type: 'session.state', state: this.#state.state, phase: 'paused' });
        return;
      case 'resumed':
        this.#state.paused = false;
        this.#state.blocked = undefined;
        if (this.#counts()) this.#tell({ type: 'session.state', state: this.#state.state });
        return;
      case 'recovered':
        if (this.#counts()) {
          this.#tell({ type: 'session.recovered', redone: record.redone, synthesized: record.synthesized });
        }
        return;
      case 'refined':
        return this.#refined(record);
      case 'edited':
        this.#edited(record);
        if (this.#state.active !== undefined) this.#tellActive();
        return;
      case 'taskStarted':
        addTask(this.#state.tasks, record.id, record.parent, record.title);
        return this.#activate({ task: record.id, cause: 'start' });
      case 'taskActivated':
        return this.#activate({ task: record.id, cause: record.cause });
      case 'forkMade':
        this.#state.nextFork = record.fork + 1;
        if (record.copied !== true) this.#state.forks.push(record.child);
        return;
      case 'forked':
        return this.#forked(record);
      case 'compacting':
        return this.#compacting(record);
      case 'compacted':
        return this.#compacted(record);
      case 'compactionFailed':
        return this.#compactionFailed(record);
      case 'summaryBegun':
      case 'summaryAwaited':
      case 'summaryEnded':
      case 'remembered':
      case 'summaryFailed':
      case 'summaryDropped':
        return this.#memoryChanged(record);
      case 'gathered':
        return this.#gathered(record);
      case 'proceeded':
        return this.#proceeded(record);
      case 'suspended':
        return this.#suspended(record);
      case 'continued':
        return this.#continued(record);
      case 'decided':
        return decideCall(this.#state, record, (body) => this.#telling(body));
      case 'blocked':
        return this.#blocked(record);
      case 'preparing':
      case 'recalling':
      case 'prepared':
        return applyEnrichment(this.#state, record, this.#at, (body) => this.#telling(body));
      case 'named':
        return nameSession(this.#state, record, (body) => this.#telling(body));
      case 'childNamed':
        nameChild(this.#state, record);
        return this.#tellChildren();
      case 'rolledBack':
        this.#state.failure = undefined;
        return this.#telling({ type: 'session.rollback', reason: record.reason, index: record.index });
    }
  }

  /** Counts a durable event (S5). True when somebody listens: only then is it built, for `#tell`. */
  #counts(): boolean {
    this.#state.eventSeq += 1;
    return this.#observer?.event !== undefined;
  }

  /** Tells the event just counted. */
  #tell(body: EventBody): void {
    this.#observer?.event?.(body, this.#state.eventSeq);
  }

  /** Counts a durable event and tells it: for records that are rare enough to build it always. */
  #telling(body: EventBody): void {
    if (this.#counts()) this.#tell(body);
  }

  #created(record: Extract<SessionRecord, { type: 'created' }>): void {
    const state = this.#state;
    state.agent = record.agent;
    state.depth = record.depth;
    state.parent = record.parent;
    state.spawnCallId = record.spawnCallId;
    state.name = record.name;
    state.unnamed = record.unnamed === true;
    state.prompt = record.prompt;
    state.grants = record.grants;
    state.replies = record.replies ?? 'mailbox';
    state.createdAt = this.#at;
    if (record.budget !== undefined) state.budget = { ...record.budget, below: 0 };
    if (record.task === undefined) return;
    state.goal = { description: record.task, completed: false };
    this.#append({
      type: 'user_message',
      content: record.task,
      tokens: estimateContent(record.task),
      pinned: true,
    });
  }

  #accepted(record: Extract<SessionRecord, { type: 'accepted' }>): void {
    const state = this.#state;
    const { entry } = record;
    const source = entry.source ?? USER;
    const waiting: Draft<MailboxEntry> = {
      id: record.id,
      type: entry.type,
      kind: KIND_OF[entry.type],
      content: entry.content,
      at: this.#at,
      source,
    };
    if (entry.toolUseId !== undefined) waiting.toolUseId = entry.toolUseId;
    if (entry.success !== undefined) waiting.success = entry.success;
    if (entry.deliver !== undefined) waiting.deliver = entry.deliver;
    if (entry.bounceBack !== undefined) waiting.bounceBack = entry.bounceBack;
    if (entry.seed !== undefined) waiting.seed = entry.seed;
    state.mailbox.push(waiting);
    state.nextPendingId = record.id + 1;
    if (entry.type === 'user_message') state.receipts.set(record.id, ACCEPTED);
    const { toolUseId } = entry;
    const isResult = entry.type === 'tool_response' && toolUseId !== undefined;
    if (isResult) state.openCalls.delete(toolUseId);
    if (this.#counts()) this.#tell({ type: 'pending.created', pending: publicEntry(waiting) });
    if (isResult && this.#counts()) {
      this.#tell({
        type: 'tool.finished',
        toolUseId,
        toolName: source.name ?? '',
        success: entry.success ?? true,
        ...(entry.ms === undefined ? {} : { ms: entry.ms }),
      });
    }
    if (waiting.kind === 'background') this.#tellActive();
    if (entry.key !== undefined) {
      state.keys.set(entry.key, { id: record.id, fingerprint: entry.fingerprint ?? '', seq: state.eventSeq });
      forgetOldest(state.keys, KEYS_REMEMBERED_MAX);
    }
  }

  #claimed(record: Extract<SessionRecord, { type: 'claimed' }>): void {
    const state = this.#state;
    if (state.state === 'awaiting') throw new Error('T1/T2: claimed while awaiting');
    if (state.enrichment !== undefined) throw new Error('S7: claimed while it is prepared');
    if (state.prepared !== undefined) forgetPrepared(state, record.entries);
    if (state.unnamed) state.unnamed = false;
    if (record.turn !== undefined) {
      this.#beginTurn(record.turn);
      state.failure = undefined;
      beginTurnTask(state.tasks, state.nextMessageSeq, this.#at);
      if (areStartsMany(state.tasks, state.messages.length + state.hidden.length)) {
        trimStarts(state.tasks, [state.messages, state.hidden]);
      }
    }
    this.#enter('awaiting');
    const rider = this.#promoteAll(record.entries);
    const { halfStep } = record;
    state.current = rider === undefined ? { halfStep, attempt: 1 } : { halfStep, attempt: 1, rider };
    state.nextHalfStep = halfStep + 1;
    if (state.turn !== undefined) {
      state.turn.halfSteps += 1;
      state.turn.pauses = 0;
    }
  }

  #beginTurn(id: number): void {
    const state = this.#state;
    state.turn = { id, entries: [], text: '', joins: false, usage: NO_USAGE, halfSteps: 0, pauses: 0, marked: false };
    state.nextTurn = id + 1;
  }

  /** Promotes entries in the order given and returns the last non-tool active one: the rider. */
  #promoteAll(ids: readonly number[]): NonNullable<SessionState['current']>['rider'] {
    const state = this.#state;
    const chosen = takeEntries(state, ids);
    let rider: NonNullable<SessionState['current']>['rider'];
    for (let index = 0; index < chosen.length; index += 1) {
      const entry = chosen[index];
      if (entry === undefined) break;
      const group: [MailboxEntry, ...MailboxEntry[]] = [entry];
      if (entry.deliver === 'merge') {
        for (let next = chosen[index + 1]; next?.deliver === 'merge'; next = chosen[index + 1]) {
          group.push(next);
          index += 1;
        }
      }
      const messageSeq = this.#promoteGroup(group);
      if (entry.kind === 'active' && entry.type !== 'tool_response') {
        const bounceBack = entry.bounceBack ?? false;
        const content = group.length === 1 ? entry.content : joinContents(group.map((each) => each.content));
        rider =
          messageSeq === undefined
            ? { entry: entry.id, bounceBack, content }
            : { entry: entry.id, bounceBack, content, messageSeq };
      }
    }
    return rider;
  }

  /** One promotion (§3.5); returns the seq of the single message it became. */
  #promoteGroup(group: readonly [MailboxEntry, ...MailboxEntry[]]): number | undefined {
    const state = this.#state;
    const drafts = promote(group);
    for (const entry of group) {
      if (this.#counts()) this.#tell({ type: 'pending.removed', pendingId: entry.id, reason: 'promoted' });
    }
    const firstSeq = state.nextMessageSeq;
    for (const draft of drafts) this.#append(draft);
    if (group[0].type === 'tool_response') this.#said(1);
    if (group[0].type === 'subagent') this.#showChild(group[0].source.name);
    const messageSeq = drafts.length === 1 ? firstSeq : group[0].seed;
    for (const entry of group) {
      if (entry.type !== 'user_message') continue;
      const turn = state.turn?.id ?? 0;
      state.turn?.entries.push(entry.id);
      state.receipts.set(
        entry.id,
        messageSeq === undefined ? { status: 'promoted', turn } : { status: 'promoted', turn, messageSeq },
      );
      this.#observer?.promoted?.(entry.id);
    }
    return messageSeq;
  }

  /** Tells of the last `count` messages as one thing that was said. */
  #said(count: number): void {
    if (count === 0 || this.#observer?.said === undefined) return;
    const [first, ...others] = this.#state.messages.slice(-count);
    if (first !== undefined) this.#observer.said([first, ...others]);
  }

  /** Puts a message at the end and tells of it. */
  #append(draft: MessageDraft): LoggedMessage {
    const message = this.#place(draft);
    if (this.#counts()) this.#tell({ type: 'message.created', message: publicMessage(message) });
    return message;
  }

  /** Gives a draft its place: the draft itself becomes the message, a copy of each would be as much again. */
  #place(draft: MessageDraft): LoggedMessage {
    const state = this.#state;
    // The last message still there decides, not the last number given: what a bounce removed may have stood between.
    const followsAnswered = state.sealedSeq > 0 && (state.messages.at(-1)?.seq ?? 0) <= state.sealedSeq;
    const message = draft as Draft<LoggedMessage>;
    message.seq = state.nextMessageSeq;
    message.at = this.#at;
    if (followsAnswered) message.opens = true;
    state.nextMessageSeq += 1;
    state.messages.push(message);
    state.tokens += message.tokens;
    if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.add(message.toolUseId);
    return message;
  }

  #enter(next: SessionStateName): void {
    this.#state.state = next;
    if (this.#counts()) this.#tell({ type: 'session.state', state: next });
    if (next !== 'idle') return;
    // Effect B: the flag is one-shot and never leaks into the next turn.
    this.#state.interruptRequested = false;
    endRunLoop(this.#state);
  }

  /** A half-step that waits for a summary is told of; that it waits no more only where none follows at once. */
  #memoryChanged(record: MemoryRecord): void {
    const state = this.#state;
    const before = state.memory?.summarising;
    applyMemory(state, record);
    const { memory } = state;
    if (record.type === 'summaryAwaited') {
      if (before?.isAwaited !== true) this.#telling({ type: 'session.state', state: state.state, phase: 'preparing' });
    } else if (before?.isAwaited === true && memory?.summarising === undefined && !hasActive(state)) {
      this.#telling({ type: 'session.state', state: state.state });
    }
    // Of messages, an eviction follows and opens one.
    if (record.type === 'remembered' && before?.level === 2) this.#openEpoch();
  }

  #openEpoch(): void {
    this.#state.epoch += 1;
    this.#state.sealedSeq = 0;
    if (this.#state.memory !== undefined) this.#state.memory = withShown(this.#state.memory);
    if (this.#state.goals !== undefined) this.#state.prefix = prefixText(this.#state);
  }

  #evicted(below: number, pinTokens?: number): void {
    const state = this.#state;
    if (pinTokens !== undefined) rememberPins(state, pinTokens);
    // By its number where it is there: after an edit a message may stand before others of a lower seq.
    const named = state.messages.findIndex((message) => message.seq === below);
    const first = named === -1 ? state.messages.findIndex((message) => message.seq >= below) : named;
    const gone = first === -1 ? state.messages : state.messages.slice(0, first);
    for (const message of gone) {
      // A system message is part of the prompt and stays.
      if (message.prompt === true) continue;
      state.tokens -= message.tokens;
      if (message.type === 'tool_call' && message.toolUseId !== undefined) state.callIds.delete(message.toolUseId);
    }
    const kept = first === -1 ? [] : state.messages.slice(first);
    state.messages = state.promptCount === 0 ? kept : [...gone.filter((message) => message.prompt === true), ...kept];
    state.floor = Math.max(state.floor, below);
    trimStarts(state.tasks, [state.messages, state.hidden]);
    this.#openEpoch();
    if (this.#counts()) this.#tell({ type: 'eviction', below });
    this.#hideChildren();
    if (state.active !== undefined) this.#tellActive();
  }

  /** Tells skills and workflow where they are others than those told last. */
  #tellActive(): void {
    const state = this.#state;
    const before = state.active;
    const active = activeDefinitions(state);
    const { skills, workflow } = active;
    state.active = skills.length === 0 && workflow === null ? undefined : active;
    if (!sameSkills(before?.skills ?? [], skills) && this.#counts()) this.#tell({ type: 'skills.updated', skills });
    if ((before?.workflow ?? null) !== workflow && this.#counts()) this.#tell({ type: 'workflow.updated', workflow });
  }

  /** A child whose spawn and words have all left the window is no longer listed for its parent (§7.7). */
  #hideChildren(): void {
    const state = this.#state;
    if (state.children.size === 0) return;
    const heard = new Set<string | undefined>();
    for (const message of state.messages) if (message.phantom === true) heard.add(message.toolName);
    // The ids of hidden calls are taken, and no model sees them.
    const unseen = new Set(state.hidden.map((message) => message.toolUseId));
    for (const child of state.children.values()) {
      const { spawnCallId } = child;
      const isSpawnSeen = spawnCallId !== undefined && state.callIds.has(spawnCallId) && !unseen.has(spawnCallId);
      const hasTrace = isSpawnSeen || heard.has(`from_${child.name}`);
      if (hasTrace || state.hiddenChildren.has(child.name)) continue;
      state.hiddenChildren.add(child.name);
      if (this.#counts()) this.#tell({ type: 'subagent.evicted', child: child.id });
    }
  }

  /** A delivery shows its child again. */
  #showChild(name: string | undefined): void {
    if (name === undefined || !this.#state.hiddenChildren.delete(name)) return;
    this.#tellChildren();
  }

  #tellChildren(): void {
    const { children, hiddenChildren } = this.#state;
    if (this.#counts()) {
      this.#tell({
        type: 'children.updated',
        children: [...children.values()]
          .filter((each) => !hiddenChildren.has(each.name))
          .slice(-CHILDREN_LISTED_MAX)
          .map((each) => ({ id: each.id, name: each.name, state: each.exited ?? 'working' })),
      });
    }
  }

  #responded(record: Extract<SessionRecord, { type: 'responded' }>): void {
    const state = this.#state;
    if (state.current?.halfStep !== record.halfStep) throw new Error('S3: an answer to no current half-step');
    state.sealedSeq = state.nextMessageSeq - 1;
    state.usage = addUsage(state.usage, record.usage);
    const text = answerText(record.content);
    const turn = state.turn;
    if (turn !== undefined) {
      turn.usage = addUsage(turn.usage, record.usage);
      const hasText = text.trim() !== '';
      if (hasText) turn.text = turn.joins ? turn.text + text : text;
      turn.joins = record.then === 'pause' && (turn.joins || hasText);
    }
    const firstSeq = state.nextMessageSeq;
    this.#appendAnswer(record, text);
    if (record.held === true) {
      holdAnswer(state, record, firstSeq);
      this.#enter('executing');
      return;
    }
    if (record.then === 'tools') {
      state.current = undefined;
      this.#enter('executing');
      for (const call of record.calls) {
        if (call.refused !== undefined) continue;
        const open = state.openCalls.get(call.id);
        if (this.#counts()) this.#tell({ type: 'tool.started', toolUseId: call.id, toolName: open?.name ?? '' });
      }
    } else if (record.then === 'pause') {
      this.#continuePaused(record.halfStep);
    } else {
      this.#finishTurn(record.stop);
    }
  }

  /** The model is called again to go on with a paused answer. */
  #continuePaused(halfStep: number): void {
    const { turn } = this.#state;
    this.#state.current = { halfStep: halfStep + 1, attempt: 1 };
    this.#state.nextHalfStep = halfStep + 2;
    if (turn === undefined) return;
    turn.pauses += 1;
    turn.halfSteps += 1;
  }

  #gathered(record: Extract<SessionRecord, { type: 'gathered' }>): void {
    const firstSeq = this.#state.nextMessageSeq;
    this.#promoteAll(record.entries);
    holdResults(this.#state, firstSeq);
  }

  #proceeded(record: Extract<SessionRecord, { type: 'proceeded' }>): void {
    const { held } = this.#state;
    if (held === undefined) throw new Error('nothing is held that could proceed');
    if (held.at === 'results') {
      this.#state.held = undefined;
    } else if (held.next === 'tools') {
      startHeldCalls(this.#state, record, (body) => this.#telling(body));
    } else if (held.next === 'pause') {
      this.#state.held = undefined;
      this.#enter('awaiting');
      this.#continuePaused(held.halfStep);
    } else {
      this.#finishTurn(held.stop);
    }
  }

  #suspended(record: Extract<SessionRecord, { type: 'suspended' }>): void {
    const state = this.#state;
    const { turn } = state;
    const { reason, detail, healed } = record;
    state.suspended = suspensionOf(state, record);
    state.state = 'idle';
    state.interruptRequested = false;
    state.turn = undefined;
    endRunLoop(state);
    this.#telling({ type: 'session.state', state: 'idle', phase: 'suspended' });
    if (turn === undefined) return;
    const ended = {
      type: 'turn.finished',
      turn: turnName(turn.id),
      reason,
      usage: turn.usage,
      outcome: reason,
    } as const;
    this.#telling(healed === undefined ? ended : { ...ended, healedToolCallIds: healed });
    const receipt: ReceiptState = {
      status: 'suspended',
      turn: turn.id,
      reason,
      ...(detail === undefined ? {} : { detail }),
      text: lastAnswerText(state),
    };
    for (const id of turn.entries) this.#settle(id, receipt);
  }

  #continued(record: Extract<SessionRecord, { type: 'continued' }>): void {
    const { suspended } = this.#state;
    if (suspended === undefined) throw new Error('nothing is suspended that could go on');
    this.#state.suspended = undefined;
    if (record.turn === undefined) return;
    this.#beginTurn(record.turn);
    if (this.#state.openCalls.size > 0) holdPending(this.#state, suspended);
    this.#enter('executing');
  }

  /** A guardrail's word: the turn ends as failed, and what was answered is not stored. */
  #blocked(record: Extract<SessionRecord, { type: 'blocked' }>): void {
    const state = this.#state;
    if (state.current?.halfStep !== record.halfStep) throw new Error('S3: a block of no current half-step');
    if (record.usage !== undefined) {
      state.usage = addUsage(state.usage, record.usage);
      if (state.turn !== undefined) state.turn.usage = addUsage(state.turn.usage, record.usage);
    }
    this.#enter('idle');
    this.#failTurn(record.error);
  }

  /** The messages of an answer; its usage stands on the first of them, so that a turn without text keeps it (Δ17). */
  #appendAnswer(record: Extract<SessionRecord, { type: 'responded' }>, text: string): void {
    const state = this.#state;
    const before = state.messages.length;
    let isFirst = true;
    if (text.trim() !== '') {
      this.#appendPart({ type: 'agent_message', content: text, tokens: estimateTokens(text) }, record, isFirst);
      isFirst = false;
    }
    let calls = 0;
    for (const block of record.content) {
      if (block.type !== 'tool_use') continue;
      const use: ToolUseBlock = block;
      // `calls` are the calls among the blocks, in order.
      const timeoutMs = record.calls[calls]?.timeoutMs;
      calls += 1;
      const draft: Draft<MessageDraft> = {
        type: 'tool_call',
        content: callLabel(use.name),
        tokens: estimateCall(use),
        toolUseId: use.id,
        toolName: use.name,
        input: use.input,
      };
      if (timeoutMs !== undefined) draft.timeoutMs = timeoutMs;
      const { seq } = this.#appendPart(draft, record, isFirst);
      isFirst = false;
      const open: Draft<OpenCall> = { id: use.id, name: use.name, input: use.input, seq, at: this.#at };
      if (timeoutMs !== undefined) open.timeoutMs = timeoutMs;
      state.openCalls.set(use.id, open);
    }
    // Blocks without text or call (a lone thinking block, a server tool's part) still belong to the conversation.
    if (isFirst && record.content.length > 0) {
      const content = record.content;
      this.#appendPart({ type: 'agent_message', content, tokens: estimateContent(content) }, record, isFirst);
    }
    this.#said(state.messages.length - before);
  }

  /** One message of an answer: the first carries the blocks and the usage of all of it. */
  #appendPart(
    draft: Draft<MessageDraft>,
    { content, usage }: Extract<SessionRecord, { type: 'responded' }>,
    isFirst: boolean,
  ): LoggedMessage {
    if (isFirst) {
      draft.blocks = content;
      draft.usage = usage;
    } else {
      draft.inAnswer = true;
    }
    return this.#append(draft);
  }

  #finishTurn(reason: string): void {
    const state = this.#state;
    const turn = state.turn;
    state.current = undefined;
    state.turn = undefined;
    this.#enter('idle');
    if (turn === undefined) return;
    if (this.#counts()) {
      const outcome = outcomeOfReason(reason);
      const ended = { type: 'turn.finished', turn: turnName(turn.id), reason, usage: turn.usage } as const;
      this.#tell(outcome === undefined ? ended : { ...ended, outcome });
    }
    const receipt: ReceiptState =
      reason === 'cancelled'
        ? { status: 'cancelled', turn: turn.id }
        : { status: 'answered', turn: turn.id, text: turn.text };
    for (const id of turn.entries) this.#settle(id, receipt);
    if (state.tasks.wished !== undefined) this.#activate(state.tasks.wished);
  }

  #failTurn(error: ErrorShape): void {
    const state = this.#state;
    const turn = state.turn;
    state.current = undefined;
    state.turn = undefined;
    if (turn === undefined) return;
    if (this.#counts()) this.#tell({ type: 'turn.failed', turn: turnName(turn.id), error });
    for (const id of turn.entries) this.#settle(id, { status: 'failed', turn: turn.id, error });
    if (state.tasks.wished !== undefined) this.#activate(state.tasks.wished);
  }

  #settle(pendingId: number, receipt: ReceiptState): void {
    const state = this.#state;
    state.receipts.set(pendingId, receipt);
    state.settled.push(pendingId);
    if (state.settled.length > RECEIPTS_REMEMBERED_MAX) {
      const oldest = state.settled.shift();
      if (oldest !== undefined) state.receipts.delete(oldest);
    }
    this.#observer?.settled?.(pendingId, receipt);
  }

  #retried(record: Extract<SessionRecord, { type: 'retried' }>): void {
    const current = this.#state.current;
    if (current?.halfStep !== record.halfStep) throw new Error('S3: a retry of no current half-step');
    current.attempt = record.attempt + 1;
    current.retryAt = this.#at + record.waitMs;
    current.retryWaitMs = record.waitMs;
    if (this.#counts()) {
      this.#tell({
        type: 'llm.retry',
        attempt: record.attempt,
        waitMs: record.waitMs,
        ...(record.status === undefined ? {} : { status: record.status }),
      });
    }
    if (this.#counts()) this.#tell({ type: 'session.state', state: 'awaiting', phase: 'retrying' });
  }

  /** The failure path, in the order of Δ10: bounced message gone, then the transition, then what tells of it. */
  #failed(record: Extract<SessionRecord, { type: 'failed' }>): void {
    const state = this.#state;
    const rider = state.current?.rider;
    const bounced = record.bounced !== undefined && rider?.entry === record.bounced ? rider : undefined;
    if (bounced?.messageSeq !== undefined) this.#removeMessage(bounced.messageSeq, 'bounced');
    if (record.blocks === true) state.blocked = record.error;
    // What bounced has left the history already.
    state.failure = bounced === undefined ? { error: record.error, at: this.#at } : undefined;
    this.#enter('idle');
    if (bounced !== undefined) {
      if (this.#counts()) {
        this.#tell({
          type: 'bounce_back',
          content: textOf(bounced.content),
          error: record.error,
          ...(bounced.messageSeq === undefined ? {} : { messageSeq: bounced.messageSeq }),
        });
      }
    }
    this.#failTurn(record.error);
    if (record.blocks === true && record.error.code === 'model_authentication') {
      if (this.#counts()) this.#tell({ type: 'authentication_required', error: record.error });
    }
  }

  #removeMessage(seq: number, reason: string): void {
    const state = this.#state;
    const index = state.messages.findIndex((message) => message.seq === seq);
    if (index === -1) return;
    const [removed] = state.messages.splice(index, 1);
    if (state.goals !== undefined) unpin(state, [seq]);
    state.tokens -= removed?.tokens ?? 0;
    const next = state.messages[index];
    // The border of the answered request stays where it was (A8).
    if (removed?.opens === true && next !== undefined) state.messages[index] = { ...next, opens: true };
    if (this.#counts()) this.#tell({ type: 'message.removed', messageSeq: seq, reason });
  }

  #closed(record: Extract<SessionRecord, { type: 'closed' }>): void {
    this.#promoteAll(record.entries);
    if (record.error === undefined) {
      this.#finishTurn(record.reason);
      return;
    }
    this.#enter('idle');
    this.#failTurn(record.error);
  }

  #discard(id: number, reason: 'recalled' | 'dropped', detail: string): void {
    if (this.#state.prepared !== undefined) forgetPrepared(this.#state, [id]);
    const entry = takeEntry(this.#state, id);
    if (this.#counts()) this.#tell({ type: 'pending.removed', pendingId: id, reason });
    if (entry.type === 'user_message') this.#settle(id, { status: 'dropped', reason: detail });
  }

  #poisoned(record: Extract<SessionRecord, { type: 'poisoned' }>): void {
    const state = this.#state;
    const entry = takeEntry(state, record.id);
    state.deadLetters.push({ entry, error: record.error });
    if (state.deadLetters.length > DEAD_LETTERS_MAX) state.deadLetters.shift();
    if (this.#counts()) this.#tell({ type: 'pending.removed', pendingId: record.id, reason: 'dropped' });
    if (entry.type === 'user_message') {
      this.#settle(record.id, { status: 'dropped', reason: `dead letter: ${record.error.message}` });
    }
  }

  #healed(record: Extract<SessionRecord, { type: 'healed' }>): void {
    const call = this.#state.openCalls.get(record.toolUseId);
    if (call === undefined) throw new Error(`S4: call ${record.toolUseId} is not open`);
    this.#state.openCalls.delete(record.toolUseId);
    this.#append({
      type: 'tool_response',
      content: record.content,
      tokens: estimateTokens(record.content),
      toolUseId: record.toolUseId,
      toolName: call.name,
      success: false,
      source: { type: 'tool', name: call.name },
    });
    this.#said(1);
  }

  #spawned(record: Extract<SessionRecord, { type: 'spawned' }>): void {
    const state = this.#state;
    state.children.set(record.child, {
      id: record.child,
      name: record.name,
      replies: record.replies,
      ...(record.spawnCallId === undefined ? {} : { spawnCallId: record.spawnCallId }),
      ...(record.specialist === undefined ? {} : { specialist: record.specialist }),
    });
    state.nextChild = Number(record.child.slice(record.child.lastIndexOf(':') + 1)) + 1;
    state.childNames.add(record.name);
    if (record.key !== undefined) {
      state.childKeys.set(record.key, { child: record.child, fingerprint: record.fingerprint ?? '' });
    }
    if (this.#counts()) this.#tell({ type: 'child.spawned', child: record.child, name: record.name });
  }

  #childExited(record: Extract<SessionRecord, { type: 'childExited' }>): void {
    const child = this.#state.children.get(record.child);
    if (child === undefined) throw new Error(`unknown child ${record.child}`);
    child.exited = record.reason;
    if (this.#counts())
      this.#tell({ type: 'child.exited', child: record.child, name: child.name, reason: record.reason });
  }

  #restarted(): void {
    const state = this.#state;
    state.restartAt = undefined;
    // What a suspended run left open is left behind with the rest.
    state.suspended = undefined;
    state.openCalls.clear();
    repinTask(state, state.nextMessageSeq);
    // Folded to be read whole, it keeps what the child left behind.
    if (!state.keepsAll) this.#evicted(state.nextMessageSeq);
    const task = state.goal?.description ?? '';
    this.#append({ type: 'user_message', content: task, tokens: estimateContent(task), pinned: true });
  }

  #goalCompleted(): void {
    const state = this.#state;
    completeTask(state);
    const told = completeTaskGoal(state, this.#at);
    if (state.turn !== undefined) state.turn.marked = true;
    // The task section leaves the system prompt (§7.4): the prefix changes, so a new epoch opens.
    this.#openEpoch();
    if (told) this.#tellGoals();
  }

  #goalChanged(record: GoalRecord): void {
    const { enrichment } = this.#state;
    if (enrichment !== undefined && isReworded(this.#state, record)) {
      this.#state.enrichment = { ...enrichment, goalsChanged: true };
    }
    const { opensEpoch, told } = applyGoal(this.#state, record, this.#at);
    if (opensEpoch) this.#openEpoch();
    if (told) this.#tellGoals();
  }

  #tellGoals(): void {
    if (this.#counts()) this.#tell({ type: 'goals.updated', goals: goalsOf(this.#state) });
  }

  /** Another task becomes active (B4): what it does not show leaves the conversation, what it does comes back, as one event. */
  #activate(wish: Wish): void {
    const state = this.#state;
    if (state.turn !== undefined) {
      state.tasks.wished = wish;
      return;
    }
    enterTask(state.tasks, wish, state.nextMessageSeq, this.#at);
    this.#showBranch(wish.cause === 'start' ? 'startTask' : wish.cause);
  }

  #showBranch(operation: string): void {
    const state = this.#state;
    const { shown, hidden } = showBranch(state);
    if (shown.length + hidden.length === 0) return;
    this.#openEpoch();
    this.#telling({
      type: 'history.changed',
      operation,
      removed: hidden.map((message) => message.seq),
      created: shown.map(publicMessage),
      updated: [],
    });
    if (state.suspended === undefined) return;
    const pending = state.openCalls.size;
    forgetHidden(state, hidden);
    if (settleSuspension(state, pending)) this.#telling({ type: 'session.state', state: 'idle' });
  }

  #forked({ origin, seed }: Extract<SessionRecord, { type: 'forked' }>): void {
    const state = this.#state;
    if (seed !== undefined) plantSeed(state, seed);
    if (state.agent === undefined) throw new Error('a fork without what it begins with');
    state.origin = origin;
    state.createdAt = this.#at;
  }

  /** One edit is one event: of one message as what it is, of several as one that names them all. */
  #edited(record: Extract<SessionRecord, { type: 'edited' }>): void {
    const state = this.#state;
    const pending = state.openCalls.size;
    const changed = changedCalls(state, record);
    const shown = state.memory?.shown;
    if (state.memory !== undefined) state.memory = afterEdit(state.memory, record.operation);
    const { removed, added, updated, groups, opensEpoch } = applyEdit(state, record, this.#at, (draft) =>
      this.#place(draft),
    );
    if (state.goals !== undefined) unpin(state, record.removed ?? []);
    if (opensEpoch || shown !== state.memory?.shown) {
      this.#openEpoch();
      // What was thought in the round that is still open was thought about what is sent with it again (R20).
      const [open] = state.openCalls.values();
      state.thoughtFloor = open === undefined ? state.nextMessageSeq : open.seq;
    }
    const given = [...added, ...updated].some((message) => message.history?.taskId !== undefined);
    if (given) this.#adoptTasks(added);
    this.#rememberEdit(record);
    this.#tellEdit(record, { removed, added, updated });
    if (pending > 0) settleCalls(state, changed, (body) => this.#telling(body));
    if (state.suspended !== undefined && settleSuspension(state, pending)) {
      this.#telling({ type: 'session.state', state: 'idle' });
    }
    // A message may say that it belongs to another branch than the one shown.
    if (given) this.#showBranch(record.operation);
    if (record.silent === false && this.#observer?.said !== undefined)
      for (const group of groups) this.#observer.said(group);
  }

  /** A history with tasks of its own comes into a session that had none. */
  #adoptTasks(added: readonly LoggedMessage[]): void {
    const { tasks, nextMessageSeq } = this.#state;
    let highest = 0;
    for (const { history } of added)
      if (Number.isSafeInteger(history?.taskId)) highest = Math.max(highest, history?.taskId ?? 0);
    adoptTasks(tasks, highest, nextMessageSeq, this.#at);
  }

  #rememberEdit({ key, fingerprint = '', value }: Edited): void {
    if (key === undefined) return;
    const keys = this.#state.editKeys ?? new Map();
    this.#state.editKeys = keys;
    keys.set(key, value === undefined ? { fingerprint } : { fingerprint, value });
    forgetOldest(keys, EDIT_KEYS_REMEMBERED_MAX);
  }

  #tellEdit(record: Edited, { removed, added, updated }: Pick<EditOutcome, 'removed' | 'added' | 'updated'>): void {
    if (!this.#counts()) return;
    const [only] = [...removed, ...added, ...updated];
    if (only === undefined || removed.length + added.length + updated.length > 1) {
      this.#tell({
        type: 'history.changed',
        operation: record.operation,
        removed: removed.map((message) => message.seq),
        created: added.map(publicMessage),
        updated: updated.map(publicMessage),
      });
    } else if (removed.length > 0) {
      this.#tell({ type: 'message.removed', messageSeq: only.seq, reason: record.operation });
    } else {
      this.#tell({ type: added.length > 0 ? 'message.created' : 'message.updated', message: publicMessage(only) });
    }
  }

  /** A compression begins: like a claim, but for a turn of its own; in a call's place that was too long, without a new state. */
  #compacting(record: Extract<SessionRecord, { type: 'compacting' }>): void {
    const state = this.#state;
    const { halfStep, overflow, tail } = record;
    const { current: suspended, state: returnsTo } = state;
    if (returnsTo === 'awaiting' && (overflow === undefined || suspended === undefined)) {
      throw new Error('T1/T2: compacting while awaiting');
    }
    if (returnsTo !== 'awaiting') this.#enter('awaiting');
    this.#promoteAll(record.entries);
    const compaction: Draft<CompactionCall> = { returnsTo, through: state.nextMessageSeq - 1, at: this.#at };
    if (tail !== undefined) compaction.tail = tail;
    if (overflow !== undefined && suspended !== undefined) compaction.overflow = { ...overflow, suspended };
    state.current = { halfStep, attempt: 1, compaction };
    state.nextHalfStep = halfStep + 1;
  }

  #compacted(record: Extract<SessionRecord, { type: 'compacted' }>): void {
    const state = this.#state;
    const compaction = this.#endCompaction(record.halfStep, record.usage);
    const { archived, created } = applyCompaction(state, record, this.#at);
    this.#openEpoch();
    state.thoughtFloor = state.nextMessageSeq;
    if (this.#counts()) {
      const { number, level, chunk } = record;
      const body = {
        type: 'compaction.applied',
        number,
        level,
        archived,
        created: created.map(publicMessage),
      } as const;
      this.#tell(chunk === undefined ? body : { ...body, chunk: chunk.number });
    }
    this.#goBack(compaction);
  }

  #compactionFailed(record: Extract<SessionRecord, { type: 'compactionFailed' }>): void {
    const compaction = this.#endCompaction(record.halfStep, record.usage);
    noteFailedCompaction(this.#state, record);
    if (this.#counts()) this.#tell({ type: 'compaction.failed', reason: record.reason });
    this.#goBack(compaction);
  }

  /** What a compression cost is the session's, and no turn's. */
  #endCompaction(halfStep: number, usage: Usage | undefined): CompactionCall {
    const state = this.#state;
    const compaction = state.current?.compaction;
    if (compaction === undefined || state.current?.halfStep !== halfStep) {
      throw new Error('S3: the end of no current compression');
    }
    if (usage !== undefined) state.usage = addUsage(state.usage, usage);
    return compaction;
  }

  /** Back to where the compression began. */
  #goBack({ returnsTo, overflow }: CompactionCall): void {
    const state = this.#state;
    if (overflow === undefined) {
      state.current = undefined;
      this.#enter(returnsTo);
      return;
    }
    const { halfStep, attempt, rider } = overflow.suspended;
    state.current = { halfStep, attempt, overflowed: true, ...(rider === undefined ? {} : { rider }) };
  }

  #refined(record: Extract<SessionRecord, { type: 'refined' }>): void {
    const state = this.#state;
    const index = state.messages.findIndex((message) => message.seq === record.messageSeq);
    const message = state.messages[index];
    if (message === undefined) return;
    const refined: LoggedMessage = { ...message, tokens: record.tokens };
    state.tokens += record.tokens - message.tokens;
    state.messages[index] = refined;
    if (this.#counts()) this.#tell({ type: 'message.updated', message: publicMessage(refined) });
  }
}

/** A turn's name in events. */
export function turnName(id: number): string {
  return `turn-${id}`;
}

/** Entries taken out one by one; more are taken in one pass, so that neither a long mailbox nor a large half-step is quadratic. */
const TAKEN_SINGLY_MAX = 8;

/** Removes the entries named from the mailbox and returns them in the order of `ids`; unknown ids are a broken log. */
function takeEntries(state: SessionState, ids: readonly number[]): readonly MailboxEntry[] {
  const first = ids[0];
  if (first !== undefined && ids.length === 1) return [takeEntry(state, first)];
  if (ids.length <= TAKEN_SINGLY_MAX) return ids.map((id) => takeEntry(state, id));
  const wanted = new Map<number, MailboxEntry | undefined>(ids.map((id) => [id, undefined]));
  state.mailbox = state.mailbox.filter((entry) => {
    if (!wanted.has(entry.id)) return true;
    wanted.set(entry.id, entry);
    return false;
  });
  return ids.map((id) => {
    const entry = wanted.get(id);
    if (entry === undefined) throw new Error(`S2: entry ${id} is not waiting`);
    return entry;
  });
}

function takeEntry(state: SessionState, id: number): MailboxEntry {
  const { mailbox } = state;
  let index = 0;
  while (index < mailbox.length && mailbox[index]?.id !== id) index += 1;
  const entry = mailbox[index];
  if (entry === undefined) throw new Error(`S2: entry ${id} is not waiting`);
  // The only one is taken without the list of the removed that `splice` makes.
  if (mailbox.length === 1) mailbox.pop();
  else mailbox.splice(index, 1);
  return entry;
}

function forgetOldest<K, V>(map: Map<K, V>, sizeMax: number): void {
  if (map.size <= sizeMax) return;
  const oldest = map.keys().next();
  if (oldest.done !== true) map.delete(oldest.value);
}
