/**
 * Search queries. Any text is a query: a word stands for itself, and joined words (`sub-agents`, `agents:foo`) are a
 * phrase. Only AND, OR, NOT and NEAR in upper case are operators. No function throws. Pure.
 */
import { SEARCH_NEAR_TERMS, SEARCH_QUERY_CHARACTERS_MAX, SEARCH_UNITS_MAX } from '../base/bounds.ts';
import { termsOf } from './terms.ts';

/** A part of a query: a phrase, which is a sequence of terms, or two phrases near each other. */
export type Unit =
  | { readonly type: 'phrase'; readonly terms: readonly string[] }
  | { readonly type: 'near'; readonly first: readonly string[]; readonly second: readonly string[] };

/** The units that a text must have (`all`), and the units that it must not have (`none`). */
export interface Alternative {
  /** At least one unit. */
  readonly all: readonly Unit[];
  readonly none: readonly Unit[];
}

/** At least one alternative. A text matches the query if it matches at least one of the alternatives. */
export type Query = readonly Alternative[];

type Token = { readonly operator: string } | { readonly terms: readonly string[] };

const OPERATORS: ReadonlySet<string> = new Set(['AND', 'OR', 'NOT', 'NEAR']);
const PIECE = /"([^"]*)"|[^\s"]+/gu;

/**
 * The query for a text; `undefined` if there is nothing to search for, because the text is blank or has only operators
 * or exclusions.
 */
export function parseQuery(text: string): Query | undefined {
  const found: { all: Unit[]; none: Unit[] }[] = [{ all: [], none: [] }];
  let joins: string | undefined;
  let units = 0;
  for (const token of tokensOf(text)) {
    if ('operator' in token) {
      if (token.operator === 'OR') found.push({ all: [], none: [] });
      joins = token.operator;
      continue;
    }
    units += 1;
    if (units > SEARCH_UNITS_MAX) break;
    const alternative = found.at(-1);
    if (alternative !== undefined) addUnit(alternative, token.terms, joins);
    joins = undefined;
  }
  const query = found.filter(({ all }) => all.length > 0);
  return query.length === 0 ? undefined : query;
}

function addUnit(to: { all: Unit[]; none: Unit[] }, terms: readonly string[], joins: string | undefined): void {
  const unit: Unit = { type: 'phrase', terms };
  if (joins === 'NOT') {
    to.none.push(unit);
    return;
  }
  const before = to.all.at(-1);
  if (joins === 'NEAR' && before?.type === 'phrase') {
    to.all[to.all.length - 1] = { type: 'near', first: before.terms, second: terms };
  } else {
    to.all.push(unit);
  }
}

function tokensOf(text: string): readonly Token[] {
  const tokens: Token[] = [];
  for (const [piece, quoted] of balanced(text.slice(0, SEARCH_QUERY_CHARACTERS_MAX)).matchAll(PIECE)) {
    if (quoted === undefined && OPERATORS.has(piece)) {
      tokens.push({ operator: piece });
      continue;
    }
    const terms = termsOf(quoted ?? piece);
    if (terms.length > 0) tokens.push({ terms });
  }
  return tokens;
}

/** The text of a query. If a quote is not closed, it is replaced by a space. */
function balanced(text: string): string {
  const quotes = text.split('"').length - 1;
  if (quotes % 2 === 0) return text;
  const last = text.lastIndexOf('"');
  return `${text.slice(0, last)} ${text.slice(last + 1)}`;
}

/** The terms that every text matching this alternative has. */
export function termsNeeded({ all }: Alternative): readonly string[] {
  const terms = all.flatMap((unit) => (unit.type === 'phrase' ? unit.terms : [...unit.first, ...unit.second]));
  return [...new Set(terms)];
}

/** True if a text, given as its terms in order, matches the query. */
export function matches(query: Query, text: readonly string[]): boolean {
  return query.some(({ all, none }) => all.every((unit) => has(text, unit)) && !none.some((unit) => has(text, unit)));
}

function has(text: readonly string[], unit: Unit): boolean {
  if (unit.type === 'phrase') return placesOf(text, unit.terms, 1).length > 0;
  const first = placesOf(text, unit.first);
  const second = placesOf(text, unit.second);
  return first.some((a) => second.some((b) => Math.abs(a - b) <= SEARCH_NEAR_TERMS));
}

/** The first positions, at most `limit`, at which these terms occur in sequence. */
function placesOf(text: readonly string[], terms: readonly string[], limit = SEARCH_UNITS_MAX): readonly number[] {
  const places: number[] = [];
  for (let start = 0; start + terms.length <= text.length && places.length < limit; start += 1) {
    if (terms.every((term, index) => text[start + index] === term)) places.push(start);
  }
  return places;
}
