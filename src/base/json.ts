/**
 * The boundary of plain data. Whatever comes from a caller, a tool or a model passes here before structured clone and
 * before the store, because both edit payloads silently: a lone surrogate, a function, `__proto__`, a cycle.
 */

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Thrown by `toPlainJson`; `path` points at the offending value, as `$.a[0].b`. */
export class NotPlainError extends Error {
  readonly path: string;
  constructor(path: string, what: string) {
    super(`not serialisable at ${path}: ${what}`);
    this.name = 'NotPlainError';
    this.path = path;
  }
}

const DEPTH_MAX = 100;

/**
 * A plain copy of `value`: own enumerable keys only, well-formed strings, no prototype tricks. `undefined` members are
 * left out as JSON does; dates become ISO strings. Throws `NotPlainError` for functions, symbols, big integers,
 * non-finite numbers, cycles, class instances with no JSON form and nesting deeper than 100.
 */
export function toPlainJson(value: unknown): Json {
  return plain(value, '$', 0, new Set());
}

function plain(value: unknown, path: string, depth: number, seen: Set<object>): Json {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new NotPlainError(path, String(value));
    return value;
  }
  if (typeof value !== 'object') throw new NotPlainError(path, typeof value);
  if (depth >= DEPTH_MAX) throw new NotPlainError(path, `nested deeper than ${DEPTH_MAX}`);
  if (seen.has(value)) throw new NotPlainError(path, 'a cycle');
  seen.add(value);
  try {
    return plainObject(value, path, depth, seen);
  } finally {
    seen.delete(value);
  }
}

function plainObject(value: object, path: string, depth: number, seen: Set<object>): Json {
  if (Array.isArray(value)) {
    return value.map((item, index) => (item === undefined ? null : plain(item, `${path}[${index}]`, depth + 1, seen)));
  }
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new NotPlainError(path, 'an invalid date');
    return value.toISOString();
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype && !isForeignPlain(prototype)) {
    throw new NotPlainError(path, `an instance of ${value.constructor?.name || 'a class'}`);
  }
  const result: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    const member: unknown = (value as Record<string, unknown>)[key];
    if (member === undefined) continue;
    // defineProperty: an own key `__proto__` stays data and never becomes a prototype.
    Object.defineProperty(result, wellFormed(key), {
      value: plain(member, `${path}.${key}`, depth + 1, seen),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return result;
}

/** Plain objects of another realm (a vm context) have another `Object.prototype`, whose own prototype is null. */
function isForeignPlain(prototype: unknown): boolean {
  return (
    typeof prototype === 'object' &&
    prototype !== null &&
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype, 'hasOwnProperty')
  );
}

/** `text` with lone surrogates replaced by U+FFFD; the same string when there are none. */
export function wellFormed(text: string): string {
  return LONE_SURROGATE.test(text) ? text.replace(LONE_SURROGATES, '\uFFFD') : text;
}

const LONE_SURROGATE: RegExp = /\p{Surrogate}/u;
const LONE_SURROGATES: RegExp = /\p{Surrogate}/gu;

/** `text` cut to at most `charactersMax` UTF-16 units, never inside a surrogate pair. */
export function cutText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const last = text.charCodeAt(charactersMax - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? charactersMax - 1 : charactersMax);
}

/** True for an object that is neither null nor an array. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
