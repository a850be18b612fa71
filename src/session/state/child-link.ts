/**
 * A child as its parent remembers it, how a child ends, and whether a child must wait. Only a bounded number of a
 * parent's children may work at the same time: each working child has a place, and other children wait for a place. A
 * child may end more than once, because it can work again.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';

/** How a child reports: into its parent's mailbox, or only to the handle held by the program that spawned the child. */
export type Replies = 'mailbox' | 'handle';

/** The stage of a revived child: `waiting` to begin, `resumed` to continue a suspended run, or `working`. */
export type Revived = 'waiting' | 'resumed' | 'working';

/** How a child ended. */
export interface Exit {
  readonly reason: 'completed' | 'failed' | 'cancelled';
  readonly reply: string;
  /** The structured reply, if one was asked for. */
  readonly output?: Json;
  readonly error?: ErrorShape;
}

/** A child as its parent remembers it. */
export interface ChildLink {
  readonly id: string;
  readonly name: string;
  readonly replies: Replies;
  readonly spawnCallId?: string;
  readonly specialist?: true;
  /** True while the child waits for a place among the working children. */
  queued?: true;
  /** The child's first `completed` end; if it never completed, its last end. */
  exited?: Exit['reason'];
  /** True while the child works again after its end, or waits for a place to do so. */
  revived?: true;
  /**
   * Seq of the parent's event that reported that end. These seqs give the order in which children ended. Missing in
   * heads written before this member existed.
   */
  exitedSeq?: number;
}

/** True for a child that has a place among the working children, or waits for one. */
export function isOpenChild({ exited, revived }: ChildLink): boolean {
  return exited === undefined || revived === true;
}

/** True if the child's end may still change, because the child works and has not completed before. */
export function isEndAwaited(child: ChildLink): boolean {
  return isOpenChild(child) && child.exited !== 'completed';
}

/** True for a child that has ended and does not work again. */
export function hasEnded({ exit, revived }: { readonly exit: unknown; readonly revived: unknown }): boolean {
  return exit !== undefined && revived === undefined;
}

/**
 * How a child ended, for its spawner. Undefined while it works for the first time, or again after an end other than
 * `completed`. A completed child keeps that end, whatever it is asked later.
 */
export function endOfChild({
  exit,
  revived,
}: {
  readonly exit: Exit | undefined;
  readonly revived: Revived | undefined;
}): Exit | undefined {
  return revived === undefined || exit?.reason === 'completed' ? exit : undefined;
}

/** True if a child must wait for a place: `maxActive` children work already, or other children wait before it. */
export function mustQueue(
  family: { readonly childrenAtWork: number; readonly childQueue: ReadonlySet<string> },
  maxActive: number,
): boolean {
  return family.childrenAtWork >= maxActive || family.childQueue.size > 0;
}
