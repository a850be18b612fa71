/**
 * Requests that wait on this shard for something to become durable: receipts, ends of children, compressions, the
 * drain. A session that no request waits for has no entry.
 */
import { CancelledError, errorShape } from '../../base/errors.ts';
import { endOfChild } from '../../session/state/child-link.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { ChildEnd } from '../protocol/protocol.ts';
import type { Fate } from './outbox.ts';
import type { Reply } from './shard-parts.ts';

/** A request that waits. */
interface Waiter {
  readonly reply: Reply;
  /** Checks again, and answers or keeps waiting. */
  readonly again: () => void;
}

interface ReceiptWaiter extends Waiter {
  readonly pendingId: number;
  readonly until: 'promoted' | 'settled';
}

/** Requests that wait for one kind of thing, by session. */
class WaitersOf<Kind extends Waiter> {
  readonly #bySession = new Map<string, Kind[]>();

  has(session: string): boolean {
    return this.#bySession.has(session);
  }

  add(session: string, waiter: Kind): void {
    const waiting = this.#bySession.get(session);
    if (waiting === undefined) this.#bySession.set(session, [waiter]);
    else waiting.push(waiter);
  }

  /** Resolves the waiters of a session for which `isMet` holds. The others keep waiting. */
  resolve(session: string, value: unknown, isMet: (waiter: Kind) => boolean): void {
    const waiting = this.#bySession.get(session);
    if (waiting === undefined) return;
    const rest = waiting.filter((waiter) => !isMet(waiter));
    if (rest.length === waiting.length) return;
    if (rest.length === 0) this.#bySession.delete(session);
    else this.#bySession.set(session, rest);
    for (const waiter of waiting) if (isMet(waiter)) waiter.reply.resolve(value);
  }

  /** Takes out the waiters of one session. */
  take(session: string): readonly Kind[] {
    const waiting = this.#bySession.get(session) ?? [];
    this.#bySession.delete(session);
    return waiting;
  }

  /** Takes out the waiters of all sessions. */
  takeAll(): readonly Kind[] {
    const waiting = [...this.#bySession.values()].flat();
    this.#bySession.clear();
    return waiting;
  }
}

/** See the head of the file. */
export class ShardWaiters {
  readonly #receipts = new WaitersOf<ReceiptWaiter>();
  readonly #exits = new WaitersOf<Waiter>();
  readonly #compressions = new WaitersOf<Waiter>();
  #drains: (() => void)[] = [];

  /** True if a request waits for a receipt of this session. */
  has(session: string): boolean {
    return this.#receipts.has(session);
  }

  onReceipt(
    session: string,
    { pendingId, until }: { readonly pendingId: number; readonly until: 'promoted' | 'settled' },
    reply: Reply,
    again: () => void,
  ): void {
    this.#receipts.add(session, { pendingId, until, reply, again });
  }

  promoted(fates: readonly Fate[]): void {
    for (const { session, pendingId, receipt } of fates)
      this.#receipts.resolve(session, receipt, (each) => each.pendingId === pendingId && each.until === 'promoted');
  }

  settled(fates: readonly Fate[]): void {
    for (const { session, pendingId, receipt } of fates)
      this.#receipts.resolve(session, receipt, (each) => each.pendingId === pendingId);
  }

  /** True if a request waits for this child's end. */
  hasExit(session: string): boolean {
    return this.#exits.has(session);
  }

  onExit(session: string, reply: Reply, again: () => void): void {
    this.#exits.add(session, { reply, again });
  }

  /** Called when a child's end is durable. */
  exited(session: string, end: ChildEnd): void {
    for (const { reply } of this.#exits.take(session)) reply.resolve(end);
  }

  /** True if a request waits for a compression of this session. */
  hasCompression(session: string): boolean {
    return this.#compressions.has(session);
  }

  /** Adds a request. `again`: checks again when a compression has ended, or may have ended. */
  onCompression(session: string, reply: Reply, again: () => void): void {
    this.#compressions.add(session, { reply, again });
  }

  /** Called when the end of a compression of this session is durable. */
  compressed(session: string): void {
    for (const { again } of this.#compressions.take(session)) again();
  }

  /** Called when the log was read again: it may hold ends that were never published, so each request checks again. */
  askAgain(): void {
    for (const { again } of this.#takeAll()) again();
  }

  /** True if a request waits for the drain. */
  get areDraining(): boolean {
    return this.#drains.length > 0;
  }

  onDrained(done: () => void): void {
    this.#drains.push(done);
  }

  drained(): void {
    for (const done of this.#drains.splice(0)) done();
  }

  /** Called when a session was deleted: no request waits for it any more. */
  deleted(session: string): void {
    for (const { reply } of [...this.#receipts.take(session), ...this.#compressions.take(session)])
      reply.reject(new CancelledError(`session ${JSON.stringify(session)} was deleted`));
    this.exited(session, DELETED);
  }

  /** Called when the runtime closes: nothing is published any more. */
  closed(): void {
    for (const { reply } of this.#takeAll()) reply.reject(new CancelledError('the runtime was closed'));
    this.drained();
  }

  #takeAll(): readonly Waiter[] {
    return [...this.#receipts.takeAll(), ...this.#exits.takeAll(), ...this.#compressions.takeAll()];
  }
}

/** The end of a child that does not exist. */
export const DELETED: ChildEnd = Object.freeze({
  reason: 'cancelled',
  reply: '',
  error: errorShape(new CancelledError('the child was deleted')),
});

/** The end of a child with its current name. Undefined while the child has not ended. */
export function endOf(state: SessionState): ChildEnd | undefined {
  const end = endOfChild(state);
  return end === undefined || state.name === undefined ? end : { ...end, name: state.name };
}
