/**
 * The calls that wait for a person, over all sessions.
 *
 * Owns: the first calls of the queue, and the request for them. Does not own: the events that change the queue. Other
 * parts of the page call `changed` after such an event.
 *  W1 At most one request is in flight. The next request begins at least `ASK_INTERVAL_MS` after the end of the request
 *     before it. A change that comes earlier leads to that next request.
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

  /** True if `page` has a call of this session. */
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
        // The calls that were read before stay on the page. The next change asks again.
        () => undefined,
      )
      .finally(() => setTimeout(() => this.#rested(), ASK_INTERVAL_MS));
  }

  #rested(): void {
    this.#isAsking = false;
    if (this.#isStale) this.changed();
  }
}
