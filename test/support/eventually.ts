/** Number of checks in successive ticks; between later checks other processes get the processor. */
const EAGER_LOOKS = 100;

/** Waits until `isMet`. It has no time limit: a condition that never holds makes the test exceed its own limit. */
export async function eventually(isMet: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await isMet()); looks += 1) {
    await new Promise<void>((resolve) => {
      if (looks < EAGER_LOOKS) setImmediate(resolve);
      else setTimeout(resolve, 1);
    });
  }
}
