/**
 * Calls the function of the option `redact`.
 *
 * Owns: the checks of its results. Does not own: which values are redacted, and where (`redacted-*.ts` beside it).
 *  D1 each value from outside is redacted once, where it enters its session's thread, before `decide` reads it. So log,
 *     events, index, files and later requests have the redacted value;
 *  D2 if the function fails, the value is refused, and nothing of it is stored or published. The error contains neither
 *     the value nor the message of the function's error, because that message may quote the value.
 */
import { REDACTED_CHARACTERS_MIN, REDACTED_GROWTH_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue, type ErrorShape, errorShape, RedactionError } from '../../base/errors.ts';
import { tenantOf } from '../../base/ids.ts';
import { wellFormed } from '../../base/json.ts';
import { REDACTED } from '../../base/redaction.ts';
import { importModule } from '../../threads/user-modules.ts';
import type { RedactFunction, RedactionKind, RedactionSource } from '../protocol/redact-option.ts';
import { type RedactKind, redactError } from './redacted-values.ts';

/** See the head of the file. */
export class Redactor {
  readonly #redact: RedactFunction;
  readonly #agentOf: (session: string) => string | undefined;

  /** `agentOf`: the agent of a session; undefined if it is not known. */
  constructor(redact: RedactFunction, agentOf: (session: string) => string | undefined) {
    this.#redact = redact;
    this.#agentOf = agentOf;
  }

  /**
   * Makes the functions that redact texts of a session; undefined: texts of no session. `agent`: the agent with which
   * the session is created. The functions throw `RedactionError` if the option's function fails.
   */
  of(session: string | undefined, agent?: string): RedactKind {
    const named = session === undefined ? undefined : (this.#agentOf(session) ?? agent);
    const tenant = session === undefined ? undefined : tenantOf(session);
    return (kind) => {
      const source = Object.freeze({ kind, ...defined({ session, agent: named, tenant }) });
      return (text) => this.#text(text, source);
    };
  }

  #text(text: string, source: RedactionSource): string {
    if (text === '') return text;
    const { kind } = source;
    let redacted: unknown;
    try {
      redacted = this.#redact(text, source);
    } catch (thrown) {
      throw failed(kind, `threw ${thrown instanceof Error ? `a ${className(thrown)}` : 'no error'}`);
    }
    if (redacted === text) return text;
    if (typeof redacted !== 'string')
      throw failed(kind, `must return a text at once, got a value of type ${typeof redacted}`);
    const charactersMax = Math.max(REDACTED_CHARACTERS_MIN, REDACTED_GROWTH_MAX * text.length);
    if (redacted.length > charactersMax) {
      throw failed(kind, `made ${redacted.length} characters of ${text.length}; at most ${charactersMax} are taken`);
    }
    // A later check refuses blank texts. So a blank result is replaced by a text that says that something was redacted.
    return redacted.trim() === '' ? REDACTED : wellFormed(redacted);
  }
}

function failed(kind: RedactionKind, what: string): RedactionError {
  return new RedactionError(
    `the function of the option "redact" ${what} for a text of kind ${JSON.stringify(kind)}; the value was not stored`,
    { data: { key: 'redact', kind } },
  );
}

/** The name of an error's class. The `name` of the error itself could be any text, so it is not shown. */
function className(error: Error): string {
  const { name } = error.constructor;
  return typeof name === 'string' && /^[A-Za-z]{1,64}$/.test(name) ? name : 'Error';
}

/** The error of a failed redaction: a `RedactionError` as it is, or a new error that does not quote the value (D2). */
export function redactionError(thrown: unknown): RedactionError {
  return thrown instanceof RedactionError
    ? thrown
    : new RedactionError('a value cannot be redacted; it was not stored', { data: { key: 'redact' } });
}

/** An error with its texts redacted; if that fails, the error of the redaction. */
export function redactedError(error: ErrorShape, redact: RedactKind): ErrorShape {
  try {
    return redactError(error, redact('error'));
  } catch (thrown) {
    return errorShape(redactionError(thrown));
  }
}

/** Loads the function that the module exports by default. Rejects with `ConfigError` if there is no such function. */
export async function loadRedact(url: string): Promise<RedactFunction> {
  const found = (await importModule(url, 'the module of the option "redact"'))['default'];
  if (typeof found === 'function') return found as RedactFunction;
  throw new ConfigError(
    `option "redact": the module must export a function by default, got ${describeValue(found)}: ${url}`,
    { data: { key: 'redact', url } },
  );
}
