/** Latencies of the drawn fan-out: by the numbers of a question, so that model threads and tool threads need no common state. */

/** Shortest and longest, ms: a small model, far quicker than a real one, and a tool that asks a neighbour. */
export const MODEL_MS: readonly [number, number] = [80, 240];
export const TOOL_MS: readonly [number, number] = [10, 40];

/** Spreads whole numbers over a range, the same number always to the same place. */
export function latencyOf(seed: number, [least, most]: readonly [number, number]): number {
  // Knuth's multiplicative hash: neighbours come to lie far apart.
  const hash = Math.imul(seed + 1, 2_654_435_761) >>> 0;
  return least + (hash / 2 ** 32) * (most - least);
}
