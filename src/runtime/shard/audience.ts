/**
 * Who on the host hears of which session: readers of events, listeners to what is said, listeners that are waited for; and to whom
 * sessions are introduced.
 *
 * Owns: these sets, and what is gathered for them while a turn runs. Does not own: who waits for receipts and ends
 * (`ShardWaiters`), nor when what was gathered is told: behind the flush (A2).
 * Invariants: of a session that nobody hears of or waits for, nothing is built; where it is asked for, a session that is watched is
 * introduced with the first turn it takes in memory, before that turn's events.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { CHILDREN_LISTED_MAX } from '../../base/bounds.ts';
import type { EventBody, SessionEvent } from '../../events/event.ts';
import { durableEvent } from '../../events/event-body.ts';
import type { Observer } from '../../session/apply/fold.ts';
import { historyMessage } from '../../session/history/history-form.ts';
import type { SessionIntroduction } from '../protocol/protocol.ts';
import type { ShardWaiters } from './shard-waiters.ts';
import type { TurnGathering } from './turn-gathering.ts';

/** What was said at once, as its logged messages. */
type Said = Parameters<NonNullable<Observer['said']>>[0];

/** See the head of the file. */
export class Audience {
  readonly #waiters: ShardWaiters;
  readonly #inMemory: (sessionId: string) => SessionActor | undefined;
  readonly #onWatched: (sessionId: string | undefined) => void;
  /** What is being read; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages somebody listens to (`history.said`). */
  readonly #listened = new Set<string>();
  /** Sessions whose listeners on the host are waited for. */
  readonly #gated = new Set<string>();
  /** Number of the time for which sessions are introduced; 0: nobody asks. */
  #introduction = 0;
  #lastIntroduction = 0;

  /** `watched`: events of this session, or of all, are published from now on, or no longer. */
  constructor(
    waiters: ShardWaiters,
    inMemory: (sessionId: string) => SessionActor | undefined,
    watched: (sessionId: string | undefined) => void,
  ) {
    this.#waiters = waiters;
    this.#inMemory = inMemory;
    this.#onWatched = watched;
  }

  /** Starts or stops telling of a session, or of all (`undefined`). */
  watch(sessionId: string | undefined, on: boolean): void {
    if (on) this.#watched.add(sessionId);
    else this.#watched.delete(sessionId);
    this.#onWatched(sessionId);
  }

  /** Starts or stops telling what is said in a session. */
  listen(sessionId: string, on: boolean): void {
    if (on) this.#listened.add(sessionId);
    else this.#listened.delete(sessionId);
  }

  /** Listeners of a session are waited for, or not any more. */
  gate(sessionId: string, on: boolean): void {
    if (on) this.#gated.add(sessionId);
    else this.#gated.delete(sessionId);
  }

  /** Introduces each session that is watched from now on, those that were before too, or none any more. */
  introduce(on: boolean): void {
    if (on) this.#lastIntroduction += 1;
    this.#introduction = on ? this.#lastIntroduction : 0;
  }

  isWatched(sessionId: string): boolean {
    return this.#watched.has(sessionId) || this.#watched.has(undefined);
  }

  isGated(sessionId: string): boolean {
    return this.#gated.size > 0 && this.#gated.has(sessionId);
  }

  /** Gathers what a session's turn tells. Nobody where nobody reads or waits: what is told is built for those who hear it only. */
  observer(actor: SessionActor, gathered: TurnGathering, at: number): Observer | undefined {
    const session = actor.id;
    const isWatched = this.isWatched(session);
    const isListened = this.#listened.size > 0 && this.#listened.has(session);
    const waiters = this.#waiters;
    if (isWatched && actor.introducedIn !== this.#introduction && this.#introduction !== 0) {
      actor.introducedIn = this.#introduction;
      gathered.introduce(actor);
    }
    if (!isWatched && !isListened && !waiters.has(session)) return undefined;
    // One literal for whoever hears: what is spread together costs more than what it tells.
    return {
      settled: (pendingId, receipt) => {
        if (waiters.has(session)) gathered.settle({ session, pendingId, receipt });
      },
      promoted: (pendingId) => {
        const receipt = actor.state.receipts.get(pendingId) ?? { status: 'accepted' };
        if (waiters.has(session)) gathered.promote({ session, pendingId, receipt });
      },
      said: isListened ? (logged: Said) => gathered.say(session, historyMessage(actor.state, logged)) : undefined,
      event: isWatched
        ? (body: EventBody, seq: number) => gathered.tell(durableEvent(session, at, seq, body))
        : undefined,
    };
  }

  /** Who they are, now that their turn is over. One whose making was refused is nobody yet, and has its turn when it is made. */
  introductionsOf(actors: readonly SessionActor[]): readonly SessionIntroduction[] {
    const introductions: SessionIntroduction[] = [];
    for (const actor of actors) {
      const { agent, parent } = actor.state;
      if (agent === undefined) actor.introducedIn = 0;
      else
        introductions.push(parent === undefined ? { session: actor.id, agent } : { session: actor.id, agent, parent });
    }
    return introductions;
  }

  /** What a watched parent sees of its children, without a record for each of their steps. */
  watchChildren(touched: readonly SessionActor[], gathered: TurnGathering, at: number): void {
    if (this.#watched.size === 0) return;
    for (const actor of touched) {
      const { state } = actor;
      if (state.parent === undefined || !this.isWatched(state.parent)) continue;
      if (actor.toldState === state.state) continue;
      actor.toldState = state.state;
      const name = state.name === undefined ? {} : { name: state.name };
      gathered.tell({
        session: state.parent,
        at,
        type: 'child.state',
        child: actor.id,
        state: state.state,
        ...name,
      });
    }
    const told = gathered.events?.length ?? 0;
    for (let index = 0; index < told; index += 1) {
      const event = gathered.events?.[index];
      if (event?.type !== 'child.spawned') continue;
      const parent = this.#inMemory(event.session);
      if (parent !== undefined) gathered.tell(this.#childrenUpdated(parent, at));
    }
  }

  #childrenUpdated(parent: SessionActor, at: number): SessionEvent {
    const { children: known, hiddenChildren } = parent.state;
    const all = [...known.values()].filter((child) => !hiddenChildren.has(child.name));
    const children = all
      .slice(-CHILDREN_LISTED_MAX)
      .map(({ id, name }) => ({ id, name, state: this.#inMemory(id)?.state.state ?? 'idle' }));
    return { session: parent.id, at, type: 'children.updated', children };
  }
}
