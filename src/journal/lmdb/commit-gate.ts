/**
 * Group commit without a timer.
 *
 * Owns: the queue of batches between the callers and one writer, and the promise of each. Does not own: the contents of
 * a batch. The last batch is open and takes new data; the first may be in flight; the batches between are full.
 *
 * Invariants:
 *  G1 one write at a time, in the order the batches were opened;
 *  G2 data that arrives during a write joins the next write. There is no timer: a write starts at the end of the tick
 *     in which a caller began to wait or the previous write ended. So the callers of one tick share one write, and the
 *     event loop is never starved;
 *  G3 one promise for each batch, shared by all its waiters, and none for a batch without a waiter;
 *  G4 a waiter resumes after `written` ran, so the waiter finds the journal in the state after the write;
 *  G5 after a refused write the whole queue is dropped, and all its waiters reject. Every later `flushed()` also
 *     rejects, until `reset()`.
 */

/** The functions that the owner of a gate gives it. */
export interface GatePort<Batch> {
  create(): Batch;
  isEmpty(batch: Batch): boolean;
  /** Resolves when the batch is durable. */
  write(batch: Batch): Promise<void>;
  /** Called when the batch is durable, before its waiters resume. Must not throw. */
  written(batch: Batch): void;
  /** Called when a write was refused and the queue was dropped, before the waiters are rejected. Must not throw. */
  refused(): void;
  /** Calls `run` once, soon, never synchronously. */
  schedule(run: () => void): void;
}

interface Slot<Batch> {
  readonly batch: Batch;
  waiter: Waiter | undefined;
}

interface Waiter {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** The gate; see the head of this file. All methods belong to one thread. */
export class CommitGate<Batch> {
  readonly #port: GatePort<Batch>;
  /** Batches not yet durable, oldest first. Never empty; the last batch is open. */
  #queue: Slot<Batch>[];
  #state: 'idle' | 'scheduled' | 'writing' | 'refused' = 'idle';
  #refusal: Error | undefined;

  constructor(port: GatePort<Batch>) {
    this.#port = port;
    this.#queue = [{ batch: port.create(), waiter: undefined }];
  }

  /** The batch that takes new data. It must be fetched again for each change. */
  get open(): Batch {
    return this.#lastSlot().batch;
  }

  /** True from a refused write until `reset()`. */
  get isRefused(): boolean {
    return this.#state === 'refused';
  }

  /** The first match in the batches not yet durable, newest first. */
  find<T>(look: (batch: Batch) => T | undefined): T | undefined {
    for (let index = this.#queue.length - 1; index >= 0; index -= 1) {
      const slot = this.#queue[index];
      const found = slot === undefined ? undefined : look(slot.batch);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Calls `visit` for each batch not yet durable, oldest first. */
  each(visit: (batch: Batch) => void): void {
    for (const slot of this.#queue) visit(slot.batch);
  }

  /** Closes the open batch because it is full, and writes it even without a waiter: memory stays bounded. */
  seal(): void {
    this.#queue.push({ batch: this.#port.create(), waiter: undefined });
    this.#start();
  }

  /** Resolves when everything put before the call is durable; see `Journal.flushed`. */
  flushed(): Promise<void> {
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal);
    const slot = this.#lastFilledSlot();
    if (slot === undefined) return Promise.resolve();
    slot.waiter ??= createWaiter();
    this.#start();
    return slot.waiter.promise;
  }

  /** Lets the gate take work again after a refused write. */
  reset(): void {
    this.#refusal = undefined;
    this.#state = 'idle';
  }

  #lastSlot(): Slot<Batch> {
    const slot = this.#queue.at(-1);
    if (slot === undefined) throw new Error('G1: the queue has an open batch');
    return slot;
  }

  #lastFilledSlot(): Slot<Batch> | undefined {
    const open = this.#lastSlot();
    // If the open batch is empty, the caller waits for the batch before it, which may be in flight.
    return this.#port.isEmpty(open.batch) ? this.#queue.at(-2) : open;
  }

  #start(): void {
    if (this.#state !== 'idle') return;
    this.#state = 'scheduled';
    this.#port.schedule(() => void this.#run());
  }

  async #run(): Promise<void> {
    const slot = this.#queue[0];
    if (slot === undefined) return;
    this.#state = 'writing';
    if (this.#queue.length === 1) this.#queue.push({ batch: this.#port.create(), waiter: undefined });
    try {
      await this.#port.write(slot.batch);
    } catch (error) {
      this.#refuse(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    this.#queue.shift();
    this.#port.written(slot.batch);
    this.#state = 'idle';
    // The next write is scheduled before the waiters resume, so that it cannot be started twice. It runs after the
    // waiters have resumed, and includes the data they put.
    if (this.#queue.length > 1 || this.#queue[0]?.waiter !== undefined) this.#start();
    slot.waiter?.resolve();
  }

  #refuse(error: Error): void {
    const dropped = this.#queue;
    this.#queue = [{ batch: this.#port.create(), waiter: undefined }];
    this.#state = 'refused';
    this.#refusal = error;
    this.#port.refused();
    for (const slot of dropped) slot.waiter?.reject(error);
  }
}

function createWaiter(): Waiter {
  let settle: Pick<Waiter, 'resolve' | 'reject'> | undefined;
  const promise = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  if (settle === undefined) throw new Error('a promise runs its executor at once');
  // A caller may await only a later `flushed()`, which rejects with the same refusal (G5). So this rejection may stay
  // unhandled.
  promise.catch(() => undefined);
  return { promise, ...settle };
}
