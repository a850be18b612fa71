/**
 * Splits texts into terms: words in lower case, without diacritics, stemmed. Pure except for a bounded cache of stems.
 */
import { SEARCH_STEMS_MAX, SEARCH_TERM_CHARACTERS_MAX, SEARCH_TEXT_CHARACTERS_MAX } from '../base/bounds.ts';
import { stem } from './stem.ts';

const WORD = /[\p{L}\p{N}]+/gu;
const MARK = /\p{M}+/gu;
const ASCII = /^\p{ASCII}*$/u;

/** The length from which V8 stores a substring as a view of the whole text. */
const SLICED_CHARACTERS_MIN = 13;

/** The stems of recent words. They are cached because the same words occur very often. */
const stems = new Map<string, string>();

/** The terms of a text, in order. Only the beginning of a long text counts (`SEARCH_TEXT_CHARACTERS_MAX`). */
export function termsOf(text: string): readonly string[] {
  const terms: string[] = [];
  for (const [word] of folded(text.slice(0, SEARCH_TEXT_CHARACTERS_MAX)).matchAll(WORD)) {
    terms.push(termOf(word.slice(0, SEARCH_TERM_CHARACTERS_MAX)));
  }
  return terms;
}

/** The text in lower case, without diacritics. */
function folded(text: string): string {
  return ASCII.test(text) ? text.toLowerCase() : text.normalize('NFKD').replace(MARK, '').toLowerCase();
}

function termOf(word: string): string {
  const known = stems.get(word);
  if (known !== undefined) return known;
  if (stems.size >= SEARCH_STEMS_MAX) stems.clear();
  const own = copied(word);
  const term = stem(own);
  stems.set(own, term);
  return term;
}

/** A copy of a word for the cache. A substring stored as a view would keep the whole text in memory. */
function copied(word: string): string {
  return word.length < SLICED_CHARACTERS_MIN ? word : Buffer.from(word).toString();
}
