/**
 * A runtime put together from checked options and a place: counters, links, event hub, handles. What `open` does once it
 * holds a directory; a simulator does it over ports of its own.
 */
import type { TroupeError } from '../base/errors.ts';
import { shardOf } from '../base/ids.ts';
import { shardDirectory } from '../journal/store-manifest.ts';
import { shareOfLimits } from '../models/governor-limits.ts';
import { isModelProvider } from '../models/provider-check.ts';
import { agentSource, toolValues } from './agent.ts';
import { EventHub } from './event-hub.ts';
import type { HostValues, SystemFunction } from './host-services.ts';
import { createCounterMemory } from './metrics.ts';
import type { CheckedOptions } from './options.ts';
import type { LogLine, ProviderPlan, ShardPlan } from './protocol.ts';
import { createRuntime, type Runtime } from './runtime.ts';
import { type LinkParts, ShardLink } from './shard-link.ts';
import { VERSION } from './version.ts';

/** The name of a store that lives and dies with its runtime. */
export const MEMORY = ':memory:';

/** Where a runtime lives. */
export interface Place {
  /** Missing: memory. */
  readonly directory?: string;
  /** Directory of shortened results. */
  readonly shelf: string;
  readonly shards: number;
  /** Lets the directory go; what lay beside a store in memory goes with it. */
  readonly release: () => Promise<void>;
}

/** What the links stand on, where it is not the machine's own. */
export type LinkPorts = Pick<LinkParts, 'startShard' | 'shardPorts'>;

/**
 * Starts the shards of `place` and gives the runtime over them. Rejects with what keeps a shard from starting; none is left
 * then, and the place is still the caller's.
 */
export async function assembleRuntime(checked: CheckedOptions, place: Place, ports: LinkPorts = {}): Promise<Runtime> {
  const links: ShardLink[] = [];
  const hub = new EventHub({
    linkOf: (session) => linkAt(links, shardOf(session, links.length)),
    links: () => links,
    now: () => checked.clock.now(),
  });
  const agents = checked.agents.map(agentSource);
  const degraded = new Map<number, TroupeError>();
  const counters: SharedArrayBuffer[] = [];
  for (let index = 0; index < place.shards; index += 1) {
    const memory = createCounterMemory();
    counters.push(memory);
    links.push(
      new ShardLink({
        ...ports,
        plan: shardPlan(checked, place, { index, agents, counters: memory }),
        values: hostValues(checked),
        isThread: checked.threads.sessions > 0,
        clock: checked.clock,
        random: checked.random,
        listener: {
          events: (events) => hub.dispatch(events),
          degraded: (error) => {
            if (error === undefined) degraded.delete(index);
            else degraded.set(index, error);
          },
          log: (line) => log(checked, line),
          remind: (event) => hub.remind(event),
          lost: (error) => hub.fail((session) => shardOf(session, place.shards) === index, error),
        },
      }),
    );
  }
  await startAll(links);
  return createRuntime({
    links,
    hub,
    counters,
    agentNames: new Set(checked.agents.map((each) => each.name)),
    defaultAgent: checked.agents[0]?.name ?? 'default',
    degraded: () => [...degraded.values()][0],
    release: place.release,
    info: {
      version: VERSION,
      node: process.version,
      directory: place.directory ?? MEMORY,
      durability: checked.durability,
      threads: { ...checked.threads, sessions: checked.threads.sessions === 0 ? 0 : place.shards },
      shards: place.shards,
      defaultViewMode: checked.settings.session.defaultViewMode,
    },
  });
}

function shardPlan(
  checked: CheckedOptions,
  place: Place,
  shard: Pick<ShardPlan, 'index' | 'agents' | 'counters'>,
): ShardPlan {
  return {
    ...shard,
    count: place.shards,
    shelf: place.shelf,
    durability: checked.durability,
    provider: providerPlan(checked),
    settings: checked.settings,
    limits: checked.limits,
    ...(checked.governor === undefined ? {} : { governor: shareOfLimits(checked.governor, shard.index, place.shards) }),
    threads: { models: checked.threads.models, tools: checked.threads.tools },
    ...(place.directory === undefined ? {} : { directory: shardDirectory(place.directory, shard.index) }),
  };
}

/** All or none: a shard that cannot start takes the others down again. */
async function startAll(links: readonly ShardLink[]): Promise<void> {
  const results = await Promise.allSettled(links.map((link) => link.start()));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed === undefined) return;
  await Promise.allSettled(links.map((link) => link.close(0)));
  throw failed.reason;
}

function linkAt(links: readonly ShardLink[], index: number): ShardLink {
  const link = links[index];
  if (link === undefined) throw new Error(`no shard ${index}`);
  return link;
}

function providerPlan(checked: CheckedOptions): ProviderPlan {
  const { provider } = checked;
  return isModelProvider(provider) ? { kind: 'host', name: provider.name } : { kind: 'data', data: provider };
}

function hostValues(checked: CheckedOptions): HostValues {
  const systems = new Map<string, SystemFunction>();
  for (const { name, system } of checked.agents) if (typeof system === 'function') systems.set(name, system);
  return {
    provider: isModelProvider(checked.provider) ? checked.provider : undefined,
    tools: new Map(checked.agents.map((each) => [each.name, toolValues(each)])),
    systems,
  };
}

function log(checked: CheckedOptions, line: LogLine): void {
  const { level, message, ...fields } = line;
  checked.logger?.[level](fields, message);
}
