/**
 * The connections to the simulated database, and the network between: statements and answers take time, are lost, or
 * arrive when their client has given up.
 *
 * Owns: the outages of the database, the cuts of each machine's network. Does not own: what statements do.
 *  SC1 statements of one connection arrive in their order. After a failure the client makes another connection, whose
 *     statements may overtake those that are still on their way;
 *  SC2 a statement that its client has given up may run later, even after another node has claimed the shards.
 */
import { STATEMENT_MS } from '../../../src/base/bounds.ts';
import type { Clock } from '../../../src/base/clock.ts';
import { TimeoutError } from '../../../src/base/errors.ts';
import type { Result, StatementPort } from '../../../src/postgres/connection.ts';
import type { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import type { ClusterFaults } from './cluster-faults.ts';
import type { MachineWorld } from './machine-world.ts';
import type { SimulatedDatabase } from './simulated-database.ts';

/** A statement, or a message of several. */
type Statement<T> = (database: SimulatedDatabase) => T;

/** Most milliseconds that a packet takes on a fast, a usual and a slow network. */
const PACKET_MS = [0.5, 2, 20] as const;
/** Milliseconds after which a connection that broke is noticed. */
const BROKEN_MS = 5;

/** The network of one machine. Times are world time. */
export class MachineNetwork {
  /** Until then statements do not leave. */
  statementsCutUntilMs = 0;
  /** Until then answers do not arrive. */
  answersCutUntilMs = 0;
  /** True if packets of a cut are delivered when it ends. */
  isLate = false;
  /** World time of the last fault that hit this machine, and no other. */
  troubledAtMs: number = Number.NEGATIVE_INFINITY;
}

/** The database's side of all connections. */
export class DatabaseServer {
  readonly process: SimulatedProcess;
  readonly world: MachineWorld;
  readonly faults: ClusterFaults;
  readonly database: SimulatedDatabase;
  readonly trace: (text: string) => void;
  readonly random: SeededRandom;
  readonly packetMs: number;
  /** World time until which it is away. */
  awayUntilMs = 0;
  /** World time after which no statement is on its way any more. */
  quietFromMs = 0;
  /** The longest time for which a statement may be late. */
  readonly lateMs: number;
  readonly #live = new Set<LiveConnection>();

  constructor(parts: {
    readonly process: SimulatedProcess;
    readonly world: MachineWorld;
    readonly faults: ClusterFaults;
    readonly database: SimulatedDatabase;
    readonly lateMs: number;
    readonly trace: (text: string) => void;
  }) {
    this.process = parts.process;
    this.world = parts.world;
    this.faults = parts.faults;
    this.database = parts.database;
    this.lateMs = parts.lateMs;
    this.trace = parts.trace;
    this.random = parts.world.random.fork();
    this.packetMs = this.random.pick(PACKET_MS);
  }

  get isAway(): boolean {
    return this.world.elapsedMs < this.awayUntilMs;
  }

  /** Restarts. Every connection breaks, and none can be made meanwhile. */
  restart(ms: number): void {
    this.awayUntilMs = Math.max(this.awayUntilMs, this.world.elapsedMs + ms);
    for (const each of [...this.#live]) each.breakOff(refusal('57P01', 'terminating connection'));
  }

  opened(live: LiveConnection): void {
    this.#live.add(live);
  }

  ended(live: LiveConnection): void {
    this.#live.delete(live);
  }
}

/** One connection of a process, as `src/postgres` uses it. */
export class SimulatedConnection implements StatementPort {
  readonly #server: DatabaseServer;
  readonly #process: SimulatedProcess;
  readonly #network: MachineNetwork;
  readonly #clock: Clock;
  #live: LiveConnection | undefined;
  #isClosed = false;

  constructor(server: DatabaseServer, process: SimulatedProcess, network: MachineNetwork) {
    this.#server = server;
    this.#process = process;
    this.#network = network;
    this.#clock = server.world.clockOf(process);
  }

  async run(name: string, text: string, values: readonly unknown[], limitMs: number = STATEMENT_MS): Promise<Result> {
    return this.#ask(name, (database) => database.run(name, text, values), limitMs);
  }

  async runAll(texts: readonly string[], limitMs: number = STATEMENT_MS): Promise<readonly Result[]> {
    return this.#ask('claim', (database) => database.runAll(texts), limitMs);
  }

  async rest(): Promise<void> {
    this.#drop(this.#live);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.rest();
  }

  async #ask<T>(name: string, statement: Statement<T>, limitMs: number): Promise<T> {
    if (this.#isClosed) throw new TimeoutError('the connection to the database is closed');
    const live = this.#live ?? new LiveConnection(this.#server, this.#process, this.#network);
    this.#live = live;
    let timer: unknown;
    const late = new Promise<never>((_resolve, reject) => {
      timer = this.#clock.setTimer(
        () => reject(new TimeoutError(`the database did not answer in ${limitMs} ms`)),
        limitMs,
      );
    });
    try {
      return await Promise.race([live.send(name, statement), late]);
    } catch (error) {
      this.#drop(live);
      throw error;
    } finally {
      this.#clock.clearTimer(timer);
    }
  }

  #drop(live: LiveConnection | undefined): void {
    if (this.#live === live) this.#live = undefined;
    live?.breakOff(reset());
  }
}

/** A connection until it breaks. */
class LiveConnection {
  readonly #server: DatabaseServer;
  readonly #process: SimulatedProcess;
  readonly #network: MachineNetwork;
  readonly #waiting = new Set<(error: Error) => void>();
  #isBroken = false;
  /** World time before which nothing more arrives at the database, and at the client. */
  #thereMs = 0;
  #backMs = 0;

  constructor(server: DatabaseServer, process: SimulatedProcess, network: MachineNetwork) {
    this.#server = server;
    this.#process = process;
    this.#network = network;
    server.opened(this);
  }

  /** Every statement without an answer fails. */
  breakOff(error: Error): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#server.ended(this);
    for (const reject of [...this.#waiting]) reject(error);
  }

  send<T>(name: string, statement: Statement<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#isBroken) {
        reject(reset());
        return;
      }
      this.#waiting.add(reject);
      const answered = (settle: () => void): void => {
        if (this.#isBroken) return;
        this.#waiting.delete(reject);
        settle();
      };
      this.#leave(name, statement, {
        resolve: (result) => answered(() => resolve(result)),
        reject: (error) => answered(() => reject(error)),
      });
    });
  }

  #leave<T>(
    name: string,
    statement: Statement<T>,
    answer: { readonly resolve: (result: T) => void; readonly reject: (error: Error) => void },
  ): void {
    const { world, faults, random, trace } = this.#server;
    const [network, server] = [this.#network, this.#server];
    const nowMs = world.elapsedMs;
    const cutUntilMs = network.statementsCutUntilMs;
    if (nowMs < cutUntilMs) {
      // A packet that is dropped is never answered: the client gives the statement up.
      if (network.isLate)
        this.#arriveAt(cutUntilMs + random.number() * server.packetMs, () => this.#perform(statement));
      return;
    }
    if (faults.strikes('db.refused', 0.02)) {
      this.#troubled(name);
      trace(`${name} is refused`);
      world.schedule(this.#process, server.packetMs, () => answer.reject(refusal('53300', 'too many connections')));
      return;
    }
    if (faults.strikes('db.commit_late', 0.01)) {
      this.#troubled(name);
      const lateMs = random.pick([20, 1_000, server.lateMs]) * random.number();
      trace(`${name} runs ${Math.round(lateMs)} ms late`);
      this.#arriveAt(nowMs + lateMs, () => this.#perform(statement));
      if (random.chance(0.7)) world.schedule(this.#process, BROKEN_MS, () => this.breakOff(reset()));
      return;
    }
    this.#thereMs = Math.max(this.#thereMs, nowMs + random.number() * server.packetMs);
    this.#arriveAt(this.#thereMs, () => {
      if (server.isAway) {
        this.#back(() => answer.reject(refusal('57P03', 'the database system is starting up')));
        return;
      }
      const result = statement(server.database);
      if (faults.strikes('db.answer_lost', 0.02)) {
        this.#troubled(name);
        trace(`the answer of ${name} is lost`);
        if (random.chance(0.7)) world.schedule(this.#process, BROKEN_MS, () => this.breakOff(reset()));
        return;
      }
      this.#back(() => answer.resolve(result));
    });
  }

  /** Notes that the lease of this machine, and of no other, is not renewed for a reason. */
  #troubled(name: string): void {
    if (name === 'renew')
      this.#network.troubledAtMs = Math.max(this.#network.troubledAtMs, this.#server.world.elapsedMs);
  }

  /** Runs a statement now, whether or not anyone still waits for it. */
  #perform(statement: Statement<unknown>): void {
    if (!this.#server.isAway) statement(this.#server.database);
  }

  #arriveAt(atMs: number, arrive: () => void): void {
    const { world, process } = this.#server;
    this.#server.quietFromMs = Math.max(this.#server.quietFromMs, atMs);
    world.schedule(process, atMs - world.elapsedMs, arrive);
  }

  /** Carries an answer to the client. */
  #back(deliver: () => void): void {
    const { world, random, packetMs } = this.#server;
    const cutUntilMs = this.#network.answersCutUntilMs;
    const isCut = world.elapsedMs < cutUntilMs;
    if (isCut && !this.#network.isLate) return;
    this.#backMs = Math.max(this.#backMs, (isCut ? cutUntilMs : world.elapsedMs) + random.number() * packetMs);
    world.schedule(this.#process, this.#backMs - world.elapsedMs, deliver);
  }
}

function refusal(code: string, message: string): Error {
  return Object.assign(new Error(message), { code, severity: 'FATAL' });
}

function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}
