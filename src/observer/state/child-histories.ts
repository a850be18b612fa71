/**
 * Reads the times at which a session's children worked and waited before the page watched them. The times come from the
 * logs of the children in view.
 *
 * Owns: the set of children whose histories were requested. Does not own: the time line.
 *  H1 A child's history is read once. At most `HISTORIES_MAX` children are read at a time, because a browser has few
 *   connections to one server.
 *  H2 A child is not read if it left the view before its history was requested.
 */
import { DETAIL_REST_MS, DETAIL_ROWS_MAX, HISTORIES_MAX, REQUEST_TIMEOUT_MS, SESSIONS_MAX } from '../bounds.ts';
import type { Api } from '../client/api.ts';
import { openStream } from '../client/event-stream.ts';
import type { ChildState } from '../model/time-line.ts';
import { readViewedEvent } from '../wire.ts';

/** See the head of the file. */
export class ChildHistories {
  readonly #api: Api;
  readonly #onHistory: (child: string, states: readonly ChildState[]) => void;
  readonly #asked: Set<string> = new Set();
  #wanted: readonly string[] = [];
  #reading = 0;
  #isClosed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(api: Api, onHistory: (child: string, states: readonly ChildState[]) => void) {
    this.#api = api;
    this.#onHistory = onHistory;
  }

  /** Sets the children in view whose past is not known: their rows of the time line have an `unseen` stretch. */
  want(children: readonly string[]): void {
    this.#wanted = children.slice(0, DETAIL_ROWS_MAX).filter((id) => !this.#asked.has(id));
    clearTimeout(this.#timer);
    if (this.#wanted.length > 0) this.#timer = setTimeout(() => this.#next(), DETAIL_REST_MS);
  }

  /** Begins no further reading; `onHistory` is not called after this. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #next(): void {
    while (this.#reading < HISTORIES_MAX && !this.#isClosed) {
      const [child, ...rest] = this.#wanted;
      if (child === undefined) return;
      this.#wanted = rest;
      if (this.#asked.size >= SESSIONS_MAX) this.#asked.clear();
      this.#asked.add(child);
      this.#reading += 1;
      this.#read(child)
        .then(
          (states) => {
            if (!this.#isClosed) this.#onHistory(child, states);
          },
          // A child that cannot be read, for example because it was deleted, stays as the parent's log shows it.
          () => undefined,
        )
        .finally(() => {
          this.#reading -= 1;
          this.#next();
        });
    }
  }

  /** The states of a child, up to the newest event that the child has at this time. */
  async #read(child: string): Promise<readonly ChildState[]> {
    const { seq } = await this.#api.session(child);
    if (seq === 0) return [];
    return await new Promise((resolve, reject) => {
      const states: ChildState[] = [];
      const path = `sessions/${encodeURIComponent(child)}/events?mode=basic&deltas=false&after=0`;
      const end = (): void => {
        clearTimeout(timer);
        stream.close();
      };
      const stream = openStream({
        address: () => this.#api.stream(path),
        onEvent: ({ data }) => {
          const event = readViewedEvent(data);
          if (event?.type === 'session.state') states.push({ at: event.at, isWorking: event.state !== 'idle' });
          if (event?.seq === undefined || event.seq < seq) return;
          end();
          resolve(states);
        },
        onState: (state) => {
          if (state.kind !== 'refused' && state.kind !== 'lost') return;
          end();
          reject(new Error('the history of a child was cut off'));
        },
      });
      const timer = setTimeout(() => {
        end();
        reject(new Error('the history of a child did not come in time'));
      }, REQUEST_TIMEOUT_MS);
    });
  }
}
