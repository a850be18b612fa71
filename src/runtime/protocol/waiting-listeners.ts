/**
 * The listeners that the runs of sessions wait for, on the host thread. A listener is notified of each message at its
 * message boundary, and may stop the run there.
 *
 * Owns: the registrations. Does not own: the decision when a boundary begins (made on the session's thread), callbacks
 * that no run waits for.
 *  W1 listeners are notified one after the other, in the order of their registration; each is notified of every message
 *     of a boundary;
 *  W2 the list is fixed when a boundary begins: a listener that is registered during a boundary is first notified at
 *   the next boundary;
 *  W3 the first request to interrupt counts. Later messages of the boundary still reach the listeners, because these
 *     messages are stored all the same.
 */
import { WAITING_LISTENERS_MAX } from '../../base/bounds.ts';
import { describeValue, LimitError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';

/** The actions of a listener that a run waits for. */
export interface BoundaryControl {
  /** Stops the run at this message: no further call executes. The turn's outcome has `reason` verbatim. */
  interrupt(reason?: string | null): void;
}

/**
 * A function that is notified of each message that a run stores. The run waits until the listener has returned, or
 * until its promise has settled. After a crash the listener may be notified of a message twice. If the listener throws,
 * the turn fails and the message stays. Host thread.
 */
export type WaitingListener = (message: HistoryMessage, control: BoundaryControl) => void | Promise<void>;

/** With `on`, makes a session's runs wait for its listeners; otherwise the runs no longer wait. */
type ListenerGate = (session: string, on: boolean) => void;

/** See the head of the file. */
export class WaitingListeners {
  readonly #listeners = new Map<string, { readonly listener: WaitingListener }[]>();

  /** Sessions that have listeners. */
  get sessions(): readonly string[] {
    return [...this.#listeners.keys()];
  }

  /**
   * Registers a listener as `add` does, and removes it when its signal aborts. `gate` is called with true at once, and
   * with false once the session has no listener left.
   */
  addUntil(session: string, listener: WaitingListener, signal: AbortSignal | undefined, gate: ListenerGate): void {
    if (signal?.aborted === true) return;
    const remove = this.add(session, listener);
    gate(session, true);
    const end = (): void => {
      remove();
      if (!this.#listeners.has(session)) gate(session, false);
    };
    signal?.addEventListener('abort', end, { once: true });
  }

  /**
   * Registers a listener; a function registered twice is notified twice. Returns the function that removes it. Throws
   * `LimitError` (`limit`) at the bound.
   */
  add(session: string, listener: WaitingListener): () => void {
    const entry = { listener };
    const known = this.#listeners.get(session) ?? [];
    if (known.length >= WAITING_LISTENERS_MAX) {
      throw new LimitError(`session ${JSON.stringify(session)} has ${WAITING_LISTENERS_MAX} listeners already`, {
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

  /**
   * Notifies the listeners of the messages of a boundary. Resolves with the first request to stop, if any; rejects with
   * the error of a listener.
   */
  async notify(
    session: string,
    messages: readonly HistoryMessage[],
  ): Promise<{ readonly reason: string | null } | undefined> {
    const listeners = this.#listeners.get(session) ?? [];
    let interrupt: { readonly reason: string | null } | undefined;
    const control: BoundaryControl = {
      interrupt: (reason) => {
        if (typeof (reason ?? '') !== 'string') {
          throw new TypeError(`interrupt(reason) takes a string, null or nothing; got ${describeValue(reason)}`);
        }
        interrupt ??= { reason: reason ?? null };
      },
    };
    for (const message of messages) for (const { listener } of listeners) await listener(message, control);
    return interrupt;
  }
}
