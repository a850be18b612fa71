/** Latencies of the drawn fan-out. They follow from the numbers of a question, so threads need no common state. */

/** Shortest and longest, ms: a model far quicker than a real one, and a tool that asks another service. */
export const MODEL_MS: readonly [number, number] = [80, 240];
export const TOOL_MS: readonly [number, number] = [10, 40];

/** Maps whole numbers into a range; the same number always gives the same latency. */
export function latencyOf(seed: number, [least, most]: readonly [number, number]): number {
  // Knuth's multiplicative hash puts neighbours far apart.
  const hash = Math.imul(seed + 1, 2_654_435_761) >>> 0;
  return least + (hash / 2 ** 32) * (most - least);
}
