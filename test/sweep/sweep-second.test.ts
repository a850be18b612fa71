/** The second half of the scenarios of `sweep-first.test.ts`. */
import { sweepHalf } from './sweep-files.ts';

sweepHalf(1);
