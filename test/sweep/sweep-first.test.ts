/**
 * Goal: the same story ends the same, whichever operation of the store fails, and however it fails (T2). Method: see
 * `sweep.ts`. This is the first half of the scenarios.
 */
import { sweepHalf } from './sweep-files.ts';

sweepHalf(0);
