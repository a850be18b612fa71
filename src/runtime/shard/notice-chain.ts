/**
 * Links the notes of a shard in a chain. A note has the notices of one transition (the contents of webhooks), and the
 * position of the previous note. So a follower on the host detects a missing note, and then reads the log from the
 * position that the follower has reached.
 *
 * Owns: the position of the last note. Does not own: the notices; they are in the log. Invariant: N1 if the log may
 * have an unpublished notice after the last note, the chain is broken. The next note then names a previous position
 * that no follower has reached.
 */
import type { Position } from '../../journal/position.ts';
import type { KeyedNotice, NoticeNote } from '../protocol/notices.ts';

/** See the head of the file. */
export class NoticeChain {
  /** The end of the log when the shard began. */
  readonly opened: Position;
  #last: Position;

  constructor(opened: Position) {
    this.opened = opened;
    this.#last = opened;
  }

  /** The note of a durable transition. */
  note(position: Position, notices: readonly KeyedNotice[]): NoticeNote {
    const previous = this.#last;
    this.#last = position;
    return { previous, position, notices };
  }

  /** Called when a flush failed: the log may have its notices nevertheless (N1). */
  break(): void {
    this.#last = Number.MAX_SAFE_INTEGER;
  }
}
