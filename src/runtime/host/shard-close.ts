/** Ends the work of a shard on its thread: for a close, and before another node takes the shard. */
import { HAND_OVER_MS, SHARD_CLOSE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { errorShape } from '../../base/errors.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { Incarnation, LinkParts } from './link-parts.ts';

/**
 * Begins no half-step from now on, and resolves when the half-steps that run have ended, or after `HAND_OVER_MS`.
 * Messages are still taken. Never rejects: a thread that does not answer is closed like one that does.
 */
export async function drainShard(endpoint: Pick<Endpoint, 'call'>, { clock }: Pick<LinkParts, 'clock'>): Promise<void> {
  const drained = endpoint.call('runtime.standStill', { deadlineMs: HAND_OVER_MS });
  await isSettledIn(drained, HAND_OVER_MS, clock).catch(() => undefined);
}

/**
 * Resolves when the shard has closed, or the deadline of its thread has passed (L4 of `shard-link.ts`). A shard on this
 * thread has no deadline. Rejects with the error of the shard.
 */
export async function closeShard(
  endpoint: Pick<Endpoint, 'call'>,
  deadlineMs: number,
  { clock, listener, plan, startInPlace }: Pick<LinkParts, 'clock' | 'listener' | 'plan' | 'startInPlace'>,
): Promise<void> {
  const closed = endpoint.call('runtime.close', { deadlineMs });
  if (startInPlace !== undefined) {
    await closed;
    return;
  }
  const waitMs = deadlineMs + SHARD_CLOSE_MS;
  if (await isSettledIn(closed, waitMs, clock)) return;
  listener.log({
    level: 'error',
    message: `session thread ${plan.index} did not close within ${waitMs} ms; it is ended`,
  });
}

/**
 * Closes a shard that another node is to have, and ends its incarnation. A shard that cannot close ends as by a crash.
 * Never rejects.
 */
export async function endShard(
  incarnation: Incarnation,
  parts: Pick<LinkParts, 'clock' | 'listener' | 'plan' | 'startInPlace'>,
): Promise<void> {
  const { listener, plan } = parts;
  incarnation.guests.close();
  try {
    await closeShard(incarnation.endpoint, 0, parts);
  } catch (error) {
    const message = `shard ${plan.index} did not close as it should`;
    listener.log({ level: 'warn', message, error: errorShape(error) });
  }
  incarnation.isGone = true;
  await incarnation.exit();
  incarnation.endpoint.close();
  incarnation.end();
}

/** Resolves to false after `ms`, and to true if the work has ended before. Rejects with the error of the work. */
async function isSettledIn(
  work: Promise<unknown>,
  ms: number,
  clock: Pick<Clock, 'setTimer' | 'clearTimer'>,
): Promise<boolean> {
  let timer: unknown;
  const late = new Promise<boolean>((resolve) => {
    timer = clock.setTimer(() => resolve(false), ms);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clock.clearTimer(timer);
  }
}
