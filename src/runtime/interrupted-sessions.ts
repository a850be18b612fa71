/**
 * Sessions as a crash left them: what was out for them is not out any more, and no turn has said so yet.
 *
 * Owns: which they are, and the order in which they are gone on with. Does not own: what a recovery is: their next turn begins
 * with it, whatever else that turn is about, and takes them out of here.
 * Invariants:
 *  R1 they are read a slice a turn of the loop, so that the first half-step need not wait for all (A10);
 *  R2 until all are read no checkpoint is made: it would pass over those that are not (K1 of the checkpointer);
 *  R3 one whose log cannot be read is left alone, and the others go on.
 */
import type { SessionActor } from '../../actors/session-actor.ts';
import type { Soon } from '../base/clock.ts';
import type { Journal, SessionKey } from '../journal/journal.ts';
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
  readonly sliceDone: () => void;
  readonly failed: (error: unknown, sessionId: string | undefined) => void;
  /** Nothing is left to be read. */
  readonly done: () => void;
}

/** See the head of the file. */
export class InterruptedSessions {
  readonly #parts: ResumingParts;
  readonly #keys = new Set<SessionKey>();
  /** How many are still to be read. */
  #resuming = 0;
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
    const { journal, checkpointer, isDegraded, find, recover, failed, done } = this.#parts;
    this.#resuming -= 1;
    let name: string | undefined;
    try {
      name = isDegraded() ? undefined : journal.nameOf(key);
      const actor = name === undefined ? undefined : find(name);
      if (actor !== undefined) {
        checkpointer.changed([{ actor }]);
        if (this.#keys.has(key)) recover(actor);
      }
    } catch (error) {
      failed(error, name);
    }
    if (this.#resuming > 0) return;
    this.#tellResumed();
    done();
  }
}
