/**
 * The sessions of one shard that this host reads: their events, and their new messages.
 *
 * Owns: the list of them, which each incarnation of the shard receives. Does not own: the readers
 * (`EventHub`, `MessageCallbacks`), the sessions that other nodes read (`shard-guests.ts`).
 */
import { defined } from '../../base/defined.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ShardMethods } from '../protocol/protocol.ts';

/** See the head of the file. */
export class ShardWatches {
  /** The watched sessions; `undefined` stands for all sessions. */
  readonly #watched = new Set<string | undefined>();
  /** Sessions whose messages have callbacks. */
  readonly #listened = new Set<string>();
  /** True while sessions are introduced before their first event. */
  introduces = false;

  /** Notes that a session's events, or all events (`undefined`), are read, or no longer. */
  watch(session: string | undefined, on: boolean): void {
    if (on) this.#watched.add(session);
    else this.#watched.delete(session);
  }

  /** Notes that a session's messages have callbacks, or no longer. */
  listen(session: string, on: boolean): void {
    if (on) this.#listened.add(session);
    else this.#listened.delete(session);
  }

  isWatched(session: string | undefined): boolean {
    return this.#watched.has(session);
  }

  isListened(session: string): boolean {
    return this.#listened.has(session);
  }

  /**
   * Sends the list to a new incarnation of the shard. Another node introduces sessions to its own host only. Rejects if
   * the incarnation ends meanwhile.
   */
  async repeat(endpoint: Endpoint, isHere: boolean): Promise<void> {
    const introduces = this.introduces && isHere ? [endpoint.call('sessions.introduce', { on: true })] : [];
    const watches = [...this.#watched].map((session) =>
      endpoint.call('session.watch', { on: true, ...defined({ session }) }),
    );
    const listens = [...this.#listened].map((session) => endpoint.call('history.watch', { session, on: true }));
    await Promise.all([...introduces, ...watches, ...listens]);
  }

  /**
   * Passes the newest event of each watched session to `remind`. A reader that missed durable events then notices the
   * gap, and reads the missing events from the log. If the incarnation ends meanwhile, the next one is asked.
   */
  async remind(endpoint: Endpoint, remind: (event: SessionEvent) => void): Promise<void> {
    for (const session of this.#watched) {
      if (session === undefined) continue;
      try {
        const { seq } = (await endpoint.call('session.state', { session })) as ShardMethods['session.state']['answer'];
        const request = { session, after: seq - 1, limit: 1 };
        const page = (await endpoint.call('session.events', request)) as ShardMethods['session.events']['answer'];
        for (const event of page.events) remind(event);
      } catch {
        return;
      }
    }
  }
}
