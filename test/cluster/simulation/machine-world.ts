/**
 * A world of several machines. Each has its own clocks, and may stand still while the others run.
 *
 * Owns: which machine a process runs on. Does not own: the machines' clocks and rests (`MachineTime`).
 * Invariants, beside V1 to V6 of `World`:
 *  MW1 while a machine rests, none of its tasks runs. Those that come due run when the rest ends, in their order;
 *  MW2 the monotonic clock of a machine never goes back. It runs at the machine's rate, and stands still while the machine
 *     is suspended; a frozen machine's clock runs on;
 *  MW3 timers are set on the machine's clock.
 */
import type { Clock } from '../../../src/base/clock.ts';
import { type SimulatedProcess, World } from '../../../src/testing/simulation/world.ts';

/** The time of one machine. */
export class MachineTime {
  /** Milliseconds by which its wall clock is wrong. */
  skewMs = 0;
  /** Speed of its clocks. */
  rate = 1;
  /** World time until which it runs nothing. */
  restsUntilMs = 0;
  /** Milliseconds of the monotonic clock that it was suspended for. */
  #suspendedMs = 0;

  /** Stands still from `nowMs` on. */
  rest(nowMs: number, ms: number, isSuspended: boolean): void {
    const until = Math.max(this.restsUntilMs, nowMs + ms);
    if (isSuspended) this.#suspendedMs += (until - Math.max(nowMs, this.restsUntilMs)) * this.rate;
    this.restsUntilMs = until;
  }

  monotonicMs(elapsedMs: number): number {
    return elapsedMs * this.rate - this.#suspendedMs;
  }
}

/** See the head of this file. */
export class MachineWorld extends World {
  readonly #machines = new WeakMap<SimulatedProcess, MachineTime>();

  /** Puts a process, and all that it starts, on a machine. */
  place(process: SimulatedProcess, machine: MachineTime): void {
    this.#machines.set(process, machine);
  }

  override schedule(process: SimulatedProcess, delayMs: number, run: () => void): object {
    const machine = this.#machineOf(process);
    if (machine === undefined) return super.schedule(process, delayMs, run);
    const handle: { task: object | undefined } = { task: undefined };
    const due = (): void => {
      const leftMs = machine.restsUntilMs - this.elapsedMs;
      if (leftMs > 0) handle.task = super.schedule(process, leftMs, due);
      else run();
    };
    handle.task = super.schedule(process, delayMs, due);
    return handle;
  }

  override cancel(task: unknown): void {
    const isHandle = typeof task === 'object' && task !== null && 'task' in task;
    super.cancel(isHandle ? task.task : task);
  }

  override clockOf(process: SimulatedProcess): Clock {
    const clock = super.clockOf(process);
    const machine = this.#machineOf(process);
    if (machine === undefined) return clock;
    const wrongMs = (): number => this.elapsedMs * (machine.rate - 1) + machine.skewMs;
    return {
      now: () => Math.floor(clock.now() + wrongMs()),
      monotonic: () => machine.monotonicMs(this.elapsedMs),
      setTimer: (run, delayMs) => this.schedule(process, delayMs / machine.rate, run),
      clearTimer: (timer) => this.cancel(timer),
    };
  }

  #machineOf(process: SimulatedProcess): MachineTime | undefined {
    for (let each: SimulatedProcess | undefined = process; each !== undefined; each = each.parent) {
      const machine = this.#machines.get(each);
      if (machine !== undefined) return machine;
    }
    return undefined;
  }
}
