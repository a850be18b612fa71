/** Distinguishes thenables from plain values, because awaiting a plain value costs promises for nothing. */

/** True for any value that `await` would wait for. Rethrows an error of reading `then`. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false;
  return typeof Reflect.get(value, 'then') === 'function';
}
