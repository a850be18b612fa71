/** Computes how long a supervisor waits before it restarts a child after a transient fault. Pure. */
import { growingWait } from '../../src/base/growing-wait.ts';
import type { Backoff } from './supervisor-options.ts';

/**
 * Milliseconds to wait before the restart after the `attempt`-th transient fault in a row (from 1). The jitter is
 * derived from the child's id and the attempt. So equal inputs give equal decisions, but children that failed together
 * restart at different times.
 */
export function backoffMs(backoff: Backoff, id: string, attempt: number): number {
  const { minMs: first, maxMs: longest, factor } = backoff;
  const full = growingWait(attempt, { first, longest, factor });
  const share = hashText(`${id}#${attempt}`) / 2 ** 32;
  return Math.round(full * (1 - backoff.jitter * share));
}

/**
 * A hash of a text: FNV-1a over the UTF-16 units, an unsigned 32-bit number. The hash spreads values; it is not secure.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  // Mixes once more, so that every unit affects all bits. The table of children uses the low bits, the jitter all.
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
