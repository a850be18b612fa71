/**
 * Counts the bytes that wait in the mailboxes of resident sessions (`limits.waitingBytes`).
 *
 * Owns: the last counted bytes of each actor, and their sum. Does not own: the mailboxes.
 * Invariant: W1 the sum covers the resident actors, as of the last transition of each; an actor that left memory no
 * longer counts.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';

/** See the head of the file. */
export class WaitingBytes {
  /** The bytes of each actor that has waiting entries; other actors are left out. */
  readonly #counted = new Map<SessionActor, number>();
  #sum = 0;

  /** The sum, in UTF-8 bytes. */
  get bytes(): number {
    return this.#sum;
  }

  /** Counts an actor in its current state. */
  note(actor: SessionActor): void {
    const { mailboxBytes } = actor.state;
    if (mailboxBytes === 0) {
      // Nearly every transition leaves an empty mailbox that was empty before.
      if (this.#counted.size > 0) this.delete(actor);
      return;
    }
    this.#sum += mailboxBytes - (this.#counted.get(actor) ?? 0);
    this.#counted.set(actor, mailboxBytes);
  }

  /** Called when the actor left memory. */
  delete(actor: SessionActor): void {
    const counted = this.#counted.get(actor);
    if (counted === undefined) return;
    this.#counted.delete(actor);
    this.#sum -= counted;
  }
}
