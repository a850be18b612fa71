/**
 * Callbacks for the messages of sessions, on the host thread.
 *
 * Owns: the callbacks, by session, and the order in which they are notified. Does not own: the messages, which the
 * shard publishes after its flush.
 *  M1 a message reaches every callback that was registered when its dispatch began, in order of registration. Only then
 *     is the session's next message dispatched, so all callbacks see the same order;
 *  M2 the error of a callback (thrown, or a rejection) is logged. The other callbacks still get the message;
 *  M3 a session is watched on its shard exactly while it has callbacks.
 */
import { MESSAGE_CALLBACKS_MAX } from '../../base/bounds.ts';
import { asError, describeValue, errorShape, InvalidArgumentError, LimitError } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { LogLine, SaidNote } from '../protocol/protocol.ts';

/** Receives one message. Its return value is not awaited. */
export type MessageCallback = (message: HistoryMessage) => unknown;

/** The parts that the callbacks need. */
export interface MessageCallbacksParts {
  readonly listen: (session: string, on: boolean) => Promise<void>;
  readonly log: (line: LogLine) => void;
}

interface Listeners {
  callbacks: readonly MessageCallback[];
  /** Messages not dispatched yet. Empty unless a dispatch is in progress. */
  readonly waiting: HistoryMessage[];
  isDispatching: boolean;
}

/** See the head of the file. */
export class MessageCallbacks {
  readonly #parts: MessageCallbacksParts;
  readonly #bySession = new Map<string, Listeners>();

  constructor(parts: MessageCallbacksParts) {
    this.#parts = parts;
  }

  /**
   * Registers a callback; a callback registered twice is called twice. Throws `InvalidArgumentError`
   * (`callback_required`), `LimitError`.
   */
  add(session: string, callback: unknown): void {
    if (typeof callback !== 'function') {
      throw new InvalidArgumentError('callback_required', `onMessage needs a function, got ${describeValue(callback)}`);
    }
    const known = this.#bySession.get(session);
    if (known !== undefined && known.callbacks.length >= MESSAGE_CALLBACKS_MAX) {
      throw new LimitError(`a session has at most ${MESSAGE_CALLBACKS_MAX} message callbacks`, {
        data: { limit: 'messageCallbacks', value: known.callbacks.length },
      });
    }
    const hearing = callback as MessageCallback;
    if (known !== undefined) {
      // The list is replaced, not changed, because a dispatch in progress keeps the old list (M1).
      known.callbacks = [...known.callbacks, hearing];
      return;
    }
    this.#bySession.set(session, { callbacks: [hearing], waiting: [], isDispatching: false });
    // The setting is sent over the same ordered connection as requests, so it takes effect before any later request.
    this.#parts.listen(session, true).catch((error: unknown) => this.#logThrown('cannot listen', session, error));
  }

  /** Takes the messages of a shard. */
  said({ session, messages }: SaidNote): void {
    const listeners = this.#bySession.get(session);
    if (listeners === undefined) return;
    // The messages are copied, because a shard on this thread sends its own objects.
    listeners.waiting.push(...structuredClone(messages));
    if (listeners.isDispatching) return;
    listeners.isDispatching = true;
    try {
      for (let next = listeners.waiting.shift(); next !== undefined; next = listeners.waiting.shift()) {
        for (const callback of listeners.callbacks) this.#hear(session, callback, next);
      }
    } finally {
      listeners.isDispatching = false;
    }
  }

  /** Called when the session is deleted: its callbacks receive nothing more. */
  forget(session: string): void {
    if (!this.#bySession.delete(session)) return;
    this.#parts.listen(session, false).catch((error: unknown) => this.#logThrown('cannot unlisten', session, error));
  }

  #hear(session: string, callback: MessageCallback, message: HistoryMessage): void {
    const failed = (error: unknown): void => this.#logThrown('a message callback failed', session, error);
    try {
      const result = callback(message);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #logThrown(message: string, session: string, thrown: unknown): void {
    this.#parts.log({ level: 'error', message, session, error: errorShape(asError(thrown)) });
  }
}
