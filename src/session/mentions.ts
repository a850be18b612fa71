/** Who an answer addresses: `@name`, outside code and not inside an e-mail address (contract §7.6, Δ31). Pure. */

const CODE_FENCE = /(^|\n)(```|~~~)[\s\S]*?(\n\2|$)/g;
/** Whole runs of backticks only, or a long run would be tried from each of its places. */
const CODE_SPAN = /(?<!`)(`+)(?!`)[\s\S]*?(?<!`)\1(?!`)/g;
/** Not after a word character, a dot or a plus: `a@b` is an address. */
const MENTION = /(?<![\w.+-])@(\w[\w-]*)/g;

/** The names mentioned, each once. */
export function mentionedNames(text: string): ReadonlySet<string> {
  const prose = text.replace(CODE_FENCE, ' ').replace(CODE_SPAN, ' ');
  const names = new Set<string>();
  for (const match of prose.matchAll(MENTION)) if (match[1] !== undefined) names.add(match[1]);
  return names;
}
