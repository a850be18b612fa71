/**
 * The flags of Node for the threads and child processes of this process. Flags that are only about the main program are
 * left out: with `--input-type`, Node refuses a thread's entry file; with `--eval`, a child process runs the program
 * again.
 */

/** Flags about the main program. The value is true if the next argument belongs to the flag. */
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
 * Flags that Node accepts in the `execArgv` of a thread. The value is true if the next argument belongs to the flag.
 * Node refuses all other flags there: flags of the process and of V8, which apply to every thread anyway.
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

/** Flags for a child process: those of this process (`flags`) that are not about its main program. Never throws. */
export function childFlags(flags: readonly string[] = process.execArgv): readonly string[] {
  return split(flags, MAIN_ONLY).others;
}

/**
 * The `execArgv` of a new thread. Undefined if the thread can inherit all flags of this process (`flags`), as it does
 * by default. Never throws.
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
