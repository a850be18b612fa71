/**
 * The lease of this node, in memory that its threads share. The cluster thread writes it. Session threads read it
 * before they acknowledge a commit or begin a call. A node **believes** in its lease while it works without asking the
 * database whether the lease still holds.
 *
 * Invariants:
 *  LE1 while the node believes in its lease, the lease holds in the database. The node believes in it for a share of
 *     its time (`LEASE_BELIEVED_SHARE`), counted from a moment before the renewal was sent. Two clocks measure this
 *     time, and the first one at which it has passed counts. The monotonic clock stands still while a machine is
 *     suspended, and the wall clock may be set back;
 *  LE2 a lost lease never becomes valid again.
 */
import { LEASE_BELIEVED_SHARE, LEASE_LOOK_MS } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';

const MONOTONIC = 0;
const WALL = 1;
const LOST = 2;
const PLACES = 3;

/** A moment on both clocks. */
export interface LeaseMoment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** The parts of a clock that a lease reads. */
type LeaseClock = Pick<Clock, 'now' | 'monotonic' | 'setTimer'>;

/** Makes the memory of a lease that is not held yet. */
export function createLeaseMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(PLACES * BigInt64Array.BYTES_PER_ELEMENT);
}

/** See the head of this file. */
export class Lease {
  readonly #values: BigInt64Array;
  readonly #clock: LeaseClock;

  constructor(memory: SharedArrayBuffer, clock: LeaseClock = systemClock) {
    this.#values = new BigInt64Array(memory);
    this.#clock = clock;
  }

  /** The present moment, taken before a renewal is sent. */
  moment(): LeaseMoment {
    return { monotonicMs: this.#clock.monotonic(), wallMs: this.#clock.now() };
  }

  /** Notes that the database granted the lease for `leaseMs`, in answer to a request sent after this moment. */
  granted({ monotonicMs, wallMs }: LeaseMoment, leaseMs: number): void {
    const believedMs = leaseMs * LEASE_BELIEVED_SHARE;
    Atomics.store(this.#values, MONOTONIC, BigInt(Math.floor(monotonicMs + believedMs)));
    Atomics.store(this.#values, WALL, BigInt(Math.floor(wallMs + believedMs)));
  }

  /** Notes that another node may have the shards of this node (LE2). */
  lose(): void {
    Atomics.store(this.#values, LOST, 1n);
  }

  get isLost(): boolean {
    return Atomics.load(this.#values, LOST) === 1n;
  }

  /** Milliseconds for which the node believes in the lease from now on, without another renewal; 0 if it does not. */
  get leftMs(): number {
    if (this.isLost) return 0;
    const monotonicMs = Number(Atomics.load(this.#values, MONOTONIC)) - this.#clock.monotonic();
    const wallMs = Number(Atomics.load(this.#values, WALL)) - this.#clock.now();
    return Math.max(0, Math.min(monotonicMs, wallMs));
  }

  /** True if this node may acknowledge commits and begin calls. */
  get isValid(): boolean {
    return this.leftMs > 0;
  }

  /** Resolves to true as soon as the lease is valid, and to false when it is lost or `waitMs` have passed. */
  async whenValid(waitMs: number): Promise<boolean> {
    const deadlineMs = this.#clock.monotonic() + waitMs;
    while (!this.isValid) {
      if (this.isLost || this.#clock.monotonic() >= deadlineMs) return false;
      await new Promise<void>((resolve) => {
        this.#clock.setTimer(resolve, LEASE_LOOK_MS);
      });
    }
    return true;
  }
}
