/**
 * The readers of an embedder: each reads the events of one session until the runtime or the session ends.
 *
 * Owns: the readers that still read, and how far each one is. Does not own: the events, which the ledger records. The
 * invariants compare them with the log (I2).
 */
import type { Runtime } from '../../runtime/handles/runtime.ts';
import type { Attempts } from './attempts.ts';
import type { Faults } from './faults.ts';
import { digestOf, type Ledger } from './ledger.ts';
import type { SeededRandom } from './seeded-random.ts';
import { agentOfSession } from './swarm.ts';
import type { SimulatedProcess, World } from './world.ts';

/** A reader that still reads. */
export interface ReaderPosition {
  readonly session: string;
  /** The number of the last durable event that it received, or after which it began. */
  readonly seq: number;
}

/** The parts of the readers. */
export interface EventReadersParts {
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly faults: Faults;
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  readonly attempts: Attempts;
}

/** See the head of the file. */
export class EventReaders {
  readonly #parts: EventReadersParts;
  readonly #reading = new Set<{ readonly session: string; seq: number }>();

  constructor(parts: EventReadersParts) {
    this.#parts = parts;
  }

  /** The readers that still read. */
  get positions(): readonly ReaderPosition[] {
    return [...this.#reading].map(({ session, seq }) => ({ session, seq }));
  }

  /** Reads something about a session once. */
  look(session: string, random: SeededRandom): Promise<void> {
    const { runtime, attempts } = this.#parts;
    const handle = runtime.session(session, agentOfSession(session));
    const looks: readonly (() => Promise<unknown>)[] = [
      () => handle.state(),
      () => handle.explain(),
      () => handle.messages(),
      () => handle.pending(),
      () => handle.viewport(),
      () => handle.request(),
      () => runtime.sessions.list({}),
      () => runtime.sessions.get(session),
    ];
    return attempts.attempt('look', random.pick(looks));
  }

  /** Reads the events of a session after the event `from`; missing: from shortly before the last event seen. */
  async read(session: string, from?: number): Promise<void> {
    const { runtime, ledger, process, world, faults, attempts } = this.#parts;
    const seen = ledger.events.get(session);
    // The reading overlaps the events seen before, so that events published twice are compared.
    const last = seen === undefined ? 0 : Math.max(0, ...seen.keys());
    const after = from ?? Math.max(0, last - 3);
    const reading = { session, seq: after };
    this.#reading.add(reading);
    await attempts.attempt('read', async () => {
      for await (const event of runtime.session(session, agentOfSession(session)).events({ after, deltas: false })) {
        if (!process.isAlive || ledger.isDeleted(session)) return;
        if (event.seq !== undefined) {
          const { session: _session, at: _at, seq, ...body } = event;
          if (seq <= reading.seq)
            ledger.violate('duplicated', `event ${seq} of ${session} was published after ${reading.seq}`);
          else if (reading.seq > after && seq !== reading.seq + 1)
            ledger.violate('lost', `a reader of ${session} received event ${seq} after ${reading.seq} (I2)`);
          reading.seq = seq;
          ledger.event(session, seq, digestOf(JSON.stringify(body)));
        }
        if (faults.strikes('reader.slow', 0.05)) await world.sleep(process, 5_000);
        if (faults.strikes('reader.vanished', 0.02)) return;
      }
    });
    this.#reading.delete(reading);
  }
}
