/**
 * The queue of large requests from the host to one shard. A request is copied when it is posted to a session thread,
 * and copied again when it is written. So requests in flight are bounded in bytes. The other requests wait on the host,
 * where each costs only a reference.
 *
 * Owns: the number of bytes in flight, and the waiting requests. Does not own: the requests themselves
 * (`shard-link.ts`).
 *  Q1 at most `REQUEST_BYTES_UNDER_WAY_MAX` bytes are in flight, or one larger request alone;
 *  Q2 requests of one session keep their order, even small ones; requests of other sessions may overtake them.
 */
import { REQUEST_BYTES_UNDER_WAY_MAX, REQUEST_LARGE_BYTES_MIN } from '../../base/bounds.ts';
import type { ShardMethods } from '../protocol/protocol.ts';

interface Waiting {
  readonly session: string;
  readonly bytes: number;
  readonly leave: () => void;
}

/** See the head of the file. Host thread. */
export class RequestLine {
  readonly #bytesMax: number;
  #bytes = 0;
  #waiting: Waiting[] = [];
  /** The number of waiting requests, by session. */
  readonly #held = new Map<string, number>();

  constructor(bytesMax: number = REQUEST_BYTES_UNDER_WAY_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** True if no request waits. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /**
   * Admits a request, or returns a promise that resolves when it may leave. The caller calls `left` with the same bytes
   * when the request ends.
   */
  enter(session: string, bytes: number): Promise<void> | undefined {
    if (!this.#held.has(session) && (bytes === 0 || this.#hasRoom(bytes))) {
      this.#bytes += bytes;
      return undefined;
    }
    this.#held.set(session, (this.#held.get(session) ?? 0) + 1);
    return new Promise((leave) => this.#waiting.push({ session, bytes, leave }));
  }

  /** Must be called when a request was answered or failed. */
  left(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#waiting.length > 0) this.#release();
  }

  #hasRoom(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax;
  }

  /** Sends a request in its turn. Without a wait `send` is called synchronously, so that later requests follow it. */
  async through<T>(session: string, bytes: number, send: () => Promise<T>): Promise<T> {
    const turn = this.enter(session, bytes);
    if (turn !== undefined) await turn;
    try {
      return await send();
    } finally {
      this.left(bytes);
    }
  }

  /**
   * Releases the requests that fit, in order of arrival. If a request of a session does not fit, the session's later
   * requests wait too.
   */
  #release(): void {
    const stays: Waiting[] = [];
    const blocked = new Set<string>();
    for (const each of this.#waiting) {
      const { session, bytes, leave } = each;
      if (blocked.has(session) || (bytes > 0 && (blocked.size > 0 || !this.#hasRoom(bytes)))) {
        blocked.add(session);
        stays.push(each);
        continue;
      }
      this.#bytes += bytes;
      this.#unhold(session);
      leave();
    }
    this.#waiting = stays;
  }

  #unhold(session: string): void {
    const count = (this.#held.get(session) ?? 0) - 1;
    if (count > 0) this.#held.set(session, count);
    else this.#held.delete(session);
  }
}

/** Maximum depth that is counted in a request; a block of a message is four levels deep. */
const DEPTH_MAX = 8;

/** The approximate size of a request: its texts in UTF-16 units, and its byte arrays. */
export function textBytes(value: unknown, depth = 0): number {
  if (typeof value === 'string') return value.length;
  if (value instanceof Uint8Array) return value.byteLength;
  if (typeof value !== 'object' || value === null || depth === DEPTH_MAX) return 0;
  let bytes = 0;
  for (const key in value) bytes += textBytes((value as Readonly<Record<string, unknown>>)[key], depth + 1);
  return bytes;
}

/** Methods whose requests carry content of an embedder. */
const GROWING: ReadonlySet<keyof ShardMethods> = new Set([
  'session.send',
  'session.post',
  'session.spawn',
  'session.activate',
  'history.edit',
]);

/** The size of a request that must enter the queue; 0 for a small one. */
export function growingBytes(method: keyof ShardMethods, request: unknown): number {
  if (!GROWING.has(method)) return 0;
  const bytes = textBytes(request);
  return bytes < REQUEST_LARGE_BYTES_MIN ? 0 : bytes;
}
