/**
 * The machine under a simulated runtime: disks that outlive processes, and simulated session and model threads.
 * Everything above the ports is the production code.
 */
import type { ShardBounds } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { shardOf } from '../../base/ids.ts';
import type { StoreEncryption } from '../../journal/encryption/master-keys.ts';
import type { Journal } from '../../journal/journal.ts';
import type { MovedSessions } from '../../journal/layout/move-sessions.ts';
import { openMemoryJournal } from '../../journal/memory-journal.ts';
import { MemoryStore } from '../../journal/memory-store.ts';
import { shardDirectory } from '../../journal/store/manifest.ts';
import { createInPlacePool } from '../../models/pools/in-place-pool.ts';
import { serveModelCalls } from '../../models/pools/model-service.ts';
import type { ModelThread } from '../../models/pools/threaded-pool.ts';
import type { ProviderData } from '../../models/provider.ts';
import type { ShardPorts } from '../../runtime/door/build-shard.ts';
import { serveShardThread } from '../../runtime/door/shard-service.ts';
import { assembleRuntime } from '../../runtime/handles/assemble.ts';
import type { Runtime } from '../../runtime/handles/runtime.ts';
import { type InPlaceSurroundings, startInPlace } from '../../runtime/host/shard-in-place.ts';
import type { ShardThread, ShardThreadEnd } from '../../runtime/host/shard-threads.ts';
import { checkOptions, type OpenOptions } from '../../runtime/protocol/options.ts';
import type { ShardPlan } from '../../runtime/protocol/protocol.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { HostRunner } from '../../tools/host-tools.ts';
import type { ToolOutcome } from '../../tools/tool.ts';
import type { SimulatedBackups } from './families/backups.ts';
import type { HandOverWatch } from './families/hand-over.ts';
import type { Faults } from './faults.ts';
import type { ToolStart } from './ledger.ts';
import type { Canaries } from './redaction/canaries.ts';
import { canaryLine } from './redaction/canary-line.ts';
import { SIMULATED_DEFINITIONS } from './simulated-definitions.ts';
import { createSimulatedDevice, type DeviceSurroundings, type SimulatedDevice } from './simulated-device.ts';
import { createSimulatedLine } from './simulated-line.ts';
import type { SimulatedModel } from './simulated-model.ts';
import type { SimulatedReceiver } from './simulated-receiver.ts';
import { SimulatedResults } from './simulated-results.ts';
import type { SimulatedTools } from './simulated-tools.ts';
import { SimulatedProcess, type World } from './world.ts';

/** Maximum number of session threads of one host that device faults may end without their host. */
const THREADS_STRUCK_MAX = 2;
/** Directory of a simulated store. */
export const STORE_DIRECTORY = '/simulated';
/** Directory of the whole texts of shortened results. */
const RESULTS_DIRECTORY = `${STORE_DIRECTORY}/results`;

/** Controls the outcome of every disk operation of a process, in place of random faults. */
export interface SimulatedDisk {
  /** Opens a journal, perhaps late. A rejection keeps the journal from opening. */
  open(process: SimulatedProcess, surroundings: DeviceSurroundings, open: () => Journal): Promise<Journal>;
  /** The device of an open journal. */
  device(process: SimulatedProcess, surroundings: DeviceSurroundings): SimulatedDevice;
}

/** The parts of a machine. */
export interface MachineParts {
  readonly world: World;
  readonly faults: Faults;
  readonly bounds: ShardBounds;
  readonly shards: number;
  readonly model: Pick<SimulatedModel, 'providerOf'>;
  /** Providers beside `model`, by the address of their module. */
  readonly providers?: ReadonlyMap<string, Pick<SimulatedModel, 'providerOf'>>;
  readonly tools: Pick<SimulatedTools, 'poolOf'>;
  /** True if the stores keep the bytes of removed rows until a compaction. */
  readonly keepsFreed?: boolean;
  /** The keys of the store; missing: it is not encrypted. */
  readonly encryption?: StoreEncryption | undefined;
  /** Controls the disks; missing: the disks have random faults. */
  readonly disk?: SimulatedDisk;
  /** The receiver of webhooks; missing: there are none. */
  readonly receiver?: SimulatedReceiver | undefined;
  /** The backups of the store; missing: there are none. */
  readonly backups?: SimulatedBackups | undefined;
  /** Watches hand-overs; missing: they are not checked. */
  readonly handOvers?: HandOverWatch | undefined;
  /** The canaries; missing: nothing is redacted. */
  readonly canaries?: Canaries | undefined;
  readonly trace: (text: string) => void;
  /** Called when a device stops answering; its process is killed later. */
  readonly fellSilent?: () => void;
  /** Called when a fault of a device has ended a process. */
  readonly crashed: (process: SimulatedProcess, why: string) => void;
}

/** See the file header. */
export class SimulatedMachine {
  /** One store per shard. `changeLayout` replaces them. */
  readonly stores: MemoryStore[];
  /** The result store's simulated disk. */
  readonly results: SimulatedResults = new SimulatedResults();
  /** The keys of the store; undefined: it is not encrypted. */
  readonly encryption: StoreEncryption | undefined;
  readonly #parts: MachineParts;
  readonly #incarnations: number[];
  /** The beginning of the current incarnation of each shard, in virtual ms. */
  readonly #incarnatedAtMs: number[] = [];
  readonly #threadsStruck = new Map<SimulatedProcess, number>();

  constructor(parts: MachineParts) {
    this.#parts = parts;
    this.encryption = parts.encryption;
    this.stores = Array.from({ length: parts.shards }, () => new MemoryStore());
    this.#incarnations = this.stores.map(() => 0);
  }

  /**
   * The number of the incarnation of a session's shard. A new incarnation begins when the shard starts, and when a
   * write is refused, because the shard then reads its sessions from the log again.
   */
  incarnationOf(session: string): number {
    return this.#incarnations[shardOf(session, this.stores.length)] ?? 0;
  }

  /** Virtual ms since the incarnation of the session's shard began. */
  incarnationAgeMs(session: string): number {
    const { world } = this.#parts;
    return world.elapsedMs - (this.#incarnatedAtMs[shardOf(session, this.stores.length)] ?? 0);
  }

  /** The facts of a tool call that starts now in `process`. `session`: the session of the call. */
  toolStart(session: string, process: SimulatedProcess, attempt: number): ToolStart {
    const storedRow = this.stores[shardOf(session, this.stores.length)]?.state.lastRow ?? 0;
    const atMs = this.#parts.world.elapsedMs;
    return { incarnation: this.incarnationOf(session), storedRow, process, attempt, atMs };
  }

  /** Replaces the stores, between two lives. */
  changeLayout(stores: readonly MemoryStore[], moved: MovedSessions): void {
    const incarnation = Math.max(...this.#incarnations);
    this.stores.splice(0, this.stores.length, ...stores);
    this.#incarnations.splice(0, this.#incarnations.length, ...stores.map(() => incarnation));
    this.#parts.receiver?.moveCursors(stores.length, moved);
  }

  #incarnated(shard: number): void {
    this.#incarnations[shard] = (this.#incarnations[shard] ?? 0) + 1;
    this.#incarnatedAtMs[shard] = this.#parts.world.elapsedMs;
  }

  /** Opens the runtime in a process. */
  open(process: SimulatedProcess, options: OpenOptions): Promise<Runtime> {
    const { world } = this.#parts;
    process.onDeath(() => this.results.losePower());
    this.#parts.handOvers?.opened(process);
    const checked = checkOptions({
      ...options,
      ...(this.#parts.receiver === undefined ? {} : { webhooks: this.#parts.receiver.webhooks }),
      clock: world.clockOf(process),
      random: () => world.random.number(),
    });
    const place = {
      directory: STORE_DIRECTORY,
      resultStore: RESULTS_DIRECTORY,
      shards: this.stores.length,
      ...defined({ encryption: this.encryption }),
      release: async () => this.#parts.handOvers?.released(this.stores),
    };
    const ports = {
      startShard: (plan: ShardPlan) => this.#lined(process, this.#startShard(process, plan)),
      // `open` would import this function. An import takes real time, and the world does not wait for real time.
      startInPlace: (surroundings: InPlaceSurroundings) => this.#lined(process, startInPlace(surroundings)),
      shardPorts: this.#portsOf(process, process),
      ...defined({
        webhooks: this.#parts.receiver?.openerFor(process),
        writeBackup: this.#parts.backups?.writerOf(process, {
          world,
          results: () => this.results.paths(),
          cursors: () => this.#parts.receiver?.cursors ?? [],
        }),
      }),
    };
    return assembleRuntime(checked, place, ports, SIMULATED_DEFINITIONS);
  }

  #lined(process: SimulatedProcess, thread: ShardThread): ShardThread {
    const { canaries, handOvers } = this.#parts;
    const watched = handOvers?.line(process, thread, this.stores) ?? thread;
    return canaries === undefined ? watched : canaryLine(watched, canaries);
  }

  #portsOf(host: SimulatedProcess, process: SimulatedProcess): ShardPorts {
    const { world, faults, bounds, tools, disk, backups, canaries, trace, crashed, keepsFreed } = this.#parts;
    const results = this.results.diskOf(process, world, faults);
    const soon = world.soonOf(process);
    return {
      soon,
      bounds,
      openJournal: async ({ directory = '', encryption }) => {
        const shard = this.#diskOf(directory);
        this.#incarnated(shard);
        const surroundings = {
          world,
          faults,
          trace,
          crash: (why: string) => crashed(this.#struckBy(host, process), why),
          refused: () => this.#incarnated(shard),
          reopened: () => this.#incarnated(shard),
          fellSilent: () => this.#parts.fellSilent?.(),
        };
        const device = disk?.device(process, surroundings) ?? createSimulatedDevice(process, surroundings);
        const store = this.stores[shard];
        if (store === undefined) throw new Error(`no disk for ${directory}`);
        if (keepsFreed === true) store.freedRows ??= [];
        const options = { store, device, schedule: soon, shard, ...defined({ encryption }) };
        const open = (): Journal => backups?.openJournal(process, world, options) ?? openMemoryJournal(options);
        return disk === undefined ? open() : disk.open(process, surroundings, open);
      },
      makeToolPool: (canaries?.tools(tools) ?? tools).poolOf(process),
      startModelThread: (provider) => this.#startModelThread(process, provider),
      resultDisk: canaries?.disk(results) ?? results,
    };
  }

  /**
   * The process that a fault of a device ends: the whole host, or the session thread alone. The session thread alone
   * ends at most `THREADS_STRUCK_MAX` times in one host.
   */
  #struckBy(host: SimulatedProcess, thread: SimulatedProcess): SimulatedProcess {
    const deaths = this.#threadsStruck.get(host) ?? 0;
    // If more session threads ended, the link would give up the shard (L3 of `shard-link.ts`).
    if (thread === host || deaths >= THREADS_STRUCK_MAX || this.#parts.world.random.chance(0.5)) return host;
    this.#threadsStruck.set(host, deaths + 1);
    return thread;
  }

  #diskOf(directory: string): number {
    return this.stores.findIndex((_store, index) => directory === shardDirectory(STORE_DIRECTORY, index));
  }

  #startShard(host: SimulatedProcess, plan: ShardPlan): ShardThread {
    const { world, faults, canaries, trace } = this.#parts;
    const thread = new SimulatedProcess(`shard ${plan.index}`, host);
    // The listeners are registered before the lines are made, as with a real thread. So when a call over a cut line
    // rejects, the link already knows that the thread has ended.
    const onExit: ((end: ShardThreadEnd) => void)[] = [];
    thread.onDeath(() => {
      for (const listener of onExit) world.schedule(host, 0, () => listener({}));
    });
    const line = createSimulatedLine(world, host, thread);
    const bridge = createSimulatedLine(world, host, thread);
    serveShardThread(line.far, () => ({
      runner: remoteRunner(bridge.far),
      clock: world.clockOf(thread),
      random: () => world.random.number(),
      // A real session thread imports the module in its plan, which takes real time, too.
      redact: canaries?.redact,
      ports: this.#portsOf(host, thread),
    }));
    if (faults.strikes('thread.sessions', 0.3)) {
      world.schedule(host, world.random.between(0, 120_000), () => {
        if (!thread.isAlive || !faults.isOn) return;
        trace(`session thread ${plan.index} dies`);
        thread.kill();
      });
    }
    return {
      endpoint: line.near,
      onExit: (listener) => void onExit.push(listener),
      exit: async () => thread.kill(),
      serve: ({ runner }) => {
        serveRunner(bridge.near, runner);
        return () => bridge.near.close();
      },
    };
  }

  #startModelThread(process: SimulatedProcess, provider: ProviderData): ModelThread {
    const { world, faults, model: first, providers, trace } = this.#parts;
    const model = (provider.kind === 'module' ? providers?.get(provider.url) : undefined) ?? first;
    const thread = new SimulatedProcess('model thread', process);
    const line = createSimulatedLine(world, process, thread);
    serveModelCalls(line.far, async (listener) => ({
      name: 'simulated',
      pool: createInPlacePool(model.providerOf(thread), listener, world.clockOf(thread), world.soonOf(thread)),
    }));
    if (faults.strikes('thread.models', 0.6)) {
      world.schedule(process, world.random.between(0, 120_000), () => {
        if (!thread.isAlive || !faults.isOn) return;
        trace('a model thread dies');
        thread.kill();
      });
    }
    return { endpoint: line.near, terminate: async () => thread.kill() };
  }
}

/** The host's tools, called over a simulated line instead of the production bridge. */
function remoteRunner(endpoint: Endpoint): HostRunner {
  return {
    run: async (run) => (await endpoint.call('run', [run])) as ToolOutcome,
    abort: async (id, reason) => void (await endpoint.call('abort', [id, reason])),
  };
}

function serveRunner(endpoint: Endpoint, runner: HostRunner): void {
  endpoint.handle('run', (values) => runner.run(...(values as Parameters<HostRunner['run']>)));
  endpoint.handle('abort', (values) => runner.abort(...(values as Parameters<HostRunner['abort']>)));
}
