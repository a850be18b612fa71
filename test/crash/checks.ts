/**
 * The invariants, checked after each kill: what was told (`ledger.ts`) against what the store says (`session-facts.ts`). They
 * know nothing of what happened in between, so they hold under every schedule.
 */
import { INTERRUPT_NOTICE, OUTCOME_UNKNOWN } from '../../src/session/tool-texts.ts';
import type { Ledger, MessageStory } from './ledger.ts';
import { contentOf, type Outcome, resultOf } from './protocol.ts';
import { RunChecker } from './run-checks.ts';
import type { CallFact, SessionFacts } from './session-facts.ts';
import type { Reading } from './store-facts.ts';

/** Tools whose calls the runtime answers by itself. */
const RUNTIME_TOOLS: ReadonlySet<string> = new Set(['spawn_subagent', 'mark_goal_completed']);
type Sessions = ReadonlyMap<string, SessionFacts>;

/** Checks one store over all its lives. Findings go to the ledger. */
export class Checker {
  readonly #ledger: Ledger;
  readonly #runs: RunChecker;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#runs = new RunChecker(ledger);
  }

  /** Checks what changed in one life, when its process is gone. */
  check({ changed, sessions }: Reading, life: { readonly number: number; readonly wasKilled: boolean }): void {
    for (const id of changed) {
      const facts = sessions.get(id);
      if (facts === undefined) continue;
      this.#checkEntries(facts);
      this.#checkCalls(facts);
      this.#checkFamily(facts, sessions);
      for (const text of facts.illegal) this.#ledger.violate('illegal', `the request of ${id}: ${text}`);
      for (const text of facts.failures) this.#ledger.violate('failed', `${id}: ${text}`);
    }
    this.#checkTold(sessions);
    this.#runs.check({ changed, sessions }, life);
  }

  /** I7, when a life without a kill has finished: nothing waits, nothing is open, everybody was answered. */
  checkFinished(sessions: Sessions): void {
    for (const { id, state, calls, accepted, settled, spawned, childExits } of sessions.values()) {
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
        if (childExits.get(child) !== 1)
          this.#ledger.violate('unbalanced', `${child} ended ${childExits.get(child) ?? 0} times`);
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
    const facts = sessions.get(session);
    const entry = facts?.accepted.get(pendingId)?.[0];
    if (facts === undefined || entry === undefined) {
      this.#ledger.violate('lost', `${uid}, acknowledged as ${session}/${pendingId}, is not in the store`);
      return;
    }
    if (entry.content !== contentOf(uid)) {
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
    const open = new Set([...state.openCalls.values()].map((call) => `${state.id}#${call.seq}`));
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
      ? result.content === resultOf(tool, key) && (this.#ledger.tools.get(key)?.starts.length ?? 0) > 0
      : result.content === INTERRUPT_NOTICE || (tool === 'once' && result.content === OUTCOME_UNKNOWN);
    if (!isRight)
      this.#ledger.violate('failed', `call ${key} of ${tool} was answered ${JSON.stringify(result.content)}`);
  }

  // ---- I6: parents and children -------------------------------------------------------------------------------------

  #checkFamily(facts: SessionFacts, sessions: Sessions): void {
    for (const child of facts.spawned.keys()) this.#checkLink(facts, sessions.get(child), child);
    const { parent } = facts.state;
    if (parent !== undefined) this.#checkLink(sessions.get(parent), facts, facts.id);
    const keys = [...facts.spawned.values()].map(({ key }) => key).filter((key) => key !== undefined);
    if (new Set(keys).size < keys.length)
      this.#ledger.violate('duplicated', `a spawn key of ${facts.id} has two children`);
  }

  #checkLink(parent: SessionFacts | undefined, child: SessionFacts | undefined, id: string): void {
    const link = parent?.spawned.get(id);
    if (parent === undefined || child === undefined || link === undefined || child.state.parent !== parent.id) {
      this.#ledger.violate('unbalanced', `${id} is known to its parent or exists, not both`);
      return;
    }
    const [exits, told] = [child.exits.length, parent.childExits.get(id) ?? 0];
    if (exits > 1 || told !== exits)
      this.#ledger.violate('unbalanced', `${id} ended ${exits} times, its parent was told ${told} times`);
    const wanted = link.replies === 'mailbox' ? child.said : [];
    const heard = parent.heard.get(link.name) ?? [];
    if (wanted.length !== heard.length || wanted.some((text, index) => text !== heard[index])) {
      const kind = heard.length > wanted.length ? 'duplicated' : 'lost';
      this.#ledger.violate(kind, `${id} said ${JSON.stringify(wanted)}, its parent heard ${JSON.stringify(heard)}`);
    }
  }

  // ---- what was told before is still true -----------------------------------------------------------------------------

  #checkTold(sessions: Sessions): void {
    for (const story of this.#ledger.messages.values()) this.#checkMessage(story, sessions);
    for (const { session, pendingId, outcome } of this.#ledger.answers.values()) {
      const receipt = sessions.get(session)?.settled.get(pendingId);
      const stored: Outcome | undefined = outcomeOf(receipt);
      if (stored?.kind === outcome.kind && (outcome.kind !== 'text' || stored.text === outcome.text)) continue;
      this.#ledger.violate(
        'changed',
        `the answer of ${session}/${pendingId} was ${outcome.text}, stored is ${JSON.stringify(receipt)}`,
      );
    }
    for (const { wish, child } of this.#ledger.spawns.values()) {
      if (child === undefined) continue;
      const link = sessions.get(wish.session)?.spawned.get(child);
      if (link === undefined || link.key !== wish.key)
        this.#ledger.violate('lost', `${child}, spawned as ${wish.uid}, is not in the store`);
    }
    for (const [child, outcome] of this.#ledger.replies) {
      const exit = sessions.get(child)?.exits[0];
      const isSame = outcome.kind === 'text' ? exit?.reply === outcome.text : exit?.reason === outcome.kind;
      if (!isSame)
        this.#ledger.violate('changed', `the reply of ${child} was ${outcome.text}, stored is ${JSON.stringify(exit)}`);
    }
    for (const [session, told] of this.#ledger.events) this.#checkEvents(session, told, sessions.get(session));
  }

  /** I2: nothing was told that the log does not say, and in one unbroken row. */
  #checkEvents(session: string, told: ReadonlyMap<number, string>, facts: SessionFacts | undefined): void {
    let first = Number.POSITIVE_INFINITY;
    let last = 0;
    for (const [seq, digest] of told) {
      if (facts?.events[seq - 1] !== digest)
        this.#ledger.violate('changed', `event ${seq} of ${session} is not the log's`);
      first = Math.min(first, seq);
      last = Math.max(last, seq);
    }
    if (told.size > 0 && last - first + 1 !== told.size) {
      this.#ledger.violate('lost', `of the events ${first} to ${last} of ${session} only ${told.size} were told`);
    }
  }
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
