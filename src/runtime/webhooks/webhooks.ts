/** The webhooks of a runtime, on the host thread. This module is imported only if the runtime has webhooks. */
import type { Clock, Random } from '../../base/clock.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type { GuardedLogger } from '../protocol/options.ts';
import type { ShardCaller } from '../protocol/protocol.ts';
import type { CheckedWebhook } from '../protocol/webhook-options.ts';
import { type CursorStore, cursorFiles } from './cursor.ts';
import { type SendDelivery, sendOverHttp } from './delivery.ts';
import type { WebhookPace } from './sender.ts';
import { Webhook, type WebhookCounts } from './webhook.ts';

/** The parts of the webhooks of a runtime. */
export interface WebhooksParts {
  readonly webhooks: readonly CheckedWebhook[];
  /** The links of the shards. A link can be used once all links exist. */
  readonly shards: readonly ShardCaller[];
  /** Directory of the store, or of the temporary files of a store in memory. */
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: GuardedLogger | undefined;
}

/** Ports that replace the ports of the machine. */
export interface WebhookPorts {
  readonly cursors?: CursorStore;
  readonly send?: SendDelivery;
  readonly pace?: WebhookPace;
  readonly sessionsMax?: number;
}

/** See the head of the file. */
export class Webhooks {
  readonly #webhooks: readonly Webhook[];

  private constructor(webhooks: readonly Webhook[]) {
    this.#webhooks = webhooks;
  }

  /** Reads the cursors. Rejects with the error of the disk. */
  static async open(parts: WebhooksParts, ports: WebhookPorts = {}): Promise<Webhooks> {
    const { webhooks, directory, ...rest } = parts;
    const { cursors = cursorFiles(directory), send = sendOverHttp, pace, sessionsMax } = ports;
    return new Webhooks(
      await Promise.all(
        webhooks.map((webhook) =>
          Webhook.open({ ...rest, webhook, cursors, send, sessionsMax, ...(pace === undefined ? {} : { pace }) }),
        ),
      ),
    );
  }

  /** Begins to deliver, once the shards serve. Resolves when the cursors of new webhooks are durable. Never rejects. */
  async begin(): Promise<void> {
    await Promise.all(this.#webhooks.map((webhook) => webhook.begin()));
  }

  /** Takes the live notices of a shard. */
  take(shard: number, note: NoticeNote): void {
    for (const webhook of this.#webhooks) webhook.take(shard, note);
  }

  /** Called when the shard serves again. */
  resumed(shard: number): void {
    for (const webhook of this.#webhooks) webhook.resumed(shard);
  }

  /** The figures of all webhooks together. */
  get counts(): WebhookCounts {
    const sums = { delivered: 0, failed: 0, waiting: 0 };
    for (const { counts } of this.#webhooks) {
      sums.delivered += counts.delivered;
      sums.failed += counts.failed;
      sums.waiting += counts.waiting;
    }
    return sums;
  }

  /**
   * Waits at most `waitMs` for deliveries in flight, and writes the cursors. The next open delivers the other notices.
   */
  async close(waitMs: number): Promise<void> {
    await Promise.all(this.#webhooks.map((webhook) => webhook.close(waitMs)));
  }
}
