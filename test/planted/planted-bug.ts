/** The form of a planted bug, and how it is put into a source text. The product does not know about it. */

/** One mistake a programmer might make: its location and its text. */
export interface PlantedBug {
  /** Kebab-case; the value of `TROUPE_PLANTED`. */
  readonly name: string;
  /** A description of the mistake. */
  readonly what: string;
  /** The file, from the root of the package. */
  readonly file: string;
  /** Text that occurs in the file exactly once. */
  readonly find: string;
  /** The text that replaces it. */
  readonly replace: string;
  /** The simulation that finds it; missing: that of a single machine. */
  readonly simulation?: 'cluster';
}

/**
 * Name of the global that a planted module sets when it is loaded. The hunt uses this name to check that its bug is in
 * place.
 */
export const PLANTED_MARK = 'troupe.planted';

/** The source with the bug in it. Throws an `Error` when its text does not occur exactly once, or changes nothing. */
export function plant(source: string, bug: PlantedBug): string {
  const places = source.split(bug.find).length - 1;
  if (places !== 1) throw new Error(`planted bug ${bug.name}: its text stands ${places} times in ${bug.file}`);
  if (bug.find === bug.replace) throw new Error(`planted bug ${bug.name} changes nothing`);
  const mark = `\nReflect.set(globalThis, Symbol.for('${PLANTED_MARK}'), '${bug.name}');\n`;
  return source.replace(bug.find, () => bug.replace) + mark;
}
