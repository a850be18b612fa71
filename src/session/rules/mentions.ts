/**
 * Finds the names that an answer addresses: `@name` outside of code and e-mail addresses (contract §7.6, Δ31). Pure.
 */

const CODE_FENCE = /(^|\n)(```|~~~)[\s\S]*?(\n\2|$)/g;
/** An `@` after a word character, a dot, a plus or a hyphen does not match, because `a@b` is an address. */
const MENTION = /(?<![\w.+-])@(\w[\w-]*)/g;

/** The names mentioned, each once. */
export function mentionedNames(text: string): ReadonlySet<string> {
  const prose = withoutCodeSpans(text.replace(CODE_FENCE, ' '));
  const names = new Set<string>();
  for (const match of prose.matchAll(MENTION)) if (match[1] !== undefined) names.add(match[1]);
  return names;
}

/**
 * The text without code spans, which are between two runs of equally many backticks. One pass from the end finds the
 * partner of each run. A separate search from each run would be quadratic in a text full of runs (F76).
 */
function withoutCodeSpans(text: string): string {
  const runs = [...text.matchAll(/`+/g)].map((match) => ({ at: match.index, length: match[0].length }));
  const nextOfLength = new Map<number, number>();
  const partners: (number | undefined)[] = [];
  for (let index = runs.length - 1; index >= 0; index -= 1) {
    const length = runs[index]?.length ?? 0;
    partners[index] = nextOfLength.get(length);
    nextOfLength.set(length, index);
  }
  let prose = '';
  let kept = 0;
  for (let index = 0; index < runs.length; index += 1) {
    const partner = partners[index];
    const [opening, closing] = [runs[index], partner === undefined ? undefined : runs[partner]];
    if (partner === undefined || opening === undefined || closing === undefined) continue;
    prose += `${text.slice(kept, opening.at)} `;
    kept = closing.at + closing.length;
    index = partner;
  }
  return prose + text.slice(kept);
}
