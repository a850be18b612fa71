/**
 * The invariants that must hold after every life of a runtime. A life is the time from the opening of a runtime to its
 * crash or close. The checks compare the replies and events that left the runtime (`ledger.ts`) with the stores
 * (`session-story.ts`).
 *
 *  I1 each acknowledged message, its image too, is in its session's store exactly once, unchanged and in order; each
 *     accepted entry is in exactly one of mailbox, log, dropped-with-reason (A7);
 *  I2 the events a reader received equal the log, without a gap;
 *  I3 every request that the model received was legal, and follows from the log, even if only a part of it was sent;
 *  I4 a `once` tool starts at most once per call; no effect of a `probe` tool happens twice; no finished call runs
 *     again;
 *  I5 every call has exactly one result, or is open, or waited in a suspended run whose branch was left;
 *  I6 a child is known to its parent or does not exist; it ends once, and once more for each time that it worked again
 *     after an end. The parent is notified of each end once, and no message of the child is lost;
 *  I7 with faults off everything finishes;
 *  I8 while a call of the provider waits for its result, a half-step takes only results from the mailbox (R52);
 *  I10 a model's answers stay a prefix of its next request within an epoch;
 *  I11 the usage of a session is the sum of its answers, lost ones included;
 *  I12 the state of a session that is read from its snapshot equals the state that its whole log gives;
 *  I13 an acknowledged fork exists, and begins with the messages that its parent had when the fork was made;
 *  I14 a call that needs approval runs only when it was allowed, and no call of a suspended run runs;
 *  I15 if a shortened result has the path of a file with its whole text, the file survives a power loss;
 *  I16 a turn fails because of refused credentials only if they were refused for a call of that session;
 *  I17 a call whose outcome was lost in transit is answered within its deadline (checked by `simulated-tools.ts`). No
 *      other call is given up as lost;
 *  I18 a call that is not `pure` starts only when its store has the transition that lets it start: the answer with the
 *      call, the release of an answer that a guardrail held, or the approval that the call needs. Without this order a
 *      crash could leave the effect of a call in the world, but not its cause in the log;
 *  I19 a message or a spawn that asks for a structured answer has one end: a value that fits, or a typed failure. The
 *      corrections of a turn are bounded, and a call that gives the answer runs no tool;
 *  I20 a request continues a message thread only if the API holds exactly the messages that the request leaves out; no
 *      answer is continued twice (checked by `simulated-threads.ts`);
 *  I21 a request is legal for the vendor that receives it, also after a move to another model; it has no thought and no
 *      metadata of another model (checked by `simulated-model.ts` and `other-vendor.ts`);
 *  I22 a session asks the model that its log says (a part of I3: the model is a part of the request);
 *  I23 a half-step asks no model again after it has moved on to another; each model has its own attempts, and the
 *      half-step fails only when the last model has used all its attempts (checked by `model-trail.ts`);
 *  I24 a question is asked once and decided once; its answer fits the form in its record, and an acknowledged reply is
 *      the result of its call (checked by `simulated-questions.ts` and `answer-invariants.ts`);
 *  I25 a webhook receives each call that waits for a person, and each end of a turn of a session without a parent. Each
 *      arrives at least once, and in the order of the log (checked by `simulated-receiver.ts`);
 *  I26 a failed call runs again exactly as its tool's `retry` says: in order, after the wait, and until the attempts
 *      are used up; a `once` or `probe` call never has a second attempt;
 *  I27 at most `subagents.maxActive` children of a session work at once, those that work again after an end included.
 *      The others wait in the order in which they came and start nothing. The first of them starts in the transition
 *      that frees a place;
 *  I28 a session's last outcome and error, in its state and in lists, are those of the last end of a turn in its log;
 *  I29 a budget counts each token of its session and its descendants once; no call begins after the budget is used up;
 *  I30 a deleted session leaves no entry in a row and no result file (checked by `families/erasures.ts`);
 *  I31 a dead letter is in the list, or was sent again once with its content, or was dropped on request; an
 *      acknowledged receipt is that of the letter's new entry (checked by `letters/dead-letters.ts`);
 *  I32 a turn begins with the current version of its agent. Every half-step of the turn has the system prompt of that
 *      version, and its calls run the tools of that version (checked in `versions/`);
 *  I33 old history leaves the log and its rows; a log without it gives the same state as the whole log (checked by
 *      `families/retention.ts` and `store-reading.ts`);
 *  I34 a lost answer is the beginning of the text that one call streamed, with the tokens that the model counted, and
 *      is recorded once; no draft outlives its session or the answer of its half-step (checked by
 *      `families/drafts.ts`);
 *  I35 a change of the number of shards keeps each session as it was (checked by `layouts/layout-changes.ts`);
 *  I36 an encrypted store has no plain value and no plain result. It has the data key of a deleted session only if a
 *      fork shared the session's results when it was deleted (checked by `families/encryption.ts`);
 *  I37 the view of a tenant shows every session of that tenant, and neither shows nor deletes a session outside that
 *      tenant (checked by `tenants/tenant-actions.ts`);
 *  I38 a text that `redact` removes is in no row, head, draft or file, and in no request or input of a tool. Nothing
 *      that a session thread sends has such a text: answers, events, notices, log lines (checked in `redaction/`);
 *  I39 the audit log has exactly one entry for each of these acts: a decided call, a dead letter that was sent again or
 *      dropped, an edit by the embedder, a started or activated task, a fork, a deleted session. An entry never changes
 *      and never leaves (checked by `families/audit.ts`);
 *  I40 a backup of a store in use has everything that left the runtime before the backup began. It has the first part
 *      of each log (checked by `families/backups.ts`);
 *  I41 after a compaction of an open store, no free page has entries of a session that was erased before the
 *      compaction (checked by `families/compaction.ts`);
 *  I42 before another process takes the store over, the shards stand still: they begin no half-step, but still accept
 *      messages. The runtime closes only when all shards stand still. After it has released the store it writes
 *      nothing (checked by `families/hand-over.ts` and `attempts.ts`).
 */

import type { Limits } from '../../base/bounds.ts';
import { historyMessages } from '../../session/history/history-form.ts';
import type { ReceiptState } from '../../session/state/state.ts';
import { checkAnswers, checkReplies } from './answer-invariants.ts';
import { checkBudgets } from './families/budgets.ts';
import { checkLost } from './families/drafts.ts';
import { endsOf } from './families/spawn-line.ts';
import { digestOf, isWithin, type Ledger, type MessageStory, type Outcome } from './ledger.ts';
import { contentOf } from './messages/simulated-media.ts';
import { ModelCallInvariants } from './models/model-call-invariants.ts';
import type { SessionStory } from './session-story.ts';
import type { Reading, Stories } from './store-reading.ts';
import { checkKept, checkResults, checkToolRuns } from './tool-invariants.ts';
import { checkVersions } from './versions/version-trail.ts';

/** Checks stores against a ledger after each life. Findings go to the ledger. */
export class Invariants {
  readonly #ledger: Ledger;
  readonly #incarnationOf: (session: string) => number;
  /** The incarnation that the shard had when a check first found a call's result in the store, by the call's key. */
  readonly #resultIn = new Map<string, number>();
  readonly #modelCalls: ModelCallInvariants;

  readonly #mailboxMax: number;
  readonly #mailboxBytesMax: number;
  readonly #correctionsMax: number;
  readonly #maxActive: number | undefined;
  readonly #isKept: (path: string) => boolean;

  /**
   * `incarnationOf`: the incarnation of a session's shard (`SimulatedMachine.incarnationOf`).
   * `limits`: the limits of the runtime, if known.
   * `maxActive`: the maximum number of children of one session that work at once; missing: not checked.
   * `isKept`: whether a file of the result store survived the power loss at the end of a life; missing: not checked.
   * `changesAgents`: true if each life defines its agents differently.
   */
  constructor(
    ledger: Ledger,
    incarnationOf: (session: string) => number,
    known: {
      readonly limits?: Partial<Pick<Limits, 'mailbox' | 'mailboxBytes' | 'answerCorrections'>>;
      readonly maxActive?: number;
      readonly isKept?: (path: string) => boolean;
      readonly changesAgents?: boolean;
    } = {},
  ) {
    this.#isKept = known.isKept ?? (() => true);
    this.#maxActive = known.maxActive;
    this.#ledger = ledger;
    this.#incarnationOf = incarnationOf;
    this.#mailboxMax = known.limits?.mailbox ?? Number.POSITIVE_INFINITY;
    this.#mailboxBytesMax = known.limits?.mailboxBytes ?? Number.POSITIVE_INFINITY;
    this.#correctionsMax = known.limits?.answerCorrections ?? Number.POSITIVE_INFINITY;
    this.#modelCalls = new ModelCallInvariants(ledger, incarnationOf, known.changesAgents ?? false);
  }

  /** Checks everything after a life, when its process is gone. */
  check({ stories, changed, differing, misstated, names }: Reading): void {
    for (const name of differing) this.#ledger.violate('fold', `${name} wakes otherwise than its log says (I12)`);
    for (const what of misstated) this.#ledger.violate('fold', what);
    for (const name of changed) {
      const story = stories.get(name);
      if (story === undefined) continue;
      for (const { kind, what } of story.faults) this.#ledger.violate(kind, what);
      this.#checkEntries(story);
      checkResults(this.#ledger, story);
      checkKept(this.#ledger, story, this.#isKept);
      this.#checkFamily(story, stories);
      this.#checkUsage(story);
      this.#checkRefusals(story);
      this.#checkForks(story, stories);
      checkAnswers(this.#ledger, story, this.#correctionsMax);
      checkLost(this.#ledger, story);
    }
    this.#checkPublished(stories);
    this.#checkDeleted(names);
    this.#modelCalls.check(stories);
    checkToolRuns(this.#ledger, stories, this.#resultIn);
    checkReplies(this.#ledger, stories);
    checkBudgets(this.#ledger, stories);
    checkVersions(this.#ledger, stories);
    this.#noteDone(stories);
    this.#modelCalls.noteDone(stories);
  }

  /**
   * Checks I7 at the end of a life without faults, when all work has finished: nothing waits, nothing is open, and each
   * request was answered.
   */
  checkFinished(stories: Stories): void {
    for (const { id, state, calls, accepted, settled, spawned, childExits, line } of stories.values()) {
      const waiting = state.mailbox.filter((entry) => entry.kind === 'active').length;
      if (state.state !== 'idle' || waiting > 0) {
        this.#ledger.violate('stuck', `${id} is ${state.state}, ${waiting} wait`);
      }
      for (const [key, call] of calls) {
        if (call.results.length === 0 && !call.isLeft)
          this.#ledger.violate('stuck', `call ${key} of ${call.tool} has no result`);
      }
      for (const [pendingId, [entry]] of accepted) {
        if (entry?.type === 'user_message' && !settled.has(pendingId)) {
          this.#ledger.violate('stuck', `${id}/${pendingId} was not answered`);
        }
      }
      if (state.queued) this.#ledger.violate('stuck', `${id} waits for a place for ever (I27)`);
      for (const child of spawned.keys()) {
        const [exits, revivals] = [childExits.get(child) ?? 0, line.revivals(child)];
        if (exits !== revivals + 1)
          this.#ledger.violate('unbalanced', `${child} ended ${exits} times of ${revivals + 1}`);
      }
    }
    for (const [session, digest] of this.#ledger.histories) {
      const story = stories.get(session);
      const folded = story === undefined ? '' : digestOf(JSON.stringify(historyMessages(story.state)));
      if (folded !== digest) this.#ledger.violate('fold', `${session} tells another history than its log`);
    }
    for (const { uid, session, key, pendingId, isRefused, hasNoRoom } of this.#ledger.messages.values()) {
      // A mailbox of a few hundred bytes may stay full for as long as the sender retries.
      const isMissing = pendingId === undefined && isRefused === undefined && hasNoRoom !== true;
      if (key !== undefined && isMissing) {
        this.#ledger.violate('lost', `${uid} of ${session} was sent again and again and never acknowledged`);
      }
    }
    for (const session of this.#ledger.readThrough) {
      const received = this.#ledger.events.get(session)?.size ?? 0;
      const logged = stories.get(session)?.events.length ?? 0;
      if (received !== logged && !this.#ledger.deleted.has(session))
        this.#ledger.violate('lost', `a reader of ${session} received ${received} of ${logged} events (I2)`);
    }
  }

  // ---- I1 -----------------------------------------------------------------------------------------------------------

  #checkEntries({ id, state, accepted, fates, keys, promoted, settled, fullest, fullestBytes }: SessionStory): void {
    if (fullest >= this.#mailboxMax)
      this.#ledger.violate('failed', `a message was accepted while ${fullest} waited for ${id} (limits.mailbox)`);
    if (fullestBytes > this.#mailboxBytesMax)
      this.#ledger.violate('failed', `${fullestBytes} bytes waited for ${id} (limits.mailboxBytes)`);
    const waiting = new Set(state.mailbox.map((entry) => entry.id));
    for (const [pendingId, entries] of accepted) {
      if (entries.length > 1)
        this.#ledger.violate('duplicated', `${id}/${pendingId} was accepted ${entries.length} times`);
      const places = (fates.get(pendingId)?.length ?? 0) + (waiting.has(pendingId) ? 1 : 0);
      if (places === 0)
        this.#ledger.violate('lost', `${id}/${pendingId} is neither waiting, nor in the log, nor dropped`);
      if (places > 1) this.#ledger.violate('duplicated', `${id}/${pendingId} is in ${places} places`);
    }
    for (const [key, ids] of keys) {
      if (ids.length > 1) this.#ledger.violate('duplicated', `key ${key} of ${id} stands for ${ids.join(', ')}`);
    }
    for (const policy of [undefined, 'steer']) {
      const inOrder = promoted.filter((pendingId) => {
        const entry = accepted.get(pendingId)?.[0];
        return entry?.type === 'user_message' && entry.deliver === policy && entry.seed === undefined;
      });
      const late = inOrder.find((pendingId, index) => index > 0 && pendingId < (inOrder[index - 1] ?? 0));
      if (late !== undefined)
        this.#ledger.violate('reordered', `${id}/${late} (${policy ?? 'ride'}) was overtaken by a later one`);
    }
    for (const pendingId of settled.keys()) {
      if (waiting.has(pendingId)) this.#ledger.violate('changed', `${id}/${pendingId} is settled and still waits`);
    }
  }

  #checkMessage({ uid, session, content, image, pendingId, isRefused }: MessageStory, stories: Stories): void {
    const story = stories.get(session);
    if (isRefused) {
      const isThere = story?.userTexts.some((text) => hasWord(text, uid));
      if (isThere === true) this.#ledger.violate('duplicated', `${uid} was refused and stands in ${session}`);
      return;
    }
    const times = story?.userTexts.filter((text) => hasWord(text, uid)).length ?? 0;
    if (times > 1) this.#ledger.violate('duplicated', `${uid} stands ${times} times in the log of ${session}`);
    if (pendingId === undefined) return;
    const entry = story?.accepted.get(pendingId)?.[0];
    if (story === undefined || entry === undefined) {
      this.#ledger.violate('lost', `${uid}, acknowledged as ${session}/${pendingId}, is not in the store`);
      return;
    }
    const sent = JSON.stringify(contentOf(content, image));
    if (JSON.stringify(entry.content) !== sent) {
      this.#ledger.violate('changed', `${session}/${pendingId} is ${JSON.stringify(entry.content)}, not ${sent}`);
    }
    if (story.fates.get(pendingId)?.[0] === 'promoted' && times !== 1) {
      this.#ledger.violate('lost', `${uid} was promoted and stands ${times} times in the log of ${session}`);
    }
  }

  // ---- I6 -----------------------------------------------------------------------------------------------------------

  #checkFamily(story: SessionStory, stories: Stories): void {
    for (const child of story.spawned.keys()) this.#checkLink(story, stories.get(child), child);
    const { parent } = story.state;
    this.#checkLine(story);
    if (parent !== undefined) this.#checkLink(stories.get(parent), story, story.id);
    const keys = [...story.spawned.values()].flatMap(({ key }) => (key === undefined ? [] : [key]));
    if (new Set(keys).size < keys.length)
      this.#ledger.violate('duplicated', `a spawn key of ${story.id} has two children`);
  }

  #checkLine({ id, line }: SessionStory): void {
    const max = this.#maxActive;
    if (max === undefined) return;
    if (line.most > max) this.#ledger.violate('failed', `${line.most} children of ${id} work at once (I27)`);
    if (line.fewest < max) this.#ledger.violate('stuck', `a child of ${id} waits while ${line.fewest} work (I27)`);
  }

  #checkLink(parent: SessionStory | undefined, child: SessionStory | undefined, id: string): void {
    const link = parent?.spawned.get(id);
    if (parent !== undefined && child === undefined && this.#ledger.deleted.has(id)) {
      const notices = parent.childExits.get(id) ?? 0;
      if (notices !== 1 + parent.line.revivals(id))
        this.#ledger.violate('unbalanced', `${id} was deleted, and its parent was notified ${notices} times`);
      return;
    }
    if (parent === undefined || child === undefined || link === undefined || child.state.parent !== parent.id) {
      this.#ledger.violate('unbalanced', `${id} is known to its parent or exists, not both`);
      return;
    }
    // A child that works again after an end may wait again although it promoted entries earlier. For such a child,
    // `SpawnLine` checks the child's own log.
    if (parent.line.waits(id) && parent.line.revivals(id) === 0 && child.promoted.length > 0)
      this.#ledger.violate('reordered', `${id} works while it waits for a place (I27)`);
    const [notices, ends] = [parent.childExits.get(id) ?? 0, child.exits.length];
    if (notices !== ends)
      this.#ledger.violate('unbalanced', `${id} ended ${ends} times, and its parent was notified ${notices} times`);
    if (ends > 1 + parent.line.revivals(id)) this.#ledger.violate('duplicated', `${id} ended ${ends} times`);
    // The parent also receives failures, whose text is not among the child's messages.
    const heard = parent.heard.get(link.name) ?? [];
    const missing = link.replies === 'mailbox' ? firstMissing(child.said, heard) : undefined;
    if (missing !== undefined) {
      this.#ledger.violate('lost', `${id} said ${JSON.stringify(missing)}, but its parent did not receive it`);
    }
    if (link.replies === 'handle' && heard.length > 0)
      this.#ledger.violate('duplicated', `${id} replies to its handle, but its parent received it`);
    const counts = new Map<string, number>();
    for (const text of heard) counts.set(text, (counts.get(text) ?? 0) + 1);
    for (const text of new Set(child.said)) {
      const said = child.said.filter((each) => each === text).length;
      if ((counts.get(text) ?? 0) > said) this.#ledger.violate('duplicated', `${JSON.stringify(text)} of ${id}`);
    }
  }

  // ---- I13 ----------------------------------------------------------------------------------------------------------

  /** Checks the forks of a session whose log has grown and, if it is a fork itself, that its parent knows it. */
  #checkForks(story: SessionStory, stories: Stories): void {
    for (const [number, { child, texts }] of story.forksMade) {
      const fork = stories.get(child);
      const origin = fork?.state.origin;
      if (fork?.begins === undefined || origin?.fork !== number || origin.createdAt !== story.state.createdAt) continue;
      const isCut = origin.at !== undefined;
      const isSame = fork.begins.every((text, index) => text === texts[index]);
      if (!isSame || (!isCut && fork.begins.length !== texts.length))
        this.#ledger.violate('changed', `${child} does not begin as ${story.id} was: ${fork.begins.join(',')}`);
    }
    const { origin } = story.state;
    const parent = origin === undefined ? undefined : stories.get(origin.session);
    const isShared = origin?.fork !== undefined && parent?.state.createdAt === origin.createdAt;
    if (isShared && parent.forksMade.get(origin.fork ?? 0)?.child !== story.id)
      this.#ledger.violate('unbalanced', `${story.id} is a fork ${parent.id} does not know`);
  }

  // ---- I11 ----------------------------------------------------------------------------------------------------------

  #checkUsage({ id, state, usage }: SessionStory): void {
    if (state.usage.input_tokens === usage.input_tokens && state.usage.output_tokens === usage.output_tokens) return;
    this.#ledger.violate('changed', `the usage of ${id} is not the sum of its answers (I11)`);
  }

  // ---- I16 ----------------------------------------------------------------------------------------------------------

  #checkRefusals({ id, refused }: SessionStory): void {
    const refusals = this.#ledger.refusals.get(id) ?? 0;
    if (refused > refusals)
      this.#ledger.violate(
        'failed',
        `${refused} turns of ${id} failed with the key, ${refusals} calls were refused (I16)`,
      );
  }

  // ---- I1, I2: every reply and event that left still holds ----------------------------------------------------------

  #checkPublished(stories: Stories): void {
    for (const story of this.#ledger.messages.values()) this.#checkMessage(story, stories);
    for (const { session, pendingId, outcome } of this.#ledger.answers.values()) {
      const receipt = stories.get(session)?.settled.get(pendingId);
      const stored = outcomeOf(receipt);
      if (stored?.kind === outcome.kind && (outcome.kind !== 'text' || stored.text === outcome.text)) continue;
      this.#ledger.violate(
        'changed',
        `the answer of ${session}/${pendingId} was ${outcome.kind} ${outcome.text}, stored is ${JSON.stringify(receipt)}`,
      );
    }
    for (const { uid, session, key, child } of this.#ledger.spawns.values()) {
      if (child === undefined) continue;
      const link = stories.get(session)?.spawned.get(child);
      if (link === undefined || link.key !== key)
        this.#ledger.violate('lost', `${child}, spawned as ${uid}, is not in the store`);
    }
    for (const [child, outcome] of this.#ledger.replies) {
      const ends = endsOf(stories.get(child)?.exits ?? []);
      const isStored = ends.some(({ reason, reply }) =>
        outcome.kind === 'text' ? reason === 'completed' && reply === outcome.text : reason === outcome.kind,
      );
      if (!isStored)
        this.#ledger.violate('changed', `the reply of ${child} was ${outcome.text}, stored is ${JSON.stringify(ends)}`);
    }
    for (const [id, { parent, digest }] of this.#ledger.forks) {
      const begins = stories.get(id)?.begins;
      if (begins === undefined) this.#ledger.violate('lost', `${id}, forked from ${parent}, is not in the store (I13)`);
      else if (digestOf(`[${begins.join(',')}]`) !== digest)
        this.#ledger.violate('changed', `${id} no longer begins as it was published (I13): ${begins.join(',')}`);
    }
    for (const [session, task] of this.#ledger.tasks) {
      const current = stories.get(session)?.state.tasks.current ?? 0;
      if (current < task) this.#ledger.violate('lost', `task ${task} of ${session}, which has ${current}`);
    }
    for (const [session, received] of this.#ledger.events) this.#checkEvents(session, received, stories.get(session));
  }

  #checkEvents(session: string, received: ReadonlyMap<number, string>, story: SessionStory | undefined): void {
    let first = Number.POSITIVE_INFINITY;
    let last = 0;
    for (const [seq, digest] of received) {
      if (story?.events[seq - 1] !== digest)
        this.#ledger.violate('changed', `event ${seq} of ${session} is not the log's (I2)`);
      first = Math.min(first, seq);
      last = Math.max(last, seq);
    }
    if (received.size > 0 && last - first + 1 !== received.size) {
      this.#ledger.violate(
        'lost',
        `of the events ${first} to ${last} of ${session} only ${received.size} were published`,
      );
    }
  }

  #checkDeleted(names: readonly string[]): void {
    for (const [session, wasAcknowledged] of this.#ledger.deleted) {
      if (!wasAcknowledged) continue;
      for (const id of names) {
        if (isWithin(id, session)) this.#ledger.violate('duplicated', `${id} is there, ${session} was deleted`);
      }
    }
  }

  #noteDone(stories: Stories): void {
    for (const story of stories.values()) {
      const incarnation = this.#incarnationOf(story.id);
      for (const [key, { results }] of story.calls) {
        if (results.length > 0 && !this.#resultIn.has(key)) this.#resultIn.set(key, incarnation);
      }
    }
  }
}

function hasWord(text: string, uid: string): boolean {
  return new RegExp(`(^|\\W)${uid}(\\W|$)`).test(text);
}

/** The first item of `said` that `heard` does not have in the same order. */
function firstMissing(said: readonly string[], heard: readonly string[]): string | undefined {
  let from = 0;
  for (const text of said) {
    const at = heard.indexOf(text, from);
    if (at === -1) return text;
    from = at + 1;
  }
  return undefined;
}

function outcomeOf(receipt: ReceiptState | undefined): Outcome | undefined {
  switch (receipt?.status) {
    case 'answered':
      return { kind: 'text', text: receipt.text };
    case 'suspended':
      return { kind: receipt.reason === 'interrupted' ? 'cancelled' : 'failed', text: '' };
    case 'cancelled':
    case 'dropped':
    case 'failed':
      return { kind: receipt.status, text: '' };
    default:
      return undefined;
  }
}
