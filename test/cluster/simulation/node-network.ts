/**
 * The network between the simulated nodes, and the lines over it: the product's ports and endpoints over streams whose
 * bytes take time, wait while a way is cut, and stay unread while a machine rests.
 *
 * Owns: the addresses at which processes answer, the open lines, the ways that are cut. Does not own: when a fault
 * strikes, and the connections to the database (`simulated-connection.ts`).
 *  NN1 bytes of one direction of a line arrive in their order. While a way is cut they wait, as packets do that are sent
 *     again; those of a line that is cut are lost;
 *  NN2 a line ends on both sides: by its end, by a cut, with the process of one side, or by the silence of a machine
 *     (LP5 of `line-port.ts`). A machine that loses its power says nothing.
 */
import { Duplex } from 'node:stream';
import { LINE_CONNECT_MS } from '../../../src/base/bounds.ts';
import { TimeoutError, TroupeError } from '../../../src/base/errors.ts';
import { EMPTY_FRAME } from '../../../src/cluster/line/line-frames.ts';
import { createLinePort } from '../../../src/cluster/line/line-port.ts';
import type { NodeAddress } from '../../../src/cluster/plan.ts';
import type { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import { createEndpoint } from '../../../src/threads/batched-endpoint.ts';
import { type Endpoint, endpointWith } from '../../../src/threads/endpoint.ts';
import type { ClusterFaults } from './cluster-faults.ts';
import type { MachineWorld } from './machine-world.ts';

/** Most milliseconds that a packet takes between two nodes, on a fast, a usual and a slow network. */
const PACKET_MS = [0.2, 2, 20] as const;
/** Share of the deaths of a process after which its machine says nothing. */
const SILENT_SHARE = 0.3;
/** Share of the packets with which a line breaks, in an average run. */
const CUT_SHARE = 0.01;
/** The shortest delay of a timer. */
const TIMER_MS_MIN = 1;
/** The first port that a node gets. */
const PORT_MIN = 7_000;

/** A process on a machine of the network. */
export interface NetworkPlace {
  /** The name of the machine. */
  readonly machine: string;
  readonly process: SimulatedProcess;
}

/** A process that answers at an address. */
interface Door extends NetworkPlace {
  readonly accepted: (line: Endpoint) => void;
}

/** The parts of a network. */
export interface NodeNetworkParts {
  readonly world: MachineWorld;
  readonly random: SeededRandom;
  readonly faults: ClusterFaults;
  readonly trace: (text: string) => void;
}

/** See the head of this file. */
export class NodeNetwork {
  /** Lines that were opened. */
  opened = 0;
  /** Requests that nodes sent to the node with the shard. */
  asked = 0;
  readonly #parts: NodeNetworkParts;
  readonly #packetMs: number;
  /** True if a node answers at the same port in each of its lives. */
  readonly #keepsPorts: boolean;
  readonly #doors = new Map<number, Door>();
  readonly #ports = new Map<string, number>();
  readonly #lines = new Set<readonly [LineStream, LineStream]>();
  /** World time until which nothing arrives, by way. */
  readonly #cutUntilMs = new Map<string, number>();
  #lastPort = PORT_MIN;

  constructor(parts: NodeNetworkParts) {
    this.#parts = parts;
    this.#packetMs = parts.random.pick(PACKET_MS);
    this.#keepsPorts = parts.random.chance(0.5);
  }

  /** World time after which no way is cut. */
  get quietFromMs(): number {
    return Math.max(0, ...this.#cutUntilMs.values());
  }

  /** Answers other nodes, until the process ends or `close` is called. */
  listen(place: NetworkPlace, accepted: (line: Endpoint) => void): { address: NodeAddress; close: () => void } {
    const port = this.#portOf(place.machine);
    const door: Door = { ...place, accepted };
    this.#doors.set(port, door);
    const close = (): void => {
      if (this.#doors.get(port) === door) this.#doors.delete(port);
      for (const pair of this.#lines) for (const side of pair) if (side.process === place.process) side.end();
    };
    place.process.onDeath(() => {
      if (this.#doors.get(port) === door) this.#doors.delete(port);
      this.#died(place.process);
    });
    return { address: { host: 'simulated', port }, close };
  }

  /** Opens a line to the node at `address`, as `connectLine` does. */
  connect(from: NetworkPlace, { port }: NodeAddress): Promise<Endpoint> {
    const { world, random } = this.#parts;
    const { process } = from;
    const clock = world.clockOf(process);
    return new Promise((resolve, reject) => {
      let isOver = false;
      const settle = (how: () => void): void => {
        if (isOver) return;
        isOver = true;
        clock.clearTimer(timer);
        how();
      };
      const timer = clock.setTimer(
        () => settle(() => reject(new TimeoutError(`no node answered at port ${port}`))),
        LINE_CONNECT_MS,
      );
      const refused = (): void =>
        settle(() => reject(new TroupeError('internal', `no node is at port ${port}`, { retryable: true })));
      const door = this.#doors.get(port);
      if (door === undefined) {
        // A machine without power does not refuse either.
        if (!random.chance(SILENT_SHARE)) world.schedule(process, this.#latency(), refused);
        return;
      }
      // The handshake and the hellos have several packets each way.
      this.#carry(from, door, 4, () => {
        if (this.#doors.get(port) !== door) {
          this.#carry(door, from, 1, refused);
          return;
        }
        const pair = this.#pair(from, door);
        const [near, far] = pair;
        door.accepted(this.#endpointOver(far));
        this.#carry(door, from, 1, () => {
          if (isOver) near.destroy();
          else settle(() => resolve(this.#counting(this.#endpointOver(near))));
        });
      });
    });
  }

  // ---- faults -------------------------------------------------------------------------------------------------------

  /** Cuts the way from one machine to another. */
  partition(from: string, to: string, untilMs: number): void {
    const way = wayOf(from, to);
    this.#cutUntilMs.set(way, Math.max(untilMs, this.#cutUntilMs.get(way) ?? 0));
  }

  /** Cuts a line. Both sides see the end, and what is on its way is lost. */
  #cut(pair: readonly [LineStream, LineStream]): void {
    const { trace, world } = this.#parts;
    trace(`a line between ${pair[0].machine} and ${pair[1].machine} is cut`);
    this.#lines.delete(pair);
    for (const side of pair) {
      side.isCut = true;
      world.schedule(side.process, this.#latency(), () => side.destroy(reset()));
    }
  }

  #died(process: SimulatedProcess): void {
    const { random } = this.#parts;
    const isSilent = random.chance(SILENT_SHARE);
    for (const pair of this.#lines) {
      const [near, far] = pair;
      if (near.process !== process && far.process !== process) continue;
      this.#lines.delete(pair);
      const [dead, other] = near.process === process ? [near, far] : [far, near];
      if (isSilent) other.isCut = true;
      else this.#carry(dead, other, 0, () => other.destroy(reset()));
    }
  }

  // ---- packets ------------------------------------------------------------------------------------------------------

  /** Carries bytes to the other side, or its end (`null`), or its sudden end (`undefined`). Enforces NN1. */
  deliver(from: LineStream, to: LineStream, chunk: Buffer | null | undefined): void {
    if (from.isCut || to.isCut || !from.process.isAlive) return;
    // A line breaks while something is on its way, when it matters.
    const isEmpty = !chunk || chunk.length <= EMPTY_FRAME.length;
    if (from.pair !== undefined && !isEmpty && this.#parts.faults.strikes('line.cut', CUT_SHARE)) {
      this.#cut(from.pair);
      return;
    }
    const atMs = Math.max(from.arrivesMs, this.#arrivalMs(from, to));
    from.arrivesMs = atMs;
    this.#parts.world.schedule(to.process, atMs - this.#parts.world.elapsedMs, () => {
      if (to.isCut || to.destroyed) return;
      if (chunk === undefined) to.destroy(reset());
      else to.push(chunk);
    });
  }

  /** Called when both sides of a line have ended. */
  ended(pair: readonly [LineStream, LineStream]): void {
    this.#lines.delete(pair);
  }

  #carry(from: NetworkPlace, to: NetworkPlace, trips: number, arrive: () => void): void {
    const { world } = this.#parts;
    let atMs = this.#arrivalMs(from, to);
    for (let trip = 1; trip < trips; trip += 1) {
      atMs += this.#latency();
      // Without the way back there is no handshake.
      atMs = Math.max(atMs, this.#cutUntilMs.get(wayOf(to.machine, from.machine)) ?? 0);
    }
    world.schedule(to.process, atMs - world.elapsedMs, arrive);
  }

  #arrivalMs(from: NetworkPlace, to: NetworkPlace): number {
    const cutUntilMs = this.#cutUntilMs.get(wayOf(from.machine, to.machine)) ?? 0;
    return Math.max(this.#parts.world.elapsedMs, cutUntilMs) + this.#latency();
  }

  #latency(): number {
    return this.#parts.random.number() * this.#packetMs;
  }

  // ---- lines --------------------------------------------------------------------------------------------------------

  #portOf(machine: string): number {
    const known = this.#ports.get(machine);
    if (known !== undefined && this.#keepsPorts) return known;
    this.#lastPort += 1;
    this.#ports.set(machine, this.#lastPort);
    return this.#lastPort;
  }

  #pair(from: NetworkPlace, to: NetworkPlace): readonly [LineStream, LineStream] {
    const near = new LineStream(from, this);
    const far = new LineStream(to, this);
    const pair = [near, far] as const;
    near.pair = pair;
    far.pair = pair;
    this.#lines.add(pair);
    this.opened += 1;
    return pair;
  }

  #endpointOver(side: LineStream): Endpoint {
    const { world, trace } = this.#parts;
    const clock = world.clockOf(side.process);
    // A timer of a real machine waits as long. With shorter delays, rounded times would fire it early for ever.
    const setTimer = (run: () => void, delayMs: number): unknown =>
      clock.setTimer(run, Math.max(delayMs, TIMER_MS_MIN));
    const port = createLinePort(side, { ...clock, setTimer });
    port.on('close', (reason) => {
      if (side.process.isAlive) trace(`a line of ${side.process.name} ends: ${String(reason ?? 'closed')}`);
    });
    return createEndpoint(port, { soon: world.soonOf(side.process), clock });
  }

  #counting(line: Endpoint): Endpoint {
    return endpointWith(line, {
      call: (method, payload) => {
        if (method === 'ask') this.asked += 1;
        return line.call(method, payload);
      },
    });
  }
}

/** One side of a line. */
class LineStream extends Duplex implements NetworkPlace {
  readonly machine: string;
  readonly process: SimulatedProcess;
  pair: readonly [LineStream, LineStream] | undefined;
  /** True if nothing arrives here any more. */
  isCut = false;
  /** World time before which nothing more arrives at the other side. */
  arrivesMs = 0;
  readonly #network: NodeNetwork;

  constructor({ machine, process }: NetworkPlace, network: NodeNetwork) {
    super({ allowHalfOpen: false });
    this.machine = machine;
    this.process = process;
    this.#network = network;
    // A line may break before its port listens. The port then finds it closed.
    this.on('error', () => undefined);
  }

  override _read(): void {
    // Bytes are pushed as they arrive.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#send(chunk);
    done();
  }

  override _final(done: () => void): void {
    this.#send(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.writableFinished) this.#send(undefined);
    const { pair } = this;
    if (pair?.every(({ destroyed }) => destroyed) === true) this.#network.ended(pair);
    done(error);
  }

  #send(chunk: Buffer | null | undefined): void {
    const { pair } = this;
    const other = pair?.[0] === this ? pair[1] : pair?.[0];
    if (other !== undefined) this.#network.deliver(this, other, chunk);
  }
}

function wayOf(from: string, to: string): string {
  return `${from}>${to}`;
}

function reset(): Error {
  return Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
}
