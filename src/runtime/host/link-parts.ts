/** The parts of a link (`shard-link.ts`), and the errors with which it gives up. */
import type { Clock, Random } from '../../base/clock.ts';
import { asError, ShardMovedError, TroupeError } from '../../base/errors.ts';
import type { PublishedEvent, SessionEvent } from '../../events/event.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ShardPorts } from '../door/build-shard.ts';
import type { NoticeNote } from '../protocol/notices.ts';
import type { Learned, LogLine, SaidNote, SessionIntroduction, ShardPlan } from '../protocol/protocol.ts';
import type { HostValues } from './host-services.ts';
import type { ShardFinder } from './shard-finder.ts';
import type { ShardGuests } from './shard-guests.ts';
import type { startInPlace } from './shard-in-place.ts';
import type { ShardThread } from './shard-threads.ts';

/** Receives the notifications of a link. */
export interface LinkListener {
  events(events: readonly PublishedEvent[]): void;
  /** Sessions that are about to publish for the first time. */
  introduced?(sessions: readonly SessionIntroduction[]): void;
  /** New messages of a session with callbacks. */
  said?(note: SaidNote): void;
  /** Notices of a durable transition, if the plan asks for them. */
  noticed?(note: NoticeNote): void;
  /**
   * Called when the store of this shard refuses writes (with the error), and when it accepts them again (`undefined`).
   */
  degraded(error: TroupeError | undefined): void;
  log(line: LogLine): void;
  /**
   * The newest event of a watched session, published again: the thread may have died before it published some events.
   */
  remind(event: SessionEvent): void;
  /** Called when the shard serves again; events that became durable before may not have been published. */
  resumed?(): void;
  /** Called when the shard is given up; it will publish nothing more. */
  lost(error: TroupeError): void;
}

/** The parts of a link. */
export interface LinkParts {
  readonly plan: ShardPlan;
  readonly values: HostValues;
  /** Returns the external facts. Called when a thread starts, and at each `learn`. */
  readonly learned: () => Learned;
  readonly clock: Clock;
  readonly random: Random;
  readonly listener: LinkListener;
  /** Finds the shard in the cluster; missing: the runtime is in no cluster, and the shard is here. */
  readonly finder?: ShardFinder;
  /** Starts the shard's own thread. A simulator returns a `ShardThread` without a real thread. */
  readonly startShard: (plan: ShardPlan) => ShardThread;
  /** Starts the shard on this thread; undefined: the shard has its own thread. */
  readonly startInPlace: typeof startInPlace | undefined;
  /** The ports of a shard on this thread; default: those of the machine. */
  readonly shardPorts?: ShardPorts;
}

/** A thread of a shard, or a line to the node that has it. */
export interface Incarnation {
  readonly endpoint: Endpoint;
  /** Ends the thread or the line. */
  readonly exit: () => Promise<void>;
  readonly end: () => void;
  /** The line to the node that has the shard; undefined: the shard is here. */
  readonly line: Endpoint | undefined;
  /** The hosts of other nodes that use this incarnation. */
  readonly guests: ShardGuests;
  /** True once the incarnation has ended, so that it will never answer its open requests. */
  isGone: boolean;
  /** True once the shard closes here because another node is to have it. Its refusals mean nothing then. */
  isLeaving: boolean;
  /** True once the incarnation receives requests, so that another one must follow it. */
  isServing: boolean;
}

/** Starts the thread of a shard, or the shard on this thread. */
export function startedThread(
  { startInPlace: inPlace, startShard, values, clock, random, shardPorts }: LinkParts,
  plan: ShardPlan,
): ShardThread {
  if (inPlace === undefined) return startShard(plan);
  return inPlace({ providers: values.providers, redact: values.redact, clock, random, ports: shardPorts });
}

/** True if a request got no answer from an incarnation that has ended, or that leaves (L6 of `shard-link.ts`). */
export function isUnanswered({ isGone, isLeaving }: Incarnation, error: unknown): boolean {
  return isGone || (isLeaving && error instanceof TroupeError && error.code === 'cancelled');
}

/** The error of a request that may or may not have taken effect (L2). */
export function unknownOutcome(
  cause: unknown,
  { line, isLeaving }: Pick<Incarnation, 'line' | 'isLeaving'>,
): TroupeError {
  const rest = 'during this request; whether the request took effect is unknown. Repeat it with a key.';
  if (isLeaving) return new ShardMovedError(`the session was given to another node ${rest}`, { cause });
  if (line === undefined)
    return new TroupeError('internal', `the session thread died ${rest}`, { cause, retryable: true });
  return new ShardMovedError(`the line to the node that has the session ended ${rest}`, { cause });
}

/** The error of a link that cannot start its shard on this node. Another node may be able to. */
export function moved(thrown: unknown): ShardMovedError {
  if (thrown instanceof ShardMovedError) return thrown;
  const cause = asError(thrown);
  return new ShardMovedError(`this node cannot open its shards: ${cause.message}`, { cause });
}

/** The link of a shard. */
export function linkAt<Link>(links: readonly Link[], shard: number): Link {
  const link = links[shard];
  if (link === undefined) throw new TroupeError('internal', `there is no shard ${shard}`);
  return link;
}
