/**
 * Goal: whatever operation of the store fails, and however it fails, the same story comes to the same end (T2). Method: see
 * `sweep.ts`. This is the first half of the scenarios.
 */
import { sweepHalf } from './sweep-files.ts';

sweepHalf(0);
