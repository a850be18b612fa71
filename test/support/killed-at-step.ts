/** Ends this process with SIGKILL at one of its changes of the file system. Import it before the code under test runs. */
import fs from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** Functions that change names or contents on a disk, or wait for a disk. */
const SYNC = ['renameSync', 'rmSync', 'mkdirSync', 'openSync', 'fsyncSync', 'linkSync'] as const;
const ASYNC = ['rename', 'rm', 'mkdir', 'open', 'copyFile', 'chmod'] as const;

let countdown = Number.POSITIVE_INFINITY;
let passed = 0;

/** Kills the process before its `step`-th change from now on, counted from 0. */
export function killAtStep(step: number): void {
  countdown = step;
  passed = 0;
}

/** Ends the counting: the process survives. Returns the number of changes since `killAtStep`. */
export function survive(): number {
  countdown = Number.POSITIVE_INFINITY;
  return passed;
}

function passStep(): void {
  if (countdown === 0) process.kill(process.pid, 'SIGKILL');
  countdown -= 1;
  passed += 1;
}

function patch(target: object, name: string): void {
  const original: unknown = Reflect.get(target, name);
  if (typeof original !== 'function') throw new Error(`there is no ${name}`);
  Reflect.set(target, name, (...given: readonly unknown[]): unknown => {
    passStep();
    return Reflect.apply(original, target, [...given]);
  });
}

for (const name of SYNC) patch(fs, name);
for (const name of ASYNC) patch(promises, name);
syncBuiltinESMExports();
