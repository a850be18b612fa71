/**
 * The undelivered notices of one webhook, by session. Pure: it keeps the notices and does not send them.
 *
 * A session with undelivered notices is behind. Owns: for each session that is behind, the seqs of its last delivered
 * and its newest known notice, and as many of the notices between as fit. Does not own: attempts (`sender.ts`), the
 * notices themselves, which are in the log.
 * Invariants:
 *  Q1 the notices of a session leave in the order of their seqs, one at a time, and none is skipped. Notices that are
 *     not held are read from the log;
 *  Q2 memory is bounded: `WEBHOOK_SESSIONS_MAX` sessions, and `WEBHOOK_HELD_BYTES_MAX` of notices besides one page for
 *     each delivery in flight;
 *  Q3 a session is in the queue exactly while it is behind.
 */
import { WEBHOOK_HELD_BYTES_MAX, WEBHOOK_SESSIONS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { Notice } from '../../session/rules/notices.ts';
import type { KeyedNotice } from '../protocol/notices.ts';

/** A lane: one session that is behind. */
export interface Lane {
  readonly shard: number;
  readonly session: string;
  readonly key: SessionKey;
  /** See `Journal.originOf`. */
  readonly origin?: string | undefined;
  /** Seq of the last delivered notice. */
  delivered: number;
  /** Seq of the newest known notice. */
  known: number;
  /** The next notices. If `isWhole`, these are all notices after `delivered` up to `known`. */
  held: Notice[];
  isWhole: boolean;
  /** Attempts that failed since the last delivery. */
  failures: number;
}

/** A lane as a cursor keeps it. */
export type SavedLane = Pick<Lane, 'shard' | 'session' | 'key' | 'origin' | 'delivered' | 'known'>;

/** See the head of the file. */
export class DeliveryQueue {
  readonly #sessionsMax: number;
  readonly #lanes = new Map<string, Lane>();
  /** The lanes that may be taken, the longest waiting first. */
  readonly #ready = new Set<Lane>();
  #heldBytes = 0;

  constructor(sessionsMax: number = WEBHOOK_SESSIONS_MAX) {
    this.#sessionsMax = sessionsMax;
  }

  /** The number of sessions that are behind. */
  get size(): number {
    return this.#lanes.size;
  }

  /** True if there is no room for another session. */
  get isFull(): boolean {
    return this.#lanes.size >= this.#sessionsMax;
  }

  /** Takes a live notice. */
  add(shard: number, { key, origin, notice }: KeyedNotice): void {
    const { session, seq } = notice;
    const lane = this.#laneOf({ shard, session, key, origin, delivered: seq - 1, known: seq - 1 }, true);
    if (seq <= lane.known) return;
    lane.known = seq;
    if (!lane.isWhole) return;
    lane.held.push(notice);
    this.#heldBytes += bytesOf(notice);
    if (this.#heldBytes > WEBHOOK_HELD_BYTES_MAX) this.#letGo(lane);
  }

  /** Notes a session whose notices from `first` to `last` are in the log. */
  addStored(place: Pick<Lane, 'shard' | 'session' | 'key' | 'origin'>, first: number, last: number): void {
    const lane = this.#laneOf({ ...place, delivered: first - 1, known: first - 1 }, false);
    if (last <= lane.known) return;
    lane.known = last;
    // A delivery in flight may be sending the first held notice. The notices after it are read again from the log.
    lane.isWhole = false;
  }

  /** Restores a lane from a cursor. */
  restore(saved: SavedLane): void {
    this.#laneOf(saved, false);
  }

  /** The next lane to work for. The lane is not returned again before `ready` was called for it. */
  take(): Lane | undefined {
    for (const lane of this.#ready) {
      this.#ready.delete(lane);
      return lane;
    }
    return undefined;
  }

  /** Called when a lane may be taken again. */
  ready(lane: Lane): void {
    if (this.#lanes.get(nameOf(lane)) === lane) this.#ready.add(lane);
  }

  /**
   * Gives a taken lane the notices that the log has after the last delivered one. An empty list: nothing is left to
   * deliver.
   */
  hold(lane: Lane, notices: readonly Notice[]): void {
    const [...held] = notices;
    lane.held = held;
    lane.isWhole = (held.at(-1)?.seq ?? 0) >= lane.known;
    for (const notice of held) this.#heldBytes += bytesOf(notice);
    if (held.length === 0) this.drop(lane);
  }

  /** Called when the first held notice of a taken lane was delivered. */
  delivered(lane: Lane): void {
    const notice = lane.held.shift();
    if (notice === undefined) return;
    this.#heldBytes -= bytesOf(notice);
    lane.delivered = notice.seq;
    lane.failures = 0;
    if (lane.delivered >= lane.known) this.drop(lane);
  }

  /**
   * Called when a taken lane waits for another attempt. If the queue holds too much, the lane's notices are dropped,
   * and are read again for that attempt.
   */
  release(lane: Lane): void {
    if (this.#heldBytes > WEBHOOK_HELD_BYTES_MAX) this.#letGo(lane);
  }

  /** Forgets a lane: all its notices are delivered, or its session is gone. */
  drop(lane: Lane): void {
    this.#letGo(lane);
    this.#ready.delete(lane);
    this.#lanes.delete(nameOf(lane));
  }

  /** All lanes, for the cursor. */
  save(): readonly SavedLane[] {
    return [...this.#lanes.values()].map(({ shard, session, key, origin, delivered, known }) => ({
      shard,
      session,
      key,
      ...defined({ origin }),
      delivered,
      known,
    }));
  }

  #laneOf(place: SavedLane, isWhole: boolean): Lane {
    const name = nameOf(place);
    const found = this.#lanes.get(name);
    if (found !== undefined) return found;
    const lane: Lane = { ...place, held: [], isWhole, failures: 0 };
    this.#lanes.set(name, lane);
    this.#ready.add(lane);
    return lane;
  }

  /** Drops the held notices of a lane. They are read from the log when they are due. */
  #letGo(lane: Lane): void {
    for (const notice of lane.held) this.#heldBytes -= bytesOf(notice);
    lane.held = [];
    lane.isWhole = false;
  }
}

/** A key belongs to one incarnation of a session, in one shard. */
function nameOf({ shard, key }: Pick<Lane, 'shard' | 'key'>): string {
  return `${shard}/${key}`;
}

function bytesOf({ data }: Notice): number {
  return charactersOfContent(data);
}
