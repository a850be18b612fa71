/** Makes the search of a runtime (`runtime/search`). */
import { join } from 'node:path';
import { defined } from '../../base/defined.ts';
import { shardOf } from '../../base/ids.ts';
import type { ClusterMembership } from '../../cluster/membership.ts';
import { indexKeyOf, type StoreEncryption } from '../../journal/encryption/master-keys.ts';
import { isMemoryTool } from '../../tools/built-in/memory-tools.ts';
import { linkAt } from '../host/link-parts.ts';
import type { ShardLink } from '../host/shard-link.ts';
import type { CheckedOptions } from '../protocol/options.ts';
import { MessageSearch, type SearchSpread } from '../search/client.ts';

/** True if an agent has a tool that searches messages, or the enricher Mneme is on. */
export function isSearched({ agents, enrichers }: CheckedOptions): boolean {
  return enrichers?.mneme !== undefined || agents.some((each) => each.tools?.some(isMemoryTool) === true);
}

/** The parts of a runtime's place that its search needs. */
interface SearchPlace {
  readonly directory?: string;
  readonly resultStore: string;
  readonly encryption?: StoreEncryption;
  /** Present with `lines` if the sessions may be on other nodes. */
  readonly cluster?: Pick<ClusterMembership, 'ownerOf'>;
  readonly lines?: unknown;
}

/** The search of a runtime. It starts with the first search. The caller fills `links` after this call. */
export function makeSearch(checked: CheckedOptions, place: SearchPlace, links: readonly ShardLink[]): MessageSearch {
  const { cluster, lines } = place;
  return new MessageSearch({
    links: () => links,
    linkOf: (session) => linkAt(links, shardOf(session, links.length)),
    ...(cluster === undefined || lines === undefined ? {} : { spread: () => spreadOf(links, cluster) }),
    directory: join(place.directory ?? place.resultStore, 'search'),
    now: () => checked.clock.now(),
    decay: checked.settings.recall.recencyDecay,
    ...defined({ key: place.encryption && indexKeyOf(place.encryption) }),
  });
}

/** Each owner is asked once. A shard whose owner is not known is asked for separately, and waits for an owner. */
function spreadOf(links: readonly ShardLink[], cluster: Pick<ClusterMembership, 'ownerOf'>): SearchSpread {
  const own: number[] = [];
  const there = new Map<string | number, number[]>();
  for (const [shard, link] of links.entries()) {
    const owner = cluster.ownerOf(shard)?.stay ?? shard;
    if (!link.isElsewhere) own.push(shard);
    else there.set(owner, [...(there.get(owner) ?? []), shard]);
  }
  return {
    own,
    others: [...there.values()].map((shards) => ({
      shards,
      ask: (request) => linkAt(links, shards[0] ?? 0).askOwner('search', request),
    })),
  };
}
