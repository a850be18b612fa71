/**
 * Writes heads lazily: never one a step, but of all sessions that changed, every second or so, and when one leaves memory
 * (architecture §4).
 *
 * Owns: which sessions changed since the last checkpoint. Does not own: the journal.
 *  K1 a checkpoint covers every session changed since the one before, so the tail before it need not be replayed;
 *  K2 no timer runs while nothing changed (A11).
 */

import { isRunnable, type SessionActor } from '../../actors/session-actor.ts';
import { CHECKPOINT_INTERVAL_MS, CHECKPOINT_TURNS, SNAPSHOT_TURNS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import type { Head, Journal } from '../journal/journal.ts';
import { snapshotState } from '../session/state.ts';
import { encodeHead, summaryOf } from './head.ts';

/** See the head of the file. */
export class Checkpointer {
  readonly #journal: Journal;
  readonly #clock: Clock;
  readonly #changed = new Set<SessionActor>();
  /** Heads of sessions that left memory since the last checkpoint. */
  readonly #passive = new Map<number, Head>();
  #position = 0;
  #turns = 0;
  #timer: unknown;

  constructor(journal: Journal, clock: Clock) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** A turn of this session was journalled. */
  changed(actor: SessionActor): void {
    this.#changed.add(actor);
    this.#passive.delete(actor.key);
    this.#position = Math.max(this.#position, actor.position);
    this.#turns += 1;
    if (this.#turns >= CHECKPOINT_TURNS) this.#write();
    else this.#timer ??= this.#clock.setTimer(() => this.#write(), CHECKPOINT_INTERVAL_MS);
  }

  /** An idle session leaves memory: its head is taken now, since later nobody has its state. */
  passivated(actor: SessionActor): void {
    if (!this.#changed.delete(actor)) return;
    this.#takeSnapshot(actor);
    this.#passive.set(actor.key, headOf(actor));
  }

  /** The state of this actor is not that of the log; its head is written when it has been read again. */
  forget(actor: SessionActor): void {
    this.#changed.delete(actor);
    this.#passive.delete(actor.key);
  }

  /** The last checkpoint, with snapshots of long logs, so that the next open reads little. */
  close(actors: Iterable<SessionActor>): void {
    for (const actor of actors) if (this.#changed.has(actor)) this.#takeSnapshot(actor);
    this.#write();
  }

  #write(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#turns = 0;
    const heads = [...this.#passive.values()];
    for (const actor of this.#changed) heads.push(headOf(actor));
    this.#passive.clear();
    this.#changed.clear();
    if (heads.length > 0) this.#journal.checkpoint(heads, this.#position);
  }

  #takeSnapshot(actor: SessionActor): void {
    if (actor.turnsSinceSnapshot < SNAPSHOT_TURNS) return;
    const address = this.#journal.putBlob(snapshotState(actor.state));
    actor.snapshot = { address, position: actor.position };
    actor.turnsSinceSnapshot = 0;
  }
}

function headOf(actor: SessionActor): Head {
  return {
    key: actor.key,
    position: actor.position,
    runnable: isRunnable(actor.state),
    data: encodeHead({
      summary: summaryOf(actor.state),
      ...(actor.snapshot === undefined ? {} : { snapshot: actor.snapshot }),
    }),
  };
}
