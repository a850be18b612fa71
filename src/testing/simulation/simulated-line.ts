/**
 * A line connects two simulated threads. Each side is the production endpoint over a simulated port. Messages are
 * cloned and arrive after a while. Messages to a side that has died are lost.
 */
import { createEndpoint, type EndpointTicks, type MessagePortLike } from '../../threads/batched-endpoint.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { SimulatedProcess, World } from './world.ts';

/** Maximum virtual ms a message takes, unless `World.heldMs` holds it. */
export const LINE_MS_MAX = 3;

/** The two ends of a line. */
export interface SimulatedLine {
  readonly near: Endpoint;
  readonly far: Endpoint;
}

/** A line between two processes. The death of one side closes the other side's port, as with real threads. */
export function createSimulatedLine(world: World, near: SimulatedProcess, far: SimulatedProcess): SimulatedLine {
  const left = new SimulatedPort(world, near);
  const right = new SimulatedPort(world, far);
  left.peer = right;
  right.peer = left;
  near.onDeath(() => right.lose());
  far.onDeath(() => left.lose());
  return { near: createEndpoint(left, ticksOf(world, near)), far: createEndpoint(right, ticksOf(world, far)) };
}

function ticksOf(world: World, process: SimulatedProcess): EndpointTicks {
  return { soon: world.soonOf(process), clock: world.clockOf(process) };
}

class SimulatedPort implements MessagePortLike {
  peer: SimulatedPort | undefined;
  readonly #world: World;
  readonly #process: SimulatedProcess;
  readonly #listeners = new Map<string, Set<(value: unknown) => void>>();
  /** The virtual ms at which the last message arrives here. A later message never arrives earlier. */
  #arrivesAt = 0;

  constructor(world: World, process: SimulatedProcess) {
    this.#world = world;
    this.#process = process;
  }

  postMessage(message: unknown): void {
    // This throws for a message that cannot be cloned, as a real port does.
    const copy: unknown = structuredClone(message);
    if (this.#process.isAlive) this.peer?.arrive('message', copy);
  }

  on(event: string, listener: (value: unknown) => void): void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
  }

  off(event: string, listener: (value: unknown) => void): void {
    this.#listeners.get(event)?.delete(listener);
  }

  close(): void {
    const { peer } = this;
    this.peer = undefined;
    peer?.arrive('close', undefined);
  }

  /** Called when the other side died. Closes this port after the messages that the other side had already posted. */
  lose(): void {
    this.arrive('close', undefined);
  }

  arrive(event: string, value: unknown): void {
    const { random } = this.#world;
    const now = this.#world.elapsedMs;
    const heldMs = event === 'message' ? this.#world.heldMs() : 0;
    const latency = heldMs + (random.chance(0.8) ? 0 : random.number() * LINE_MS_MAX);
    this.#arrivesAt = Math.max(this.#arrivesAt, now + latency);
    this.#world.schedule(this.#process, this.#arrivesAt - now, () => {
      for (const listener of [...(this.#listeners.get(event) ?? [])]) listener(value);
    });
  }
}
