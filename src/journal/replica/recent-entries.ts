/**
 * The newest commits of a shard, in memory. If the shard's log is set back to an earlier state, the shard appends these
 * commits again. Their number and their bytes are bounded; the oldest commits are dropped.
 */
import { LOG_RING_BYTES_MAX, LOG_RING_ENTRIES_MAX } from '../../base/bounds.ts';
import type { LogEntry } from './shard-log.ts';

/** See the head of this file. */
export class RecentEntries {
  readonly #entries = new Map<number, LogEntry>();
  #bytes = 0;

  add(entry: LogEntry): void {
    this.#bytes += entry.bytes.length - (this.#entries.get(entry.number)?.bytes.length ?? 0);
    this.#entries.set(entry.number, entry);
    for (const [number, { bytes }] of this.#entries) {
      if (this.#bytes <= LOG_RING_BYTES_MAX && this.#entries.size <= LOG_RING_ENTRIES_MAX) return;
      this.#entries.delete(number);
      this.#bytes -= bytes.length;
    }
  }

  /** The entries from `first` to `last`; undefined if one of them is not there any more. */
  between(first: number, last: number): readonly LogEntry[] | undefined {
    const found: LogEntry[] = [];
    for (let number = first; number <= last; number += 1) {
      const entry = this.#entries.get(number);
      if (entry === undefined) return undefined;
      found.push(entry);
    }
    return found;
  }
}
