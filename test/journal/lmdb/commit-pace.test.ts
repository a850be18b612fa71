// Goal: commits run on the session thread only while they are short there, and move to the writer thread when they are
// not. Pure.
import { expect, test } from 'vitest';
import { COMMIT_HERE_BYTES_MAX, COMMIT_HERE_MS_MAX } from '../../../src/base/bounds.ts';
import { CommitPace } from '../../../src/journal/lmdb/commit-pace.ts';

const QUICK_MS = COMMIT_HERE_MS_MAX / 4;
const SLOW_MS = COMMIT_HERE_MS_MAX * 4;

/** A pace that has measured a fast device. */
function quickPace(): CommitPace {
  const pace = new CommitPace();
  for (let commit = 0; commit < 10; commit += 1) pace.tookThere(100, QUICK_MS);
  return pace;
}

test('P2: no commit runs on this thread before fast commits were seen on the writer thread', () => {
  const pace = new CommitPace();
  expect(pace.isHere(1)).toBe(false);
  for (let commit = 0; commit < 100; commit += 1) pace.tookThere(100, SLOW_MS);
  expect(pace.isHere(1)).toBe(false);
  for (let commit = 0; commit < 100; commit += 1) pace.tookThere(COMMIT_HERE_BYTES_MAX + 1, QUICK_MS);
  expect(pace.isHere(1)).toBe(false);
  expect(quickPace().isHere(1)).toBe(true);
});

test('P1: a large commit never runs on this thread', () => {
  const pace = quickPace();
  expect(pace.isHere(COMMIT_HERE_BYTES_MAX)).toBe(true);
  expect(pace.isHere(COMMIT_HERE_BYTES_MAX + 1)).toBe(false);
});

/** Runs slow commits here, one after another, until they move to the writer thread. */
function slowDown(pace: CommitPace): number {
  let slow = 0;
  for (; pace.isHere(1); slow += 1) pace.tookHere(SLOW_MS);
  return slow;
}

test('P2: an occasional slow commit changes nothing', () => {
  const pace = quickPace();
  for (let commit = 0; commit < 10_000; commit += 1) pace.tookHere(commit % 20 === 0 ? SLOW_MS : QUICK_MS);
  expect(pace.isHere(1)).toBe(true);
});

test('P2: after slow commits on this thread, a bounded number of commits run on the writer thread', () => {
  const pace = quickPace();
  expect(slowDown(pace)).toBeLessThan(5);
  let away = 0;
  while (!pace.isHere(1)) {
    away += 1;
    pace.tookThere(100, QUICK_MS);
  }
  expect(away).toBeGreaterThan(100);
  expect(away).toBeLessThan(1_000);
});

test('P2: while a device stays slow its commits run on the writer thread', () => {
  const pace = quickPace();
  slowDown(pace);
  for (let commit = 0; commit < 10_000; commit += 1) pace.tookThere(100, SLOW_MS);
  expect(pace.isHere(1)).toBe(false);
});
