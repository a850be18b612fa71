/**
 * Sends the notices of one webhook's queue: decides when each is sent, and what follows a failure.
 *
 * Owns: the deliveries in flight, the waits before further attempts. Does not own: the queue, the requests, the cursor.
 * Invariants:
 *  N1 at most one delivery of a session is in flight, and at most `WEBHOOK_DELIVERIES_MAX` of the webhook;
 *  N2 a failed delivery is tried again, after waits that double up to `WEBHOOK_BACKOFF_MS_MAX`. After
 *     `WEBHOOK_DELIVERIES_MAX` failures in a row the receiver gets one delivery at a time, with a doubling wait before
 *     each delivery;
 *  N3 after 410 (gone), or once closed, nothing is sent.
 */
import {
  WEBHOOK_BACKOFF_MS,
  WEBHOOK_BACKOFF_MS_MAX,
  WEBHOOK_DELIVERIES_MAX,
  WEBHOOK_TIMEOUT_MS,
} from '../../base/bounds.ts';
import { type Clock, type Random, setIdleTimer } from '../../base/clock.ts';
import { asError, StoreCorruptError } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import type { Notice } from '../../session/rules/notices.ts';
import type { GuardedLogger } from '../protocol/options.ts';
import type { CheckedWebhook } from '../protocol/webhook-options.ts';
import { deliveryRequest, type SendDelivery } from './delivery.ts';
import type { DeliveryQueue, Lane } from './delivery-queue.ts';

/** Waits and bounds of a webhook. */
export interface WebhookPace {
  readonly backoffMs: number;
  readonly backoffMsMax: number;
  readonly timeoutMs: number;
}

/** The usual pace. */
export const WEBHOOK_PACE: WebhookPace = {
  backoffMs: WEBHOOK_BACKOFF_MS,
  backoffMsMax: WEBHOOK_BACKOFF_MS_MAX,
  timeoutMs: WEBHOOK_TIMEOUT_MS,
};

/** The parts of a sender. */
export interface SenderParts {
  readonly webhook: CheckedWebhook;
  /** Identifies the store and the webhook in the ids of deliveries. */
  readonly source: string;
  readonly queue: DeliveryQueue;
  readonly send: SendDelivery;
  /** The notices of a lane after its last delivered notice. */
  readonly read: (lane: Lane) => Promise<readonly Notice[]>;
  readonly pace: WebhookPace;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: GuardedLogger | undefined;
  /** Called when the deliveries of a session made progress. */
  readonly changed: () => void;
}

/** Counts of a sender. */
export interface SenderCounts {
  readonly delivered: number;
  readonly failed: number;
}

/** See the head of the file. */
export class WebhookSender {
  readonly #parts: SenderParts;
  readonly #inFlight = new Set<Promise<void>>();
  readonly #ending = new AbortController();
  /** The lanes that wait for another attempt, with their timers. */
  readonly #waiting = new Map<Lane, unknown>();
  /** Failures of the receiver since its last success. */
  #failures = 0;
  /** The timer before the next delivery to a receiver that failed `WEBHOOK_DELIVERIES_MAX` times in a row (N2). */
  #pause: unknown;
  #isOver = false;
  #isGone = false;
  #delivered = 0;
  #failed = 0;

  constructor(parts: SenderParts) {
    this.#parts = parts;
  }

  get counts(): SenderCounts {
    return { delivered: this.#delivered, failed: this.#failed };
  }

  /** True if the receiver wants no more deliveries (N3). */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Sends what may be sent now. */
  pump(): void {
    const most = this.#isFailing ? 1 : WEBHOOK_DELIVERIES_MAX;
    while (!this.#isOver && this.#pause === undefined && this.#inFlight.size < most) {
      const lane = this.#parts.queue.take();
      if (lane === undefined) return;
      const work = this.#deliver(lane).finally(() => {
        this.#inFlight.delete(work);
        this.pump();
      });
      this.#inFlight.add(work);
    }
  }

  /** Begins no more deliveries. Waits at most `waitMs` for the deliveries in flight, and then aborts them. */
  async close(waitMs: number): Promise<void> {
    const { clock } = this.#parts;
    this.#isOver = true;
    for (const timer of [this.#pause, ...this.#waiting.values()]) clock.clearTimer(timer);
    this.#waiting.clear();
    if (this.#inFlight.size > 0 && waitMs > 0) {
      let timer: unknown;
      const late = new Promise<void>((resolve) => {
        timer = clock.setTimer(resolve, waitMs);
      });
      await Promise.race([Promise.all(this.#inFlight), late]);
      clock.clearTimer(timer);
    }
    this.#ending.abort();
    await Promise.all(this.#inFlight);
  }

  get #isFailing(): boolean {
    return this.#failures >= WEBHOOK_DELIVERIES_MAX;
  }

  /** Makes one attempt to deliver the next notice of a lane. Never rejects. */
  async #deliver(lane: Lane): Promise<void> {
    const { queue, changed, webhook, source, clock } = this.#parts;
    const notice = lane.held[0] ?? (await this.#nextOf(lane));
    if (notice === undefined) return;
    const { shard, key, origin } = lane;
    const request = deliveryRequest(webhook, { source, shard, key, origin }, notice, clock.now());
    const outcome = await this.#attempt(request);
    if (outcome.isDelivered) {
      this.#delivered += 1;
      queue.delivered(lane);
      queue.ready(lane);
      changed();
      this.#succeeded();
    } else if (outcome.isGone === true) {
      this.#isOver = true;
      this.#isGone = true;
      this.#log('error', 'wants no more deliveries (410): none is sent until the next open');
    } else if (!this.#ending.signal.aborted) {
      this.#failedOnce(lane, outcome.problem ?? 'it failed', outcome.waitMs ?? 0);
    }
  }

  /** The first notice of a lane that is read from the log; undefined: there is none, or it cannot be read now. */
  async #nextOf(lane: Lane): Promise<Notice | undefined> {
    const { queue, read, changed } = this.#parts;
    try {
      queue.hold(lane, await read(lane));
      changed();
    } catch (error) {
      if (error instanceof StoreCorruptError) {
        queue.drop(lane);
        this.#log('error', `gets no notices of session ${lane.session}: ${error.message}`);
      } else this.#later(lane, this.#parts.pace.backoffMs);
      return undefined;
    }
    return lane.held[0];
  }

  async #attempt(request: Parameters<SendDelivery>[0]): ReturnType<SendDelivery> {
    const { clock, send, pace } = this.#parts;
    const attempt = new AbortController();
    const end = (): void => attempt.abort();
    const timer = clock.setTimer(end, pace.timeoutMs);
    this.#ending.signal.addEventListener('abort', end, { once: true });
    try {
      return await send(request, attempt.signal);
    } catch (error) {
      return { isDelivered: false, problem: asError(error).message };
    } finally {
      clock.clearTimer(timer);
      this.#ending.signal.removeEventListener('abort', end);
    }
  }

  #succeeded(): void {
    if (this.#failures > 0) this.#log('info', 'takes deliveries again');
    const wasFailing = this.#isFailing;
    this.#failures = 0;
    // The receiver works again, so the other lanes need not wait any longer.
    if (wasFailing) for (const lane of [...this.#waiting.keys()]) this.#again(lane);
  }

  #failedOnce(lane: Lane, problem: string, askedMs: number): void {
    const { clock } = this.#parts;
    this.#failed += 1;
    lane.failures += 1;
    this.#failures += 1;
    this.#parts.queue.release(lane);
    if (this.#failures === 1) this.#log('warn', `refused a delivery, which is tried again: ${problem}`);
    this.#later(lane, Math.max(askedMs, this.#backoff(lane.failures)));
    if (this.#isOver || !this.#isFailing || this.#pause !== undefined) return;
    const pauseMs = Math.max(askedMs, this.#backoff(this.#failures - WEBHOOK_DELIVERIES_MAX + 1));
    const resume = (): void => {
      this.#pause = undefined;
      // The next attempt is for the lane that has waited longest.
      const [first] = this.#waiting.keys();
      if (first !== undefined) this.#again(first);
      this.pump();
    };
    this.#pause = setIdleTimer(clock, resume, pauseMs);
  }

  /**
   * The wait after this many failures, in ms. Half of it is random, so that many senders do not try at the same moment.
   */
  #backoff(failures: number): number {
    const { pace, random } = this.#parts;
    const wholeMs = growingWait(failures, { first: pace.backoffMs, longest: pace.backoffMsMax });
    return wholeMs * (0.5 + random() / 2);
  }

  #later(lane: Lane, delayMs: number): void {
    if (this.#isOver) return;
    this.#waiting.set(
      lane,
      setIdleTimer(this.#parts.clock, () => this.#again(lane), delayMs),
    );
  }

  #again(lane: Lane): void {
    this.#parts.clock.clearTimer(this.#waiting.get(lane));
    this.#waiting.delete(lane);
    this.#parts.queue.ready(lane);
    this.pump();
  }

  #log(level: 'info' | 'warn' | 'error', text: string): void {
    // The path of an address may be a secret.
    this.#parts.logger?.[level]({}, `webhook ${this.#parts.webhook.url.origin} ${text}`);
  }
}
