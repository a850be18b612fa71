/** A word that marks raw content, and functions that find it in an event. */

/** The marker; it occurs in no name, id or text of the library. */
export const MARKER = 'xyzzy-raw-content';

/** True if the word occurs anywhere in a value. */
export function holdsMarker(value: unknown): boolean {
  return (JSON.stringify(value) ?? '').includes(MARKER);
}

/** A value without its parts under `rendered`, at any depth. */
export function outsideRendered(value: unknown): unknown {
  if (value === undefined) return undefined;
  return JSON.parse(JSON.stringify(value, (name, member: unknown) => (name === 'rendered' ? undefined : member)));
}

/** The parts under `rendered` in a value, at any depth. */
export function cellsIn(value: unknown): readonly unknown[] {
  const cells: unknown[] = [];
  JSON.stringify(value ?? null, (name, member: unknown) => {
    if (name !== 'rendered') return member;
    cells.push(member);
    return undefined;
  });
  return cells;
}
