/** Random numbers that are the same in every run. */

const MULTIPLIER = 1_664_525;
const INCREMENT = 1_013_904_223;
const MODULUS = 2 ** 32;

/**
 * Whole numbers from 0 below `bound`, of a linear congruential generator. They use its high bits, which are more random
 * than the low ones.
 */
export function randomNumbers(seed: number): (bound: number) => number {
  let state = seed % MODULUS;
  return (bound) => {
    state = (Math.imul(state, MULTIPLIER) + INCREMENT) >>> 0;
    return Math.floor((state / MODULUS) * bound);
  };
}
