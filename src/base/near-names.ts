/** Finds the known names that a wrong name probably means, and words the hint in an error. Pure. */
import { NAME_EDITS_MAX, NAMES_LISTED_MAX } from './bounds.ts';

/** Most characters of a name that are compared. */
const COMPARED_CHARACTERS_MAX = 64;

/**
 * The end of an error about an unknown name: a suggestion, if a known name is similar, and the list of known names.
 * `kind`: a plural noun for the names, such as `agents`. `form`: how a name is written.
 */
export function namesHint(
  wanted: string,
  names: Iterable<string>,
  kind: string,
  form: (name: string) => string = JSON.stringify,
): string {
  const known = [...new Set(names)].sort();
  const near = nearestName(wanted, known);
  const meant = near === undefined ? '' : `; did you mean ${form(near)}?`;
  if (known.length === 0) return `${meant}; there are no ${kind}`;
  return `${meant === '' ? '; known' : `${meant} Known`} ${kind}: ${listed(known, form)}`;
}

/** Names as an error lists them: ascending, at most `NAMES_LISTED_MAX`, then the number of the others. */
export function listed(names: Iterable<string>, form: (name: string) => string = JSON.stringify): string {
  const sorted = [...new Set(names)].sort();
  const others = sorted.length - NAMES_LISTED_MAX;
  return `${sorted.slice(0, NAMES_LISTED_MAX).map(form).join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}

/**
 * The name that differs least from `wanted`, if it is similar. A name is similar if it begins with `wanted`, or if few
 * edits turn `wanted` into it: at most `NAME_EDITS_MAX`, and at most half its length. Letter case does not count.
 */
export function nearestName(wanted: string, names: Iterable<string>): string | undefined {
  let best: { readonly name: string; readonly edits: number } | undefined;
  for (const name of names) {
    const edits = editsTo(wanted, name);
    if (edits <= editsMax(name) && edits < (best?.edits ?? Number.POSITIVE_INFINITY)) best = { name, edits };
  }
  return best?.name;
}

/** The names that differ least from `wanted`, whether or not they are similar. */
export function nearestNames(wanted: string, names: Iterable<string>, count: number): readonly string[] {
  return [...names]
    .map((name) => ({ name, edits: editDistance(wanted.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)
    .slice(0, count)
    .map(({ name }) => name);
}

function editsTo(wanted: string, name: string): number {
  const [a, b] = [wanted.toLowerCase(), name.toLowerCase()];
  return b !== a && b.startsWith(a) && a.length > 1 ? Math.min(1, editsMax(name)) : editDistance(a, b);
}

function editsMax(name: string): number {
  return Math.min(NAME_EDITS_MAX, Math.floor(name.length / 2));
}

/** The number of letters to add, remove, replace, or swap with the next one. */
function editDistance(left: string, right: string): number {
  const a = left.slice(0, COMPARED_CHARACTERS_MAX);
  const b = right.slice(0, COMPARED_CHARACTERS_MAX);
  let before: readonly number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? (before[j - 2] ?? 0) + 1 : substitution;
      row.push(Math.min(substitution, swap, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    before = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}
