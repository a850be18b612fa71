/**
 * Sessions interrupted by a crash: their calls are lost, and the log does not say so yet.
 *
 * Owns: the list of these sessions, and the order in which they resume. Does not own: the recovery. The next transition
 * that reaches an interrupted session begins with the recovery, and removes the session from the list. That transition
 * may belong to the session itself, or to another session of its tree.
 * Invariants:
 *  R1 the sessions are read one slice per tick, so that the first half-step need not wait for all of them (A10). A
 *     slice ends after `RESUME_BUDGET_MS`, so that messages are accepted meanwhile;
 *  R2 no checkpoint is made until all sessions are read, because a checkpoint would leave out the sessions not yet read
 *     (K1 of `checkpointer.ts`);
 *  R3 a session whose log cannot be read is not resumed, and the other sessions continue;
 *  R4 a session that was working resumes when admission has room for it. Until then it is set aside, outside memory, in
 *     the order in which it was read. A crash may have interrupted more sessions than memory has room for.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { RESUME_BUDGET_MS } from '../../base/bounds.ts';
import type { Clock, Soon } from '../../base/clock.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { Checkpointer } from './checkpointer.ts';

/** The largest number of interrupted sessions that are resumed in one tick. */
const RESUME_SLICE = 64;

/** The parts that resuming works with. */
export interface ResumingParts {
  readonly journal: Journal;
  readonly soon: Soon;
  readonly clock: Clock;
  readonly checkpointer: Pick<Checkpointer, 'hold' | 'letGo' | 'changed'>;
  readonly isClosing: () => boolean;
  /** True if the store refuses writes, so that no session can continue. */
  readonly isDegraded: () => boolean;
  readonly find: (sessionId: string) => SessionActor | undefined;
  /** Runs a transition of the session, if its agent is available. */
  readonly recover: (actor: SessionActor) => void;
  /** True if the session may continue now. */
  readonly hasRoom: (actor: SessionActor) => boolean;
  /** Removes a session from memory; the session resumes later. */
  readonly setAside: (actor: SessionActor) => void;
  readonly sliceDone: () => void;
  readonly failed: (error: unknown, sessionId: string | undefined, key: SessionKey) => void;
  /** Called when all interrupted sessions have been read. */
  readonly done: () => void;
}

/** See the head of the file. */
export class InterruptedSessions {
  readonly #parts: ResumingParts;
  readonly #keys = new Set<SessionKey>();
  /** Number of sessions still to be read. */
  #resuming = 0;
  /** Sessions that are read and wait for admission (R4). */
  readonly #aside: SessionKey[] = [];
  #isProceeding = false;
  #onResumed: (() => void)[] = [];

  constructor(parts: ResumingParts) {
    this.#parts = parts;
  }

  /** Number of sessions that wait for the transition that recovers them. */
  get size(): number {
    return this.#keys.size;
  }

  /** True while some sessions are still to be read. */
  get isResuming(): boolean {
    return this.#resuming > 0;
  }

  /** True while some sessions are still to be read or resumed. */
  get hasWork(): boolean {
    return this.#resuming > 0 || this.#aside.length > 0;
  }

  has(key: SessionKey): boolean {
    return this.#keys.has(key);
  }

  add(key: SessionKey): void {
    this.#keys.add(key);
  }

  /** Called when the session is recovered or deleted. */
  delete(key: SessionKey): void {
    this.#keys.delete(key);
  }

  /** Resumes everything that was interrupted. */
  resumeAll(): void {
    const { journal, checkpointer } = this.#parts;
    const found = new Set(journal.runnable());
    for (const key of journal.tailKeys(journal.checkpointed())) found.add(key);
    // A session whose call was cancelled may be idle, so it is in neither list. Its draft has the text of the call.
    for (const key of journal.drafts.keys()) found.add(key);
    for (const key of found) this.#keys.add(key);
    this.#resuming += found.size;
    checkpointer.hold();
    this.#resumeSlice([...found], 0);
  }

  /** Resumes one session in the next tick. */
  resumeSoon(key: SessionKey): void {
    this.#resuming += 1;
    this.#parts.soon(() => {
      if (!this.#parts.isClosing()) this.#resume(key);
    });
  }

  /** Resumes the sessions that were set aside, while admission has room. */
  proceed(): void {
    if (this.#isProceeding || this.#aside.length === 0) return;
    this.#isProceeding = true;
    try {
      for (let key = this.#aside[0]; key !== undefined; key = this.#aside[0]) {
        if (!this.#keys.has(key)) {
          // Another input woke the session, or the session was deleted.
          this.#aside.shift();
          continue;
        }
        if (!this.#continue(key)) return;
        this.#aside.shift();
      }
    } finally {
      this.#isProceeding = false;
    }
  }

  /** Resolves when all sessions that were interrupted before the open have been read. */
  resumed(): Promise<void> {
    if (this.#resuming === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onResumed.push(resolve));
  }

  /** Releases all callers of `resumed`. */
  close(): void {
    this.#reportResumed();
  }

  #reportResumed(): void {
    for (const done of this.#onResumed.splice(0)) done();
  }

  #resumeSlice(keys: readonly SessionKey[], from: number): void {
    const { soon, clock, checkpointer, isClosing, sliceDone } = this.#parts;
    // The checkpointer is still held, so the next open finds the unread sessions in the log after the last checkpoint.
    if (isClosing()) return;
    const last = Math.min(from + RESUME_SLICE, keys.length);
    const beganAt = clock.monotonic();
    let next = from;
    for (const key of keys.slice(from, last)) {
      this.#resume(key);
      next += 1;
      if (clock.monotonic() - beganAt > RESUME_BUDGET_MS) break;
    }
    sliceDone();
    if (next < keys.length) soon(() => this.#resumeSlice(keys, next));
    else checkpointer.letGo();
  }

  #resume(key: SessionKey): void {
    this.#resuming -= 1;
    if (!this.#continue(key)) this.#aside.push(key);
    if (this.#resuming > 0) return;
    this.#reportResumed();
    this.#parts.done();
  }

  /** Reads a session and resumes it; false when it was set aside. */
  #continue(key: SessionKey): boolean {
    const { journal, checkpointer, isDegraded, find, hasRoom, setAside, recover, failed } = this.#parts;
    let name: string | undefined;
    try {
      name = isDegraded() ? undefined : journal.nameOf(key);
      const actor = name === undefined ? undefined : find(name);
      if (actor === undefined) return true;
      checkpointer.changed([{ actor }]);
      if (!this.#keys.has(key)) return true;
      if (!hasRoom(actor)) {
        setAside(actor);
        return false;
      }
      recover(actor);
      return true;
    } catch (error) {
      failed(error, name, key);
      return true;
    }
  }
}
