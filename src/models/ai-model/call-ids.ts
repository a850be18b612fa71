/**
 * The ids of calls in a prompt. The log has ids that the Messages API accepts; the wires (interfaces) of other vendors
 * have other rules. An id in a prompt depends only on the history, so the same history gives the same prompt. Pure.
 *
 * | wire | rule | source |
 * | --- | --- | --- |
 * | Mistral | nine letters or digits | its error "Tool call id has to be a-z, A-Z, 0-9, with a length of 9" |
 * | chat completions | at most 40 characters | its error "Expected a string with maximum length 40" |
 * | Responses API, others | at most 64 characters | its error for `input[n].call_id` |
 */
import { createHash } from 'node:crypto';

/** The model that gets the ids. */
export interface IdReader {
  /** The AI SDK's name of the provider and its interface, such as `openai.responses`. */
  readonly wire: string;
  readonly model: string;
}

interface IdRule {
  readonly pattern: RegExp;
  readonly charactersMax: number;
}

const MISTRAL: IdRule = { pattern: /^[a-zA-Z0-9]{9}$/, charactersMax: 9 };
const CHAT: IdRule = { pattern: /^.{1,40}$/, charactersMax: 40 };
const OTHERS: IdRule = { pattern: /^.{1,64}$/, charactersMax: 64 };

const MISTRAL_NAME = /mistral|codestral|devstral|magistral|ministral/i;

function ruleOf({ wire, model }: IdReader): IdRule {
  if (MISTRAL_NAME.test(`${wire}/${model}`)) return MISTRAL;
  return wire.endsWith('.chat') ? CHAT : OTHERS;
}

/** The ids of one prompt, by the ids of the log. */
export class CallIds {
  readonly #rule: IdRule;
  readonly #byStored = new Map<string, string>();
  readonly #used = new Set<string>();

  constructor(reader: IdReader) {
    this.#rule = ruleOf(reader);
  }

  /**
   * The id of the next call of the prompt. `own`: the id under which the provider knows the call. This id is used
   * unchanged if the wire's rule accepts it and no earlier call of the prompt has it. Some servers refuse ids that they
   * made themselves, because these are too long.
   */
  ofCall(stored: string, own = ''): string {
    const isFit = this.#rule.pattern.test(own) && !this.#used.has(own);
    const wanted = isFit ? own : this.#fitted(stored);
    this.#byStored.set(stored, wanted);
    this.#used.add(wanted);
    return wanted;
  }

  /** The id of the call that a result answers. */
  ofResult(stored: string): string {
    return this.#byStored.get(stored) ?? this.#fitted(stored);
  }

  #fitted(stored: string): string {
    const { pattern, charactersMax } = this.#rule;
    let id = pattern.test(stored) ? stored : hashed(stored, charactersMax);
    for (let n = 2; this.#used.has(id); n += 1) id = hashed(`${stored} ${n}`, charactersMax);
    return id;
  }
}

function hashed(text: string, characters: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, characters);
}
