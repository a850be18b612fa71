/**
 * The traits of a model that requests and their options depend on, and the short form of these traits in a session's
 * log. Pure.
 *
 * An epoch records the traits that its requests are rendered for. So its requests can be rendered from the log again in
 * the same form, even if more is known about the model later.
 */
import { EFFORTS, type Effort, type ModelTraits, THINKING_TYPES, type ThinkingType } from './model-traits.ts';

/** The traits that an epoch records. */
export type RequestTraits = Pick<
  ModelTraits,
  | 'bindsThinking'
  | 'codeCallsTools'
  | 'codeExecution'
  | 'effortsWithoutThinking'
  | 'efforts'
  | 'fast'
  | 'fastBeta'
  | 'forcedTool'
  | 'forcedToolWithThinking'
  | 'inferenceGeo'
  | 'outputTokensMax'
  | 'structuredOutputs'
  | 'thinkingTypes'
  | 'webSearch'
>;

/** Writes the parts of the short form as bits, or reads them, always in the same order. */
class Bits {
  value: number;
  #weight = 1;

  constructor(value: number) {
    this.value = value;
  }

  put(isSet: boolean): void {
    if (isSet) this.value += this.#weight;
    this.#weight *= 2;
  }

  take(): boolean {
    const isSet = Math.floor(this.value / this.#weight) % 2 === 1;
    this.#weight *= 2;
    return isSet;
  }

  /** A list of names: one bit says whether the list is known, one more for each name whether it is in the list. */
  putNames<T>(all: readonly T[], names: Iterable<T> | undefined): void {
    const given = names === undefined ? undefined : new Set(names);
    this.put(given !== undefined);
    for (const each of all) this.put(given?.has(each) === true);
  }

  takeNames<T>(all: readonly T[]): readonly T[] | undefined {
    const isKnown = this.take();
    const names = all.filter(() => this.take());
    return isKnown ? names : undefined;
  }

  /** A fact in two bits: whether it is known, and whether it is true. */
  putFact(fact: boolean | undefined): void {
    this.put(fact !== undefined);
    this.put(fact === true);
  }

  takeFact(): boolean | undefined {
    const isKnown = this.take();
    const fact = this.take();
    return isKnown ? fact : undefined;
  }
}

/** The base of the numbers in the short form: the largest that JavaScript supports. */
const RADIX = 36;

/**
 * The short form of traits, `<bits>.<outputTokensMax>[.<fastBeta>]`, with numbers in base 36. A bit never changes its
 * meaning. Later versions add higher bits. A missing bit means that the trait is not known.
 */
export function writeTraits(traits: RequestTraits): string {
  const bits = new Bits(0);
  bits.put(traits.bindsThinking);
  bits.putNames<ThinkingType>(THINKING_TYPES, traits.thinkingTypes);
  bits.putNames<Effort>(EFFORTS, traits.efforts);
  bits.putNames<Effort>(EFFORTS, traits.effortsWithoutThinking);
  for (const fact of [traits.forcedTool, traits.forcedToolWithThinking, traits.fast]) bits.putFact(fact);
  for (const fact of [traits.inferenceGeo, traits.structuredOutputs]) bits.putFact(fact);
  for (const fact of [traits.webSearch, traits.codeExecution, traits.codeCallsTools]) bits.putFact(fact);
  const tokens = traits.outputTokensMax?.toString(RADIX) ?? '';
  const beta = traits.fastBeta === undefined ? '' : `.${traits.fastBeta}`;
  return `${bits.value.toString(RADIX)}.${tokens}${beta}`;
}

/** The traits of a short form. */
export function readTraits(text: string): RequestTraits {
  const [flags = '', tokens = '', fastBeta] = text.split('.');
  const bits = new Bits(Number.parseInt(flags, RADIX));
  const bindsThinking = bits.take();
  const thinkingTypes = bits.takeNames<ThinkingType>(THINKING_TYPES);
  const efforts = bits.takeNames<Effort>(EFFORTS);
  const effortsWithoutThinking = bits.takeNames<Effort>(EFFORTS);
  return {
    bindsThinking,
    thinkingTypes: thinkingTypes === undefined ? undefined : new Set(thinkingTypes),
    efforts,
    effortsWithoutThinking,
    forcedTool: bits.takeFact(),
    forcedToolWithThinking: bits.takeFact(),
    fast: bits.takeFact(),
    inferenceGeo: bits.takeFact(),
    structuredOutputs: bits.takeFact(),
    webSearch: bits.takeFact(),
    codeExecution: bits.takeFact(),
    codeCallsTools: bits.takeFact(),
    outputTokensMax: tokens === '' ? undefined : Number.parseInt(tokens, RADIX),
    ...(fastBeta === undefined ? {} : { fastBeta }),
  };
}
