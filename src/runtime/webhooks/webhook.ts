/**
 * One webhook: follows the notices of all shards, and keeps its cursor durable.
 *
 * Owns: the position in the log of each shard, the queue and the sender, the cursor. Does not own: the notices. They
 * are in the log, and every undelivered notice can be read from the log again.
 * Invariants:
 *  W1 no wanted notice is skipped: each is delivered, is in the queue, or comes after the webhook's position in the log
 *     of its shard. The log is read from this position in three cases: after a restart, if a live note does not follow
 *     the previous note, and if the queue was full;
 *  W2 a position advances only past notices that are in the queue, and the cursor has positions and queue as of one
 *     moment. So a crash repeats deliveries, and loses none;
 *  W3 nothing is sent before the cursor of a new webhook is durable, because the ids of deliveries contain the `source`
 *     of the cursor;
 *  W4 each shard says where its log ended when the shard opened. A position beyond that end is moved back to it. A
 *     store that refused writes had counted positions that never reached the disk, and new transitions get these
 *     positions again;
 *  W5 memory is bounded: the queue, and `WEBHOOK_BUFFERED_MAX` live notices while the log of their shard is read.
 */
import { randomUUID } from 'node:crypto';
import { WEBHOOK_BUFFERED_MAX, WEBHOOK_SAVE_MS } from '../../base/bounds.ts';
import { type Clock, type Random, setIdleTimer } from '../../base/clock.ts';
import { asError } from '../../base/errors.ts';
import { isWanted } from '../../session/rules/notices.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type { GuardedLogger } from '../protocol/options.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import type { CheckedWebhook } from '../protocol/webhook-options.ts';
import { type CursorStore, cursorName, decodeCursor, encodeCursor, type WebhookCursor } from './cursor.ts';
import type { SendDelivery } from './delivery.ts';
import { DeliveryQueue } from './delivery-queue.ts';
import { type SenderCounts, WEBHOOK_PACE, type WebhookPace, WebhookSender } from './sender.ts';

/** The parts of a webhook. */
export interface WebhookParts {
  readonly webhook: CheckedWebhook;
  readonly shards: readonly ShardCaller[];
  readonly cursors: CursorStore;
  readonly send: SendDelivery;
  readonly pace?: WebhookPace;
  /** Sessions that the queue may hold; default `WEBHOOK_SESSIONS_MAX`. */
  readonly sessionsMax?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: GuardedLogger | undefined;
}

/** The webhook's position in the log of one shard. */
interface Followed {
  readonly shard: number;
  /** All notices up to here are queued or delivered. Undefined for a new webhook until `#place` has set it. */
  position: number | undefined;
  /** The end of the log when its shard began, according to the last reading; undefined before the first reading. */
  opened: number | undefined;
  /** True if the log must be read from the position. */
  isBehind: boolean;
  /** True while the log is read; live notes wait in `notes` meanwhile. */
  isReading: boolean;
  notes: NoticeNote[];
  /** True if a note was dropped, or if the shard may not have sent one. */
  hasDropped: boolean;
}

/** Figures of a webhook. */
export interface WebhookCounts extends SenderCounts {
  /** Sessions with undelivered notices. */
  readonly waiting: number;
}

/** See the head of the file. */
export class Webhook {
  readonly #parts: WebhookParts;
  readonly #queue: DeliveryQueue;
  readonly #followed: readonly Followed[];
  /** See `WebhookCursor.former`. */
  readonly #former: readonly (readonly number[])[];
  readonly #name: string;
  readonly #source: string;
  readonly #sender: WebhookSender;
  #saveTimer: unknown;
  #saving: Promise<void> = Promise.resolve();
  #isChanged = false;
  #retryTimer: unknown;
  /** True until the first cursor of a new webhook is durable. */
  #isNew = false;
  #isBegun = false;
  #isClosed = false;

  private constructor(parts: WebhookParts, cursor: WebhookCursor | undefined) {
    const { webhook, shards, send, pace = WEBHOOK_PACE, clock, random, logger } = parts;
    this.#parts = parts;
    this.#name = cursorName(webhook.url);
    this.#source = cursor?.source ?? randomUUID();
    this.#queue = new DeliveryQueue(parts.sessionsMax);
    for (const lane of cursor?.behind ?? []) this.#queue.restore(lane);
    this.#former = cursor?.former ?? [];
    this.#followed = shards.map((_shard, index) => ({
      shard: index,
      position: cursor?.positions[index],
      opened: undefined,
      isBehind: true,
      isReading: false,
      notes: [],
      hasDropped: false,
    }));
    this.#sender = new WebhookSender({
      webhook,
      source: this.#source,
      queue: this.#queue,
      send,
      read: async ({ shard, session, key, delivered, known }) =>
        (await shards[shard]?.call(
          'notices.page',
          { session, key, after: delivered, until: known, wish: webhook.wish },
          true,
        )) ?? [],
      pace,
      clock,
      random,
      logger,
      changed: () => this.#changed(),
    });
  }

  /** Reads the cursor. Rejects with the error of the disk. Live notes may come from now on. */
  static async open(parts: WebhookParts): Promise<Webhook> {
    const text = await parts.cursors.load(cursorName(parts.webhook.url));
    const cursor = decodeCursor(text);
    const isUnknown = cursor === undefined || cursor.positions.length !== parts.shards.length;
    if (isUnknown && text !== undefined) {
      const origin = parts.webhook.url.origin;
      parts.logger?.error({}, `webhook ${origin}: its cursor cannot be read; it begins with what happens now`);
    }
    return new Webhook(parts, isUnknown ? undefined : cursor);
  }

  get counts(): WebhookCounts {
    return { ...this.#sender.counts, waiting: this.#queue.size };
  }

  /** Begins to deliver: first the notices in the log, then live notices. Never rejects. */
  async begin(): Promise<void> {
    try {
      await this.#place();
    } catch (error) {
      this.#retry(error, () => void this.begin());
      return;
    }
    this.#isBegun = true;
    for (const shard of this.#followed.keys()) this.#readOn(shard);
    this.#pump();
  }

  /**
   * Asks each shard for the position at which a new webhook begins to follow its log. Makes these positions durable
   * before anything is sent (W3).
   */
  async #place(): Promise<void> {
    const { shards, webhook } = this.#parts;
    for (const [index, shard] of shards.entries()) {
      const followed = this.#followed[index];
      if (followed === undefined || followed.position !== undefined) continue;
      followed.position = (await shard.call('notices.scan', { wish: webhook.wish }, true)).opened;
      this.#isNew = true;
    }
    if (!this.#isNew) return;
    await this.#write();
    this.#isNew = false;
  }

  #pump(): void {
    if (this.#isBegun) this.#sender.pump();
  }

  /** Takes the live notices of a transition. */
  take(shard: number, note: NoticeNote): void {
    const followed = this.#followed[shard];
    if (followed === undefined || this.#isClosed) return;
    if (followed.isReading || !this.#isBegun) {
      if (followed.notes.length < WEBHOOK_BUFFERED_MAX) followed.notes.push(note);
      else followed.hasDropped = true;
      return;
    }
    this.#follow(followed, note);
    if (followed.isBehind) this.#readOn(shard);
    else this.#pump();
  }

  /** Called when the shard serves again: the log may have notices that the shard did not publish. */
  resumed(shard: number): void {
    const followed = this.#followed[shard];
    if (followed === undefined) return;
    // The part of the log that is being read may end before those notices.
    if (followed.isReading) followed.hasDropped = true;
    else followed.isBehind = true;
    this.#readOn(shard);
  }

  /** Waits a bounded time for deliveries in flight, and makes the cursor durable. */
  async close(waitMs: number): Promise<void> {
    this.#isClosed = true;
    for (const timer of [this.#saveTimer, this.#retryTimer]) this.#parts.clock.clearTimer(timer);
    await this.#sender.close(waitMs);
    await this.#saving;
    await this.#save();
  }

  /** Queues the notices of a note and moves the position past the note. Otherwise marks the log as `isBehind` (W1). */
  #follow(followed: Followed, { previous, position, notices }: NoticeNote): void {
    const { shard } = followed;
    const at = followed.position ?? 0;
    if (position <= at) return;
    // If the receiver is gone, the position stays before these notices, so that the next open reads them again.
    if (previous > at || this.#queue.isFull || this.#sender.isGone) {
      followed.isBehind = true;
      return;
    }
    followed.position = position;
    this.#changed();
    for (const keyed of notices) {
      if (isWanted(keyed.notice, this.#parts.webhook.wish)) this.#queue.add(shard, keyed);
    }
  }

  /** Reads the log of a shard from the position on, until live notes continue it. */
  #readOn(shard: number): void {
    const followed = this.#followed[shard];
    if (followed === undefined || followed.isReading || !followed.isBehind || !this.#mayRead) return;
    followed.isReading = true;
    void this.#read(followed, shard)
      .then(
        () => true,
        (error: unknown) => {
          this.#retry(error, () => this.#readOn(shard));
          return false;
        },
      )
      .then((isRead) => {
        followed.isReading = false;
        this.#settle(followed);
        if (isRead) this.#readOn(shard);
      });
  }

  /** Takes the notes that came while the log was read. */
  #settle(followed: Followed): void {
    const notes = followed.notes.splice(0);
    // If the log must still be read, it has these notes.
    followed.isBehind ||= followed.hasDropped;
    followed.hasDropped = false;
    for (const note of notes) if (!followed.isBehind) this.#follow(followed, note);
    this.#pump();
  }

  get #mayRead(): boolean {
    return this.#isBegun && !this.#isClosed && !this.#queue.isFull && !this.#sender.isGone;
  }

  async #read(followed: Followed, shard: number): Promise<void> {
    const { shards, webhook } = this.#parts;
    const caller = shards[shard];
    while (followed.isBehind && this.#mayRead && caller !== undefined) {
      const after = followed.position ?? 0;
      const { found, end, isLast, opened } = await caller.call(
        'notices.scan',
        { after, former: this.#former, wish: webhook.wish },
        true,
      );
      const isReopened = opened !== followed.opened;
      followed.opened = opened;
      if (isReopened && opened < after) {
        followed.position = opened;
        continue;
      }
      for (const { first, last, ...place } of found) this.#queue.addStored({ shard, ...place }, first, last);
      followed.position = Math.max(after, end);
      this.#changed();
      this.#pump();
      if (!isLast) continue;
      // Live notes continue from this position. If a note is missing, the log is read again from here.
      followed.isBehind = false;
      this.#settle(followed);
    }
  }

  #retry(error: unknown, again: () => void): void {
    if (this.#isClosed) return;
    const { logger, webhook, clock, pace = WEBHOOK_PACE } = this.#parts;
    logger?.error({}, `webhook ${webhook.url.origin} cannot follow the log: ${asError(error).message}`);
    clock.clearTimer(this.#retryTimer);
    this.#retryTimer = setIdleTimer(clock, again, pace.backoffMs);
  }

  /** Writes the cursor soon. If the queue has room again, reads the notices for which there was no room. */
  #changed(): void {
    this.#isChanged = true;
    for (const shard of this.#followed.keys()) this.#readOn(shard);
    if (this.#saveTimer !== undefined || this.#isClosed) return;
    this.#saveTimer = setIdleTimer(
      this.#parts.clock,
      () => {
        this.#saveTimer = undefined;
        this.#saving = this.#saving.then(() => this.#save());
      },
      WEBHOOK_SAVE_MS,
    );
  }

  /** Writes the cursor if it changed. Never rejects: after a crash with an old cursor, deliveries are repeated. */
  async #save(): Promise<void> {
    if (!this.#isChanged || !this.#isBegun) return;
    this.#isChanged = false;
    try {
      await this.#write();
    } catch (error) {
      this.#isChanged = true;
      const { message } = asError(error);
      this.#parts.logger?.warn(
        {},
        `webhook ${this.#parts.webhook.url.origin}: its cursor cannot be written: ${message}`,
      );
    }
  }

  /** The positions in earlier layouts, until the logs of all shards have been read up to the highest of them. */
  #needed(positions: readonly number[]): Pick<WebhookCursor, 'former'> {
    const last = Math.max(0, ...this.#former.flat());
    return positions.every((position) => position >= last) ? {} : { former: this.#former };
  }

  /** Makes positions and queue of this moment durable (W2). */
  async #write(): Promise<void> {
    const positions = this.#followed.map(({ position }) => position ?? 0);
    const cursor = { source: this.#source, positions, ...this.#needed(positions), behind: this.#queue.save() };
    await this.#parts.cursors.save(this.#name, encodeCursor(cursor));
  }
}
