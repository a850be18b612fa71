/**
 * Listeners a session's runs wait for, on the host thread: told of each message at its boundary, and able to stop the run
 * there.
 *
 * Owns: the registrations. Does not own: when there is a boundary (the session's own thread), listeners nobody waits for.
 *  W1 listeners are told in the order of their registration, one after the other, each of every message of a boundary;
 *  W2 the list is taken when the telling of a boundary starts: who is registered within it hears the next one;
 *  W3 the first request to interrupt counts; later messages of the boundary are told all the same, as they are stored.
 */
import { WAITING_LISTENERS_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';

/** What a listener that is waited for may do. */
export interface BoundaryControl {
  /** Stops the run at this message: nothing further executes. `reason` comes back verbatim. */
  interrupt(reason?: string | null): void;
}

/**
 * Told of each message a run stores; the run waits until it has returned, or its promise is settled. May be told twice of
 * one message where a crash came between. What it throws fails the turn; the message stays. Host thread.
 */
export type WaitingListener = (message: HistoryMessage, control: BoundaryControl) => void | Promise<void>;

/** See the head of the file. */
export class WaitingListeners {
  readonly #listeners = new Map<string, { readonly listener: WaitingListener }[]>();

  /** Sessions that have any. */
  get sessions(): readonly string[] {
    return [...this.#listeners.keys()];
  }

  has(session: string): boolean {
    return this.#listeners.has(session);
  }

  /** Registers one; the same function twice is told twice. Returns what ends it. Throws `LimitError` (`limit`) at the bound. */
  add(session: string, listener: WaitingListener): () => void {
    const entry = { listener };
    const known = this.#listeners.get(session) ?? [];
    if (known.length >= WAITING_LISTENERS_MAX) {
      throw new LimitError(`session ${JSON.stringify(session)} has ${WAITING_LISTENERS_MAX} listeners it waits for`, {
        data: { limit: 'waitingListeners' },
      });
    }
    this.#listeners.set(session, [...known, entry]);
    return () => {
      const left = (this.#listeners.get(session) ?? []).filter((each) => each !== entry);
      if (left.length === 0) this.#listeners.delete(session);
      else this.#listeners.set(session, left);
    };
  }

  /** Tells the messages of a boundary. Resolves with the first request to stop, if any; rejects with what a listener threw. */
  async tell(
    session: string,
    messages: readonly HistoryMessage[],
  ): Promise<{ readonly reason: string | null } | undefined> {
    const listeners = this.#listeners.get(session) ?? [];
    let interrupt: { readonly reason: string | null } | undefined;
    const control: BoundaryControl = {
      interrupt: (reason) => {
        interrupt ??= { reason: reason ?? null };
      },
    };
    for (const message of messages) for (const { listener } of listeners) await listener(message, control);
    return interrupt;
  }
}
