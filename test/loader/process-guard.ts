/**
 * Test files share a process, so each must leave it as it found it: after a faked timer that stays, later files wait
 * for ever. The file that left something fails, with the name of what it left.
 */
import { afterAll, expect, vi } from 'vitest';

const before = globalsNow();

afterAll(() => {
  // Vitest does this after each file, and a spy on a faked timer then puts the faked timer back.
  vi.restoreAllMocks();
  const now = globalsNow();
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  const left = [...names].filter((name) => before[name] !== now[name]);
  expect(left, 'this file left these changed in the process that later files share').toEqual([]);
});

function globalsNow(): Readonly<Record<string, unknown>> {
  const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = globalThis;
  const { Date, fetch, queueMicrotask } = globalThis;
  const timers = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate };
  const process_ = { 'the directory': process.cwd(), 'the umask': process.umask() };
  return { ...process.env, ...timers, ...process_, Date, fetch, queueMicrotask, 'performance.now': performance.now };
}
