/**
 * The lines of one node of a cluster: to the nodes that have the other shards, and from other nodes to the shards of this
 * one. A line belongs to one shard.
 *
 * Owns: the lines that this node has opened. Does not own: the register that says who has which
 * shard (`ClusterMembership`), the lines that other nodes have opened (`shard-guests.ts`), the connections (`src/cluster/line`).
 *
 * Invariants:
 *  LI1 a shard starts here only under the claim of this node. Otherwise its line leads to the owner that this node saw
 *     last: when the owner changes, and when this node claims the shard, the line to the former owner ends;
 *  LI2 between two attempts to reach a shard pass at least `LINE_RETRY_MS`, and between two attempts to start it here
 *     `SHARD_START_RETRY_MS`, unless its owner has changed;
 *  LI3 while no node answers for a shard, each attempt asks for a claim as well. So a shard that was given up does not
 *     wait for the next regular attempt.
 */
import { z } from 'zod';
import { LINE_RETRY_MS, SHARD_START_RETRY_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { asError, CancelledError, ConfigError, ShardMovedError } from '../../base/errors.ts';
import type { ClusterMembership } from '../../cluster/membership.ts';
import type { NodeAddress } from '../../cluster/plan.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import { absenceMsOf, type FoundShard, type ShardFinder, type ShardLine } from './shard-finder.ts';
import { lineRequestSchema } from './shard-guests.ts';
import type { ShardLink } from './shard-link.ts';

/** The first request on a line. */
const openSchema = z.strictObject({ cluster: z.string(), shard: z.number().int().nonnegative() });

/** Answers one of the host's own methods on a line. */
type HostMethod = (request: unknown) => Promise<unknown>;

/** The parts of the lines of a node. */
export interface ShardLinesParts {
  readonly membership: Pick<
    ClusterMembership,
    'plan' | 'facts' | 'isHere' | 'ownerOf' | 'placeOf' | 'release' | 'look' | 'onChange'
  >;
  /** The address of this node. */
  readonly own: NodeAddress;
  readonly connect: (address: NodeAddress) => Promise<Endpoint>;
  readonly clock: Clock;
  /** Called for the first of several failures in a row. */
  readonly failed: (message: string, error: Error) => void;
}

/** See the head of the file. Lives on the host thread. */
export class ShardLines implements ShardFinder {
  readonly absenceMs: number;
  readonly #parts: ShardLinesParts;
  /** The open lines, with their shard and the address to which they lead. */
  readonly #open = new Map<ShardLine, { readonly shard: number; readonly address: NodeAddress }>();
  /** Until when a shard that was found is not looked for again, in monotonic ms. */
  readonly #foundUntilMs = new Map<number, number>();
  /** Called when an owner changes. */
  readonly #waiting = new Set<() => void>();
  #links: readonly Pick<ShardLink, 'admit'>[] = [];
  #methods: Readonly<Record<string, HostMethod>> = {};
  #isFailing = false;

  constructor(parts: ShardLinesParts) {
    this.#parts = parts;
    this.absenceMs = absenceMsOf(parts.membership.plan);
    parts.membership.onChange(() => this.#changed());
  }

  isHere(shard: number): boolean {
    return this.#parts.membership.isHere(shard);
  }

  release(shard: number): void {
    this.#parts.membership.release(shard);
  }

  /** Answers other nodes from now on: for these shards, and with these methods of the host. */
  serve(links: readonly Pick<ShardLink, 'admit'>[], methods: Readonly<Record<string, HostMethod>>): void {
    this.#links = links;
    this.#methods = methods;
  }

  /** Takes a line that another node has opened. */
  accept(line: Endpoint): void {
    const { membership } = this.#parts;
    line.handle('open', (payload) => {
      const { cluster, shard } = openSchema.parse(payload);
      if (cluster !== membership.facts.id) {
        throw new ConfigError(
          `the node ${JSON.stringify(membership.plan.node)} belongs to the cluster ${membership.facts.id}, not to ${cluster}: ` +
            'two clusters use the same address',
          { data: { key: 'cluster', found: membership.facts.id, expected: cluster } },
        );
      }
      const link = this.#links[shard];
      if (link === undefined) throw new ShardMovedError(`this node does not serve shard ${shard} yet`);
      link.admit(line);
    });
    line.handle('host', (payload) => this.#answer(payload));
  }

  async find(shard: number, signal: AbortSignal): Promise<FoundShard> {
    const { membership, clock } = this.#parts;
    const waitMs = (this.#foundUntilMs.get(shard) ?? 0) - clock.monotonic();
    if (waitMs > 0) await this.#pause(signal, waitMs);
    for (;;) {
      if (signal.aborted) throw new CancelledError('the runtime was closed');
      if (membership.isHere(shard)) {
        this.#foundUntilMs.set(shard, clock.monotonic() + SHARD_START_RETRY_MS);
        return { place: membership.placeOf(shard) };
      }
      const { node, address } = membership.ownerOf(shard) ?? {};
      try {
        // The owner may be a former process of this node, which had the same address.
        const line = address && !isSame(address, this.#parts.own) && (await this.#reach(shard, address, signal));
        if (line) return { line };
      } catch (error) {
        this.#failed(`the node ${JSON.stringify(node)} does not answer for shard ${shard}`, error);
      }
      membership.look();
      if (this.#leadsToOwner(shard, address)) await this.#pause(signal, LINE_RETRY_MS);
    }
  }

  /**
   * Connects to a node. Undefined: the owner changed before the node had answered. A node that is gone, or stands still,
   * may not even refuse the connection.
   */
  async #reach(shard: number, address: NodeAddress, signal: AbortSignal): Promise<ShardLine | undefined> {
    const attempt = this.#connect(shard, address);
    const wait = this.#untilChanged(signal);
    try {
      const line = await Promise.race([attempt, wait.changed]);
      // A failure to reach the former owner is no failure any more.
      if (line === undefined) attempt.then((late) => late.exit()).catch(() => undefined);
      return line;
    } finally {
      wait.end();
    }
  }

  async #connect(shard: number, address: NodeAddress): Promise<ShardLine> {
    const { membership, connect, clock } = this.#parts;
    const endpoint = await connect(address);
    try {
      await endpoint.call('open', { cluster: membership.facts.id, shard });
    } catch (error) {
      endpoint.close();
      throw error;
    }
    this.#foundUntilMs.set(shard, clock.monotonic() + LINE_RETRY_MS);
    this.#isFailing = false;
    const line = lineOver(endpoint, () => this.#open.delete(line));
    this.#open.set(line, { shard, address });
    // The owner may have changed while the connection was made.
    if (!this.#leadsToOwner(shard, address)) await line.exit();
    return line;
  }

  async #answer(payload: unknown): Promise<unknown> {
    const { method, request } = lineRequestSchema.parse(payload);
    const answer = Object.hasOwn(this.#methods, method) ? this.#methods[method] : undefined;
    if (answer === undefined) throw new ShardMovedError(`this node does not answer ${JSON.stringify(method)} yet`);
    return answer(request);
  }

  /** Enforces LI1. */
  #changed(): void {
    for (const [line, { shard, address }] of this.#open) if (!this.#leadsToOwner(shard, address)) void line.exit();
    for (const resume of [...this.#waiting]) resume();
  }

  /** True if another node has the shard, at this address. Without an address: true if no node answers for it. */
  #leadsToOwner(shard: number, address: NodeAddress | undefined): boolean {
    const { membership } = this.#parts;
    return !membership.isHere(shard) && isSame(membership.ownerOf(shard)?.address, address);
  }

  /** Waits for `ms`, or until the owner changes or `signal` is aborted. */
  async #pause(signal: AbortSignal, ms: number): Promise<void> {
    const { clock } = this.#parts;
    const wait = this.#untilChanged(signal);
    const timer = clock.setTimer(wait.end, ms);
    await wait.changed;
    clock.clearTimer(timer);
  }

  /** Resolves when the owner changes, `signal` is aborted, or the caller ends the wait. */
  #untilChanged(signal: AbortSignal): { readonly changed: Promise<undefined>; end(): void } {
    let end = (): void => undefined;
    const changed = new Promise<undefined>((resolve) => {
      end = () => {
        this.#waiting.delete(end);
        signal.removeEventListener('abort', end);
        resolve(undefined);
      };
    });
    this.#waiting.add(end);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    return { changed, end };
  }

  #failed(message: string, error: unknown): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#parts.failed(message, asError(error));
  }
}

function isSame(a: NodeAddress | undefined, b: NodeAddress | undefined): boolean {
  return a?.host === b?.host && a?.port === b?.port;
}

function lineOver(endpoint: Endpoint, ended: () => void): ShardLine {
  const listeners = [ended];
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    for (const listener of listeners) listener();
  };
  endpoint.onClose(end);
  return {
    endpoint,
    onExit: (listener) => {
      if (isOver) queueMicrotask(listener);
      else listeners.push(listener);
    },
    exit: async () => {
      endpoint.close();
      end();
    },
  };
}
