/**
 * Bounds the bytes that one tick writes, encodes or parses for all sockets of the process. Work that no longer fits
 * into a tick waits in a queue for a later tick. Without this bound, fifty answers of a megabyte could be written in
 * one tick, and would delay all other work, including health checks.
 *
 * Owns: the bytes left in this tick, and the queue of work that waits for a later tick. Does not own: the work, the
 * loop. Answers and request bodies have separate budgets.
 *  B1 One tick grants at most `LOOP_BYTES_MAX` bytes, or a single larger piece. Small work does not call `take`.
 *  B2 Waiting work is granted in the order in which it called `take`; later work never overtakes it.
 *  B3 An idle budget schedules nothing. A next tick is scheduled only if work took bytes or waits, or if a tick was
 *     left to new connections (B4).
 *  B4 A tick that accepted a connection grants nothing more. The reason: libuv accepts one connection per tick. So a
 *     health check behind fifty connections waits for fifty ticks, and these ticks must be short. After
 *     `LOOP_YIELDS_MAX` such ticks in a row, one tick grants again, so that a flood of connections cannot stop all
 *     answers.
 */
import { LOOP_BYTES_MAX, LOOP_YIELDS_MAX } from '../base/bounds.ts';
import { soon as nextTick, type Soon } from '../base/clock.ts';

interface Waiting {
  readonly bytes: number;
  readonly grant: () => void;
}

/** See the file header. */
export class LoopBudget {
  readonly #bytesMax: number;
  readonly #soon: Soon;
  #left: number;
  #waiting: Waiting[] = [];
  #isScheduled = false;
  #isYielding = false;
  #yieldsInARow = 0;

  constructor(bytesMax: number = LOOP_BYTES_MAX, soon: Soon = nextTick) {
    this.#bytesMax = bytesMax;
    this.#left = bytesMax;
    this.#soon = soon;
  }

  /**
   * Takes bytes of this tick and returns undefined. If this tick has no room, returns a promise that resolves in a
   * later tick.
   */
  take(bytes: number): Promise<void> | undefined {
    this.#schedule();
    if (this.#waiting.length === 0 && this.#grants(bytes)) return undefined;
    return new Promise((grant) => this.#waiting.push({ bytes, grant }));
  }

  /** Leaves the rest of this tick to the connections that wait to be accepted (B4). */
  yieldTick(): void {
    if (this.#isYielding || this.#yieldsInARow >= LOOP_YIELDS_MAX) return;
    this.#isYielding = true;
    this.#yieldsInARow += 1;
    this.#left = 0;
    this.#schedule();
  }

  #grants(bytes: number): boolean {
    if (bytes > this.#left && this.#left < this.#bytesMax) return false;
    this.#left -= bytes;
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#soon(this.#nextTick);
  }

  #nextTick = (): void => {
    this.#isScheduled = false;
    const isYielding = this.#isYielding;
    this.#isYielding = false;
    if (isYielding && this.#waiting.length > 0) return this.#schedule();
    this.#yieldsInARow = 0;
    this.#left = this.#bytesMax;
    let granted = 0;
    for (const { bytes, grant } of this.#waiting) {
      if (!this.#grants(bytes)) break;
      granted += 1;
      grant();
    }
    if (granted === 0) return;
    this.#waiting.splice(0, granted);
    this.#schedule();
  };
}

/** The budget of answers. There is one per process, because the process has one event loop. */
export const ANSWERS: LoopBudget = new LoopBudget();
/** The budget of request bodies. It is separate, so that a message never waits behind a thousand readers. */
export const BODIES: LoopBudget = new LoopBudget();
