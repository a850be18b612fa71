/** `open`: a data directory becomes a runtime. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError, describeValue, type TroupeError } from '../base/errors.ts';
import { shardOf } from '../base/ids.ts';
import { acquireStoreLock } from '../journal/store-lock.ts';
import { readManifest, shardDirectory, writeManifest } from '../journal/store-manifest.ts';
import { isModelProvider } from '../models/provider-check.ts';
import { agentSource, toolValues } from './agent.ts';
import { EventHub } from './event-hub.ts';
import type { HostValues, SystemFunction } from './host-services.ts';
import { createCounterMemory } from './metrics.ts';
import { type CheckedOptions, checkOptions, type OpenOptions } from './options.ts';
import type { LogLine, ProviderPlan, ShardPlan } from './protocol.ts';
import { createRuntime, type Runtime } from './runtime.ts';
import { ShardLink } from './shard-link.ts';
import { VERSION } from './version.ts';

/** The name of a store that lives and dies with its runtime. */
const MEMORY = ':memory:';

/**
 * Opens a data directory, made if need be, or `':memory:'`, and goes on with everything that was interrupted. Rejects with
 * `ConfigError` (an option, an agent, a tool), `StoreLockedError` (somebody has it open), `StoreCorruptError`,
 * `StoreVersionError`, `StoreFullError`.
 */
export async function open(directory: string, options: OpenOptions = {}): Promise<Runtime> {
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`the data directory must be a path or ':memory:', got ${describeValue(directory)}`);
  }
  const checked = checkOptions(options);
  const sources = checked.agents.map(agentSource);
  const place = await openPlace(directory, Math.max(1, checked.threads.sessions));
  try {
    const links: ShardLink[] = [];
    const hub = new EventHub({
      linkOf: (session) => linkAt(links, shardOf(session, links.length)),
      links: () => links,
      now: () => checked.clock.now(),
    });
    const degraded = new Map<number, TroupeError>();
    const counters: SharedArrayBuffer[] = [];
    for (let index = 0; index < place.shards; index += 1) {
      const memory = createCounterMemory();
      counters.push(memory);
      const plan: ShardPlan = {
        index,
        count: place.shards,
        shelf: place.shelf,
        durability: checked.durability,
        agents: sources,
        provider: providerPlan(checked),
        settings: checked.settings,
        limits: checked.limits,
        threads: { models: checked.threads.models, tools: checked.threads.tools },
        counters: memory,
        ...(place.directory === undefined ? {} : { directory: shardDirectory(place.directory, index) }),
      };
      links.push(
        new ShardLink({
          plan,
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
      },
    });
  } catch (error) {
    await place.release();
    throw error;
  }
}

interface Place {
  /** Missing: memory. */
  readonly directory?: string;
  readonly shelf: string;
  readonly shards: number;
  /** Lets the directory go; what lay beside a store in memory goes with it. */
  readonly release: () => Promise<void>;
}

/** Takes the directory: lock first, then the manifest, whose shard count rules over the option once a store exists (A6). */
async function openPlace(directory: string, shards: number): Promise<Place> {
  if (directory === MEMORY) {
    const shelf = await mkdtemp(join(tmpdir(), 'troupe-'));
    return { shards, shelf, release: () => rm(shelf, { recursive: true, force: true }) };
  }
  const root = resolve(directory);
  await mkdir(root, { recursive: true });
  const lock = await acquireStoreLock(root);
  try {
    const manifest = (await readManifest(root)) ?? (await writeManifest(root, shards));
    return { directory: root, shelf: join(root, 'results'), shards: manifest.shards, release: () => lock.release() };
  } catch (error) {
    await lock.release();
    throw error;
  }
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
