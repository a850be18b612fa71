/**
 * Large pieces of work of the host, in line. What sockets are given and what is encoded or parsed for them is bounded in bytes in one
 * turn of the loop, for the whole process: a socket whose buffer has room takes what it is given at once, so that fifty answers of a
 * megabyte would hold up everything else, health checks too.
 *
 * Owns: how many bytes are left of this turn, and who waits for a later one. Does not own: the work, nor the loop: answers and bodies
 * have a budget each.
 *  B1 at most `LOOP_BYTES_MAX` are granted in one turn, or one piece alone; small work does not ask;
 *  B2 who waits is granted in the order it asked, and nobody who asks meanwhile comes before;
 *  B3 nothing is scheduled while nothing was granted and nobody waits.
 */
import { LOOP_BYTES_MAX } from '../base/bounds.ts';
import { soon as nextTurn, type Soon } from '../base/clock.ts';

interface Waiting {
  readonly bytes: number;
  readonly grant: () => void;
}

/** See the head of the file. */
export class LoopBudget {
  readonly #bytesMax: number;
  readonly #soon: Soon;
  #left: number;
  #waiting: Waiting[] = [];
  #isScheduled = false;

  constructor(bytesMax: number = LOOP_BYTES_MAX, soon: Soon = nextTurn) {
    this.#bytesMax = bytesMax;
    this.#left = bytesMax;
    this.#soon = soon;
  }

  /** Takes bytes of this turn; a promise of a later turn where this one has no room for them. */
  take(bytes: number): Promise<void> | undefined {
    this.#schedule();
    if (this.#waiting.length === 0 && this.#grants(bytes)) return undefined;
    return new Promise((grant) => this.#waiting.push({ bytes, grant }));
  }

  #grants(bytes: number): boolean {
    if (bytes > this.#left && this.#left < this.#bytesMax) return false;
    this.#left -= bytes;
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#soon(this.#nextTurn);
  }

  #nextTurn = (): void => {
    this.#isScheduled = false;
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

/** What answers cost, of the process: its loop is one. */
export const ANSWERS: LoopBudget = new LoopBudget();
/** What the bodies of requests cost. By itself: a message must not wait behind a thousand readers. */
export const BODIES: LoopBudget = new LoopBudget();
