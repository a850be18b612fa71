/** What a planted bug is, and how it is put into a source text. The product knows nothing of this. */

/** One mistake a programmer might make: where, and what stands there instead. */
export interface PlantedBug {
  /** Kebab-case; the value of `TROUPE_PLANTED`. */
  readonly name: string;
  /** The mistake in words. */
  readonly what: string;
  /** The file, from the root of the package. */
  readonly file: string;
  /** Text that stands in the file exactly once. */
  readonly find: string;
  /** What stands there in its place. */
  readonly replace: string;
}

/** Name of the global a planted module sets when it is loaded: the hunt looks whether its bug is really there. */
export const PLANTED_MARK = 'troupe.planted';

/** The source with the bug in it. Throws an `Error` when its text is not found exactly once, or changes nothing. */
export function plant(source: string, bug: PlantedBug): string {
  const places = source.split(bug.find).length - 1;
  if (places !== 1) throw new Error(`planted bug ${bug.name}: its text stands ${places} times in ${bug.file}`);
  if (bug.find === bug.replace) throw new Error(`planted bug ${bug.name} changes nothing`);
  const mark = `\nReflect.set(globalThis, Symbol.for('${PLANTED_MARK}'), '${bug.name}');\n`;
  return source.replace(bug.find, () => bug.replace) + mark;
}
