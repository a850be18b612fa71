/**
 * Which session a session thread is working on, in memory shared with the host: a thread that runs out of memory cannot say so any
 * more. One writer, the thread; the host reads once the thread has ended.
 */
import type { SessionKey } from '../../journal/position.ts';

/** See the head of the file. Made by the host, which passes its memory on; the thread makes its own side over that. */
export class SessionInHand {
  readonly memory: SharedArrayBuffer;
  readonly #place: Float64Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#place = new Float64Array(memory);
  }

  /** The session in hand; 0: none. */
  get key(): SessionKey {
    return this.#place[0] ?? 0;
  }

  /** Does some work of a session. What that work does for other sessions may name them meanwhile. */
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
