/**
 * Writes heads lazily: not at each transition, but for all changed sessions about every second, and when a session
 * leaves memory. A head is the summary of a session in the journal, with the address of its snapshot.
 *
 * Owns: which sessions changed since the last checkpoint. Does not own: the journal.
 *  K1 a checkpoint covers every session changed since the previous checkpoint, so an open need not replay the log
 *     before the checkpoint. A new head covers its session. An older head with `runnable` covers a session that works:
 *     an open reads its log. Such a head is out of date, so code that reads heads alone must check `runnable`;
 *  K2 no timer runs while nothing changed (A11);
 *  K3 a session whose actor was dropped counts as changed. The next checkpoint marks its head as `runnable`, because
 *     the session may have work to do;
 *  K4 a snapshot is removed only by the write of a head of its session that names another snapshot, or none.
 */

import type { SessionActor } from '../../../actors/session-actor.ts';
import { CHECKPOINT_INTERVAL_MS, type ShardBounds } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Head, SessionKey } from '../../journal/position.ts';
import { snapshotState } from '../../session/state/snapshot.ts';
import { decodeHead, encodeHead } from '../reading/head.ts';
import { headOf, withBase } from '../reading/session-head.ts';

/** See the head of the file. */
export class Checkpointer {
  readonly #journal: Journal;
  readonly #clock: Clock;
  readonly #bounds: ShardBounds;
  readonly #changed = new Set<SessionActor>();
  /** Heads of sessions that left memory since the last checkpoint. */
  readonly #passive = new Map<number, Head>();
  /** Actors that were dropped since the last checkpoint. */
  readonly #dropped = new Map<SessionKey, SessionActor>();
  /**
   * The snapshot addresses of each session that got a new snapshot since the last checkpoint. All but one are removed
   * (K4).
   */
  readonly #snapshots = new Map<SessionKey, Set<string>>();
  #position = 0;
  #turns = 0;
  #holds = 0;
  #timer: unknown;

  constructor(journal: Journal, clock: Clock, bounds: ShardBounds) {
    this.#journal = journal;
    this.#clock = clock;
    this.#bounds = bounds;
  }

  /**
   * Notes that a transition of these sessions was journalled. One call takes all sessions of the transition, because a
   * checkpoint may be due within the call (K1).
   */
  changed(written: readonly { readonly actor: SessionActor }[]): void {
    for (const { actor } of written) {
      this.#changed.add(actor);
      if (this.#passive.size > 0) this.#passive.delete(actor.key);
      if (this.#dropped.size > 0) this.#dropped.delete(actor.key);
      this.#position = Math.max(this.#position, actor.position);
      this.#turns += 1;
    }
    if (this.#holds === 0) this.#schedule();
  }

  /**
   * Prevents checkpoints until `letGo`, while sessions that the next checkpoint must cover are being read (K1). Calls
   * may be nested.
   */
  hold(): void {
    this.#holds += 1;
    // A checkpoint that was already due would otherwise be written while the sessions are being read.
    this.#clearTimer();
  }

  letGo(): void {
    this.#holds -= 1;
    if (this.#holds === 0 && this.#changed.size + this.#passive.size + this.#dropped.size > 0) this.#schedule();
  }

  /** The head of a session that left memory, if it is not written yet. */
  pending(key: SessionKey): Head | undefined {
    return this.#passive.get(key);
  }

  /** Called when an idle session leaves memory. Its head is taken now, since its state is gone afterwards. */
  passivated(actor: SessionActor): void {
    if (!this.#changed.delete(actor)) return;
    this.#takeSnapshot(actor);
    this.#passive.set(actor.key, headOf(actor));
  }

  /**
   * Called when a session was read back into memory. If a newer head of the session waits to be written, the stored
   * head does not cover the session, whatever its `runnable` says (K1).
   */
  returned(actor: SessionActor): void {
    if (this.#passive.has(actor.key)) actor.isHeadRunnable = false;
  }

  /**
   * Notes that the log of a session could not be read. Its head is written as runnable, so that the next open tries
   * again.
   */
  unread(id: string, key: SessionKey): void {
    const known = this.pending(key) ?? this.#journal.head(key);
    const summary = { id, agent: '', state: 'idle', status: 'blocked', mailbox: 0, updatedAt: 0 } as const;
    this.#passive.set(
      key,
      known === undefined
        ? { key, position: 0, runnable: true, data: encodeHead({ summary }) }
        : { ...known, runnable: true },
    );
  }

  /**
   * Makes the next checkpoint leave out this session. The session was deleted, or its actor was dropped: then the part
   * of the log after the last checkpoint has its changes.
   */
  forget(actor: SessionActor): void {
    this.#changed.delete(actor);
    this.#passive.delete(actor.key);
    this.#dropped.delete(actor.key);
    // The stored head names one of these snapshots, so none of them is removed.
    this.#snapshots.delete(actor.key);
  }

  /**
   * Notes a dropped actor, whose state may differ from the log. The log may hold transitions of the session since the
   * last checkpoint (K3).
   */
  dropped(actor: SessionActor): void {
    this.forget(actor);
    this.#dropped.set(actor.key, actor);
  }

  /**
   * Called before the log that a fork shares is removed. The beginning of the fork is stored at `base`, and from now on
   * the fork's head names that address (K5 of `fork-reader.ts`). The new head is durable with the removal that follows,
   * or before it. `actor`: the fork, if it is in memory.
   */
  rooted(key: SessionKey, base: string, actor: SessionActor | undefined): void {
    const passive = this.#passive.get(key);
    const rebased = passive === undefined ? undefined : withBase(passive, base);
    if (rebased !== undefined) this.#passive.set(key, rebased);
    if (actor !== undefined) actor.base = base;
    // A fork that was dropped has its head written again with the next checkpoint.
    const dropped = this.#dropped.get(key);
    if (dropped !== undefined) dropped.base = base;
    const stored = this.#journal.head(key);
    const head =
      actor !== undefined ? headOf(actor) : (rebased ?? (stored === undefined ? stored : withBase(stored, base)));
    if (head === undefined) throw new Error(`no head of session key ${key} to write`);
    if (actor !== undefined) actor.isHeadRunnable = head.runnable;
    this.#journal.checkpoint([head], this.#journal.checkpointed());
  }

  /**
   * Called when the older part of a session's log is removed, before the record of the removal is appended. The
   * session's snapshot may contain removed messages, so the same append removes the snapshot.
   */
  withoutSnapshot(actor: SessionActor): void {
    const { snapshot } = actor;
    if (snapshot === undefined) return;
    actor.snapshot = undefined;
    const head = headOf(actor);
    actor.isHeadRunnable = head.runnable;
    this.#journal.checkpoint([head], this.#journal.checkpointed(), [snapshot.address]);
  }

  /** Writes the last checkpoint, with snapshots of long logs, so that the next open reads little. */
  close(actors: Iterable<SessionActor>): void {
    for (const actor of actors) if (this.#changed.has(actor)) this.#takeSnapshot(actor);
    // The shard closes before all interrupted sessions were read. So the next open replays the log from the position of
    // the last checkpoint.
    if (this.#holds > 0) this.#position = this.#journal.checkpointed();
    this.#write(true);
  }

  #schedule(): void {
    if (this.#turns >= this.#bounds.checkpointTurns) this.#write();
    else this.#timer ??= this.#clock.setTimer(() => this.#write(), CHECKPOINT_INTERVAL_MS);
  }

  /** Writes a checkpoint. `isLast`: also writes the heads of working sessions that an older head covers (K1). */
  #write(isLast = false): void {
    this.#clearTimer();
    this.#turns = 0;
    const heads = [...this.#passive.values()];
    const isCovered = this.#changed.size + this.#passive.size + this.#dropped.size > 0;
    for (const actor of this.#changed) {
      // The session is working, so it stays in memory, and the next open reads its log in any case. Writing a head at
      // each checkpoint would take as many bytes as writing its transitions.
      if (!isLast && actor.isHeadRunnable && actor.state.state !== 'idle') continue;
      const head = headOf(actor);
      actor.isHeadRunnable = head.runnable;
      heads.push(head);
    }
    for (const actor of this.#dropped.values()) heads.push({ ...headOf(actor), runnable: true });
    this.#passive.clear();
    this.#changed.clear();
    this.#dropped.clear();
    if (!isCovered) return;
    const outdated = heads.flatMap((head) => this.#outdatedBy(head));
    this.#snapshots.clear();
    this.#journal.checkpoint(heads, this.#position, outdated);
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  /**
   * The outdated snapshots of a session. The session may be read again from an older head before its newest head is
   * written, so the head itself says which snapshot stays.
   */
  #outdatedBy({ key, data }: Head): readonly string[] {
    const known = this.#snapshots.get(key);
    if (known === undefined) return [];
    const named = decodeHead(data).snapshot?.address;
    return [...known].filter((address) => address !== named);
  }

  #takeSnapshot(actor: SessionActor): void {
    if (actor.turnsSinceSnapshot < this.#bounds.snapshotTurns) return;
    const address = this.#journal.putBlob(snapshotState(actor.state), actor.key);
    const known = this.#snapshots.get(actor.key) ?? new Set();
    if (actor.snapshot !== undefined) known.add(actor.snapshot.address);
    this.#snapshots.set(actor.key, known.add(address));
    actor.snapshot = { address, position: actor.position };
    actor.turnsSinceSnapshot = 0;
  }
}
