/**
 * `Runtime`: the embedder's handle of one data directory. A runtime only routes requests. The sessions live in the
 * shards: each shard is a part of the store, owned by one thread.
 */
import { z } from 'zod';
import { CLOSE_DEADLINE_MS, READY_WAIT_MS, WEBHOOK_CLOSE_MS } from '../../base/bounds.ts';
import { ConfigError, type ShardMovedError, type TroupeError } from '../../base/errors.ts';
import { checkTenantName } from '../../base/ids.ts';
import { orAborted } from '../../base/lazy-abort.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { ClusterMembership, ClusterStatus } from '../../cluster/membership.ts';
import type { ViewMode } from '../../events/rendered.ts';
import type { Durability } from '../../journal/journal.ts';
import type { BackupReport } from '../../journal/store/backup.ts';
import type { Takeover } from '../../journal/store/lock.ts';
import type { Diagnostics } from '../events/diagnostics.ts';
import type { ShardLink } from '../host/shard-link.ts';
import { type CounterValues, type ProviderMetrics, readCounters, readProviders } from '../protocol/metrics.ts';
import type { MessageSearch } from '../search/client.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { type BackupParts, backupStore } from './backup.ts';
import { SessionsView, Tenant, type ViewParts } from './sessions-view.ts';

/** Facts about a runtime. */
export interface RuntimeInfo {
  readonly version: string;
  readonly node: string;
  readonly directory: string;
  readonly durability: Durability;
  readonly threads: { readonly sessions: number; readonly models: number; readonly tools: number };
  readonly shards: number;
  /** `settings.session.defaultViewMode`: the view mode of a reader that gives no `mode`. */
  readonly defaultViewMode: ViewMode;
}

/**
 * Why a runtime ended. `closed`: `close()` was called. `taken_over`: the process `pid` took over its directory (`open`
 * with `takeover`). `moved`: its sessions moved to another node of the cluster. `owner` is the name of that node, if
 * known.
 */
export type RuntimeEnd =
  | { readonly reason: 'closed' }
  | { readonly reason: 'taken_over'; readonly pid: number }
  | { readonly reason: 'moved'; readonly owner?: string };

/** The membership of a runtime in its cluster. */
export interface RuntimeCluster {
  /** The state of the membership, as this node knows it now. Synchronous; never throws. */
  status(): ClusterStatus;
}

/** Counters since `open`. Each is the sum over all session threads, unless its comment says otherwise. */
export interface RuntimeMetrics extends CounterValues {
  /** Compactions of the store's files that succeeded. */
  readonly compactions: number;
  /** Compactions, or in a cluster snapshots, that run now: 0 or 1. */
  readonly compactionsRunning: number;
  /**
   * Compactions that failed or were discarded, for example because space was missing or too much was committed
   * meanwhile.
   */
  readonly compactionsFailed: number;
  /**
   * Bytes of each shard's file before its last compaction. A shard that was never compacted counts as 0.
   * `compactionBytes` is the same figure after the compaction.
   */
  readonly compactionBytesBefore: number;
  readonly compactionBytes: number;
  /** Milliseconds of the longest piece of work that a compaction or a snapshot did on any session thread. Not a sum. */
  readonly compactionSliceMs: number;
  /** In a cluster: snapshots that were written to the log in place of older entries. */
  readonly snapshots: number;
  /** Snapshots that were not written; they are tried again. */
  readonly snapshotsFailed: number;
  /** Session threads that died and were replaced. */
  readonly restarts: number;
  /** How often tools given as values held the host thread for a quarter of a second or more. */
  readonly toolBlocks: number;
  /** Deliveries of webhooks that their receivers accepted. */
  readonly webhooksDelivered: number;
  /** Attempts of deliveries that failed. */
  readonly webhooksFailed: number;
  /** Sessions with notices that a webhook has not delivered yet, counted for each webhook. */
  readonly webhooksWaiting: number;
  /**
   * Figures of each provider, by its name in the option `providers`. The provider of the option `provider` has the
   * empty name.
   */
  readonly providers: Readonly<Record<string, ProviderMetrics>>;
  /** The message of the error with which the store refuses writes; missing while the store takes writes. */
  readonly degraded?: string;
}

/** The parts of a runtime. */
export interface RuntimeParts extends ViewParts, Pick<BackupParts, 'store' | 'now' | 'writeBackup'> {
  /** The membership of this runtime in its cluster; undefined: the runtime is in no cluster. */
  readonly cluster: Pick<ClusterMembership, 'status' | 'retire'> | undefined;
  readonly info: RuntimeInfo;
  readonly counters: readonly SharedArrayBuffer[];
  /** The keys of the providers, in the order of the options. */
  readonly providers: readonly string[];
  readonly degraded: () => TroupeError | undefined;
  readonly toolBlocks: () => number;
  /** The webhooks, if there are any. */
  readonly webhooks?: Webhooks | undefined;
  /** Releases the data directory. */
  readonly release: () => Promise<void>;
}

const drainSchema = z.strictObject({ signal: z.instanceof(AbortSignal).optional() });
const closeSchema = z.strictObject({ deadlineMs: z.number().min(0).optional() });
/** Ends a runtime because another process takes over its directory. Rejects as `close` does. */
export let handOver: (runtime: Runtime, takeover: Takeover) => Promise<void>;
/** Ends a runtime because another node of the cluster may have its sessions now. Rejects as `close` does. */
export let moveAway: (runtime: Runtime, error: ShardMovedError) => Promise<void>;

/** See the head of the file. */
export class Runtime extends SessionsView {
  static {
    handOver = (runtime, takeover) => runtime.#handOver(takeover);
    moveAway = (runtime, error) => runtime.#moveAway(error);
  }

  /**
   * Resolves with the reason when the runtime has ended and released its directory. Never rejects: `close()` reports
   * the errors of the end. A service waits for this promise to learn that another process has taken over its directory.
   */
  readonly closed: Promise<RuntimeEnd>;
  readonly #parts: RuntimeParts;
  readonly #ended: (end: RuntimeEnd) => void;
  #closing: Promise<void> | undefined;
  /** Whether interrupted sessions have been read, for these shards of this node after so many restarts of each. */
  #resumed: { readonly here: string; readonly done: Promise<boolean> } | undefined;

  constructor(parts: RuntimeParts) {
    super(parts);
    this.#parts = parts;
    let ended = (_end: RuntimeEnd): void => undefined;
    this.closed = new Promise((resolve) => {
      ended = resolve;
    });
    this.#ended = ended;
  }

  /**
   * The sessions of one tenant, with the methods that the runtime has for all sessions. These methods show nothing of
   * another tenant. For them, a session of another tenant does not exist. Throws `InvalidNameError`.
   */
  tenant(name: string): Tenant {
    return new Tenant(this.#parts, checkTenantName(name));
  }

  /** The counters of this runtime. Synchronous, because the shards write their counters into shared memory. */
  metrics(): RuntimeMetrics {
    const degraded = this.#parts.degraded();
    const counters = readCounters(this.#parts.counters);
    const restarts = this.#parts.links.reduce((sum, link) => sum + link.restarts, 0);
    const providers = readProviders(this.#parts.counters, this.#parts.providers);
    const toolBlocks = this.#parts.toolBlocks();
    const { delivered, failed, waiting } = this.#parts.webhooks?.counts ?? { delivered: 0, failed: 0, waiting: 0 };
    const webhooks = { webhooksDelivered: delivered, webhooksFailed: failed, webhooksWaiting: waiting };
    return {
      ...counters,
      ...webhooks,
      restarts,
      toolBlocks,
      providers,
      ...(degraded === undefined ? {} : { degraded: degraded.message }),
    };
  }

  /**
   * True if the runtime accepts messages: it is not closing, the store takes writes, every session thread serves, and
   * interrupted sessions have been read. Waits at most a second for the last condition. Shards that another node of the
   * cluster has, or none, do not count: their requests wait at every node.
   */
  async isReady(): Promise<boolean> {
    const { links, degraded } = this.#parts;
    const isServing = (): boolean =>
      this.#closing === undefined &&
      degraded() === undefined &&
      links.every((link) => link.isServing || link.isElsewhere);
    if (!isServing()) return false;
    const here = links.map((link) => (link.isElsewhere ? '' : link.restarts)).join();
    if (this.#resumed?.here !== here) this.#resumed = { here, done: this.#whenResumed() };
    const isResumed = await orAborted(this.#resumed.done, AbortSignal.timeout(READY_WAIT_MS)).catch(() => false);
    return isResumed && isServing();
  }

  /**
   * Resolves when the session threads of this node have read their interrupted sessions: a thread answers
   * `sessions.list` only after that. Resolves to false after a failure; the next call of `isReady` then sends the
   * requests again.
   */
  async #whenResumed(): Promise<boolean> {
    const here = this.#parts.links.filter((link) => !link.isElsewhere);
    try {
      await Promise.all(here.map((link) => link.call('sessions.list', { order: 'id', limit: 1 }, true)));
      return true;
    } catch {
      this.#resumed = undefined;
      return false;
    }
  }

  /** Versions, threads, durability, directory. */
  info(): RuntimeInfo {
    return this.#parts.info;
  }

  /** The membership of this runtime in its cluster; undefined without the option `cluster`. */
  get cluster(): RuntimeCluster | undefined {
    const { cluster } = this.#parts;
    return cluster && { status: () => cluster.status() };
  }

  /**
   * Resumes every session that is blocked by an error in its log, and tries failed moves to another version again.
   * Paused sessions stay paused. Sessions whose log cannot be read are reported to the logger and left out.
   * After refused credentials, each session thread first makes one model call. The other calls follow if it succeeds.
   */
  async resume(): Promise<void> {
    await Promise.all(this.#parts.links.map((link) => link.call('runtime.resume', {}, true)));
  }

  /** Resolves when nothing is running and nothing waits to run, including queued children. */
  async drain(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = parseOption(drainSchema, 'drain', options);
    const drained = Promise.all(this.#parts.links.map((link) => link.call('runtime.drain', { id: 0 }, true)));
    await orAborted(drained, signal);
  }

  /**
   * Writes a backup of the store into `directory`, or updates the backup that `directory` already has. An update copies
   * only new results, and the shards that have new commits. The backup shows each session tree at one moment after this
   * call began, so it has everything that was acknowledged before the call. Sessions continue meanwhile. `restore`
   * makes a store from the backup. After a rejection, an earlier backup in `directory` is still complete. Rejects with
   * `ConfigError` for a store in memory, and for a directory with other files; with `StoreLockedError` while another
   * backup is written there, and with `StoreFullError` when there is no room.
   */
  async backup(directory: string): Promise<BackupReport> {
    return backupStore(this.#parts, directory);
  }

  /**
   * Ends the runtime: accepts no more messages, waits up to `deadlineMs` for running half-steps, flushes, and releases
   * the directory. Half-steps that still run at the deadline resume at the next `open`. Safe to call again.
   */
  async close(options: { readonly deadlineMs?: number } = {}): Promise<void> {
    const { deadlineMs = CLOSE_DEADLINE_MS } = parseOption(closeSchema, 'close', options);
    this.#closing ??= this.#close(deadlineMs, { reason: 'closed' });
    return this.#closing;
  }

  async #close(deadlineMs: number, end: RuntimeEnd): Promise<void> {
    this.#parts.cluster?.retire();
    try {
      await Promise.all(this.#parts.links.map((link) => link.close(deadlineMs)));
    } finally {
      await this.#parts.webhooks?.close(Math.min(deadlineMs, WEBHOOK_CLOSE_MS));
      await this.#parts.search.close();
      this.#parts.hub.close();
      await this.#parts.release();
      this.#ended(end);
    }
  }

  /**
   * Ends the runtime because another process takes over its directory. The runtime first waits until the running
   * half-steps have ended or `deadlineMs` have passed. During this wait it accepts messages, but begins no half-step.
   * Then it closes. So the time in which neither process accepts messages does not include a model call.
   */
  async #handOver({ pid, deadlineMs }: Takeover): Promise<void> {
    const stood = this.#parts.links.map((link) => link.call('runtime.standStill', { deadlineMs, pid }, true));
    // Rejections are ignored: a thread that was given up runs nothing, and a `close` meanwhile has its own deadline.
    await Promise.allSettled(stood);
    this.#closing ??= this.#close(0, { reason: 'taken_over', pid });
    await this.#closing;
  }

  /**
   * Ends the runtime because another node may have taken over its sessions. Requests in flight and later requests
   * reject with `error`. Nothing is written, because the log refuses writes of this node.
   */
  async #moveAway(error: ShardMovedError): Promise<void> {
    for (const link of this.#parts.links) link.fail(error);
    const owner = error.data?.['owner'];
    this.#closing ??= this.#close(0, { reason: 'moved', ...(typeof owner === 'string' ? { owner } : {}) });
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Kills a session thread as a crash would. For `troupe/testing`; the runtime replaces the thread. */
export const killSessionThread: (runtime: Runtime, index: number) => Promise<void> = async (runtime, index) => {
  const link = linksOf.get(runtime)?.[index];
  if (link === undefined) throw new ConfigError(`there is no session thread ${index}`);
  await link.kill();
};

/**
 * The search of a runtime. Only the benchmark of the search needs it, to read the statistics of the index.
 *
 * @measured
 */
export const searchOf: (runtime: Runtime) => MessageSearch | undefined = (runtime) => searches.get(runtime);

const searches = new WeakMap<Runtime, MessageSearch>();

const linksOf = new WeakMap<Runtime, readonly ShardLink[]>();

/**
 * Starts to publish diagnostics of this runtime if there are subscribers. Call this function if a subscriber is added
 * after `open`.
 */
export const publishDiagnosticsOf: (runtime: Runtime) => void = (runtime) => diagnosticsOf.get(runtime)?.look();

const diagnosticsOf = new WeakMap<Runtime, Diagnostics>();

/** Makes a runtime from these parts; remembers its links for `killSessionThread`. */
export function createRuntime(parts: RuntimeParts): Runtime {
  const runtime = new Runtime(parts);
  linksOf.set(runtime, parts.links);
  searches.set(runtime, parts.search);
  diagnosticsOf.set(runtime, parts.diagnostics);
  parts.diagnostics.begin(runtime);
  return runtime;
}
