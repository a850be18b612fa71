/**
 * Sessions as a crash left them: what was out for them is not out any more, and no turn has said so yet.
 *
 * Owns: which they are, and the order in which they are gone on with. Does not own: what a recovery is: their next turn begins
 * with it, whatever else that turn is about, and takes them out of here.
 * Invariants:
 *  R1 they are read a slice a turn of the loop, so that the first half-step need not wait for all (A10);
 *  R2 until all are read no checkpoint is made: it would pass over those that are not (K1 of the checkpointer);
 *  R3 one whose log cannot be read is left alone, and the others go on;
 *  R4 one that was at work is resumed when it has a place among those at work; until then it is set aside, out of memory, in the
 *     order in which it was read: what a crash interrupted may be more than fits.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { Soon } from '../../base/clock.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { Checkpointer } from './checkpointer.ts';

/** Interrupted sessions resumed in one turn of the loop. */
const RESUME_SLICE = 64;

/** What resuming has to do with. */
export interface ResumingParts {
  readonly journal: Journal;
  readonly soon: Soon;
  readonly checkpointer: Pick<Checkpointer, 'hold' | 'letGo' | 'changed'>;
  readonly isClosing: () => boolean;
  /** The store refuses writes: nothing can go on. */
  readonly isDegraded: () => boolean;
  readonly find: (sessionId: string) => SessionActor | undefined;
  /** Gives the session a turn, if its agent is there. */
  readonly recover: (actor: SessionActor) => void;
  /** The session may go on now. */
  readonly hasPlace: (actor: SessionActor) => boolean;
  /** Takes a session out of memory that is to go on later. */
  readonly setAside: (actor: SessionActor) => void;
  readonly sliceDone: () => void;
  readonly failed: (error: unknown, sessionId: string | undefined, key: SessionKey) => void;
  /** Nothing is left to be read. */
  readonly done: () => void;
}

/** See the head of the file. */
export class InterruptedSessions {
  readonly #parts: ResumingParts;
  readonly #keys = new Set<SessionKey>();
  /** How many are still to be read. */
  #resuming = 0;
  /** Read, and waiting for a place (R4). */
  readonly #aside: SessionKey[] = [];
  #isProceeding = false;
  #onResumed: (() => void)[] = [];

  constructor(parts: ResumingParts) {
    this.#parts = parts;
  }

  /** How many wait for the turn that recovers them. */
  get size(): number {
    return this.#keys.size;
  }

  /** Some are still to be read. */
  get isResuming(): boolean {
    return this.#resuming > 0;
  }

  /** Some are still to be read or to go on. */
  get hasWork(): boolean {
    return this.#resuming > 0 || this.#aside.length > 0;
  }

  has(key: SessionKey): boolean {
    return this.#keys.has(key);
  }

  add(key: SessionKey): void {
    this.#keys.add(key);
  }

  /** It is recovered, or gone. */
  delete(key: SessionKey): void {
    this.#keys.delete(key);
  }

  /** Goes on with everything that was interrupted. */
  resumeAll(): void {
    const { journal, checkpointer } = this.#parts;
    const found = new Set(journal.runnable());
    for (const key of journal.tailKeys(journal.checkpointed())) found.add(key);
    for (const key of found) this.#keys.add(key);
    this.#resuming += found.size;
    checkpointer.hold();
    this.#resumeSlice([...found], 0);
  }

  /** Goes on with one session, in the next turn of the loop. */
  resumeSoon(key: SessionKey): void {
    this.#resuming += 1;
    this.#parts.soon(() => {
      if (!this.#parts.isClosing()) this.#resume(key);
    });
  }

  /** Resumes the sessions that were set aside, as long as there is a place for each. */
  proceed(): void {
    if (this.#isProceeding || this.#aside.length === 0) return;
    this.#isProceeding = true;
    try {
      for (let key = this.#aside[0]; key !== undefined; key = this.#aside[0]) {
        if (!this.#keys.has(key)) {
          // Something else woke it, or it is deleted.
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

  /** Resolves when everything that was interrupted when the store was opened has been read. */
  resumed(): Promise<void> {
    if (this.#resuming === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onResumed.push(resolve));
  }

  /** Whoever waits for the rest waits no more. */
  close(): void {
    this.#tellResumed();
  }

  #tellResumed(): void {
    for (const done of this.#onResumed.splice(0)) done();
  }

  #resumeSlice(keys: readonly SessionKey[], from: number): void {
    const { soon, checkpointer, isClosing, sliceDone } = this.#parts;
    // The checkpointer is still held: what was not read stays in the tail for the next open.
    if (isClosing()) return;
    const end = Math.min(from + RESUME_SLICE, keys.length);
    for (const key of keys.slice(from, end)) this.#resume(key);
    sliceDone();
    if (end < keys.length) soon(() => this.#resumeSlice(keys, end));
    else checkpointer.letGo();
  }

  #resume(key: SessionKey): void {
    this.#resuming -= 1;
    if (!this.#continue(key)) this.#aside.push(key);
    if (this.#resuming > 0) return;
    this.#tellResumed();
    this.#parts.done();
  }

  /** Reads a session and resumes it; false when it was set aside. */
  #continue(key: SessionKey): boolean {
    const { journal, checkpointer, isDegraded, find, hasPlace, setAside, recover, failed } = this.#parts;
    let name: string | undefined;
    try {
      name = isDegraded() ? undefined : journal.nameOf(key);
      const actor = name === undefined ? undefined : find(name);
      if (actor === undefined) return true;
      checkpointer.changed([{ actor }]);
      if (!this.#keys.has(key)) return true;
      if (!hasPlace(actor)) {
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
