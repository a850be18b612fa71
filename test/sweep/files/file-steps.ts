/**
 * Reports each change of the file system by this process before it happens. Import it before the code under test runs.
 * LMDB's own writes are not reported.
 */
import fs from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** Functions that change names or contents on a disk, or wait for a disk. */
const SYNC = ['renameSync', 'rmSync', 'mkdirSync', 'openSync', 'fsyncSync', 'linkSync'] as const;
const ASYNC = ['rename', 'rm', 'mkdir', 'open', 'copyFile', 'chmod'] as const;
/** The same for an open file. */
const HANDLE = ['sync', 'write', 'writeFile'] as const;

/** Called before a change, with its path and the name of the function. An error that it throws is the result of the change. */
export type StepListener = (path: string, operation: string) => void;

let listener: StepListener | undefined;

/** Replaces the listener. `undefined`: nothing is reported any more. */
export function watchSteps(next: StepListener | undefined): void {
  listener = next;
}

function patchSync(name: string): void {
  patch(fs, name, (original, given) => {
    listener?.(String(given[0]), name);
    return original(...given);
  });
}

function patchAsync(name: string): void {
  patch(promises, name, async (original, given) => {
    const path = String(given[0]);
    listener?.(path, name);
    const result = await original(...given);
    if (name === 'open' && typeof result === 'object' && result !== null) watchHandle(result, path);
    return result;
  });
}

function watchHandle(handle: object, path: string): void {
  for (const name of HANDLE) {
    patch(handle, name, async (original, given) => {
      listener?.(path, name);
      return original.apply(handle, [...given]);
    });
  }
}

type Call = (...given: readonly unknown[]) => unknown;

function patch(target: object, name: string, call: (original: Call, given: readonly unknown[]) => unknown): void {
  const original: unknown = Reflect.get(target, name);
  if (typeof original !== 'function') throw new Error(`there is no ${name}`);
  Reflect.set(target, name, (...given: readonly unknown[]) => call(original as Call, given));
}

for (const name of SYNC) patchSync(name);
for (const name of ASYNC) patchAsync(name);
syncBuiltinESMExports();
