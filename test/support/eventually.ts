/** Number of checks in successive ticks; between later checks other processes get the processor. */
const EAGER_LOOKS = 100;
/** The longest wait between two checks, in milliseconds. */
const WAIT_MAX_MS = 20;

/** Waits until `isMet`. It has no time limit: a condition that never holds makes the test exceed its own limit. */
export async function eventually(isMet: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; ; looks += 1) {
    const begun = performance.now();
    if (await isMet()) return;
    // The work that the test waits for needs the processor more than the checks do.
    const waitMs = Math.min(WAIT_MAX_MS, Math.max(1, 3 * (performance.now() - begun)));
    await new Promise<void>((resolve) => {
      if (looks < EAGER_LOOKS) setImmediate(resolve);
      else setTimeout(resolve, waitMs);
    });
  }
}
