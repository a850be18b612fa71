/**
 * Large requests of the host to one shard, in line. A request is copied when it is posted to a session thread, and copied again when
 * it is written: those under way are bounded in bytes, and the others wait on the host, where they cost nothing but a reference.
 *
 * Owns: how many bytes are under way, and the requests that wait. Does not own: the requests themselves (`shard-link.ts`).
 *  Q1 at most `REQUEST_BYTES_UNDER_WAY_MAX` are under way, or one request alone;
 *  Q2 requests of one session keep their order, the small ones too; those of other sessions pass.
 */
import { REQUEST_BYTES_UNDER_WAY_MAX } from '../../base/bounds.ts';

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
  /** Requests in line, by session. */
  readonly #held = new Map<string, number>();

  constructor(bytesMax: number = REQUEST_BYTES_UNDER_WAY_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** Nothing waits. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Takes a request on its way; the promise of its time where it must wait. The caller calls `left` with the same bytes when the request ends. */
  enter(session: string, bytes: number): Promise<void> | undefined {
    if (!this.#held.has(session) && (bytes === 0 || this.#hasRoom(bytes))) {
      this.#bytes += bytes;
      return undefined;
    }
    this.#held.set(session, (this.#held.get(session) ?? 0) + 1);
    return new Promise((leave) => this.#waiting.push({ session, bytes, leave }));
  }

  /** A request was answered, or failed. */
  left(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#waiting.length > 0) this.#release();
  }

  #hasRoom(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax;
  }

  /** Lets those go that fit, first come first served: a session with a request that does not fit stays, with all behind it. */
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

/** Levels of a request that are looked at: a block of a message lies four deep. */
const DEPTH_MAX = 8;

/** About how many bytes a request's texts have, in UTF-16 units, and its bytes. */
export function textBytes(value: unknown, depth = 0): number {
  if (typeof value === 'string') return value.length;
  if (value instanceof Uint8Array) return value.byteLength;
  if (typeof value !== 'object' || value === null || depth === DEPTH_MAX) return 0;
  let bytes = 0;
  for (const key in value) bytes += textBytes((value as Readonly<Record<string, unknown>>)[key], depth + 1);
  return bytes;
}
