/** A child as its parent remembers it, and how a child ends. */
import type { ErrorShape } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import type { Replies } from './state.ts';

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
  /** How the child ended: for the first time as completed, or else for the last time. */
  exited?: Exit['reason'];
  /** True while the child works again after its end, or waits for a place to do so. */
  revived?: true;
  /**
   * Seq of this session's event that reported that end: this number gives the order in which children ended. Missing in
   * heads written before this member existed.
   */
  exitedSeq?: number;
}

/** True for a child that has a place among the working children, or waits for one. */
export function isOpenChild({ exited, revived }: ChildLink): boolean {
  return exited === undefined || revived === true;
}

/** True if the way in which the child ended may still change: it works, and has not completed before. */
export function isEndAwaited(child: ChildLink): boolean {
  return isOpenChild(child) && child.exited !== 'completed';
}
