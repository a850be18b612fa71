/**
 * Errors as plain data. Structured clone drops class, name and code. So every error that crosses a thread boundary is
 * encoded here, and decoded to its own class, with code, data and causes.
 */
import { ERROR_CAUSES_MAX, ERROR_TEXT_CHARACTERS_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { asError, type ErrorCode, errorFromShape, plainMembers, TroupeError } from '../base/errors.ts';
import { cutText } from '../base/json.ts';

/** An error as plain data: safe to clone and to store. */
export interface EncodedError {
  /** The class for errors of this library, otherwise the error's `name`. */
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  /** A code of this library, or another code such as `ENOENT`. */
  readonly code?: string;
  /** True for errors of this library: they are decoded to their own class. */
  readonly house: boolean;
  readonly retryable?: boolean;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cause?: EncodedError;
}

/**
 * The thrown value as plain data. Accepts any value and never throws. Keeps at most `ERROR_CAUSES_MAX` nested causes.
 */
export function encodeError(thrown: unknown): EncodedError {
  return encode(thrown, 0);
}

function encode(thrown: unknown, depth: number): EncodedError {
  try {
    return encodeReadable(asError(thrown), depth);
  } catch {
    // A getter or a proxy threw while the error was read.
    return { name: 'Error', message: `unreadable error: ${typeof thrown}`, house: false };
  }
}

function encodeReadable(error: Error, depth: number): EncodedError {
  const code: unknown = Reflect.get(error, 'code');
  const stack: unknown = error.stack;
  const cause: unknown = error.cause;
  const encoded = {
    name: classNameOf(error),
    message: cutText(String(error.message), ERROR_TEXT_CHARACTERS_MAX),
    ...(typeof stack === 'string' ? { stack: cutText(stack, ERROR_TEXT_CHARACTERS_MAX) } : {}),
    ...(typeof code === 'string' ? { code } : {}),
    ...(cause === undefined || depth >= ERROR_CAUSES_MAX ? {} : { cause: encode(cause, depth + 1) }),
  };
  if (!(error instanceof TroupeError)) return { ...encoded, house: false };
  const data = plainMembers(error.data);
  return { ...encoded, house: true, retryable: error.retryable === true, ...defined({ data }) };
}

/** Classes of the language that are decoded to themselves; others become `Error` and keep their name. */
const LANGUAGE_ERRORS: Readonly<Record<string, new (message: string, options?: ErrorOptions) => Error>> = {
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  EvalError,
  URIError,
};

/** The decoded error. An error of this library gets its own class; any other error keeps its name and code. */
export function decodeError(encoded: EncodedError): Error {
  const cause = encoded.cause === undefined ? undefined : decodeError(encoded.cause);
  const error = encoded.house ? decodeHouse(encoded, cause) : decodeForeign(encoded, cause);
  if (encoded.stack !== undefined) define(error, 'stack', encoded.stack);
  if (error.name !== encoded.name) define(error, 'name', encoded.name);
  return error;
}

function decodeHouse(encoded: EncodedError, cause: Error | undefined): Error {
  const shape = {
    name: encoded.name,
    code: (encoded.code ?? 'internal') as ErrorCode,
    message: encoded.message,
    ...defined({ retryable: encoded.retryable, data: encoded.data }),
  };
  return errorFromShape(shape, cause);
}

function decodeForeign(encoded: EncodedError, cause: Error | undefined): Error {
  const options = cause === undefined ? undefined : { cause };
  const known = Object.hasOwn(LANGUAGE_ERRORS, encoded.name) ? LANGUAGE_ERRORS[encoded.name] : undefined;
  const error = known === undefined ? new Error(encoded.message, options) : new known(encoded.message, options);
  if (encoded.code !== undefined) define(error, 'code', encoded.code);
  return error;
}

/** Sets a member that is not enumerable, like the language's own error properties. */
function define(error: Error, key: string, value: string): void {
  Object.defineProperty(error, key, { value, configurable: true, writable: true, enumerable: false });
}

/** The name that readers know an error by: its `name`, or its class when the name is just `Error`. Never throws. */
export function classNameOf(error: Error): string {
  try {
    if (typeof error.name === 'string' && error.name !== '' && error.name !== 'Error') return error.name;
    return error.constructor?.name || 'Error';
  } catch {
    return 'Error';
  }
}
