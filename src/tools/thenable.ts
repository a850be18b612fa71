/** Tells what has to be awaited from what is there already: waiting for a value that is no promise costs promises too. */

/** True for whatever `await` would wait for. Throws what reading `then` throws. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false;
  return typeof Reflect.get(value, 'then') === 'function';
}
