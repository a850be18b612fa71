/**
 * Names the session that a session thread is working on, in memory shared with the host. A thread that has run out of
 * memory can no longer report the session. The thread is the only writer; the host reads after the thread has ended.
 */
import type { SessionKey } from '../../journal/position.ts';

/**
 * See the head of the file. The host creates this object and passes its memory to the thread. The thread creates
 * another object over the same memory.
 */
export class SessionAtWork {
  readonly memory: SharedArrayBuffer;
  readonly #place: Float64Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#place = new Float64Array(memory);
  }

  /** The session that is being worked on. 0: none. */
  get key(): SessionKey {
    return this.#place[0] ?? 0;
  }

  /** Runs work for a session. The work may call this again for other sessions. */
  during<T>(key: SessionKey, work: () => T): T {
    const before = this.key;
    this.#place[0] = key;
    try {
      return work();
    } finally {
      this.#place[0] = before;
    }
  }
}
