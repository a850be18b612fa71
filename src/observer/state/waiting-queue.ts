/**
 * The calls that wait for a person, over all sessions.
 *
 * Owns: the first calls of the queue, and the request for them. Does not own: the events that change the queue; on such
 * an event the page calls `changed`.
 *  W1 At most one request is in flight. A change during a request leads to another request, at least `ASK_INTERVAL_MS`
 *     later.
 */
import { type Signal, signal } from '@preact/signals';
import { ASK_INTERVAL_MS } from '../bounds.ts';
import type { Api } from '../client/api.ts';
import type { WaitingPage } from '../wire.ts';

/** See the head of the file. */
export class WaitingQueue {
  /** The first calls of the queue; undefined until they were read. */
  readonly page: Signal<WaitingPage | undefined> = signal<WaitingPage | undefined>(undefined);
  readonly #api: Api;
  #isAsking = false;
  #isStale = false;
  #count: number | undefined;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Takes the number of waiting calls that the server counts. */
  counted(count: number | undefined): void {
    if (count === this.#count) return;
    this.#count = count;
    this.changed();
  }

  /** True if the session has a call in the page. */
  has(session: string): boolean {
    return this.page.value?.calls.some((call) => call.session === session) === true;
  }

  /** Called when the queue has changed or may have changed. */
  changed(): void {
    if (this.#isAsking) {
      this.#isStale = true;
      return;
    }
    this.#isAsking = true;
    this.#isStale = false;
    this.#api
      .waiting()
      .then(
        (page) => {
          this.page.value = page;
        },
        // The list of sessions reports a server that does not answer.
        () => undefined,
      )
      .finally(() => setTimeout(() => this.#rested(), ASK_INTERVAL_MS));
  }

  #rested(): void {
    this.#isAsking = false;
    if (this.#isStale) this.changed();
  }
}
