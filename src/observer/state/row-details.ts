/**
 * Requests the tokens and the phase of the sessions in view, because the list of sessions does not have these details.
 *
 * Owns: the set of sessions whose details were requested. Does not own: the rows.
 *  D1 A session is requested once, because its events bring later changes. At most `DETAIL_REQUESTS_MAX` requests are
 *   in flight.
 *  D2 A session is not requested if it left the view before its request began.
 */
import { DETAIL_REQUESTS_MAX, DETAIL_REST_MS, DETAIL_ROWS_MAX, SESSIONS_MAX } from '../bounds.ts';
import type { Api } from '../client/api.ts';
import type { SessionDetail } from '../wire.ts';

/** See the head of the file. */
export class RowDetails {
  readonly #api: Api;
  readonly #onDetail: (detail: SessionDetail) => void;
  readonly #asked: Set<string> = new Set();
  /** The sessions that each view asked for: `tree` for the rows of the tree, `overview` for the overview. */
  readonly #views: Map<string, readonly string[]> = new Map();
  #wanted: readonly string[] = [];
  #running = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api, onDetail: (detail: SessionDetail) => void) {
    this.#api = api;
    this.#onDetail = onDetail;
  }

  /** Sets the rows of this view that lack details. */
  want(view: 'tree' | 'overview', ids: readonly string[]): void {
    this.#views.set(view, ids.slice(0, DETAIL_ROWS_MAX));
    this.#wanted = [...this.#views.values()].flat().filter((id) => !this.#asked.has(id));
    clearTimeout(this.#timer);
    if (this.#wanted.length > 0) this.#timer = setTimeout(() => this.#ask(), DETAIL_REST_MS);
  }

  #ask(): void {
    while (this.#running < DETAIL_REQUESTS_MAX) {
      const [id, ...rest] = this.#wanted;
      if (id === undefined) return;
      this.#wanted = rest;
      if (this.#asked.size >= SESSIONS_MAX) this.#asked.clear();
      this.#asked.add(id);
      this.#running += 1;
      this.#api
        .session(id)
        // If the request fails, the row stays as the list of sessions has it.
        .then(this.#onDetail, () => undefined)
        .finally(() => {
          this.#running -= 1;
          this.#ask();
        });
    }
  }
}
