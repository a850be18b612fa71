/**
 * Reduces English words to their stems, so that "running" finds "runs". Pure.
 * Source of the rules: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980.
 */

type Rules = readonly (readonly [suffix: string, put: string])[];

/**
 * Suffixes of step 2, with their replacements. They are replaced if the rest of the word has at least one
 * vowel-consonant pair. If one suffix ends with another, the longer suffix comes first.
 */
const STEP_2: Rules = [
  ['ational', 'ate'],
  ['ization', 'ize'],
  ['iveness', 'ive'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['tional', 'tion'],
  ['biliti', 'ble'],
  ['entli', 'ent'],
  ['ousli', 'ous'],
  ['ation', 'ate'],
  ['alism', 'al'],
  ['aliti', 'al'],
  ['iviti', 'ive'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['izer', 'ize'],
  ['abli', 'able'],
  ['alli', 'al'],
  ['ator', 'ate'],
  ['eli', 'e'],
];
const STEP_3: Rules = [
  ['icate', 'ic'],
  ['ative', ''],
  ['alize', 'al'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ness', ''],
  ['ful', ''],
];
/**
 * Suffixes of step 4. They are removed if the rest of the word has at least two vowel-consonant pairs. The suffix `ion`
 * is removed only after `s` or `t`.
 */
const STEP_4: readonly string[] = [
  'ement',
  'ance',
  'ence',
  'able',
  'ible',
  'ment',
  'ant',
  'ent',
  'ion',
  'ism',
  'ate',
  'iti',
  'ous',
  'ive',
  'ize',
  'al',
  'er',
  'ic',
  'ou',
];
const PLAIN_WORD = /^[a-z]{3,}$/u;

/** The stem of a lower-case word. Words with letters other than a to z, or of one or two letters, stay unchanged. */
export function stem(word: string): string {
  if (!PLAIN_WORD.test(word)) return word;
  const verb = withoutVerbEnding(withoutPlural(word));
  const last = verb.endsWith('y') && hasVowel(verb.slice(0, -1)) ? `${verb.slice(0, -1)}i` : verb;
  return withoutFinalE(withoutSuffix(replaced(replaced(last, STEP_2), STEP_3)));
}

function withoutPlural(word: string): string {
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2);
  return word.endsWith('s') && !word.endsWith('ss') ? word.slice(0, -1) : word;
}

function withoutVerbEnding(word: string): string {
  if (word.endsWith('eed')) return measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const ending = word.endsWith('ed') ? 2 : word.endsWith('ing') ? 3 : 0;
  const rest = word.slice(0, word.length - ending);
  if (ending === 0 || !hasVowel(rest)) return word;
  if (rest.endsWith('at') || rest.endsWith('bl') || rest.endsWith('iz')) return `${rest}e`;
  if (endsDouble(rest) && !/[lsz]$/u.test(rest)) return rest.slice(0, -1);
  return measure(rest) === 1 && endsShort(rest) ? `${rest}e` : rest;
}

function replaced(word: string, rules: Rules): string {
  const rule = rules.find(([suffix]) => word.endsWith(suffix));
  if (rule === undefined) return word;
  const rest = word.slice(0, word.length - rule[0].length);
  return measure(rest) > 0 ? rest + rule[1] : word;
}

function withoutSuffix(word: string): string {
  const suffix = STEP_4.find((each) => word.endsWith(each));
  if (suffix === undefined) return word;
  const rest = word.slice(0, word.length - suffix.length);
  if (measure(rest) < 2 || (suffix === 'ion' && !/[st]$/u.test(rest))) return word;
  return rest;
}

function withoutFinalE(word: string): string {
  let short = word;
  if (word.endsWith('e')) {
    const rest = word.slice(0, -1);
    const size = measure(rest);
    if (size > 1 || (size === 1 && !endsShort(rest))) short = rest;
  }
  return short.endsWith('ll') && measure(short) > 1 ? short.slice(0, -1) : short;
}

/** True for a vowel; `y` is a vowel after a consonant. */
function isVowel(word: string, index: number): boolean {
  const letter = word[index] ?? '';
  if (letter === 'y') return index > 0 && !isVowel(word, index - 1);
  return 'aeiou'.includes(letter);
}

function hasVowel(word: string): boolean {
  for (let index = 0; index < word.length; index += 1) if (isVowel(word, index)) return true;
  return false;
}

/** The number of times a vowel is followed by a consonant. */
function measure(word: string): number {
  let pairs = 0;
  let before = false;
  for (let index = 0; index < word.length; index += 1) {
    const vowel = isVowel(word, index);
    if (before && !vowel) pairs += 1;
    before = vowel;
  }
  return pairs;
}

function endsDouble(word: string): boolean {
  const last = word.length - 1;
  return last > 0 && word[last] === word[last - 1] && !isVowel(word, last);
}

/** True if the word ends in consonant, vowel, consonant, and the last letter is not w, x or y. */
function endsShort(word: string): boolean {
  const last = word.length - 1;
  if (last < 2 || /[wxy]$/u.test(word)) return false;
  return !isVowel(word, last) && isVowel(word, last - 1) && !isVowel(word, last - 2);
}
