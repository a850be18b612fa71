/**
 * The invariants, checked after each kill: the victims' reports (`ledger.ts`) against the store (`session-facts.ts`).
 * The checks do not know what happened in between, so they apply to every schedule.
 */
import { callKey } from '../../src/session/decide/tools.ts';
import { INTERRUPT_NOTICE, OUTCOME_UNKNOWN } from '../../src/session/rules/tool-texts.ts';
import { timeoutText } from '../../src/tools/tool-execution.ts';
import { checkEnrichers, checkEnrichersFinished } from './enricher-checks.ts';
import { checkAudit, checkFamily, checkPresence } from './family-checks.ts';
import type { Ledger, MessageStory } from './ledger.ts';
import { messageContent, type Outcome, resultOf } from './protocol.ts';
import { type PastLife, RunChecker } from './run-checks.ts';
import type { CallFact, SessionFacts } from './session-facts.ts';
import type { Reading } from './store-facts.ts';

const TOOLS: readonly string[] = ['pure', 'keyed', 'once', 'probe', 'long'];
/** Tools whose calls the runtime answers itself. */
const RUNTIME_TOOLS: ReadonlySet<string> = new Set(['spawn_subagent', 'mark_goal_completed']);
type Sessions = ReadonlyMap<string, SessionFacts>;

/** Checks one store over all its lives. Findings go to the ledger. */
export class Checker {
  readonly #ledger: Ledger;
  readonly #runs: RunChecker;
  readonly #seen = new Set<string>();
  /** Sessions whose deletion was requested, and that a reading did not find any more. */
  readonly #gone = new Set<string>();
  /** Texts of calls that may have timed out. */
  readonly #timeouts = new Set<string>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#runs = new RunChecker(ledger);
  }

  /** Checks the changes of one life after its process is gone. */
  check(reading: Reading, life: PastLife): void {
    const { changed, sessions, torn } = reading;
    if (life.toolTimeoutMs !== undefined)
      for (const tool of TOOLS) this.#timeouts.add(timeoutText(tool, life.toolTimeoutMs));
    for (const text of torn) this.#ledger.violate('torn', text);
    for (const id of changed) {
      const facts = sessions.get(id);
      if (facts === undefined) continue;
      this.#checkEntries(facts);
      this.#checkCalls(facts);
      checkFamily(facts, sessions, this.#ledger);
      checkEnrichers(facts, this.#ledger, life.isEnriched === true);
      for (const text of facts.illegal) this.#ledger.violate('illegal', `the request of ${id}: ${text}`);
      for (const text of facts.failures) this.#ledger.violate('failed', `${id}: ${text}`);
      for (const halfStep of facts.claimedPaused)
        this.#ledger.violate('failed', `half-step ${halfStep} of ${id} began while it was paused`);
    }
    checkPresence(sessions, this.#seen, this.#ledger);
    checkAudit(reading.deletions, sessions, this.#ledger);
    for (const id of this.#gone)
      if (sessions.has(id)) this.#ledger.violate('resurrected', `${id} was gone, and is there again`);
    for (const id of sessions.keys()) this.#seen.add(id);
    for (const id of this.#seen) {
      if (!this.#ledger.sessions.mayBeGone(id) || sessions.has(id)) continue;
      this.#seen.delete(id);
      this.#gone.add(id);
    }
    this.#checkPublished(sessions);
    this.#runs.check(reading, life);
  }

  /** The files are compacted and nothing else happened, so no session may differ. */
  checkCompacted(reading: Reading, before: Reading): void {
    for (const text of reading.torn) this.#ledger.violate('torn', `after a compaction: ${text}`);
    for (const id of new Set([...reading.sessions.keys(), ...before.sessions.keys()])) {
      const [is, was] = [reading.sessions.get(id), before.sessions.get(id)];
      if (is?.events.length !== was?.events.length)
        this.#ledger.violate(was === undefined ? 'resurrected' : 'lost', `${id} is another after a compaction`);
    }
    if (reading.erasing !== before.erasing || reading.removing !== before.removing)
      this.#ledger.violate('changed', 'other sessions are being erased after a compaction');
  }

  /** I7, after a life without a kill has finished: nothing waits, nothing is open, every message was answered. */
  checkFinished(sessions: Sessions): void {
    for (const { id, state, calls, accepted, settled, spawned, childExits, childRevivals } of sessions.values()) {
      checkEnrichersFinished(state, this.#ledger);
      const waiting = state.mailbox.filter((entry) => entry.kind === 'active').length;
      if (state.state !== 'idle' || waiting > 0)
        this.#ledger.violate('stuck', `${id} is ${state.state}, ${waiting} wait`);
      for (const [key, call] of calls) {
        if (call.results.length === 0) this.#ledger.violate('stuck', `call ${key} of ${call.tool} has no result`);
      }
      for (const [pendingId, entries] of accepted) {
        const isMessage = entries[0]?.type === 'user_message';
        if (isMessage && !settled.has(pendingId)) this.#ledger.violate('stuck', `${id}/${pendingId} was not answered`);
      }
      for (const child of spawned.keys()) {
        const ends = 1 + (childRevivals.get(child) ?? 0);
        if (childExits.get(child) !== ends)
          this.#ledger.violate('unbalanced', `${child} ended ${childExits.get(child) ?? 0} times of ${ends}`);
      }
    }
    for (const { message, pendingId, isRefused } of this.#ledger.messages.values()) {
      if (message.key !== undefined && pendingId === undefined && isRefused === undefined) {
        this.#ledger.violate(
          'lost',
          `${message.uid} of ${message.session} was sent again and again and never acknowledged`,
        );
      }
    }
  }

  // ---- I1: messages -------------------------------------------------------------------------------------------------

  #checkEntries(facts: SessionFacts): void {
    const { id, state, accepted, fates, keys, promoted } = facts;
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
    for (const [uid, times] of facts.logged) {
      if (times > 1) this.#ledger.violate('duplicated', `${uid} stands ${times} times in the log of ${id}`);
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
  }

  #checkMessage({ message, pendingId }: MessageStory, sessions: Sessions): void {
    if (pendingId === undefined) return;
    const { uid, session } = message;
    if (this.#ledger.sessions.mayBeGone(session)) return;
    const facts = sessions.get(session);
    const entry = facts?.accepted.get(pendingId)?.[0];
    if (facts === undefined || entry === undefined) {
      this.#ledger.violate('lost', `${uid}, acknowledged as ${session}/${pendingId}, is not in the store`);
      return;
    }
    if (JSON.stringify(entry.content) !== JSON.stringify(messageContent(message))) {
      this.#ledger.violate('changed', `${session}/${pendingId} is ${JSON.stringify(entry.content)}, not ${uid}`);
    }
    const fate = facts.fates.get(pendingId)?.[0];
    if (fate === 'promoted' && facts.logged.get(uid) !== 1) {
      this.#ledger.violate(
        'lost',
        `${uid} was promoted and stands ${facts.logged.get(uid) ?? 0} times in the log of ${session}`,
      );
    }
  }

  // ---- I5: calls and their results ----------------------------------------------------------------------------------

  #checkCalls({ calls, state }: SessionFacts): void {
    const open = new Set([...state.openCalls.values()].map((call) => callKey(state, call)));
    for (const [key, call] of calls) {
      const places = call.results.length + (open.has(key) ? 1 : 0);
      if (places !== 1)
        this.#ledger.violate(places === 0 ? 'lost' : 'duplicated', `call ${key} has ${call.results.length} results`);
      this.#checkResult(key, call);
    }
  }

  #checkResult(key: string, { tool, results }: CallFact): void {
    const result = results[0];
    if (result === undefined || RUNTIME_TOOLS.has(tool)) return;
    const isRight = result.success
      ? isResultOf(tool, key, result.content) && (this.#ledger.tools.get(key)?.starts.length ?? 0) > 0
      : result.content.startsWith(INTERRUPT_NOTICE) ||
        this.#timeouts.has(result.content) ||
        (tool === 'once' && result.content === OUTCOME_UNKNOWN);
    if (!isRight)
      this.#ledger.violate('failed', `call ${key} of ${tool} was answered ${JSON.stringify(result.content)}`);
  }

  // ---- earlier reports still hold -----------------------------------------------------------------------------------

  #checkPublished(sessions: Sessions): void {
    for (const story of this.#ledger.messages.values()) this.#checkMessage(story, sessions);
    for (const what of this.#ledger.histories.contradictions(sessions, this.#mayBeGone))
      this.#ledger.violate('lost', what);
    const mayBeGone = this.#mayBeGone;
    for (const { session, pendingId, outcome } of this.#ledger.answers.values()) {
      if (mayBeGone(session)) continue;
      const receipt = sessions.get(session)?.settled.get(pendingId);
      const stored: Outcome | undefined = outcomeOf(receipt);
      if (stored?.kind === outcome.kind && (outcome.kind !== 'text' || stored.text === outcome.text)) continue;
      this.#ledger.violate(
        'changed',
        `the answer of ${session}/${pendingId} was ${outcome.text}, stored is ${JSON.stringify(receipt)}`,
      );
    }
    for (const { wish, child } of this.#ledger.spawns.values()) {
      if (child === undefined || mayBeGone(child)) continue;
      const link = sessions.get(wish.session)?.spawned.get(child);
      if (link === undefined || link.key !== wish.key)
        this.#ledger.violate('lost', `${child}, spawned as ${wish.uid}, is not in the store`);
    }
    for (const [child, outcome] of this.#ledger.replies) {
      if (mayBeGone(child)) continue;
      const exits = sessions.get(child)?.exits ?? [];
      const completed = exits.find(({ reason }) => reason === 'completed');
      // A failure may be followed by another end, a reply by none.
      const isStored =
        outcome.kind === 'text'
          ? completed?.reply === outcome.text
          : exits.some(({ reason }) => reason === outcome.kind);
      if (!isStored)
        this.#ledger.violate(
          'changed',
          `the reply of ${child} was ${outcome.text}, stored is ${JSON.stringify(exits)}`,
        );
    }
    for (const [session, received] of this.#ledger.events) this.#checkEvents(session, received, sessions.get(session));
    for (const recall of this.#ledger.sessions.recalls.values()) this.#checkRecall(recall, sessions);
    for (const [session, story] of this.#ledger.sessions.pauses) {
      const isPaused = sessions.get(session)?.state.paused ?? false;
      if (story !== 'unknown' && isPaused !== (story === 'paused'))
        this.#ledger.violate('lost', `${session} is ${story} as reported, but not in the store`);
    }
  }

  #checkRecall(
    recall: { readonly session: string; readonly pendingId: number; readonly won: boolean },
    sessions: Sessions,
  ): void {
    const { session, pendingId, won } = recall;
    const facts = sessions.get(session);
    if (facts === undefined) return;
    const wasRecalled = facts.fates.get(pendingId)?.includes('recalled') === true;
    if (wasRecalled !== won)
      this.#ledger.violate('changed', `${session}/${pendingId} was ${won ? '' : 'not '}recalled as reported`);
  }

  readonly #mayBeGone = (session: string): boolean => this.#ledger.sessions.mayBeGone(session);

  /** I2: every reported event is in the log, and their numbers have no gap. */
  #checkEvents(session: string, received: ReadonlyMap<number, string>, facts: SessionFacts | undefined): void {
    let first = Number.POSITIVE_INFINITY;
    let last = 0;
    for (const [seq, digest] of received) {
      if (facts?.events[seq - 1] !== digest)
        this.#ledger.violate('changed', `event ${seq} of ${session} is not the log's`);
      first = Math.min(first, seq);
      last = Math.max(last, seq);
    }
    const gaps = this.#ledger.gaps.get(session) ?? [];
    const firstEvent = facts?.state.removed?.firstEvent ?? 0;
    for (const { from, to } of gaps) {
      if (to >= firstEvent)
        this.#ledger.violate('lost', `events ${from} to ${to} of ${session} are missing, and no removal says so`);
    }
    let missing = 0;
    for (let seq = first; seq <= last; seq += 1) {
      if (!received.has(seq) && !gaps.some(({ from, to }) => seq >= from && seq <= to)) missing += 1;
    }
    if (missing > 0) {
      this.#ledger.violate(
        'lost',
        `of the events ${first} to ${last} of ${session} only ${received.size} were published`,
      );
    }
  }
}

/** True for the result of a tool, whole or, if it is long, shortened. */
function isResultOf(tool: string, key: string, content: string): boolean {
  const line = resultOf(tool, key);
  return tool === 'long' ? content.startsWith(`${line}\n${line}\n`) : content === line;
}

function outcomeOf(receipt: { readonly status: string; readonly text?: string } | undefined): Outcome | undefined {
  switch (receipt?.status) {
    case 'answered':
      return { kind: 'text', text: receipt.text ?? '' };
    case 'cancelled':
    case 'dropped':
    case 'failed':
      return { kind: receipt.status, text: '' };
    default:
      return undefined;
  }
}
