/**
 * The calls that wait, by model. A provider reports rates for each model, and a model whose rate is used up must not
 * stop the calls of other models.
 *
 * Owns: a queue for each model that has waiting calls, and the order of the models. Does not own: when a call may
 * leave.
 *
 * - E3 Models whose calls may leave alternate, one call each; within a model, session trees alternate (E1).
 */
import { FairQueue, type Queued } from './fair-queue.ts';

/** The fields of an item that the queues need. */
export interface QueuedForModel extends Queued {
  readonly model: string;
}

/** See the head of the file. */
export class ModelQueues<T extends QueuedForModel> {
  /** No queue is empty. The model that is served next comes first. */
  readonly #queues = new Map<string, FairQueue<T>>();
  #size = 0;

  /** The number of waiting items. */
  get size(): number {
    return this.#size;
  }

  get(id: number): T | undefined {
    for (const queue of this.#queues.values()) {
      const item = queue.get(id);
      if (item !== undefined) return item;
    }
    return undefined;
  }

  /** Adds an item after the others of its model and tree. */
  put(item: T): void {
    let queue = this.#queues.get(item.model);
    if (queue === undefined) {
      queue = new FairQueue();
      this.#queues.set(item.model, queue);
    }
    queue.put(item);
    this.#size += 1;
  }

  /** The next item of each model, in the order in which the models are served. The items stay. */
  *firsts(): IterableIterator<T> {
    for (const queue of this.#queues.values()) {
      const item = queue.first();
      if (item !== undefined) yield item;
    }
  }

  /** Takes out the next item of a model. The model is then served after all other models. */
  take(model: string): T | undefined {
    const queue = this.#queues.get(model);
    const item = queue?.take();
    if (queue === undefined || item === undefined) return undefined;
    this.#size -= 1;
    this.#queues.delete(model);
    if (queue.size > 0) this.#queues.set(model, queue);
    return item;
  }

  /** Takes out one item from any position; undefined when no queue has it. */
  remove(id: number): T | undefined {
    for (const [model, queue] of this.#queues) {
      const item = queue.remove(id);
      if (item === undefined) continue;
      this.#size -= 1;
      if (queue.size === 0) this.#queues.delete(model);
      return item;
    }
    return undefined;
  }

  /** Every item, by model, in order of arrival. The items stay in their queues. */
  items(): readonly T[] {
    return [...this.#queues.values()].flatMap((queue) => queue.items());
  }
}
