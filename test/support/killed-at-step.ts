/** Ends this process with SIGKILL at one of its changes of the file system. Import it before the code under test runs. */
import { watchSteps } from '../sweep/files/file-steps.ts';

let passed = 0;

/** Kills the process before its `step`-th change from now on, counted from 0. */
export function killAtStep(step: number): void {
  passed = 0;
  watchSteps(() => {
    if (passed === step) process.kill(process.pid, 'SIGKILL');
    passed += 1;
  });
}

/** Ends the counting: the process survives. Returns the number of changes since `killAtStep`. */
export function survive(): number {
  watchSteps(undefined);
  return passed;
}
