/**
 * Requests the details of sessions that the list does not have (tokens, phase), for the rows in view.
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
  /** The requested sessions by view: those of the tree's rows, and those of the overview. */
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
        // A session whose request fails stays as the list shows it. The list reports an unreachable server.
        .then(this.#onDetail, () => undefined)
        .finally(() => {
          this.#running -= 1;
          this.#ask();
        });
    }
  }
}
