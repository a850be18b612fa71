/**
 * The sessions of a shard by their last change, with the facts that a list filters by. So a list of the newest sessions
 * reads few sessions besides those that it returns.
 *
 * Owns: one entry for each session, about 200 bytes. Does not own: the summaries, which memory, heads and logs have.
 * Invariants:
 *  L1 nothing is held before the first list by age. That list reads all heads, one slice per tick;
 *  L2 from then on each transition notes its session, so an entry is as new as the session in memory;
 *  L3 a transition that was lost with its actor leaves an entry that is too new. The session is noted again when it is
 *     read, and a list drops a session that no longer matches.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { Soon } from '../../base/clock.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { SessionState } from '../../session/state/state.ts';
import { byOrder, type ListedFacts } from '../protocol/list-order.ts';
import type { SessionSummary } from '../protocol/protocol.ts';

/** Number of sessions read in one tick. */
const ORDER_SLICE = 1_000;

/** A session as it was last noted. */
export interface NotedSession extends ListedFacts {
  readonly isRoot: boolean;
  readonly id: string;
  readonly key: SessionKey;
}

/** See the head of the file. */
export class SessionOrder {
  readonly #journal: Journal;
  readonly #soon: Soon;
  readonly #summary: (id: string, key: SessionKey) => SessionSummary | undefined;
  readonly #summaryOf: (state: SessionState) => SessionSummary;
  #entries: Map<string, NotedSession> | undefined;
  /** The id of the last session that was read; undefined before the first read. */
  #readTo: string | undefined;
  #reading: Promise<void> | undefined;
  #sorted: readonly NotedSession[] | undefined;
  /** Each agent's name, so that entries share one string. */
  readonly #agents = new Map<string, string>();

  /** `summary`: the summary of a session from memory, its head or its log. `summaryOf`: the summary of a state. */
  constructor(
    journal: Journal,
    soon: Soon,
    summary: (id: string, key: SessionKey) => SessionSummary | undefined,
    summaryOf: (state: SessionState) => SessionSummary,
  ) {
    this.#journal = journal;
    this.#soon = soon;
    this.#summary = summary;
    this.#summaryOf = summaryOf;
  }

  /** Resolves when all sessions are noted. */
  read(): Promise<void> {
    this.#reading ??= this.#readAll().catch((error: unknown) => {
      // The next list tries again.
      this.#reading = undefined;
      throw error;
    });
    return this.#reading;
  }

  /** All sessions, the most recently changed first. Call this after `read`. */
  newestFirst(): readonly NotedSession[] {
    this.#sorted ??= [...(this.#entries?.values() ?? [])].sort(byOrder('newest'));
    return this.#sorted;
  }

  /** Notes the present state of a session (L2). */
  note({ id, key, state }: SessionActor): void {
    if (this.#entries === undefined || state.agent === undefined) return;
    const known = this.#entries.get(id);
    const summary = this.#summaryOf(state);
    // A session that was only read did not change.
    if (known === undefined || known.key !== key || isChanged(known, summary)) this.#put(summary, key);
  }

  /** Called when the session was deleted. */
  forget(id: string): void {
    if (this.#entries?.delete(id) === true) this.#sorted = undefined;
  }

  async #readAll(): Promise<void> {
    this.#entries ??= new Map();
    for (;;) {
      const after = this.#readTo;
      const page = this.#journal.names({ limit: ORDER_SLICE, ...(after === undefined ? {} : { after }) });
      for (const [id, key] of page) {
        this.#readTo = id;
        if (this.#entries.has(id)) continue;
        const summary = this.#summary(id, key);
        if (summary !== undefined) this.#put(summary, key);
      }
      if (page.length < ORDER_SLICE) return;
      await new Promise<void>((resolve) => this.#soon(resolve));
    }
  }

  #put(summary: SessionSummary, key: SessionKey): void {
    const { id, updatedAt, status, state, lastOutcome, parent } = summary;
    let agent = this.#agents.get(summary.agent);
    if (agent === undefined) {
      agent = summary.agent;
      this.#agents.set(agent, agent);
    }
    this.#entries?.set(id, { id, key, updatedAt, status, state, lastOutcome, agent, isRoot: parent === undefined });
    this.#sorted = undefined;
  }
}

function isChanged(known: NotedSession, { updatedAt, status, state, lastOutcome }: SessionSummary): boolean {
  return (
    known.updatedAt !== updatedAt ||
    known.status !== status ||
    known.state !== state ||
    known.lastOutcome !== lastOutcome
  );
}
