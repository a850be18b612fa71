/**
 * Receipts whose end the shard tells without being asked: whoever sends a message and wants nothing but its answer is spared the
 * second question.
 *
 * Owns: who follows. Does not own: what a receipt says; where nothing is told here, it is asked for.
 *  R1 each follower is told once: the durable end, or `undefined` when the shard will not tell it and must be asked.
 */
import type { ReceiptState } from '../../session/state/state.ts';

/** One who follows. */
export interface Follower {
  /** Goes with the message, and comes back with its end. */
  readonly id: number;
  readonly settled: Promise<ReceiptState | undefined>;
}

/** See the head of the file. On the host's side of one shard. */
export class FollowedReceipts {
  readonly #followers = new Map<number, (state: ReceiptState | undefined) => void>();
  #lastId = 0;

  /** A new follower. */
  follow(): Follower {
    this.#lastId += 1;
    const id = this.#lastId;
    const settled = new Promise<ReceiptState | undefined>((resolve) => this.#followers.set(id, resolve));
    return { id, settled };
  }

  /** Tells a follower (R1); one that was told already is left alone. */
  tell(id: number, state: ReceiptState | undefined): void {
    const resolve = this.#followers.get(id);
    this.#followers.delete(id);
    resolve?.(state);
  }

  /** The shard tells nothing any more. */
  abandon(): void {
    for (const id of [...this.#followers.keys()]) this.tell(id, undefined);
  }
}
