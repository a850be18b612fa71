/**
 * Who waits on this shard for something to become durable: receipts, children's ends, the drain. Plain callbacks, one each;
 * a session nobody waits for has none.
 */
import { CancelledError, errorShape } from '../../base/errors.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { ChildEnd } from '../protocol/protocol.ts';
import type { Reply } from './shard-parts.ts';
import type { Fate } from './turn-gathering.ts';

interface ReceiptWaiter {
  readonly pendingId: number;
  readonly until: 'promoted' | 'settled';
  readonly reply: Reply;
  readonly again: () => void;
}

/** Somebody who waits for a compression to be over: `again` looks anew. */
interface CompressionWaiter {
  readonly reply: Reply;
  readonly again: () => void;
}

interface ExitWaiter {
  readonly reply: Reply;
  readonly again: () => void;
}

/** See the head of the file. */
export class ShardWaiters {
  readonly #receipts = new Map<string, ReceiptWaiter[]>();
  readonly #exits = new Map<string, ExitWaiter[]>();
  readonly #compressions = new Map<string, CompressionWaiter[]>();
  #drains: (() => void)[] = [];

  /** Somebody waits for a receipt of this session. */
  has(session: string): boolean {
    return this.#receipts.has(session);
  }

  /** `again`: asks anew, for `askAgain`. */
  onReceipt(
    session: string,
    wanted: { readonly pendingId: number; readonly until: 'promoted' | 'settled' },
    reply: Reply,
    again: () => void,
  ): void {
    const waiting = this.#receipts.get(session);
    const waiter = { pendingId: wanted.pendingId, until: wanted.until, reply, again };
    if (waiting === undefined) this.#receipts.set(session, [waiter]);
    else waiting.push(waiter);
  }

  promoted(fates: readonly Fate[]): void {
    for (const fate of fates) this.#answer(fate, (waiter) => waiter.until === 'promoted');
  }

  settled(fates: readonly Fate[]): void {
    for (const fate of fates) this.#answer(fate, () => true);
  }

  #answer(fate: Fate, isMet: (waiter: ReceiptWaiter) => boolean): void {
    const waiting = this.#receipts.get(fate.session);
    if (waiting === undefined) return;
    const [only] = waiting;
    if (waiting.length === 1 && only !== undefined) {
      if (only.pendingId !== fate.pendingId || !isMet(only)) return;
      this.#receipts.delete(fate.session);
      only.reply.resolve(fate.receipt);
      return;
    }
    const rest = waiting.filter((waiter) => {
      const isDone = waiter.pendingId === fate.pendingId && isMet(waiter);
      if (isDone) waiter.reply.resolve(fate.receipt);
      return !isDone;
    });
    if (rest.length === 0) this.#receipts.delete(fate.session);
    else this.#receipts.set(fate.session, rest);
  }

  /** Somebody waits for this child's end. */
  hasExit(session: string): boolean {
    return this.#exits.has(session);
  }

  /** `again`: asks anew, for `askAgain`. */
  onExit(session: string, reply: Reply, again: () => void): void {
    const waiting = this.#exits.get(session);
    if (waiting === undefined) this.#exits.set(session, [{ reply, again }]);
    else waiting.push({ reply, again });
  }

  /** Somebody waits for a compression of this session. */
  hasCompression(session: string): boolean {
    return this.#compressions.has(session);
  }

  /** `again`: looks anew, when one is over or may be. */
  onCompression(session: string, reply: Reply, again: () => void): void {
    const waiting = this.#compressions.get(session);
    if (waiting === undefined) this.#compressions.set(session, [{ reply, again }]);
    else waiting.push({ reply, again });
  }

  /** A compression of this session is over, and that is durable. */
  compressed(session: string): void {
    const waiting = this.#compressions.get(session);
    if (waiting === undefined) return;
    this.#compressions.delete(session);
    for (const { again } of waiting) again();
  }

  /** The log was read again, and may say what nobody was told: all who wait ask anew, and wait on or are answered. */
  askAgain(): void {
    const waiting = [...this.#receipts.values(), ...this.#exits.values(), ...this.#compressions.values()].flat();
    this.#receipts.clear();
    this.#exits.clear();
    this.#compressions.clear();
    for (const { again } of waiting) again();
  }

  /** A child's end is durable. */
  exited(session: string, end: ChildEnd): void {
    const waiting = this.#exits.get(session);
    if (waiting === undefined) return;
    this.#exits.delete(session);
    for (const { reply } of waiting) reply.resolve(end);
  }

  /** Somebody waits for the drain. */
  get areDraining(): boolean {
    return this.#drains.length > 0;
  }

  onDrained(done: () => void): void {
    this.#drains.push(done);
  }

  drained(): void {
    if (this.#drains.length === 0) return;
    const waiting = this.#drains;
    this.#drains = [];
    for (const done of waiting) done();
  }

  /** A session is gone: who waited for it is told. */
  deleted(session: string): void {
    for (const waiter of this.#receipts.get(session) ?? []) {
      waiter.reply.reject(new CancelledError(`session ${JSON.stringify(session)} was deleted`));
    }
    this.#receipts.delete(session);
    for (const { reply } of this.#compressions.get(session) ?? []) {
      reply.reject(new CancelledError(`session ${JSON.stringify(session)} was deleted`));
    }
    this.#compressions.delete(session);
    this.exited(session, DELETED);
  }

  /** The runtime closes: nothing will be told any more. */
  closed(): void {
    for (const waiting of this.#receipts.values()) {
      for (const waiter of waiting) waiter.reply.reject(new CancelledError('the runtime was closed'));
    }
    this.#receipts.clear();
    for (const waiting of this.#exits.values()) {
      for (const { reply } of waiting) reply.reject(new CancelledError('the runtime was closed'));
    }
    this.#exits.clear();
    for (const waiting of this.#compressions.values()) {
      for (const { reply } of waiting) reply.reject(new CancelledError('the runtime was closed'));
    }
    this.#compressions.clear();
    this.drained();
  }
}

/** The end of a child that is not there. */
export const DELETED: ChildEnd = Object.freeze({
  reason: 'cancelled',
  reply: '',
  error: errorShape(new CancelledError('the child was deleted')),
});

/** A child's end, with the name it has come to have; undefined while it has not ended. */
export function endOf({ exit, name }: SessionState): ChildEnd | undefined {
  return exit === undefined || name === undefined ? exit : { ...exit, name };
}
