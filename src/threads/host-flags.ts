/**
 * The flags of Node that this process's threads and child processes start with. Some flags are about the main program
 * only: with `--input-type`, Node refuses a thread's entry file; with `--eval`, a child process runs the program again.
 */

/** Flags about the main program, each with true if the next argument is its value. */
const MAIN_ONLY: ReadonlyMap<string, boolean> = new Map([
  ['--input-type', true],
  ['-e', true],
  ['--eval', true],
  ['-p', true],
  ['--print', true],
  ['-pe', true],
  ['-c', false],
  ['--check', false],
  ['-i', false],
  ['--interactive', false],
  ['--test', false],
  ['--watch', false],
]);

/**
 * Flags that a thread may be given one by one, each with true if the next argument is its value. Node refuses others:
 * those of the whole process, and those of V8. They apply to each thread without being given.
 */
const PER_THREAD: ReadonlyMap<string, boolean> = new Map([
  ['--import', true],
  ['-r', true],
  ['--require', true],
  ['--loader', true],
  ['--experimental-loader', true],
  ['-C', true],
  ['--conditions', true],
  ['--disable-warning', true],
  ['--no-warnings', false],
  ['--enable-source-maps', false],
  ['--preserve-symlinks', false],
  ['--experimental-strip-types', false],
  ['--experimental-transform-types', false],
]);

/** Flags for a child process: those of this process (`flags`), without those about its main program. Never throws. */
export function childFlags(flags: readonly string[] = process.execArgv): readonly string[] {
  return split(flags, MAIN_ONLY).others;
}

/**
 * Flags for a new thread. Undefined if the thread can inherit those of this process (`flags`), which is all of them, as
 * Node does it. Never throws.
 */
export function threadFlags(flags: readonly string[] = process.execArgv): readonly string[] | undefined {
  const { listed, others } = split(flags, MAIN_ONLY);
  return listed.length === 0 ? undefined : split(others, PER_THREAD).listed;
}

/** Separates the listed flags, with their values, from the others. */
function split(
  flags: readonly string[],
  list: ReadonlyMap<string, boolean>,
): { readonly listed: readonly string[]; readonly others: readonly string[] } {
  const listed: string[] = [];
  const others: string[] = [];
  let takesNext = false;
  for (const flag of flags) {
    const isValue: boolean = takesNext && !flag.startsWith('--');
    const [name = ''] = flag.split('=', 1);
    const isListed: boolean = isValue || (flag.startsWith('-') && list.has(name));
    (isListed ? listed : others).push(flag);
    takesNext = !isValue && isListed && list.get(name) === true && name === flag;
  }
  return { listed, others };
}
