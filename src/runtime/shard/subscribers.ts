/**
 * The subscribers of each session on the host: event readers, message listeners, listeners whose verdict is awaited,
 * and readers that want introductions.
 *
 * Owns: the subscribers, and what each transition collects for them. Does not own: requests that wait for receipts and
 * ends (`ShardWaiters`), nor the publishing of the outbox, which follows the flush (A2).
 * Invariants: nothing is built for a session without subscribers or waiters. When introductions are requested, a
 * watched session is introduced with its first transition in memory, before the events of that transition.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { CHILDREN_LISTED_MAX } from '../../base/bounds.ts';
import type { EventBody, SessionEvent } from '../../events/event.ts';
import { durableEvent } from '../../events/event-body.ts';
import type { AnnouncedEvent, Observer } from '../../session/apply/fold.ts';
import { historyMessage } from '../../session/history/history-form.ts';
import type { noticeOf } from '../../session/rules/notices.ts';
import type { RunningTurn } from '../../session/state/state.ts';
import type { KeyedNotice, NoticeNote } from '../protocol/notices.ts';
import type { SessionIntroduction } from '../protocol/protocol.ts';
import type { NoticeChain } from './notice-chain.ts';
import type { Outbox } from './outbox.ts';
import type { ShardWaiters } from './shard-waiters.ts';

/** Makes the notice of an announced event. */
type NoticeMaker = (actor: SessionActor, announced: Parameters<typeof noticeOf>[1]) => KeyedNotice | undefined;

/** The logged messages that one call of the observer's `said` reports. */
type Said = Parameters<NonNullable<Observer['said']>>[0];

/** See the head of the file. */
export class Subscribers {
  readonly #waiters: ShardWaiters;
  readonly #inMemory: (sessionId: string) => SessionActor | undefined;
  readonly #onWatched: (sessionId: string | undefined, isNew: boolean) => void;
  /** Sessions whose events have readers. `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages have listeners (`history.said`). */
  readonly #listened = new Set<string>();
  /** Sessions that wait for their listeners on the host. */
  readonly #gated = new Set<string>();
  /** Number of the current request for introductions. 0: no request. */
  #introduction = 0;
  #lastIntroduction = 0;
  /** Present if a follower on the host wants notices of all sessions. */
  readonly #notices: NoticeMaker | undefined;
  readonly #chain: NoticeChain;

  /**
   * `watched` is called when the events of a session, or of all sessions (`undefined`), start or stop being published.
   * It is also called for each further reader of a session. `isNew`: a reader of one session begins.
   */
  constructor(
    waiters: ShardWaiters,
    inMemory: (sessionId: string) => SessionActor | undefined,
    watched: (sessionId: string | undefined, isNew: boolean) => void,
    chain: NoticeChain,
    notices?: NoticeMaker,
  ) {
    this.#waiters = waiters;
    this.#inMemory = inMemory;
    this.#onWatched = watched;
    this.#chain = chain;
    this.#notices = notices;
  }

  /**
   * Starts or stops publishing the events of a session, or of all sessions (`undefined`). Called again for each further
   * reader of a session.
   */
  watch(sessionId: string | undefined, on: boolean): void {
    if (on) this.#watched.add(sessionId);
    else this.#watched.delete(sessionId);
    this.#onWatched(sessionId, on && sessionId !== undefined);
  }

  /** Starts or stops publishing the new messages of a session. */
  listen(sessionId: string, on: boolean): void {
    if (on) this.#listened.add(sessionId);
    else this.#listened.delete(sessionId);
  }

  /** `on`: from now on the session waits for the verdict of its listeners on the host; false: it no longer waits. */
  gate(sessionId: string, on: boolean): void {
    if (on) this.#gated.add(sessionId);
    else this.#gated.delete(sessionId);
  }

  /** Starts or stops introductions. A start also introduces again the sessions that were introduced before. */
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

  /**
   * Collects what a transition of a session publishes. Undefined if there are no subscribers or waiters, so that
   * nothing is built unnecessarily.
   */
  observer(actor: SessionActor, outbox: Outbox, at: number): Observer | undefined {
    const session = actor.id;
    const isWatched = this.isWatched(session);
    const isListened = this.#listened.size > 0 && this.#listened.has(session);
    const waiters = this.#waiters;
    if (isWatched && actor.introducedIn !== this.#introduction && this.#introduction !== 0) {
      actor.introducedIn = this.#introduction;
      outbox.introduce(actor);
    }
    const notices = this.#notices;
    if (!isWatched && !isListened && notices === undefined && !waiters.has(session)) return undefined;
    // One object literal for all subscribers: spreading parts together costs more than the events themselves.
    return {
      settled: (pendingId, receipt) => {
        if (waiters.has(session)) outbox.settle({ session, pendingId, receipt });
      },
      promoted: (pendingId) => {
        const receipt = actor.state.receipts.get(pendingId) ?? { status: 'accepted' };
        if (waiters.has(session)) outbox.promote({ session, pendingId, receipt });
      },
      said: isListened ? (logged: Said) => outbox.say(session, historyMessage(actor.state, logged)) : undefined,
      event: isWatched
        ? (body: EventBody, seq: number) => outbox.publish(durableEvent(session, at, seq, body))
        : undefined,
      announced:
        notices === undefined
          ? undefined
          : (event: AnnouncedEvent, seq: number, turn?: RunningTurn) => {
              const notice = notices(actor, { event, seq, at, turn });
              if (notice !== undefined) outbox.announce(notice);
            },
    };
  }

  /** The notices of a durable transition, as the host receives them. */
  noteOf({ position, notices = [] }: Outbox): NoticeNote {
    return this.#chain.note(position, notices);
  }

  /**
   * Makes the introductions once the transition has ended. A session whose creation was refused has no agent yet. It is
   * introduced when it is created.
   */
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

  /** Publishes new states of children in the events of a watched parent. The log has no records of these events. */
  watchChildren(touched: readonly SessionActor[], outbox: Outbox, at: number): void {
    if (this.#watched.size === 0) return;
    for (const actor of touched) {
      const { state } = actor;
      if (state.parent === undefined || !this.isWatched(state.parent)) continue;
      if (actor.publishedState === state.state) continue;
      actor.publishedState = state.state;
      const name = state.name === undefined ? {} : { name: state.name };
      outbox.publish({
        session: state.parent,
        at,
        type: 'child.state',
        child: actor.id,
        state: state.state,
        ...name,
      });
    }
    const published = outbox.events?.length ?? 0;
    for (let index = 0; index < published; index += 1) {
      const event = outbox.events?.[index];
      if (event?.type !== 'child.spawned') continue;
      const parent = this.#inMemory(event.session);
      if (parent !== undefined) outbox.publish(this.#childrenUpdated(parent, at));
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
