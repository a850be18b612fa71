/**
 * One delivery as HTTP: the body, the id, the signature, the outcome.
 *
 * The headers are those of the Standard Webhooks specification (https://www.standardwebhooks.com). `webhook-id` stays
 * the same when a delivery is repeated. `webhook-timestamp` is the time of the attempt in seconds. `webhook-signature`
 * is `v1,` with the base64 of the HMAC-SHA256 over `<id>.<timestamp>.<body>`.
 */
import { createHash, createHmac } from 'node:crypto';
import { asError } from '../../base/errors.ts';
import { retryAfter } from '../../models/retry-after.ts';
import type { Notice } from '../../session/rules/notices.ts';
import { VERSION } from '../protocol/version.ts';
import type { CheckedWebhook } from '../protocol/webhook-options.ts';

/** A request to a receiver. */
export interface DeliveryRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The outcome of one attempt. `isGone`: the receiver wants no more deliveries. */
export interface DeliveryOutcome {
  readonly isDelivered: boolean;
  readonly isGone?: boolean;
  /** Milliseconds that the receiver asked to wait. */
  readonly waitMs?: number | undefined;
  /** The reason of a failure, in short. */
  readonly problem?: string;
}

/** Sends one request. Never rejects. `signal` ends the attempt. */
export type SendDelivery = (request: DeliveryRequest, signal: AbortSignal) => Promise<DeliveryOutcome>;

/** Characters of the id: half of a SHA-256 digest, which makes collisions practically impossible. */
const ID_CHARACTERS = 32;
const GONE = 410;

/** The identity of a notice's session in the ids of deliveries. `source`: identifies the store and the webhook. */
export interface DeliveryPlace {
  readonly source: string;
  readonly shard: number;
  /** The journal's key of the session. */
  readonly key: number;
  /** See `Journal.originOf`. */
  readonly origin?: string | undefined;
}

/** The id of a delivery, the same for each attempt. The id has no full stop: full stops divide the signed text. */
export function deliveryId({ source, shard, key, origin }: DeliveryPlace, { session, seq }: Notice): string {
  // A notice that is repeated after its session was moved to another shard keeps its id.
  const place = (origin ?? `${shard}-${key}`).replace('-', '\n');
  const digest = createHash('sha256').update(`${source}\n${place}\n${session}\n${seq}`).digest('hex');
  return `msg_${digest.slice(0, ID_CHARACTERS)}`;
}

/** The request of one attempt. `nowMs`: epoch ms. */
export function deliveryRequest(
  webhook: CheckedWebhook,
  place: DeliveryPlace,
  notice: Notice,
  nowMs: number,
): DeliveryRequest {
  const { type, at, seq, data } = notice;
  const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data: { seq, ...data } });
  const id = deliveryId(place, notice);
  const timestamp = String(Math.floor(nowMs / 1_000));
  const signature = webhook.key === undefined ? {} : { 'webhook-signature': sign(webhook.key, id, timestamp, body) };
  return {
    url: webhook.url,
    headers: {
      ...webhook.headers,
      'content-type': 'application/json',
      'user-agent': `troupe/${VERSION}`,
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      ...signature,
    },
    body,
  };
}

function sign(key: Buffer, id: string, timestamp: string, body: string): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}

/** Sends over HTTP. A redirect is a failure, because the signature is meant for the given receiver alone. */
export const sendOverHttp: SendDelivery = async ({ url, headers, body }, signal) => {
  try {
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal });
    await response.body?.cancel();
    if (response.ok) return { isDelivered: true };
    const waitMs = retryAfter(response.headers, Date.now());
    return { isDelivered: false, isGone: response.status === GONE, waitMs, problem: `it answered ${response.status}` };
  } catch (error) {
    const { name, message, cause } = asError(error);
    const problem = signal.aborted ? 'it did not answer in time' : `${name}: ${asError(cause ?? message).message}`;
    return { isDelivered: false, problem };
  }
};
