/**
 * Follows in a session's log which of its children work and which wait for a place (I27 of `invariants.ts`).
 *
 * Owns: the working and the waiting children, counted apart from the session's own state. Does not own: the log.
 */
import type { SessionRecord } from '../../../session/state/records.ts';

/** A broken rule of a log. */
export interface LineFault {
  readonly kind: 'reordered';
  readonly what: string;
}

/** See the head of the file. */
export class SpawnLine {
  /** Most children at work at once. */
  most = 0;
  /** Fewest children at work after a transition that left one waiting. */
  fewest: number = Number.POSITIVE_INFINITY;
  readonly #atWork = new Set<string>();
  #waiting: string[] = [];

  /** Takes the next record of the parent. */
  note(parent: string, record: SessionRecord): LineFault | undefined {
    let fault: LineFault | undefined;
    if (record.type === 'spawned') {
      if (record.queued === true) this.#waiting.push(record.child);
      else if (this.#waiting.length > 0) fault = faultOf(parent, record.child, 'does not wait behind the others');
      if (record.queued !== true) this.#atWork.add(record.child);
    } else if (record.type === 'childStarted') {
      if (this.#waiting[0] !== record.child) fault = faultOf(parent, record.child, 'starts before its turn');
      this.#waiting = this.#waiting.filter((child) => child !== record.child);
      this.#atWork.add(record.child);
    } else if (record.type === 'childExited') {
      const isEarly = record.reason === 'completed' && this.waits(record.child);
      if (isEarly) fault = faultOf(parent, record.child, 'has done its task before its turn');
      this.#waiting = this.#waiting.filter((child) => child !== record.child);
      this.#atWork.delete(record.child);
    }
    this.most = Math.max(this.most, this.#atWork.size);
    return fault;
  }

  /** True if the child waits for a place. */
  waits(child: string): boolean {
    return this.#waiting.includes(child);
  }

  /** Called at the end of a transition. Only then must each free place be taken. */
  endTransition(): void {
    if (this.#waiting.length > 0) this.fewest = Math.min(this.fewest, this.#atWork.size);
  }
}

function faultOf(parent: string, child: string, what: string): LineFault {
  return { kind: 'reordered', what: `${child} of ${parent} ${what} (I27)` };
}
