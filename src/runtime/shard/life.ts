/**
 * The life of a shard: start, resume, isolation, a store that refuses or is lost, stand-still, close, drain, delete.
 *
 * Owns: whether the shard takes inputs, stands still, is closing or closed; when it is drained; the resumption of
 * interrupted and blocked sessions; deletions. Does not own: the transitions that do the work (`transitions.ts`), the
 * actors (`residency.ts`), the attempts to write again (`store-outage.ts`), the order of resumption
 * (`interrupted-sessions.ts`).
 * Invariants:
 *  H3 an actor whose flush failed is dropped and read again from the log. The outage drops all actors (O2 of
 *     `store-outage.ts`), and each session resumes when the store takes writes again;
 *  H6 a closed shard runs no transition. A closing shard finishes the half-steps that run and begins none. A shard that
 *     stands still does the same, but also takes messages. These messages wait in their mailboxes;
 *  H7 a deletion, its entries in the audit log and its report to the parent are in one append (A6).
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { LAST_COMMITS_MS } from '../../base/bounds.ts';
import { type StoreLostError, TroupeError } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { CallWait } from '../../models/pool.ts';
import { hasEnded } from '../../session/state/child-link.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { Retention } from '../protocol/retention.ts';
import type { EventReplays } from '../reading/event-replay.ts';
import { storeRoots } from '../reading/fork-roots.ts';
import { isHeadBlocked } from '../reading/head.ts';
import type { Admission } from './admission.ts';
import type { AnswerDrafts } from './answer-drafts.ts';
import { type DeletionReason, writeDeletions, writeTakeover } from './audit/audit-log.ts';
import type { CommitQueue } from './commit-queue.ts';
import type { Compactor } from './compaction/compactor.ts';
import type { EditQueue } from './edit-queue.ts';
import type { Eraser } from './eraser.ts';
import type { InterruptedSessions } from './interrupted-sessions.ts';
import type { Residency } from './residency.ts';
import { RetentionSearch } from './retention/retention.ts';
import type { SessionTimers } from './session-timers.ts';
import type { SessionWork } from './session-work.ts';
import { logThrown, type Reply, type ShardParts } from './shard-parts.ts';
import type { ShardWaiters } from './shard-waiters.ts';
import { refusalOf, type StoreOutage } from './store-outage.ts';
import type { Transitions } from './transitions.ts';

/** Lifts the block of one of many sessions. */
const RESUME: readonly Input[] = [{ type: 'resume', keepsPause: true }];

/** The parts that the life of a shard works with. */
export interface LifeParts {
  readonly parts: ShardParts;
  readonly residency: Residency;
  readonly transitions: Transitions;
  readonly commits: CommitQueue;
  readonly work: SessionWork;
  readonly timers: SessionTimers;
  readonly live: Admission;
  readonly interrupted: InterruptedSessions;
  readonly outage: StoreOutage;
  readonly waiters: ShardWaiters;
  readonly edits: EditQueue;
  readonly eraser: Eraser;
  readonly compactors: readonly Compactor[];
  readonly drafts: AnswerDrafts;
  readonly replays: EventReplays;
}

/** See the head of the file. */
export class Life {
  readonly #parts: ShardParts;
  readonly #residency: Residency;
  readonly #transitions: Transitions;
  readonly #commits: CommitQueue;
  readonly #work: SessionWork;
  readonly #timers: SessionTimers;
  readonly #live: Admission;
  readonly #interrupted: InterruptedSessions;
  readonly #outage: StoreOutage;
  readonly #waiters: ShardWaiters;
  readonly #edits: EditQueue;
  readonly #eraser: Eraser;
  readonly #compactors: readonly Compactor[];
  readonly #drafts: AnswerDrafts;
  /** Searches for old data; undefined without the option `retention`. */
  readonly #retention: RetentionSearch | undefined;
  /** The checks of `standStill` and `close`: each ends a wait when its condition holds. Both may wait at once. */
  readonly #onStill = new Set<() => void>();
  #standsStill = false;
  #isClosing = false;
  #isClosed = false;

  constructor(given: LifeParts) {
    this.#parts = given.parts;
    this.#residency = given.residency;
    this.#transitions = given.transitions;
    this.#commits = given.commits;
    this.#work = given.work;
    this.#timers = given.timers;
    this.#live = given.live;
    this.#interrupted = given.interrupted;
    this.#outage = given.outage;
    this.#waiters = given.waiters;
    this.#edits = given.edits;
    this.#eraser = given.eraser;
    this.#compactors = given.compactors;
    this.#drafts = given.drafts;
    const { retention } = given.parts;
    if (retention !== undefined) this.#retention = this.#searchOf(retention, given.replays);
  }

  #searchOf(retention: Retention, replays: EventReplays): RetentionSearch {
    const { journal, clock, host } = this.#parts;
    return new RetentionSearch({
      retention,
      journal,
      clock,
      residency: this.#residency,
      submit: (id, input) => this.#transitions.submit(id, [input]),
      remove: (id) =>
        new Promise((resolve, reject) => this.delete(id, { resolve: () => resolve(), reject }, { cause: 'retention' })),
      rootForks: (actor) => void this.#rootForks([actor]),
      cut: () => {
        replays.clear();
        this.#commits.add({ release: () => this.#eraser.begin(), refuse: () => undefined }, true);
      },
      forgot: () => this.#commits.add({ release: () => undefined, refuse: () => undefined }, true),
      isRefusing: () => this.refusal !== undefined || this.startsNothing,
      failed: (thrown, id) => logThrown(host, 'old data cannot be removed now', thrown, id),
    });
  }

  /** Called after a transition, because the data that it wrote may become old later. */
  changed(): void {
    this.#retention?.changed();
  }

  /** Why no transition may run: the store refuses writes, or the shard is closed. */
  get refusal(): TroupeError | undefined {
    if (this.#outage.error !== undefined) return this.#outage.error;
    return this.#isClosed ? new TroupeError('cancelled', 'the runtime is closed') : undefined;
  }

  /** True once no session may begin to work any more. */
  get startsNothing(): boolean {
    return this.#standsStill || this.#isClosing;
  }

  /** True once the shard takes no messages any more. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** True once the shard is closed, so that nothing will happen any more. */
  get isOver(): boolean {
    return this.#isClosed;
  }

  /** Called when a call ended, or when the commit queue is empty: a shard that closes or stands still may be done. */
  still(): void {
    for (const check of this.#onStill) check();
  }

  // ---- resume -------------------------------------------------------------------------------------------------------

  /** Resumes everything that was interrupted (A10), one slice per tick. */
  resumeInterrupted(): void {
    this.#drafts.load();
    this.#work.forgetGivenUp();
    this.#interrupted.resumeAll();
    for (const each of this.#compactors) each.begin();
    this.#eraser.begin();
    this.#retention?.begin();
  }

  /** Resolves when all sessions that were interrupted before the open have been read. */
  resumed(): Promise<void> {
    return this.#interrupted.resumed();
  }

  /** True when nothing runs and nothing waits to run. A session whose model call waits for `resume` does not count. */
  get isDrained(): boolean {
    if (this.#outage.error !== undefined) return false;
    const { stoppedCalls } = this.#work;
    // While sessions whose calls wait for `resume` hold all slots of admission, no other session can start.
    if (stoppedCalls > 0 && !this.#live.hasRoom && stoppedCalls === this.#live.size) return true;
    if (this.#work.upgrades.size > 0) return false;
    return this.#live.size === stoppedCalls && this.#live.waiting === 0 && !this.#interrupted.hasWork;
  }

  checkDrained(): void {
    if (this.isDrained) this.#waiters.drained();
  }

  /** The error that answers every request about an isolated session; undefined if the session is not isolated. */
  isolationOf(sessionId: string): TroupeError | undefined {
    const key = this.#parts.journal.keyOf(sessionId);
    return key === undefined ? undefined : this.#parts.isolated.errorOf(key, sessionId);
  }

  /** Tries an isolated session again, including its interrupted work. */
  liftIsolation(sessionId: string): void {
    const key = this.#parts.journal.keyOf(sessionId);
    if (key === undefined || !this.#parts.isolated.lift(key)) return;
    this.#interrupted.add(key);
  }

  /**
   * Called when a session is about to resume. A failed move to another version is tried again. If the provider's key or
   * the session's model was refused, all sessions may use the key or the model again (F36, F37). The sessions that a
   * refused key blocked resume too. Resolves when their resumption is durable.
   */
  async resumeModels(sessionId: string): Promise<void> {
    if (this.#isClosed) return;
    this.#work.upgrades.retry(sessionId);
    const error = this.callWaitOf(sessionId)?.refusal ?? this.#residency.find(sessionId)?.state.blocked;
    if (error === undefined) return;
    this.#work.resumeModels();
    if (error.code === 'model_authentication') await this.#resumeAll((name) => this.#isKeyRefused(name));
  }

  /** True if a refusal of the key blocked this session. */
  #isKeyRefused(sessionId: string): boolean {
    return this.#residency.find(sessionId)?.state.blocked?.code === 'model_authentication';
  }

  /** True if the session waits for admission. */
  isQueued(sessionId: string): boolean {
    return this.#live.isQueued(sessionId);
  }

  /** Why the governor holds the session's model call back; undefined if it does not. */
  callWaitOf(sessionId: string): CallWait | undefined {
    return this.#work.callWaitOf(sessionId);
  }

  /** Resumes every blocked session, and retries failed version moves. Resolves when the resumptions are durable. */
  async resumeBlocked(): Promise<void> {
    await this.resumed();
    this.#work.resumeModels();
    this.#work.upgrades.retryAll();
    await this.#resumeAll(() => true);
  }

  /**
   * Resumes the blocked sessions for which `isMeant` holds. Paused sessions stay paused. A session that cannot be resumed
   * now does not hold back the others; the first such error rejects once all others are resumed.
   */
  async #resumeAll(isMeant: (sessionId: string) => boolean): Promise<void> {
    const resumed: Promise<unknown>[] = [];
    for (const [name, key] of this.#parts.journal.names({})) {
      try {
        if (!this.#isBlocked(name, key) || !isMeant(name)) continue;
      } catch (error) {
        logThrown(this.#parts.host, 'a session cannot be resumed, because its log cannot be read', error, name);
        continue;
      }
      resumed.push(new Promise((resolve, reject) => this.#transitions.submit(name, RESUME, { resolve, reject })));
    }
    for (const each of await Promise.allSettled(resumed)) if (each.status === 'rejected') throw each.reason;
  }

  #isBlocked(name: string, key: SessionKey): boolean {
    const head = this.#residency.inMemory(name) !== undefined ? undefined : this.#residency.headOf(key);
    return head === undefined ? this.#residency.find(name)?.state.blocked !== undefined : isHeadBlocked(head.data);
  }

  /**
   * Deletes a session and its descendants. Replies with their ids once the deletion is durable, or with no ids if there
   * is no such session. `why`: the author of the deletion, or its cause if the runtime deletes.
   */
  delete(sessionId: string, reply: Reply, why: DeletionReason = {}): void {
    const { refusal } = this;
    if (refusal !== undefined) {
      reply.reject(refusal);
      return;
    }
    const actor = this.#residency.find(sessionId);
    if (actor === undefined) {
      // Another caller may have removed the session just now. The reply waits until that removal is durable (A2).
      this.#commits.add({
        release: () => reply.resolve([]),
        refuse: (error) => reply.reject(refusalOf(error)),
      });
      return;
    }
    const parent = actor.state.parent;
    const subtree = this.#subtree(actor);
    const heirs = this.#rootForks(subtree);
    // The removal comes first: a transition may close the open batch, and the removal must be in one append with the
    // report to the parent (H7).
    this.#parts.journal.remove(
      subtree.map((each) => each.key),
      heirs,
    );
    writeDeletions(this.#parts.journal, this.#parts.clock.now(), subtree, why);
    for (const each of subtree) {
      this.#residency.drop(each);
      this.#residency.personWaits.forget(each.id);
      this.#residency.order.forget(each.id);
      this.#interrupted.delete(each.key);
      this.#waiters.deleted(each.id);
    }
    if (parent !== undefined && !hasEnded(actor.state) && this.#residency.find(parent) !== undefined) {
      this.#transitions.submit(parent, [{ type: 'childExited', child: sessionId, reason: 'cancelled' }]);
    }
    const release = (): void => {
      reply.resolve(subtree.map((each) => each.id));
      this.#eraser.begin();
      this.checkDrained();
    };
    this.#commits.add({ release, refuse: (error) => reply.reject(refusalOf(error)) });
    // The entry of the deletion in the audit log becomes old later.
    this.changed();
    this.#transitions.admit();
    this.#transitions.gauge();
  }

  /**
   * Gives each fork that shares one of these logs a copy of the fork's beginning, because the logs are about to be
   * removed. Returns the forks of each session: they still need the stored results of the session.
   */
  #rootForks(leaving: readonly SessionActor[]): ReadonlyMap<SessionKey, readonly SessionKey[]> {
    const forks = new Map<SessionKey, SessionKey[]>();
    for (const { key, state } of leaving) {
      if (state.forks.length === 0) continue;
      for (const root of storeRoots(this.#parts.journal, state, key)) {
        const isKnown =
          this.#residency.inMemory(root.name) !== undefined || this.#residency.headOf(root.key) !== undefined;
        this.#residency.checkpointer.rooted(
          root.key,
          root.base,
          isKnown ? this.#residency.inMemory(root.name) : this.#residency.find(root.name),
        );
        forks.set(key, [...(forks.get(key) ?? []), root.key]);
      }
      const removed = this.#removedForks(state.forks);
      if (removed.length > 0) forks.set(key, [...(forks.get(key) ?? []), ...removed]);
    }
    return forks;
  }

  /** The keys of removed forks that are not completely erased yet. A fork of such a fork may need the same results. */
  #removedForks(names: readonly string[]): readonly SessionKey[] {
    const { journal } = this.#parts;
    const gone = new Set(names.filter((name) => journal.keyOf(name) === undefined));
    if (gone.size === 0) return [];
    return Array.from(journal.erasures()).flatMap(([key, { name, keeps }]) =>
      keeps !== true && gone.has(name) ? key : [],
    );
  }

  #subtree(root: SessionActor): readonly SessionActor[] {
    const found: SessionActor[] = [root];
    for (let index = 0; index < found.length; index += 1) {
      for (const id of found[index]?.state.children.keys() ?? []) {
        const child = this.#residency.find(id);
        if (child !== undefined) found.push(child);
      }
    }
    return found;
  }

  /** Called when the store takes writes again. */
  storeRecovered(): void {
    this.resumeInterrupted();
    this.#waiters.askAgain();
    // If nothing was interrupted, only this call answers the requests that wait for the drain.
    this.checkDrained();
  }

  /** Called when the files of the store are gone, replaced or cut short: the shard takes no inputs any more. */
  storeLost(error: StoreLostError): void {
    this.#outage.lost(error);
  }

  /**
   * Called when the copy of the log on this machine is found damaged. Starts a write that changes nothing. The journal
   * refuses the write, and the attempts to write again rebuild the copy.
   */
  copyDamaged(): void {
    this.#parts.journal.checkpoint([], this.#parts.journal.checkpointed());
    this.#commits.add({ release: () => undefined, refuse: () => undefined });
  }

  /**
   * Begins no half-step from now on, and waits up to `deadlineMs` for the half-steps that run. Messages are still
   * taken. Called before the process `pid`, or another node of the cluster, takes over the store, so that the close
   * that follows is short.
   */
  async standStill(deadlineMs: number, pid?: number): Promise<void> {
    const { journal, clock, index: shard } = this.#parts;
    // The request may be repeated, and may arrive after a close. One entry in the audit log is enough.
    if (pid !== undefined && !this.#standsStill && !this.#isClosed) writeTakeover(journal, clock.now(), { shard, pid });
    this.#standsStill = true;
    for (const each of this.#compactors) each.close();
    await this.#until(() => this.#hasNoCalls, deadlineMs);
  }

  /**
   * Stops intake, and waits up to `deadlineMs` for running half-steps. Gives up the half-steps that still run; they
   * resume at the next open. Then waits for the commits that have begun, writes heads and closes.
   */
  async close(deadlineMs: number): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosing = true;
    for (const each of this.#compactors) each.close();
    this.#commits.hurry();
    this.#work.closeEnrichers(this.#residency.actors());
    await this.#until(() => this.#hasNoCalls && this.#commits.isEmpty, deadlineMs);
    // The last flush answers the requests that were accepted before. So it is awaited even if `deadlineMs` is 0.
    await this.#until(() => this.#commits.isEmpty, LAST_COMMITS_MS);
    this.#isClosed = true;
    this.#outage.close();
    this.#eraser.close();
    this.#retention?.close();
    this.#residency.endSweeps();
    this.#interrupted.close();
    for (const actor of this.#residency.actors()) this.#timers.clear(actor);
    await this.#work.close();
    this.#residency.close();
    this.#edits.refuseAll(new TroupeError('cancelled', 'the runtime was closed: the operation was not done'));
    this.#waiters.closed();
    await this.#parts.journal.close();
  }

  /** True if no call is in flight except model calls that wait for `resume`. Used only while no session is admitted. */
  get #hasNoCalls(): boolean {
    return this.#work.modelCalls === this.#work.stoppedCalls && this.#work.toolCalls === 0;
  }

  /** Resolves at the deadline, or when the condition holds. */
  #until(condition: () => boolean, deadlineMs: number): Promise<void> {
    const { clock } = this.#parts;
    return new Promise((resolve) => {
      const done = (): void => {
        this.#onStill.delete(check);
        clock.clearTimer(timer);
        resolve();
      };
      const timer = clock.setTimer(done, deadlineMs);
      const check = (): void => {
        if (condition()) done();
      };
      this.#onStill.add(check);
      check();
    });
  }
}
