/**
 * Operations on a history that wait for a message boundary, that is, for the end of the session's model call. The
 * answer of the call belongs to the history that was sent, so this history must not change before the answer.
 *
 * Owns: the waiting operations, by session. Does not own: the decision when a boundary is checked, which the shard
 * makes.
 * Invariants:
 *  E1 while operations of a session wait or are being done, the session claims no half-step (`holds`): the operations
 *     precede the next request;
 *  E2 at most `EDITS_WAITING_MAX` operations of one session wait. Each is settled once, in the order of arrival.
 */
import type { SessionActor } from '../../../actors/session-actor.ts';
import { EDITS_WAITING_MAX } from '../../base/bounds.ts';
import { LimitError, TroupeError } from '../../base/errors.ts';
import type { Input } from '../../session/state/inputs.ts';
import type { Reply } from './shard-parts.ts';

/** An operation, with the reply to its requester. */
export interface WaitingEdit {
  readonly input: Input;
  readonly reply: Reply;
}

/** See the head of the file. */
export class EditQueue {
  readonly #waiting = new Map<SessionActor, WaitingEdit[]>();
  readonly #releasing = new Set<SessionActor>();

  /** True if operations of this session wait. */
  holds(actor: SessionActor): boolean {
    return this.#waiting.size > 0 && this.#waiting.has(actor);
  }

  /** Adds an operation. An operation beyond the bound is rejected with `LimitError`. */
  add(actor: SessionActor, edit: WaitingEdit): void {
    const waiting = this.#waiting.get(actor);
    if (waiting === undefined) this.#waiting.set(actor, [edit]);
    else if (waiting.length < EDITS_WAITING_MAX) waiting.push(edit);
    else {
      edit.reply.reject(
        new LimitError(`at most ${EDITS_WAITING_MAX} operations on one history wait for a model call`, {
          data: { limit: 'editsWaiting', value: waiting.length },
          retryable: true,
        }),
      );
    }
  }

  /**
   * Passes the waiting operations of a session to `run`, one by one, unless the session waits for an answer. True if
   * operations waited and all are done: the session may claim again.
   */
  release(actor: SessionActor, run: (edit: WaitingEdit) => void): boolean {
    if (!this.holds(actor) || actor.state.state === 'awaiting' || this.#releasing.has(actor)) return false;
    this.#releasing.add(actor);
    try {
      for (let next = this.#waiting.get(actor)?.shift(); next !== undefined; next = this.#waiting.get(actor)?.shift()) {
        run(next);
      }
    } finally {
      this.#releasing.delete(actor);
    }
    return this.#waiting.delete(actor);
  }

  /** Rejects the operations of a session that was deleted or left memory. Without `error` the callers may try again. */
  refuse(actor: SessionActor, error: Error = editLost()): void {
    const waiting = this.#waiting.get(actor);
    if (waiting === undefined) return;
    this.#waiting.delete(actor);
    for (const { reply } of waiting) reply.reject(error);
  }

  /** Refuses all waiting operations. */
  refuseAll(error: Error): void {
    for (const actor of [...this.#waiting.keys()]) this.refuse(actor, error);
  }
}

/** The error when the session was read again from its log, or was deleted, before the operation was done. */
function editLost(): TroupeError {
  return new TroupeError('cancelled', 'the session left memory: the operation was not done', { retryable: true });
}
