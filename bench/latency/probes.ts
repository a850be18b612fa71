/**
 * Probes a busy runtime: the time from a message to its receipt and to the model, and from a steer to the next request.
 */
import type { Runtime } from '../../src/index.ts';
import { clockMs, type Note, openChannel } from './channel.ts';

/** Milliseconds, one for each probe. */
export interface ProbeTimes {
  /** `send` to its receipt. */
  readonly receipt: number[];
  /** `send` to the first model call. */
  readonly call: number[];
  /** From the tool's return to the request that contains the steer. */
  readonly steer: number[];
  /** Steers that were not in the next request. */
  missed: number;
}

/** Probes of this process; each number is used once. */
let probesMade = 0;

/** See the head of the file. A process has one prober at a time, because all probers of a process share its channel. */
export class Probes {
  readonly times: ProbeTimes = { receipt: [], call: [], steer: [], missed: 0 };
  readonly #runtime: Runtime;
  readonly #waiting = new Map<string, (note: Note) => void>();
  readonly #channel = openChannel((note) => {
    const key = `${note.kind} ${note.n}`;
    this.#waiting.get(key)?.(note);
    this.#waiting.delete(key);
  });

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Sends one message and times it. */
  async send(): Promise<void> {
    const n = this.#number();
    const called = this.#note('called', n);
    const sentMs = clockMs();
    const receipt = await this.#runtime.session(`probe${n}`).send(`probe ${n}`);
    this.times.receipt.push(clockMs() - sentMs);
    this.times.call.push((await called).atMs - sentMs);
    await receipt.answer();
  }

  /** Steers one running turn and measures the time from the boundary to the request with the steer. */
  async steer(): Promise<void> {
    const n = this.#number();
    const session = this.#runtime.session(`steer${n}`);
    const [called, opened, steered] = [this.#note('called', n), this.#note('opened', n), this.#note('steered', n)];
    const receipt = await session.send(`hold ${n}`);
    await called;
    await session.send(`steer ${n}`, { deliver: 'steer' });
    this.#channel.publish({ kind: 'release', n });
    const { atMs } = await opened;
    const next = await steered;
    if (next.isIncluded === true) this.times.steer.push(next.atMs - atMs);
    else this.times.missed += 1;
    await receipt.answer();
  }

  close(): void {
    this.#channel.close();
  }

  #number(): number {
    probesMade += 1;
    return probesMade;
  }

  #note(kind: Note['kind'], n: number): Promise<Note> {
    return new Promise((resolve) => this.#waiting.set(`${kind} ${n}`, resolve));
  }
}
