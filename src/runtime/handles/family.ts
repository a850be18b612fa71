/**
 * `Family`: the children of one `spawnAll`. Its methods wait for all results, for a number of completed children, or
 * for the first completed child.
 */
import { ConfigError, describeValue, TurnFailedError } from '../../base/errors.ts';
import { type Child, childError, replyOf } from './child.ts';

/** A child of a family that completed. */
export interface CompletedChild<Answer = string> {
  readonly child: Child<Answer>;
  readonly name: string;
  readonly reason: 'completed';
  readonly reply: Answer;
  readonly error?: undefined;
}

/** A child of a family that did not complete. */
export interface FailedChild<Answer = string> {
  readonly child: Child<Answer>;
  readonly name: string;
  readonly reason: 'failed' | 'cancelled';
  readonly reply: '';
  readonly error: Error;
}

/** How one child of a family ended. */
export type ChildResult<Answer = string> = CompletedChild<Answer> | FailedChild<Answer>;

/** See the head of the file. Iterating yields the results in order of completion. */
export class Family<Answer = string> implements AsyncIterable<ChildResult<Answer>> {
  readonly children: readonly Child<Answer>[];
  readonly #ended: () => Promise<readonly string[]>;
  #results: readonly Promise<ChildResult<Answer>>[] | undefined;

  /** `ended`: the ids of the children that have ended, in order of completion. */
  constructor(children: readonly Child<Answer>[], ended: () => Promise<readonly string[]>) {
    this.children = children;
    this.#ended = ended;
  }

  get length(): number {
    return this.children.length;
  }

  /** Results in spawn order. Rejects with the first failure. */
  all(): Promise<readonly CompletedChild<Answer>[]> {
    return Promise.all(this.#settling().map(async (result) => succeeded(await result)));
  }

  /** The first child that completes. Rejects with an `AggregateError` when no child completes. */
  async any(): Promise<CompletedChild<Answer>> {
    const failures: Error[] = [];
    for await (const result of this) {
      if (result.error === undefined) return result;
      failures.push(result.error);
    }
    throw new AggregateError(failures, 'no child completed');
  }

  /**
   * The first `count` children that complete, in order of completion. Rejects with an `AggregateError` when fewer than
   * `count` children complete.
   */
  async first(count: number): Promise<readonly CompletedChild<Answer>[]> {
    if (!Number.isInteger(count) || count < 0 || count > this.children.length) {
      throw new ConfigError(`first() takes a number from 0 to ${this.children.length}, got ${describeValue(count)}`);
    }
    const found: CompletedChild<Answer>[] = [];
    const failures: Error[] = [];
    if (count === 0) return found;
    for await (const result of this) {
      if (result.reason === 'completed') found.push(result);
      else failures.push(result.error);
      if (found.length === count) return found;
    }
    throw new AggregateError(failures, `only ${found.length} of ${count} children completed`);
  }

  /** Results in spawn order, including failures. Never rejects for a child's failure. */
  settled(): Promise<readonly ChildResult<Answer>[]> {
    return Promise.all(this.#settling());
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ChildResult<Answer>, void, undefined> {
    const ready: ChildResult<Answer>[] = [];
    let failure: { readonly error: unknown } | undefined;
    let wake = (): void => undefined;
    const settling = this.#settling();
    // The results are awaited only below. A result may reject while the order is being requested.
    for (const result of settling) result.catch(() => undefined);
    // The order is requested after the waits have begun. A child that is missing here ends after all children that are
    // listed.
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

  #settling(): readonly Promise<ChildResult<Answer>>[] {
    this.#results ??= this.children.map(resultOf);
    return this.#results;
  }
}

async function resultOf<Answer>(child: Child<Answer>): Promise<ChildResult<Answer>> {
  const end = await child.end();
  const { name } = child;
  const { reason } = end;
  if (reason !== 'completed') return { child, name, reason, reply: '', error: childError(name, end) };
  try {
    const reply = replyOf(child, end);
    return { child, name, reason, reply: reply instanceof Promise ? await reply : reply };
  } catch (error) {
    // The child completed, but the schema's own checks refuse its reply.
    if (error instanceof TurnFailedError) return { child, name, reason: 'failed', reply: '', error };
    throw error;
  }
}

function succeeded<Answer>(result: ChildResult<Answer>): CompletedChild<Answer> {
  if (result.error !== undefined) throw result.error;
  return result;
}
