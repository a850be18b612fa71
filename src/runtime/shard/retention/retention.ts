/**
 * Searches for data that is older than the option `retention` allows, and removes it while the shard works: history
 * that left the model's window, dead letters, children that have ended, and entries of the audit log.
 *
 * Owns: the timer of the next search, and the search. Does not own: the removed data. Dead letters and children are
 * removed as if an embedder had asked for that. `old-history.ts` removes history, and the journal removes the entries
 * of the audit log.
 *
 * Invariants:
 *  N1 one search runs at a time. It looks at `RETENTION_SLICE_SESSIONS` sessions in a step, and pauses between steps;
 *  N2 the timer is set when the store is opened or takes writes again, and after a transition. After a search the timer
 *     is set if some data was not old enough yet. Otherwise no timer runs (A11);
 *  N3 a child is deleted only if it and all its descendants have ended, and the parent has taken the child's last
 *     message;
 *  N4 a failure is reported, and affects one session. The next search tries again.
 */
import type { SessionActor } from '../../../../actors/session-actor.ts';
import {
  AUDIT_SLICE_ROWS,
  ERASE_PAUSE_MS,
  RETENTION_LATE_SHARE,
  RETENTION_PAUSE_MS_MAX,
  RETENTION_PAUSE_MS_MIN,
  RETENTION_SLICE_SESSIONS,
  RETENTION_WAIT_MS_MAX,
} from '../../../base/bounds.ts';
import { type Clock, setIdleTimer } from '../../../base/clock.ts';
import type { Journal } from '../../../journal/journal.ts';
import type { SessionKey } from '../../../journal/position.ts';
import { firstDeparture } from '../../../session/rules/eviction.ts';
import { hasEnded } from '../../../session/state/child-link.ts';
import type { Input } from '../../../session/state/inputs.ts';
import type { Retention } from '../../protocol/retention.ts';
import { decodeHead } from '../../reading/head.ts';
import type { Residency } from '../residency.ts';
import { type OldHistoryParts, removeOldHistory } from './old-history.ts';

/** The parts that a search works with. */
export interface RetentionParts {
  readonly retention: Retention;
  readonly journal: Journal;
  readonly residency: Residency;
  readonly clock: Clock;
  readonly submit: (id: string, input: Input) => void;
  /** Deletes a session and its descendants. Resolves when that is durable. */
  readonly remove: (id: string) => Promise<void>;
  /** See `OldHistoryParts`. */
  readonly rootForks: OldHistoryParts['rootForks'];
  /** Called after a part of a log was removed. Folds of that log are outdated, and the removed rows can be erased. */
  readonly cut: () => void;
  /** Called after entries of the audit log were removed: the next flush makes that durable. */
  readonly forgot: () => void;
  /** True while the shard takes no transition. */
  readonly isRefusing: () => boolean;
  readonly failed: (thrown: unknown, id: string) => void;
}

/** A session with old history. */
interface Due {
  readonly id: string;
  readonly key: SessionKey;
}

/** See the head of the file. */
export class RetentionSearch {
  readonly #parts: RetentionParts;
  readonly #shortestMs: number;
  readonly #pauseMs: number;
  #timer: unknown;
  /** Monotonic ms at which the timer fires. */
  #firesAt = 0;
  #pause: { readonly timer: unknown; readonly resolve: () => void } | undefined;
  #isAtWork = false;
  #isClosed = false;
  /** True if there was a transition since the search began. */
  #hasChanged = false;
  /** The earliest time at which data that the current search left alone becomes old, in epoch ms. */
  #dueAt = Number.POSITIVE_INFINITY;

  constructor(parts: RetentionParts) {
    this.#parts = parts;
    this.#shortestMs = Math.min(...Object.values(parts.retention));
    this.#pauseMs = Math.min(
      RETENTION_PAUSE_MS_MAX,
      Math.max(RETENTION_PAUSE_MS_MIN, Math.ceil(this.#shortestMs * RETENTION_LATE_SHARE)),
    );
  }

  /** Called at open, and when the store takes writes again. */
  begin(): void {
    this.#arm(this.#pauseMs);
  }

  /** Called after a transition. Its data becomes old after the shortest time of `retention`, at the earliest. */
  changed(): void {
    this.#hasChanged = true;
    this.#arm(this.#shortestMs + 1);
  }

  /** Ends the timer and the pause. Afterwards no search and no removal begins. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
    this.#timer = undefined;
    if (this.#pause !== undefined) this.#parts.clock.clearTimer(this.#pause.timer);
    this.#pause?.resolve();
    this.#pause = undefined;
  }

  /**
   * Sets the timer, unless it is set to fire earlier. The timer does not keep the process alive, because the next open
   * searches again.
   */
  #arm(delayMs: number): void {
    if (this.#isClosed || this.#isAtWork) return;
    const { clock } = this.#parts;
    const waitMs = Math.min(Math.max(delayMs, this.#pauseMs), RETENTION_WAIT_MS_MAX);
    const firesAt = clock.monotonic() + waitMs;
    if (this.#timer !== undefined) {
      if (this.#firesAt <= firesAt) return;
      clock.clearTimer(this.#timer);
    }
    this.#firesAt = firesAt;
    this.#timer = setIdleTimer(
      clock,
      () => {
        this.#timer = undefined;
        void this.#search();
      },
      waitMs,
    );
  }

  async #search(): Promise<void> {
    this.#isAtWork = true;
    this.#hasChanged = false;
    this.#dueAt = Number.POSITIVE_INFINITY;
    try {
      await this.#lookAtAll();
    } catch (thrown) {
      if (!this.#isClosed) this.#parts.failed(thrown, '');
    }
    this.#isAtWork = false;
    if (this.#hasChanged) this.changed();
    if (this.#dueAt < Number.POSITIVE_INFINITY) this.#arm(this.#dueAt + 1 - this.#parts.clock.now());
  }

  async #lookAtAll(): Promise<void> {
    const { journal, retention } = this.#parts;
    await this.#forgetActs();
    const { auditMs: _auditMs, ...ofSessions } = retention;
    if (Object.keys(ofSessions).length === 0) return;
    for (let after = ''; !this.#isOver; ) {
      const names = journal.names({ limit: RETENTION_SLICE_SESSIONS, ...(after === '' ? {} : { after }) });
      const history: Due[] = [];
      const ended: string[] = [];
      for (const [id, key] of names) {
        try {
          this.#lookAt(id, key, history, ended);
        } catch {
          // This session cannot be read. The failure was reported when the session was about to resume.
        }
      }
      for (const id of ended) await this.#try(id, () => this.#removeEnded(id));
      for (const { id, key } of history) await this.#try(id, () => this.#removeHistory(id, key));
      const last = names.at(-1);
      if (last === undefined || names.length < RETENTION_SLICE_SESSIONS) return;
      after = last[0];
      await this.#rest();
    }
  }

  /** Removes old entries of the audit log, a slice in each step (N1). */
  async #forgetActs(): Promise<void> {
    const { journal, clock, forgot, retention } = this.#parts;
    const { auditMs } = retention;
    if (auditMs === undefined) return;
    while (!this.#isOver && journal.audit.removeBefore(clock.now() - auditMs, AUDIT_SLICE_ROWS) > 0) {
      forgot();
      await this.#rest();
    }
    const oldest = this.#isOver ? undefined : journal.audit.oldestAt();
    if (oldest !== undefined) this.#dueAt = Math.min(this.#dueAt, oldest + auditMs);
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#parts.isRefusing();
  }

  /**
   * Looks at the head of one session. Adds the session to `history` or `ended` if it has old data of that kind, and
   * drops its old dead letters. The whole session is read only if it has dead letters, or has no current head.
   */
  #lookAt(id: string, key: SessionKey, history: Due[], ended: string[]): void {
    const { residency, retention, clock } = this.#parts;
    const { archivedHistoryMs, deadLettersMs, finishedChildrenMs } = retention;
    const now = clock.now();
    const isOld = (at: number, keptMs: number): boolean => {
      if (at < now - keptMs) return true;
      this.#dueAt = Math.min(this.#dueAt, at + keptMs);
      return false;
    };
    const actor = residency.inMemory(id);
    const head = actor === undefined ? residency.headOf(key) : undefined;
    if (archivedHistoryMs !== undefined) {
      const departed =
        actor === undefined
          ? head === undefined
            ? undefined
            : decodeHead(head.data).departed
          : firstDeparture(actor.state);
      if (departed !== undefined && isOld(departed, archivedHistoryMs)) history.push({ id, key });
    }
    const summary = residency.summary(id, key);
    if (summary === undefined) return;
    if (finishedChildrenMs !== undefined && summary.parent !== undefined && summary.state === 'idle') {
      if (isOld(summary.updatedAt, finishedChildrenMs)) ended.push(id);
    }
    if (deadLettersMs !== undefined && (summary.deadLetters ?? 0) > 0) this.#dropLetters(id, deadLettersMs, isOld);
  }

  #dropLetters(id: string, keptMs: number, isOld: (at: number, keptMs: number) => boolean): void {
    const { residency, submit } = this.#parts;
    const letters = residency.find(id)?.state.deadLetters.filter(({ at }) => isOld(at, keptMs)) ?? [];
    for (const { entry } of letters) submit(id, { type: 'dropLetter', letter: entry.id, cause: 'retention' });
    residency.passivateSome();
  }

  /** Deletes a child, if N3 allows that. */
  async #removeEnded(id: string): Promise<void> {
    const { residency, remove } = this.#parts;
    const child = residency.find(id);
    const parent = child?.state.parent === undefined ? undefined : residency.find(child.state.parent);
    const name = parent?.state.children.get(id)?.name;
    const isTaken = parent?.state.mailbox.every(({ source }) => source.name !== name) !== false;
    // The child may have worked again since the search looked at it.
    const keptMs = this.#parts.retention.finishedChildrenMs ?? 0;
    const isOld = child !== undefined && child.state.updatedAt < this.#parts.clock.now() - keptMs;
    const hasAllEnded = isOld && this.#hasEnded(child);
    residency.passivateSome();
    if (hasAllEnded && isTaken) await remove(id);
  }

  #hasEnded({ state }: SessionActor): boolean {
    if (!hasEnded(state) || state.mailbox.length > 0) return false;
    return [...state.children.keys()].every((id) => {
      const child = this.#parts.residency.find(id);
      return child === undefined || this.#hasEnded(child);
    });
  }

  async #removeHistory(id: string, key: SessionKey): Promise<void> {
    const { archivedHistoryMs } = this.#parts.retention;
    const { journal, residency, clock, submit, rootForks, cut } = this.#parts;
    if (archivedHistoryMs === undefined) return;
    const isRemoved = await removeOldHistory(
      {
        journal,
        find: (session) => (this.#isOver ? undefined : residency.find(session)),
        pause: () => this.#rest(),
        rootForks,
        withoutSnapshot: (actor) => residency.checkpointer.withoutSnapshot(actor),
        submit: (session, history) => submit(session, { type: 'removeHistory', history }),
      },
      id,
      key,
      clock.now() - archivedHistoryMs,
    );
    residency.passivateSome();
    if (isRemoved) cut();
  }

  async #try(id: string, work: () => Promise<void>): Promise<void> {
    if (this.#isOver) return;
    try {
      await work();
    } catch (thrown) {
      if (!this.#isClosed) this.#parts.failed(thrown, id);
    }
    await this.#rest();
  }

  /** A pause between two steps (N1). */
  #rest(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#parts.clock.setTimer(() => {
        this.#pause = undefined;
        resolve();
      }, ERASE_PAUSE_MS);
      this.#pause = { timer, resolve };
    });
  }
}
