/** The seed of all random tests. It is fixed, so that a test fails because of a change and not by chance. */
import fc from 'fast-check';

/** `TROUPE_SEED` explores other cases: `TROUPE_SEED=$RANDOM npm test`. */
export const SEED: number = Number(process.env['TROUPE_SEED'] ?? 1);

fc.configureGlobal({ seed: SEED });
