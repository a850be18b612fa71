/**
 * Bytes that wait in the mailboxes of the sessions in memory (`limits.waitingBytes`).
 *
 * Owns: what each actor was last counted with, and the sum. Does not own: the mailboxes.
 * Invariant: W1 the sum is over the actors in memory, as of the last turn of each; one that left memory counts no more.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';

/** See the head of the file. */
export class WaitingBytes {
  /** Only actors with something that waits. */
  readonly #counted = new Map<SessionActor, number>();
  #sum = 0;

  /** UTF-8 bytes. */
  get bytes(): number {
    return this.#sum;
  }

  /** Counts an actor as it is now. */
  note(actor: SessionActor): void {
    const { mailboxBytes } = actor.state;
    if (mailboxBytes === 0) {
      // Nearly every turn leaves nothing behind, and found nothing.
      if (this.#counted.size > 0) this.delete(actor);
      return;
    }
    this.#sum += mailboxBytes - (this.#counted.get(actor) ?? 0);
    this.#counted.set(actor, mailboxBytes);
  }

  /** The actor is not in memory any more. */
  delete(actor: SessionActor): void {
    const counted = this.#counted.get(actor);
    if (counted === undefined) return;
    this.#counted.delete(actor);
    this.#sum -= counted;
  }
}
