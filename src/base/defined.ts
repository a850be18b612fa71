/**
 * Keeps only the members of an object that have a value. The compiler option `exactOptionalPropertyTypes` requires that
 * an optional member is absent, not undefined.
 */

/** A copy without the members that are undefined, in the order given. */
export function defined<T extends object>(members: T): { readonly [Key in keyof T]?: Exclude<T[Key], undefined> } {
  const found = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(found) as { readonly [Key in keyof T]?: Exclude<T[Key], undefined> };
}
