/**
 * The guests of one shard: the hosts of other nodes of the cluster that use the shard over a line. The shard answers a
 * guest as it answers this host, and knows nothing of guests.
 *
 * Owns: the lines of the guests, and the sessions that each guest reads. Does not own: the shard; the line's security
 * (`src/cluster/line`); the readers at the guest's node.
 *
 * Invariants:
 *  GU1 a guest uses one incarnation of the shard. When that ends, all lines end, and the guest continues at the next one
 *     as after the death of a session thread;
 *  GU2 the shard publishes a session exactly while this host or a guest reads it. A guest receives the events and
 *     messages of the sessions that it reads, and no others;
 *  GU3 a guest cannot ask for what belongs to the host of the thread: to start, stop or copy it, or to wait for
 *     listeners.
 */
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { type ErrorShape, TroupeError } from '../../base/errors.ts';
import type { PublishedEvent } from '../../events/event.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { SaidNote, ShardMethods } from '../protocol/protocol.ts';
import type { FollowedReceipts } from './followed-receipts.ts';
import type { ShardWatches } from './shard-watches.ts';

/** Methods that only the host of the thread may call (GU3). */
const OF_THE_HOST: ReadonlySet<string> = new Set<keyof ShardMethods>([
  'history.gate',
  'notices.page',
  'notices.scan',
  'runtime.close',
  'runtime.copy',
  'runtime.learn',
  'runtime.standStill',
  'sessions.introduce',
]);

/** A request over a line. The other host has checked the contents, as this host does for its own requests. */
export const lineRequestSchema: z.ZodType<{ readonly method: string; readonly request?: unknown }> = z.strictObject({
  method: z.string(),
  request: z.unknown(),
});
const watchSchema = z.strictObject({ session: z.string().optional(), on: z.boolean() });
const listenSchema = z.strictObject({ session: z.string(), on: z.boolean() });
const sendSchema = z.looseObject({ follow: z.number().optional() });

/** The host of another node, and what it reads. */
interface Guest {
  readonly line: Endpoint;
  readonly watched: Set<string | undefined>;
  readonly listened: Set<string>;
}

/** The parts of the guests of one incarnation. */
export interface ShardGuestsParts {
  /** The incarnation of the shard. */
  readonly shard: Pick<Endpoint, 'call'>;
  /** The sessions that this host reads. */
  readonly own: ShardWatches;
  readonly receipts: FollowedReceipts;
}

/** See the head of the file. Lives on the host thread of the node that has the shard. */
export class ShardGuests {
  readonly #parts: ShardGuestsParts;
  readonly #guests = new Set<Guest>();
  #refusal: ErrorShape | undefined;

  constructor(parts: ShardGuestsParts) {
    this.#parts = parts;
  }

  /** Serves the guest at the other side of a line until the line ends. */
  admit(line: Endpoint): void {
    const guest: Guest = { line, watched: new Set(), listened: new Set() };
    this.#guests.add(guest);
    line.handle('ask', (payload) => {
      const { method, request } = lineRequestSchema.parse(payload);
      return this.#answer(guest, method, request);
    });
    line.onClose(() => this.#left(guest));
    if (this.#refusal !== undefined) line.notify('degraded', { error: this.#refusal });
  }

  /** True if a guest reads the events of this session, or of all sessions (`undefined`). */
  isWatched(session: string | undefined): boolean {
    return [...this.#guests].some(({ watched }) => watched.has(session));
  }

  /** True if a guest has callbacks for the messages of this session. */
  isListened(session: string): boolean {
    return [...this.#guests].some(({ listened }) => listened.has(session));
  }

  /** Passes on the events that the shard has published. */
  events(events: readonly PublishedEvent[]): void {
    for (const { line, watched } of this.#guests) {
      if (watched.size === 0) continue;
      const read = watched.has(undefined) ? events : events.filter(({ session }) => watched.has(session));
      if (read.length > 0) line.notify('events', { events: read });
    }
  }

  /** Passes on the new messages of a session. */
  said(note: SaidNote): void {
    for (const { line, listened } of this.#guests) if (listened.has(note.session)) line.notify('history.said', note);
  }

  /** Called when the store of the shard refuses writes, and when it accepts them again (`undefined`). */
  degraded(error: ErrorShape | undefined): void {
    this.#refusal = error;
    for (const { line } of this.#guests) line.notify('degraded', defined({ error }));
  }

  /** Ends all lines (GU1). */
  close(): void {
    for (const { line } of this.#guests) line.close();
    this.#guests.clear();
  }

  #answer(guest: Guest, method: string, request: unknown): Promise<unknown> {
    const { shard } = this.#parts;
    if (OF_THE_HOST.has(method)) {
      throw new TroupeError('internal', `only the host of a shard may call ${JSON.stringify(method)}`);
    }
    if (method === 'session.watch') return this.#watch(guest, watchSchema.parse(request));
    if (method === 'history.watch') return this.#listen(guest, listenSchema.parse(request));
    if (method === 'session.send') return this.#send(guest, request);
    return shard.call(method, request);
  }

  async #watch(guest: Guest, { session, on }: z.infer<typeof watchSchema>): Promise<unknown> {
    if (on) guest.watched.add(session);
    else guest.watched.delete(session);
    if (!on && this.#isStillWatched(session)) return undefined;
    return this.#parts.shard.call('session.watch', { on, ...defined({ session }) });
  }

  async #listen(guest: Guest, { session, on }: z.infer<typeof listenSchema>): Promise<unknown> {
    if (on) guest.listened.add(session);
    else guest.listened.delete(session);
    if (!on && this.#isStillListened(session)) return undefined;
    return this.#parts.shard.call('history.watch', { session, on });
  }

  /** Sends a message. Each host numbers its followed receipts itself, so the request gets a number of this host. */
  async #send({ line }: Guest, request: unknown): Promise<unknown> {
    const { shard, receipts } = this.#parts;
    const { follow, ...message } = sendSchema.parse(request);
    if (follow === undefined) return shard.call('session.send', message);
    const { id, settled } = receipts.follow();
    void settled.then((state) => line.notify('receipt.settled', { follow, state }));
    try {
      return await shard.call('session.send', { ...message, follow: id });
    } catch (error) {
      receipts.notify(id, undefined);
      throw error;
    }
  }

  #left(guest: Guest): void {
    if (!this.#guests.delete(guest)) return;
    const { shard } = this.#parts;
    // The calls fail only if the shard ends, and then nothing is published either.
    for (const session of guest.watched) {
      if (!this.#isStillWatched(session))
        shard.call('session.watch', { on: false, ...defined({ session }) }).catch(() => undefined);
    }
    for (const session of guest.listened) {
      if (!this.#isStillListened(session)) shard.call('history.watch', { session, on: false }).catch(() => undefined);
    }
  }

  #isStillWatched(session: string | undefined): boolean {
    return this.#parts.own.isWatched(session) || this.isWatched(session);
  }

  #isStillListened(session: string): boolean {
    return this.#parts.own.isListened(session) || this.isListened(session);
  }
}
