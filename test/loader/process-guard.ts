/**
 * Test files share a process, so each must leave it as it found it: after a faked timer that stays, later files wait
 * for ever. The file that left something fails, with the name of what it left.
 */
import { afterAll, expect, vi } from 'vitest';

/** These belong to the whole process, and tests replace them. */
const GLOBALS = [
  ...(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate'] as const),
  ...(['queueMicrotask', 'Date', 'fetch'] as const),
];

const before = processNow();

afterAll(() => {
  // Vitest does this after each file, and a spy on a faked timer then puts the faked timer back.
  vi.restoreAllMocks();
  const now = processNow();
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  const left = [...names].filter((name) => before[name] !== now[name]);
  expect(left, 'this file left these changed in the process that later files share').toEqual([]);
});

function processNow(): Readonly<Record<string, unknown>> {
  return {
    ...process.env,
    ...Object.fromEntries(GLOBALS.map((name) => [name, globalThis[name]])),
    'performance.now': performance.now,
    'process.cwd()': process.cwd(),
    'process.umask()': process.umask(),
  };
}
