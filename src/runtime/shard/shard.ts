/**
 * A shard: hosts the actors of some session trees over one journal and its pools. The same code runs in a session
 * thread, on the host thread, and in the simulator.
 *
 * Owns: the assembly of its parts. Does not own: any state that changes. `residency.ts` owns the actors in memory (H3,
 * H4, H5), `transitions.ts` the transitions (H1, H2, H3), `life.ts` the time from start to close (H3, H6, H7). A part
 * that needs a part created later receives a function here.
 */
import type { SessionAgent } from '../../../actors/agent-catalog.ts';
import { isRunnable, type SessionActor } from '../../../actors/session-actor.ts';
import { COMPACT_LOOK_FLUSHES } from '../../base/bounds.ts';
import { noticeOf } from '../../session/rules/notices.ts';
import { approvalPolicy } from '../../session/rules/run-loop.ts';
import type { SessionState } from '../../session/state/state.ts';
import { EventReplays } from '../reading/event-replay.ts';
import { Admission } from './admission.ts';
import { AnswerDrafts } from './answer-drafts.ts';
import { CommitQueue } from './commit-queue.ts';
import { Compactor } from './compaction/compactor.ts';
import { EditQueue } from './edit-queue.ts';
import { Eraser } from './eraser.ts';
import { InterruptedSessions } from './interrupted-sessions.ts';
import { Life } from './life.ts';
import { NoticeChain } from './notice-chain.ts';
import { Residency } from './residency.ts';
import { SessionTimers } from './session-timers.ts';
import { SessionWork } from './session-work.ts';
import { logThrown, type ShardParts } from './shard-parts.ts';
import { ShardWaiters } from './shard-waiters.ts';
import { StoreOutage } from './store-outage.ts';
import { Subscribers } from './subscribers.ts';
import { Transitions } from './transitions.ts';

/** See the head of the file. */
export class Shard {
  readonly parts: ShardParts;
  readonly waiters: ShardWaiters = new ShardWaiters();
  /** History operations that wait for the answer of a model call. */
  readonly edits: EditQueue = new EditQueue();
  readonly replays: EventReplays;
  readonly subscribers: Subscribers;
  readonly notices: NoticeChain;
  readonly residency: Residency;
  readonly transitions: Transitions;
  readonly life: Life;
  readonly drafts: AnswerDrafts;
  readonly #work: SessionWork;

  constructor(parts: ShardParts) {
    this.parts = parts;
    const { limits, journal, clock, soon, host } = parts;
    this.replays = new EventReplays(journal);
    this.notices = new NoticeChain(journal.end());
    this.residency = new Residency(parts, {
      isStale: (key) => outage.isStale(key),
      upgradeErrorOf: (id) => work.upgrades.errorOf(id),
      passivated: (actor) => {
        work.passivated(actor.id);
        timers.clearRetry(actor);
      },
      dropped: (actor) => this.transitions.forget(actor),
    });
    const { residency, waiters, edits } = this;
    const { checkpointer } = residency;
    this.subscribers = new Subscribers(
      waiters,
      (id) => residency.inMemory(id),
      (id, isNew) => work.watched(id, isNew),
      this.notices,
      parts.publishesNotices === true
        ? ({ key, state }, announced) => {
            const notice = noticeOf(state, announced, this.approvalsMs(state));
            return notice === undefined ? undefined : { key, origin: parts.journal.originOf(key), notice };
          }
        : undefined,
    );
    const timers = new SessionTimers({
      clock,
      wake: (actor, input) => {
        if (residency.holds(actor)) this.transitions.submit(actor.id, [input]);
      },
      holdsCall: (sessionId, callId) => work.holdsCall(sessionId, callId),
      approvalsMs: ({ state, agent }) => this.approvalsMs(state, agent),
    });
    const live = new Admission(limits, (id) => {
      try {
        this.transitions.submit(id, [{ type: 'wake' }]);
      } catch (error) {
        // The session left memory while it waited, and its log cannot be read. The session that made room continues.
        logThrown(host, 'a session that waited for admission cannot be read', error, id);
      }
    });
    const commits = new CommitQueue({
      flushed: async () => {
        await journal.flushed();
        const { flushes } = journal.statistics();
        parts.counters.set('flushes', flushes);
        if (flushes % COMPACT_LOOK_FLUSHES === 0) for (const each of compactors) each.look();
      },
      failed: (error) => outage.flushFailed(error),
      threw: (thrown) => logThrown(host, 'what followed a flush failed', thrown),
      emptied: () => this.life.still(),
      soon,
      clock,
    });
    this.drafts = new AnswerDrafts(journal, commits, (error, session) =>
      logThrown(host, 'the text of a lost answer cannot be read', error, session),
    );
    const { drafts } = this;
    const work = new SessionWork(parts, {
      timers,
      drafts,
      submit: (id, inputs, reply) => this.transitions.submit(id, inputs, reply),
      find: (id) => residency.find(id),
      inMemory: (id) => residency.inMemory(id),
      agentOf: (actor) => residency.agentOf(actor),
      isWatched: (id) => this.subscribers.isWatched(id),
      publish: (session, body) => this.transitions.publish(session, body),
      still: () => this.life.still(),
      isClosing: () => this.life.isClosing,
      isOver: () => this.life.isOver,
    });
    this.#work = work;
    const outage = new StoreOutage({
      journal,
      clock,
      dropAll: () => {
        residency.dropAll();
        this.replays.clear();
        this.notices.break();
      },
      notify: (error) => host.degraded(error),
      over: () => this.life.storeRecovered(),
      failed: (message, error) => logThrown(host, message, error),
    });
    const interrupted = new InterruptedSessions({
      journal,
      soon,
      clock,
      checkpointer,
      isClosing: () => this.life.isClosing,
      isDegraded: () => outage.error !== undefined,
      find: (id) => residency.find(id),
      recover: (actor) => {
        if (residency.agentOf(actor) !== undefined) this.transitions.submit(actor.id, []);
      },
      hasRoom: (actor) => live.has(actor) || live.hasRoom || mayBeRecovered(residency, actor),
      setAside: (actor) => residency.setAside(actor),
      sliceDone: () => residency.passivateSome(),
      failed: (error, name, key) => {
        if (name !== undefined) checkpointer.unread(name, key);
        logThrown(host, 'a session cannot be resumed', error, name);
      },
      done: () => this.life.checkDrained(),
    });
    const eraser = new Eraser({
      shard: parts.index,
      journal,
      results: parts.resultStore,
      commits,
      clock,
      eraseIndex: (sessions) => host.eraseIndex(sessions),
      counters: parts.counters,
      erased: () => {
        for (const each of compactors) each.erased();
      },
      isDegraded: () => outage.error !== undefined,
      failed: (thrown) => logThrown(host, 'a removed session cannot be erased now', thrown),
    });
    const { counters, eraseWithinMs } = parts;
    const isRefusing = (): boolean => this.life.refusal !== undefined || this.life.startsNothing;
    const common = { journal, clock, counters, eraseWithinMs, host, isRefusing };
    const compactors = [new Compactor({ ...common, kind: 'compaction', copies: journal.compaction })];
    const { snapshots } = journal;
    if (snapshots !== undefined) compactors.push(new Compactor({ ...common, kind: 'snapshot', copies: snapshots }));
    const shared = { parts, residency, commits, work, timers, live, interrupted, waiters, edits, drafts };
    this.transitions = new Transitions({
      ...shared,
      subscribers: this.subscribers,
      life: {
        refusal: () => this.life.refusal,
        startsNothing: () => this.life.startsNothing,
        checkDrained: () => this.life.checkDrained(),
        changed: () => this.life.changed(),
      },
    });
    this.life = new Life({
      ...shared,
      transitions: this.transitions,
      outage,
      eraser,
      compactors,
      replays: this.replays,
    });
  }

  /** True while the session's move to another version of its agent waits or runs. */
  isMoving(sessionId: string): boolean {
    return this.#work.upgrades.isMoving(sessionId);
  }

  /** Milliseconds that calls of a session wait for a decision; null: forever. `agent`: its agent, if known. */
  approvalsMs(state: SessionState, agent: SessionAgent | undefined = this.parts.catalog.of(state)): number | null {
    return approvalPolicy({ agent: agent?.facts ?? this.parts.catalog.missing(''), settings: this.parts.settings })
      .expiresMs;
  }
}

/**
 * True if an interrupted session is recovered without waiting for admission: it takes no slot of admission, or must
 * stay in memory.
 */
function mayBeRecovered(residency: Residency, actor: SessionActor): boolean {
  if (!isRunnable(actor.state)) return true;
  // Without its agent the session does nothing. Records that are not durable yet exist only in memory.
  return residency.agentOf(actor) === undefined || actor.unflushed > 0;
}
