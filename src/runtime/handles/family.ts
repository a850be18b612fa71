/** Many children at once; their spawner chooses how to join them. */
import { ConfigError, describeValue } from '../../base/errors.ts';
import { type Child, childError } from './child.ts';

/** How one child of a family ended. */
export interface ChildResult {
  readonly child: Child;
  readonly name: string;
  readonly reason: 'completed' | 'failed' | 'cancelled';
  readonly reply: string;
  readonly error?: Error;
}

/** The children of one `spawnAll`, in spawn order. Iterating yields results in order of completion. */
export class Family implements AsyncIterable<ChildResult> {
  readonly children: readonly Child[];
  readonly #ended: () => Promise<readonly string[]>;
  #results: readonly Promise<ChildResult>[] | undefined;

  /** `ended`: the ids of the children that have ended, in order of completion. */
  constructor(children: readonly Child[], ended: () => Promise<readonly string[]>) {
    this.children = children;
    this.#ended = ended;
  }

  get length(): number {
    return this.children.length;
  }

  /** Results in spawn order. Rejects with the first failure. */
  all(): Promise<readonly ChildResult[]> {
    return Promise.all(this.#settling().map(async (result) => succeeded(await result)));
  }

  /** The first child that completes. Rejects with an `AggregateError` when none does. */
  async any(): Promise<ChildResult> {
    const failures: Error[] = [];
    for await (const result of this) {
      if (result.error === undefined) return result;
      failures.push(result.error);
    }
    throw new AggregateError(failures, 'no child completed');
  }

  /** The first `count` children that complete, in order of completion. Rejects when too few of them can complete. */
  async first(count: number): Promise<readonly ChildResult[]> {
    if (!Number.isInteger(count) || count < 0 || count > this.children.length) {
      throw new ConfigError(`first() takes a number from 0 to ${this.children.length}, got ${describeValue(count)}`);
    }
    const found: ChildResult[] = [];
    const failures: Error[] = [];
    if (count === 0) return found;
    for await (const result of this) {
      if (result.reason === 'completed') found.push(result);
      else if (result.error !== undefined) failures.push(result.error);
      if (found.length === count) return found;
    }
    throw new AggregateError(failures, `only ${found.length} of ${count} children completed`);
  }

  /** Results in spawn order, including failures. Never rejects for a child's failure. */
  settled(): Promise<readonly ChildResult[]> {
    return Promise.all(this.#settling());
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChildResult, void, undefined> {
    const ready: ChildResult[] = [];
    let failure: { readonly error: unknown } | undefined;
    let wake = (): void => undefined;
    const settling = this.#settling();
    // The results are awaited only below, and one may reject while the order is requested.
    for (const result of settling) result.catch(() => undefined);
    // Requested after the waits, because a child that has not ended by now will end after all the others.
    const before = new Set(await this.#ended());
    for (const id of before) {
      const index = this.children.findIndex((child) => child.id === id);
      const result = settling[index];
      if (result !== undefined) yield await result;
    }
    const later = settling.filter((_, index) => !before.has(this.children[index]?.id ?? ''));
    for (const result of later) {
      result.then(
        (value) => {
          ready.push(value);
          wake();
        },
        (error: unknown) => {
          failure = { error };
          wake();
        },
      );
    }
    for (let yielded = 0; yielded < later.length; yielded += 1) {
      while (ready.length === 0 && failure === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      if (failure !== undefined) throw failure.error;
      const next = ready.shift();
      if (next !== undefined) yield next;
    }
  }

  #settling(): readonly Promise<ChildResult>[] {
    this.#results ??= this.children.map(async (child): Promise<ChildResult> => {
      const end = await child.end();
      const { reason, reply } = end;
      const result = { child, name: child.name, reason, reply };
      return reason === 'completed' ? result : { ...result, error: childError(child.name, end) };
    });
    return this.#results;
  }
}

function succeeded(result: ChildResult): ChildResult {
  if (result.error !== undefined) throw result.error;
  return result;
}
