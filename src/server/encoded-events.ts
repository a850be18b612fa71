/**
 * Encodes events into their wire form, once for all readers of a server.
 *
 * Owns: the most recent encodings. Does not own: events, their readers.
 *
 *  K1  All readers of one mode that read an event at about the same time get the same bytes. So the event is rendered
 *      and encoded once for these readers.
 *  K2  The kept bytes are bounded, and count in the budget of all readers (`reader-budget.ts`). If that budget is
 *      exceeded, it may have the kept bytes dropped.
 *  K3  A large event is encoded in a tick that has room for it (`loop-budget.ts`). All readers that wait for it get the
 *      same bytes.
 */
import { ENCODED_EVENTS_BYTES_MAX, LOOP_PIECE_BYTES_MIN } from '../base/bounds.ts';
import { type BudgetedReader, READERS } from '../events/reading/reader-budget.ts';
import { type ViewedEvent, viewEvent } from '../events/viewed-event.ts';
import type { SessionEvent, ViewMode } from '../index.ts';
import { textBytes } from '../runtime/host/request-line.ts';
import { ANSWERS, type LoopBudget } from './loop-budget.ts';

/** Encodings by mode; null if the mode leaves the event out. */
type Encodings = { [Mode in ViewMode]?: Uint8Array | null };

const encoder = new TextEncoder();

/** See the file header. */
export class EncodedEvents implements BudgetedReader {
  readonly #bytesMax: number;
  readonly #loop: LoopBudget;
  /** Ordered by first encoding, oldest first. */
  readonly #kept = new Map<SessionEvent, Encodings>();
  #bytes = 0;

  constructor(bytesMax: number = ENCODED_EVENTS_BYTES_MAX, loop: LoopBudget = ANSWERS) {
    this.#bytesMax = bytesMax;
    this.#loop = loop;
  }

  get held(): number {
    return this.#bytes;
  }

  giveUp(): void {
    this.#kept.clear();
    this.#hold(0);
  }

  /**
   * Returns the same as `bytesOf`. For a large event that is not encoded yet, it returns a promise that resolves in a
   * tick with room for the event (K3).
   */
  inTick(event: SessionEvent, mode: ViewMode): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    if (this.#kept.get(event)?.[mode] !== undefined) return this.bytesOf(event, mode);
    const bytes = textBytes(event);
    const turn = bytes < LOOP_PIECE_BYTES_MIN ? undefined : this.#loop.take(bytes);
    return turn === undefined ? this.bytesOf(event, mode) : turn.then(() => this.bytesOf(event, mode));
  }

  /** The wire form of an event in a mode; undefined if the mode does not show it. */
  bytesOf(event: SessionEvent, mode: ViewMode): Uint8Array | undefined {
    const known = this.#kept.get(event);
    const found = known?.[mode];
    if (found !== undefined) return found ?? undefined;
    const seen = viewEvent(event, mode);
    const bytes = seen === undefined ? null : encoder.encode(eventText(seen));
    if (known === undefined) this.#kept.set(event, { [mode]: bytes });
    else known[mode] = bytes;
    this.#add(bytes?.byteLength ?? 0);
    return bytes ?? undefined;
  }

  #add(bytes: number): void {
    let held = this.#bytes + bytes;
    for (const [event, encodings] of this.#kept) {
      if (held <= this.#bytesMax && this.#kept.size <= EVENTS_KEPT_MAX) break;
      this.#kept.delete(event);
      for (const each of Object.values(encodings)) held -= each?.byteLength ?? 0;
    }
    this.#hold(held);
  }

  #hold(bytes: number): void {
    const before = this.#bytes;
    this.#bytes = bytes;
    READERS.changed(this, before, bytes);
  }
}

/** Maximum number of events whose encodings are kept. Readers that keep up are at most a few hundred events apart. */
const EVENTS_KEPT_MAX = 4_096;

/** One event on the wire. JSON contains no raw line breaks, so the data is one line. */
export function eventText(event: SessionEvent | ViewedEvent): string {
  const id = event.seq === undefined ? '' : `id: ${event.seq}\n`;
  return `${id}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
