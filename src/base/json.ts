/**
 * Makes plain data of values from a caller, a tool or a model, before they are cloned to another thread or stored.
 * Structured clone and the store refuse some values (a function, a cycle) and silently change others (a lone surrogate,
 * an instance of a class).
 */

import { ERROR_MESSAGE_BYTES_MAX, PLAIN_VALUES_MAX } from './bounds.ts';

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * Thrown by `toPlainJson`; `path` points at the offending value, as `$.a[0].b`. `sanitise` and `stableText` throw it
 * for deep nesting, with the path `$`.
 */
export class NotPlainError extends Error {
  readonly path: string;
  constructor(path: string, what: string, options?: ErrorOptions) {
    super(`not serialisable at ${path}: ${what}`, options);
    this.name = 'NotPlainError';
    this.path = path;
  }
}

const DEPTH_MAX = 100;

/** The position of a walk: the current object, the member it reads, and the position of the enclosing object. */
interface Place {
  readonly holder: object;
  member: string | number;
  readonly above: Place | undefined;
  readonly depth: number;
}

/** The number of values that a walk may still visit. */
interface Walk {
  left: number;
}

/**
 * A plain copy of `value`: own enumerable keys only, well-formed strings. A member named `__proto__` stays a
 * member. `undefined` members are left out, as in JSON; dates become ISO strings.
 *
 * Throws `NotPlainError` for functions, symbols, big integers, non-finite numbers, cycles, class instances, and values
 * that throw while they are read (getters, proxies). Also throws it for nesting deeper than 100 and for more than
 * `PLAIN_VALUES_MAX` values. A shared value counts once per occurrence. An array is refused if its length, holes
 * included, exceeds the number of values that are left.
 */
export function toPlainJson(value: unknown): Json {
  return plain(value, undefined, { left: PLAIN_VALUES_MAX });
}

function plain(value: unknown, above: Place | undefined, walk: Walk): Json {
  walk.left -= 1;
  if (walk.left < 0) throw new NotPlainError(pathOf(above), `more than ${PLAIN_VALUES_MAX} values`);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new NotPlainError(pathOf(above), String(value));
    return value;
  }
  if (typeof value !== 'object') throw new NotPlainError(pathOf(above), typeof value);
  const depth = above === undefined ? 0 : above.depth + 1;
  if (depth >= DEPTH_MAX) throw new NotPlainError(pathOf(above), `nested deeper than ${DEPTH_MAX}`);
  for (let place = above; place !== undefined; place = place.above) {
    if (place.holder === value) throw new NotPlainError(pathOf(above), 'a cycle');
  }
  try {
    return plainObject(value, { holder: value, member: '', above, depth }, walk);
  } catch (error) {
    // A trap of a proxy or the `constructor` of a prototype threw this error; `read` catches the errors of members. The
    // fault is in the caller's data, so the error gets a path.
    if (error instanceof NotPlainError) throw error;
    throw unread(pathOf(above), error);
  }
}

/**
 * The path of a position. It is built only for an error: a path for each value would cost more than copying the value.
 */
function pathOf(place: Place | undefined): string {
  let path = '';
  for (let at = place; at !== undefined; at = at.above) {
    path = typeof at.member === 'number' ? `[${at.member}]${path}` : `.${at.member}${path}`;
  }
  return `$${path}`;
}

function plainObject(value: object, here: Place, walk: Walk): Json {
  if (Array.isArray(value)) return plainArray(value, here, walk);
  if (value instanceof Date) {
    const time = Date.prototype.getTime.call(value);
    if (Number.isNaN(time)) throw new NotPlainError(pathOf(here.above), 'an invalid date');
    return new Date(time).toISOString();
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype && !isForeignPlain(prototype)) {
    throw new NotPlainError(pathOf(here.above), `an instance of ${classOf(prototype)}`);
  }
  const result: Record<string, Json> = {};
  for (const key of Object.keys(value)) {
    here.member = key;
    const member = read(value, key, here);
    if (member !== undefined) define(result, wellFormed(key), plain(member, here, walk));
  }
  return result;
}

/**
 * Sets an own member. A member with the name of a prototype's member stays data: `__proto__` never becomes a prototype.
 */
function define(result: Record<string, Json>, key: string, value: Json): void {
  if (!(key in result)) result[key] = value;
  else Object.defineProperty(result, key, { value, enumerable: true, configurable: true, writable: true });
}

/**
 * A plain copy of an array. It reads by index instead of calling `map`: an array may have its own methods and species,
 * and `map` skips holes.
 */
function plainArray(value: readonly unknown[], here: Place, walk: Walk): Json {
  const { length } = value;
  if (length > walk.left) throw new NotPlainError(pathOf(here.above), `an array of ${length} places`);
  const result: Json[] = [];
  for (let index = 0; index < length; index += 1) {
    here.member = index;
    const item = read(value, index, here);
    // A hole becomes a value of the copy, so it counts as one.
    result.push(plain(item ?? null, here, walk));
  }
  return result;
}

function read(value: object, key: string | number, here: Place): unknown {
  try {
    return Reflect.get(value, key);
  } catch (error) {
    throw unread(pathOf(here), error);
  }
}

function unread(path: string, error: unknown): NotPlainError {
  return new NotPlainError(path, `reading it threw ${readable(error)}`, { cause: error });
}

/** The thrown value in few words. Reading the members of an error may throw too. */
function readable(thrown: unknown): string {
  try {
    return thrown instanceof Error ? cutText(`${thrown.name}: ${thrown.message}`, 200) : typeof thrown;
  } catch {
    return 'something unreadable';
  }
}

/** The name of the class of a prototype. `constructor` may be anything, even a getter that throws. */
function classOf(prototype: unknown): string {
  const maker: unknown =
    typeof prototype === 'object' && prototype !== null ? Reflect.get(prototype, 'constructor') : undefined;
  const name: unknown = typeof maker === 'function' ? Reflect.get(maker, 'name') : undefined;
  return typeof name === 'string' && name !== '' ? cutText(name, 100) : 'a class';
}

/**
 * True for the prototype of a plain object of another realm (a vm context): that realm's `Object.prototype`, whose own
 * prototype is null.
 */
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

/**
 * `value` with every lone surrogate in it replaced by U+FFFD, in strings and in the keys of plain objects. If keys
 * become equal, the last one wins. A part that needs no change is returned by reference; the path to a changed part is
 * copied, so the given value is never changed. Numbers, dates, bytes and instances of classes are left alone. Throws
 * `NotPlainError` for nesting deeper than 100, which includes cycles.
 */
export function sanitise<T>(value: T): T {
  return cleaned(value, 0) as T;
}

function cleaned(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= DEPTH_MAX) throw new NotPlainError('$', `nested deeper than ${DEPTH_MAX}`);
  if (Array.isArray(value)) {
    let list: unknown[] | undefined;
    for (let index = 0; index < value.length; index += 1) {
      const item: unknown = value[index];
      const clean = cleaned(item, depth + 1);
      if (clean === item) continue;
      list ??= value.slice();
      list[index] = clean;
    }
    return list ?? value;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype && !isForeignPlain(prototype)) return value;
  const members = Object.entries(value);
  const clean = members.map(([key, member]): [string, unknown] => [wellFormed(key), cleaned(member, depth + 1)]);
  const isClean = clean.every(([key, member], index) => key === members[index]?.[0] && member === members[index]?.[1]);
  // The members must not be assigned one by one, since one may be named `__proto__`.
  return isClean ? value : Object.fromEntries(clean);
}

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

/**
 * A text that is the same for equal JSON values, whatever the order of their keys. Members that are undefined are left
 * out. `ignored`: members with this name are left out, at any depth. Throws `NotPlainError` for nesting deeper than
 * 100.
 */
export function stableText(value: unknown, ignored?: string): string {
  return stable(value, ignored, 0);
}

function stable(value: unknown, ignored: string | undefined, depth: number): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (depth >= DEPTH_MAX) throw new NotPlainError('$', `nested deeper than ${DEPTH_MAX}`);
  if (Array.isArray(value)) return `[${value.map((item) => stable(item, ignored, depth + 1)).join(',')}]`;
  const members = Object.entries(value)
    .filter(([key, member]) => key !== ignored && member !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${stable(member, ignored, depth + 1)}`);
  return `{${members.join(',')}}`;
}

/** The text for an error message, cut if its JSON would exceed `ERROR_MESSAGE_BYTES_MAX`. Never throws. */
export function boundedText(text: string): string {
  // JSON's longest escape has six characters. The text is between two quotes.
  if (text.length * 6 + 2 <= ERROR_MESSAGE_BYTES_MAX) return text;
  let end = Math.min(text.length, ERROR_MESSAGE_BYTES_MAX);
  if (end === text.length && jsonBytes(text) <= ERROR_MESSAGE_BYTES_MAX) return text;
  const note = ` … (cut, of ${text.length} characters)`;
  while (jsonBytes(text.slice(0, end) + note) > ERROR_MESSAGE_BYTES_MAX) end = Math.floor(end * 0.9);
  // The cut must not leave half of a surrogate pair.
  const last = text.charCodeAt(end - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? end - 1 : end) + note;
}

const encoder = new TextEncoder();

function jsonBytes(text: string): number {
  return encoder.encode(JSON.stringify(text)).byteLength;
}
