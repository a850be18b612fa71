/**
 * Follows, in the log of a session, which of its children work and which wait. For a session that is a child, it checks
 * that the session works only while it has one of the `subagents.maxActive` places (I27 of `invariants.ts`).
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
  /** The fewest children that were at work when a transition ended while another child waited. */
  fewest: number = Number.POSITIVE_INFINITY;
  readonly #atWork = new Set<string>();
  #waiting: string[] = [];
  /** How often the log says that each child works again after an end. */
  readonly #revivals = new Map<string, number>();
  /** True if the session itself, as a child, has a place. */
  #hasPlace = true;
  /** The half-step that the session itself, as a child, claimed without a place. */
  #outOfPlace: number | undefined;

  /** Takes a record of the session, as a parent and as a child. */
  note(session: string, record: SessionRecord): LineFault | undefined {
    const fault = this.#noteAsParent(session, record) ?? this.#noteAsChild(session, record);
    this.most = Math.max(this.most, this.#atWork.size);
    return fault;
  }

  #noteAsParent(parent: string, record: SessionRecord): LineFault | undefined {
    switch (record.type) {
      case 'spawned':
        return this.#comes(parent, record.child, record.queued === true);
      case 'childRevived': {
        const isOpen = this.waits(record.child) || this.#atWork.has(record.child);
        this.#revivals.set(record.child, this.revivals(record.child) + 1);
        const fault = this.#comes(parent, record.child, record.queued === true);
        return isOpen ? faultOf(parent, record.child, 'works again before it has ended') : fault;
      }
      case 'childStarted': {
        const fault = this.#waiting[0] === record.child ? undefined : 'starts before its turn';
        this.#leaves(record.child);
        this.#atWork.add(record.child);
        return fault && faultOf(parent, record.child, fault);
      }
      case 'childExited': {
        const isFirst = this.revivals(record.child) === 0;
        const isEarly = isFirst && record.reason === 'completed' && this.waits(record.child);
        this.#leaves(record.child);
        this.#atWork.delete(record.child);
        return isEarly ? faultOf(parent, record.child, 'has done its task before its turn') : undefined;
      }
      default:
        return undefined;
    }
  }

  /** Notes a child that comes: the child gets a place, or waits behind the others. */
  #comes(parent: string, child: string, isQueued: boolean): LineFault | undefined {
    if (isQueued) {
      this.#waiting.push(child);
      return undefined;
    }
    this.#atWork.add(child);
    return this.#waiting.length === 0 ? undefined : faultOf(parent, child, 'does not wait behind the others');
  }

  #leaves(child: string): void {
    this.#waiting = this.#waiting.filter((each) => each !== child);
  }

  #noteAsChild(child: string, record: SessionRecord): LineFault | undefined {
    if (record.type === 'created') this.#hasPlace = record.queued !== true;
    else if (record.type === 'started') this.#hasPlace = true;
    else if (record.type === 'exited') this.#hasPlace = false;
    else if (record.type === 'claimed') this.#outOfPlace = this.#hasPlace ? undefined : record.halfStep;
    // A turn that is claimed only so that it can be cancelled asks no model, so the claim alone is no fault.
    const isWork = record.type === 'responded' && record.halfStep === this.#outOfPlace;
    return isWork ? { kind: 'reordered', what: `${child} works without a place (I27)` } : undefined;
  }

  /** True if the child waits for a place. */
  waits(child: string): boolean {
    return this.#waiting.includes(child);
  }

  /** How often the log says that the child works again after an end. */
  revivals(child: string): number {
    return this.#revivals.get(child) ?? 0;
  }

  /** Notes the end of a transition. A place may be free within a transition, but not at its end while a child waits. */
  endTransition(): void {
    if (this.#waiting.length > 0) this.fewest = Math.min(this.fewest, this.#atWork.size);
  }
}

/** The ends of a child that its spawner may receive: all up to and including the first with the reason `completed`. */
export function endsOf<End extends { readonly reason: string }>(exits: readonly End[]): readonly End[] {
  const first = exits.findIndex(({ reason }) => reason === 'completed');
  return first === -1 ? exits : exits.slice(0, first + 1);
}

function faultOf(parent: string, child: string, what: string): LineFault {
  return { kind: 'reordered', what: `${child} of ${parent} ${what} (I27)` };
}
