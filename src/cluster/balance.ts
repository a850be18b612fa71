/** The share of each node in the shards of its cluster. Pure. */
import type { OtherNode } from './plan.ts';

/** The fewest and the most shards of a node when the shards are spread evenly. */
export interface Share {
  readonly least: number;
  readonly most: number;
}

/** The shards of one node, and what it knows of the other nodes. */
export interface ShardSpread {
  /** The number of shards of the cluster. */
  readonly shards: number;
  /** The stay of this node. */
  readonly stay: string;
  /** The shards of this node. */
  readonly own: readonly number[];
  readonly others: readonly Pick<OtherNode, 'stay' | 'address' | 'leaseLeftMs' | 'shards'>[];
}

/** The share of each of `nodes` nodes. */
export function shareOf(shards: number, nodes: number): Share {
  return { least: Math.floor(shards / nodes), most: Math.ceil(shards / nodes) };
}

/** True if a node has a share of the shards: it answers other nodes, and its lease holds. */
export function isSharing({ address, leaseLeftMs }: Pick<OtherNode, 'address' | 'leaseLeftMs'>): boolean {
  return address !== undefined && leaseLeftMs > 0;
}

/**
 * The shard that this node gives away; undefined: none. A node with more than the most shards gives one. If a node lacks
 * shards and none is free, the node with the most shards gives one, and of several the one with the first stay.
 */
export function shardToGive({ shards, stay, own, others }: ShardSpread): number | undefined {
  const sharing = others.filter(isSharing);
  const { least, most } = shareOf(shards, sharing.length + 1);
  const last = own.length === 0 ? undefined : Math.max(...own);
  if (own.length > most) return last;
  const free = shards - own.length - others.reduce((sum, each) => sum + each.shards.length, 0);
  const lacking = sharing.reduce((sum, each) => sum + Math.max(0, least - each.shards.length), 0);
  if (own.length <= least || lacking <= free) return undefined;
  const isFirst = sharing.every(
    (each) => each.shards.length < own.length || (each.shards.length === own.length && stay < each.stay),
  );
  return isFirst ? last : undefined;
}
