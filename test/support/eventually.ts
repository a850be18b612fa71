/** Looks made a turn of the loop apart, before the machine is left to those that are waited for. */
const EAGER_LOOKS = 100;

/** Waits until `isMet`. It has no bound of its own: what never comes is a test that takes too long. */
export async function eventually(isMet: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await isMet()); looks += 1) {
    await new Promise<void>((resolve) => {
      if (looks < EAGER_LOOKS) setImmediate(resolve);
      else setTimeout(resolve, 1);
    });
  }
}
