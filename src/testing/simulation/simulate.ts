/**
 * One simulated run: a runtime is opened, crashes or closes, and is opened again. The time from an open to the crash or
 * close is a life; the stores are checked after each life. Everything follows from the seed: the failures, the
 * messages, the model's answers, the order of events.
 */
import { defined } from '../../base/defined.ts';
import { handOver, type Runtime } from '../../runtime/handles/runtime.ts';
import type { Agent } from '../../runtime/protocol/agent.ts';
import type { OpenOptions } from '../../runtime/protocol/options.ts';
import { isGivenUp } from './attempts.ts';
import { Embedder } from './embedder.ts';
import { AuditTrail } from './families/audit.ts';
import { SimulatedCompaction } from './families/compaction.ts';
import { checkDrafts } from './families/drafts.ts';
import { checkSealed, encryptionOf } from './families/encryption.ts';
import { checkErased, checkErasures, type ErasureParts, untilErased } from './families/erasures.ts';
import { HandOverWatch } from './families/hand-over.ts';
import type { LifeParts } from './families/life-actions.ts';
import { SimulatedRetention } from './families/retention.ts';
import { SideActions } from './families/side-actions.ts';
import { Faults } from './faults.ts';
import { Invariants } from './invariants.ts';
import { LayoutChanges } from './layouts/layout-changes.ts';
import { Ledger, type ToolStart } from './ledger.ts';
import { modelsRandom, NORTH, SOUTH } from './models/agent-models.ts';
import { OtherVendor } from './models/other-vendor.ts';
import { ProviderTroubles } from './models/provider-troubles.ts';
import { Canaries } from './redaction/canaries.ts';
import { canaryModel } from './redaction/canary-model.ts';
import { RunWatch } from './run-watch.ts';
import { SeededRandom } from './seeded-random.ts';
import { SimulatedMachine } from './simulated-machine.ts';
import { SimulatedModel } from './simulated-model.ts';
import { SimulatedReceiver } from './simulated-receiver.ts';
import { SimulatedTools } from './simulated-tools.ts';
import type { SimulationOptions, SimulationResult } from './simulation-result.ts';
import { type Reading, StoreReader, type Stories } from './store-reading.ts';
import { CHILDREN_AT_WORK_MAX, drawSwarm, type Swarm, swarmAgents, swarmRendering, withModels } from './swarm.ts';
import { SimulatedVersions } from './versions/agent-versions.ts';
import { SimulatedProcess, World } from './world.ts';

/** The address of the other vendor's provider, if that provider is given as data. */
const SOUTH_URL = 'simulated:south';
/** Most trace lines kept. */
const TRACE_LINES = 400;
/** Virtual milliseconds the last life may take to finish. */
const SETTLE_MS = 24 * 3_600_000;
/** The share of the orderly ends of lives at which another process takes the store over. */
const TAKEOVER_SHARE = 0.3;
/** Separates the draws of take-overs from all other draws, so that a take-over changes no other draw. */
const TAKEOVER_STREAM = 0x7a6e_0b31;
/** Virtual milliseconds a close waits for half-steps. */
const CLOSE_MS = 5_000;
const CLOCK_JUMP_MS = 3_600_000;
/**
 * Virtual seconds that the webhooks of the last life have to deliver everything. Everything counts as delivered after
 * `DELIVERY_LOOKS_QUIET` seconds in a row without a waiting delivery.
 */
const DELIVERY_LOOKS = 3_600;
const DELIVERY_LOOKS_QUIET = 5;

/** Runs one seed. Always resolves: failures are in `violations`. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return new Simulation(options).run();
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #random: SeededRandom;
  readonly #world: World;
  readonly #faults: Faults;
  readonly #ledger = new Ledger();
  readonly #watch = new RunWatch(this.#ledger, (text) => this.#note(text));
  readonly #swarm: Swarm;
  readonly #machine: SimulatedMachine;
  readonly #tools: SimulatedTools;
  readonly #model: Pick<SimulatedModel, 'providerOf'>;
  /** The provider of another vendor and the troubles of both, if the agents have several models. */
  readonly #south: Pick<OtherVendor, 'providerOf'> | undefined;
  readonly #troubles: ProviderTroubles | undefined;
  /** The receiver of webhooks, if the run has them. */
  readonly #receiver: SimulatedReceiver | undefined;
  readonly #sides: SideActions;
  readonly #takeovers: SeededRandom;
  /** The changes of the number of shards, if the run has them. */
  readonly #layouts: LayoutChanges | undefined;
  /** The removal of old history, if the run has it. */
  readonly #retention: SimulatedRetention | undefined;
  /** The compactions of open stores, if the run has them. */
  readonly #compaction: SimulatedCompaction | undefined;
  /** The texts that must not be kept, if the run redacts. */
  readonly #canaries: Canaries | undefined;
  /** The versions of the agents, if the run has versions. */
  readonly #versions: SimulatedVersions | undefined;
  readonly #handOvers: HandOverWatch;
  readonly #invariants: Invariants;
  readonly #reader: StoreReader;
  readonly #audit = new AuditTrail();
  readonly #harness = new SimulatedProcess('harness');
  readonly #trace: string[] = [];
  #fingerprint = 0;
  #lives = 0;
  /** The process of the current life. */
  #life: SimulatedProcess | undefined;
  #closeMessages = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = new SeededRandom(options.seed);
    this.#takeovers = new SeededRandom((options.seed ^ TAKEOVER_STREAM) >>> 0);
    this.#retention = SimulatedRetention.draw(options.seed);
    this.#compaction = SimulatedCompaction.draw(options.seed);
    this.#sides = new SideActions(options.seed, this.#retention !== undefined);
    this.#faults = new Faults(this.#random.fork(), options.faults === undefined ? undefined : new Set(options.faults));
    this.#world = new World(this.#random.fork(), this.#watch);
    this.#handOvers = new HandOverWatch(this.#world, this.#ledger);
    const modelsOwn = modelsRandom(options.seed);
    this.#swarm = withModels(drawSwarm(this.#random.fork()), modelsOwn);
    const shared = {
      world: this.#world,
      faults: this.#faults,
      ledger: this.#ledger,
      incarnationOf: (session: string): number => this.#machine.incarnationOf(session),
      incarnationAgeMs: (session: string): number => this.#machine.incarnationAgeMs(session),
      crash: (why: string): void => {
        if (this.#life !== undefined) this.#crash(this.#life, why);
      },
      toolStart: (session: string, process: SimulatedProcess, attempt: number): ToolStart =>
        this.#machine.toolStart(session, process, attempt),
      trace: (text: string): void => this.#note(text),
    };
    this.#canaries = Canaries.draw(options.seed, this.#ledger);
    const canaries = this.#canaries;
    const carrying = (model: Pick<SimulatedModel, 'providerOf'>): Pick<SimulatedModel, 'providerOf'> =>
      canaries === undefined ? model : canaryModel(model, canaries);
    if (this.#swarm.fallback === undefined) this.#model = carrying(new SimulatedModel(shared));
    else {
      const only = options.faults === undefined ? undefined : new Set(options.faults);
      const troubles = new ProviderTroubles(shared, modelsOwn.fork(), only);
      const surroundings = { ...shared, troubles };
      const model = new SimulatedModel(surroundings);
      this.#model = carrying(model);
      this.#troubles = troubles;
      const south = new OtherVendor({
        surroundings,
        troubles,
        random: modelsOwn.fork(),
        answer: (process, request) => model.answer(process, request),
        note: (request, session, provider) => model.note(request, session, provider),
      });
      this.#south = carrying(south);
    }
    this.#tools = new SimulatedTools(shared);
    const wanted = options.faults === undefined ? undefined : new Set(options.faults);
    this.#receiver = SimulatedReceiver.draw(shared, options.seed, wanted);
    this.#machine = new SimulatedMachine({
      receiver: this.#receiver,
      backups: this.#sides.backups,
      handOvers: this.#handOvers,
      canaries,
      encryption: encryptionOf(options.seed),
      ...shared,
      bounds: this.#swarm.bounds,
      shards: this.#swarm.shards,
      keepsFreed: this.#compaction !== undefined,
      model: this.#model,
      ...(this.#south === undefined ? {} : { providers: new Map([[SOUTH_URL, this.#south]]) }),
      tools: this.#tools,
      fellSilent: () => this.#watch.deviceFellSilent(),
      crashed: (process, why) => this.#crash(process, why),
    });
    const { stores, encryption } = this.#machine;
    const removesHistory = this.#retention !== undefined;
    this.#reader = new StoreReader(stores, { rendering: swarmRendering(this.#swarm), encryption, removesHistory });
    // The sessions of an encrypted store cannot move to another shard.
    if (encryption === undefined) {
      this.#layouts = LayoutChanges.draw(options.seed, { ...shared, machine: this.#machine, reader: this.#reader });
    }
    this.#versions = SimulatedVersions.draw(options.seed, { ...shared, areFaultsOn: () => this.#faults.isOn });
    const { limits, changesAgents, durability } = this.#swarm;
    const isKept = (path: string): boolean => this.#machine.results.isDurable(path);
    this.#invariants = new Invariants(this.#ledger, shared.incarnationOf, {
      limits,
      changesAgents: changesAgents || this.#versions !== undefined,
      // With the durability `os` nothing is synced, so a power loss may remove a result file.
      ...(durability === 'os' ? {} : { isKept }),
      maxActive: CHILDREN_AT_WORK_MAX,
    });
  }

  #crash(process: SimulatedProcess, why: string): void {
    this.#note(`crash ${why}`);
    process.kill();
  }

  async run(): Promise<SimulationResult> {
    await this.#watch.run(this.#world, this.#harness, () => this.#drive());
    return this.#result();
  }

  /** Runs the lives with faults, then one without. */
  async #drive(): Promise<void> {
    const enabled = [...this.#faults.enabled, ...(this.#troubles?.enabled ?? []), ...(this.#receiver?.enabled ?? [])];
    this.#note(`faults: ${enabled.join(' ') || 'none'}; ${JSON.stringify(this.#swarm)}`);
    let isSettled = false;
    for (let life = 1; life <= this.#swarm.lives; life += 1) {
      if (life > 1) await this.#layouts?.change();
      isSettled = await this.#live(life === this.#swarm.lives && this.#swarm.endsInPlace);
      if (isSettled) break;
      const { stories } = await this.#check();
      if (this.#ledger.violations.length > 0) return;
      await this.#retention?.pass(this.#erasures(), life === this.#swarm.lives);
      const now = this.#world.clockOf(this.#harness).now();
      await this.#sides.letters?.leave(this.#machine.stores, stories, now, this.#machine.encryption);
    }
    this.#faults.off();
    if (!isSettled) await this.#layouts?.change();
    if (!isSettled) await this.#settle();
    const reading = await this.#check();
    if (this.#ledger.violations.length === 0) this.#invariants.checkFinished(reading.stories);
    if (this.#ledger.violations.length === 0) this.#versions?.checkFinished(reading.stories, this.#lives);
    if (this.#ledger.violations.length === 0) this.#receiver?.check(reading.stories);
    if (this.#ledger.violations.length === 0) checkErased(this.#erasures());
    if (this.#ledger.violations.length === 0) this.#compaction?.checkFinished(this.#erasures());
    if (this.#ledger.violations.length === 0) this.#retention?.checkRemoved(this.#erasures(), reading.stories);
    if (this.#ledger.violations.length === 0) this.#sides.letters?.checkListed(this.#ledger, reading.stories);
    if (this.#ledger.violations.length > 0) return;
    await this.#layouts?.change();
    await this.#reopen(reading.stories);
  }

  /**
   * Runs one life with faults. `endsInPlace`: the faults stop before the life ends, so that its work can finish. In
   * that case returns true if the process lived until the work had finished, or until the time for the work had passed.
   */
  async #live(endsInPlace: boolean): Promise<boolean> {
    const { process, opened } = this.#begin();
    const runtime = await opened;
    if (runtime === undefined) return false;
    const embedder = this.#embed(process, runtime);
    embedder.start();
    void this.#versions?.retry(process, runtime);
    const leaveSides = this.#sides.begin(this.#partsOf(process, runtime));
    if (this.#faults.strikes('clock.jump', 0.4)) {
      this.#world.schedule(process, this.#random.number() * this.#swarm.lifeMs, () => {
        this.#note('the clock jumps');
        this.#world.jump(this.#random.pick([-1, 1]) * CLOCK_JUMP_MS);
      });
    }
    await process.untilDeath(this.#world.sleep(this.#harness, this.#random.number() * this.#swarm.lifeMs));
    if (!process.isAlive) return false;
    if (endsInPlace) {
      this.#note('no more faults');
      this.#faults.off();
      leaveSides();
      await process.untilDeath(embedder.finish());
      return process.isAlive && this.#settleIn(process, runtime, embedder);
    }
    if (this.#faults.strikes('process.kill', 0.6)) {
      this.#note('kill');
      process.kill();
      return false;
    }
    const isTakenOver = this.#options.faults === undefined && this.#takeovers.chance(TAKEOVER_SHARE);
    // While another process takes the store over, the embedder continues to send, because the runtime accepts messages
    // until it closes.
    if (!isTakenOver) embedder.leave();
    leaveSides();
    this.#faults.strikes('process.close', 1);
    this.#note(isTakenOver ? 'taken over' : 'close');
    this.#world.countMessages(this.#options.heldAtClose);
    const deadlineMs = this.#random.pick([0, CLOSE_MS, 60_000]);
    const closing = isTakenOver ? handOver(runtime, { pid: 1, deadlineMs }) : runtime.close({ deadlineMs });
    // If the store refuses the last writes, the close fails. Then the life ends as with a crash.
    await process.untilDeath(closing.catch((error: unknown) => this.#note(`close failed: ${String(error)}`)));
    this.#closeMessages = Math.max(this.#closeMessages, this.#world.messages);
    this.#world.countMessages(undefined);
    process.kill();
    return false;
  }

  /** Runs the last life, without faults: all work finishes (I7). */
  async #settle(): Promise<void> {
    const { process, opened } = this.#begin();
    const runtime = await opened;
    if (runtime === undefined) {
      this.#ledger.violate('stuck', 'the runtime does not open any more');
      return;
    }
    await this.#settleIn(process, runtime, this.#embed(process, runtime));
  }

  /**
   * Lets the embedder finish all work, and closes the runtime. Returns false if the process died before the work had
   * finished. Two causes are allowed: an earlier fault ended the process, or earlier faults made the runtime give up a
   * session thread (L3 of `shard-link.ts`).
   */
  async #settleIn(
    process: SimulatedProcess,
    runtime: Awaited<ReturnType<SimulatedMachine['open']>>,
    embedder: Embedder,
  ): Promise<boolean> {
    let isSettled = false;
    const parts = this.#partsOf(process, runtime);
    const settled = this.#sides
      .lift(parts)
      .then(() => embedder.settle())
      .then(() => this.#sides.settle(parts))
      .then(
        () => {
          isSettled = true;
        },
        (error: unknown) => {
          if (isGivenUp(error)) process.kill();
          else this.#ledger.violate('failed', `settling: ${String((error as Error).stack)}`);
        },
      );
    await process.untilDeath(Promise.race([settled, this.#world.sleep(this.#harness, SETTLE_MS)]));
    if (!process.isAlive) return false;
    if (!isSettled) {
      for (const { id, state, mailbox } of await runtime.sessions.list({ order: 'id', limit: 1_000 })) {
        if (state === 'idle' && mailbox === 0) continue;
        const { reason, detail } = await runtime.session(id).explain();
        this.#ledger.violate('stuck', `${id} is ${state}, ${mailbox} wait: ${reason}, ${detail}`);
      }
      this.#ledger.violate('stuck', 'the runtime does not come to its end');
    }
    if (isSettled) await process.untilDeath(this.#delivered(runtime));
    if (isSettled) await process.untilDeath(untilErased(this.#erasures(), this.#retention));
    if (isSettled) await process.untilDeath(Promise.resolve(this.#compaction?.untilCompacted(this.#erasures())));
    embedder.leave();
    await Promise.race([runtime.close({ deadlineMs: 0 }), this.#world.sleep(this.#harness, SETTLE_MS)]);
    process.kill();
    return true;
  }

  /** Waits until the webhooks have nothing left to deliver. I25 checks whether they delivered everything. */
  async #delivered(runtime: Runtime): Promise<void> {
    if (this.#receiver === undefined) return;
    for (let looks = 0, quiet = 0; looks < DELIVERY_LOOKS && quiet < DELIVERY_LOOKS_QUIET; looks += 1) {
      await this.#world.sleep(this.#harness, 1_000);
      quiet = runtime.metrics().webhooksWaiting === 0 ? quiet + 1 : 0;
    }
  }

  /** Checks that after an orderly close the store opens without anything to recover. */
  async #reopen(before: Stories): Promise<void> {
    const { process, opened } = this.#begin();
    const runtime = await opened;
    if (runtime === undefined) return;
    await runtime.drain();
    await runtime.close({ deadlineMs: 0 });
    process.kill();
    const { stories, misstated } = await this.#reader.read();
    for (const what of misstated) this.#ledger.violate('fold', what);
    for (const story of stories.values()) {
      if (story.events.length !== before.get(story.id)?.events.length)
        this.#ledger.violate('changed', `${story.id} was closed without a fault, but opening it again changed its log`);
    }
  }

  #begin(): {
    readonly process: SimulatedProcess;
    readonly opened: Promise<Awaited<ReturnType<SimulatedMachine['open']>> | undefined>;
  } {
    this.#lives += 1;
    const process = new SimulatedProcess(`life ${this.#lives}`, this.#harness);
    this.#life = process;
    this.#note(`life ${this.#lives}`);
    const swarm = this.#swarm;
    const sessions = swarm.hasSessionThreads ? this.#machine.stores.length : 0;
    const opening = this.#machine.open(process, {
      agents: this.#agentsOf(process),
      ...this.#providersOf(process),
      threads: { sessions, models: swarm.models, tools: swarm.toolThreads },
      durability: swarm.durability,
      limits: swarm.limits,
      // A function cannot be sent to session threads. The simulated machine gives `redact` to them.
      ...(sessions === 0 ? defined({ redact: this.#canaries?.redact }) : {}),
      settings: swarm.settings,
      ...defined({ enrichers: swarm.enrichers, retention: this.#retention?.option, store: this.#compaction?.option }),
      logger: this.#watch.logger(),
    });
    const failed = (error: unknown): undefined => {
      if (process.isAlive) this.#openFailed(error);
      process.kill();
    };
    return { process, opened: process.untilDeath(opening.catch(failed)) };
  }

  #agentsOf(process: SimulatedProcess): readonly Agent[] {
    const values = this.#tools.valuesFor(process);
    const [life, swarm] = [this.#lives, this.#swarm];
    const agents = swarmAgents(values, swarm, life);
    return this.#versions?.definitions(agents, process, { life, hasAll: life >= swarm.lives, values }) ?? agents;
  }

  /**
   * A provider value runs on the host. With model threads a provider is data, and each thread builds its own provider
   * from these data.
   */
  #providersOf(process: SimulatedProcess): Pick<OpenOptions, 'provider' | 'providers'> {
    const isData = this.#swarm.models > 0;
    const first = isData ? { kind: 'module' as const, url: 'simulated:model' } : this.#model.providerOf(process);
    const south = this.#south;
    if (south === undefined) return { provider: first };
    const second = isData ? { kind: 'module' as const, url: SOUTH_URL } : south.providerOf(process);
    return { providers: { [NORTH]: first, [SOUTH]: second } };
  }

  #openFailed(error: unknown): void {
    this.#note(`open failed: ${String(error)}`);
    if (!this.#faults.isOn) this.#ledger.violate('failed', `open: ${String((error as Error).stack)}`);
  }

  #embed(process: SimulatedProcess, runtime: Awaited<ReturnType<SimulatedMachine['open']>>): Embedder {
    return new Embedder({
      process,
      runtime,
      world: this.#world,
      faults: this.#faults,
      ledger: this.#ledger,
      swarm: this.#swarm,
      deleteShare: SimulatedCompaction.deleteShareOf(this.#compaction),
      life: this.#lives,
      trace: (text) => this.#note(text),
    });
  }

  #partsOf(process: SimulatedProcess, runtime: Runtime): LifeParts {
    const [world, ledger, swarm] = [this.#world, this.#ledger, this.#swarm];
    return { process, runtime, world, ledger, swarm, life: this.#lives, trace: (text) => this.#note(text) };
  }

  async #check(): Promise<Reading> {
    const reading = await this.#reader.read();
    this.#invariants.check(reading);
    checkErasures(this.#erasures());
    this.#compaction?.check(this.#erasures());
    if (this.#machine.encryption !== undefined) checkSealed(this.#erasures());
    this.#canaries?.checkStores(this.#machine.stores);
    await checkDrafts(this.#machine.stores, this.#ledger, reading.stories, this.#machine.encryption);
    this.#sides.letters?.check(this.#ledger, reading.stories);
    const { stores, encryption } = this.#machine;
    await this.#audit.check({ stores, ledger: this.#ledger, encryption }, reading);
    await this.#handOvers.check(stores, encryption);
    await this.#sides.backups?.check(this.#ledger, reading.stories, {
      rendering: swarmRendering(this.#swarm),
      encryption: this.#machine.encryption,
      keepsResults: this.#swarm.durability !== 'os',
    });
    return reading;
  }

  #erasures(): ErasureParts {
    const { stores, results, encryption } = this.#machine;
    return { stores, results, encryption, ledger: this.#ledger, world: this.#world, harness: this.#harness };
  }

  #note(text: string): void {
    const line = `${(this.#world?.elapsedMs / 1_000).toFixed(3).padStart(10)} ${text}`;
    for (let index = 0; index < line.length; index += 1) {
      this.#fingerprint = (Math.imul(this.#fingerprint, 31) + line.charCodeAt(index)) | 0;
    }
    this.#trace.push(line);
    if (this.#trace.length > TRACE_LINES * 2) this.#trace.splice(0, TRACE_LINES);
    this.#options.onTrace?.(line);
  }

  #result(): SimulationResult {
    const { messages, calls, tools, violations } = this.#ledger;
    return {
      seed: this.#options.seed,
      violations,
      trace: this.#trace.slice(-TRACE_LINES),
      simulatedMs: this.#world.elapsedMs,
      lives: this.#lives,
      tasks: this.#world.tasksRun,
      messages: messages.size,
      modelCalls: [...calls.values()].reduce((sum, each) => sum + each.length, 0),
      closeMessages: this.#closeMessages,
      toolRuns: [...tools.values()].reduce((sum, { starts }) => sum + starts.length, 0),
      faults: Object.fromEntries([
        ...this.#faults.counts,
        ...(this.#troubles?.counts ?? []),
        ...(this.#receiver?.counts ?? []),
      ]),
      fingerprint: this.#fingerprint,
    };
  }
}
