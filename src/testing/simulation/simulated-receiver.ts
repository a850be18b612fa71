/**
 * The receiver of a webhook, and the disk of the webhook's cursor. Only some runs have them. Their random draws come
 * from a separate stream of random numbers, so that runs without a webhook do not change.
 *
 * Owns: the deliveries that arrived, the time until which the receiver is down, the durable cursors. Does not own: the
 * sending, which is the production code.
 *
 *  I25 once the receiver is up, each call that waits for a person is delivered at least once. So is each end of a turn
 *      of a session without a parent. The first deliveries of a session are in the order of its log. Everything that is
 *      delivered is in the log. A repetition has the id of the first delivery.
 */
import type { MovedSessions } from '../../journal/layout/move-sessions.ts';
import type { OpenOptions } from '../../runtime/protocol/options.ts';
import { type CursorStore, movedCursor } from '../../runtime/webhooks/cursor.ts';
import type { SendDelivery } from '../../runtime/webhooks/delivery.ts';
import { Webhooks, type WebhooksParts } from '../../runtime/webhooks/webhooks.ts';
import { type FaultKind, Faults, WEBHOOK_FAULT_KINDS } from './faults.ts';
import type { Ledger } from './ledger.ts';
import { SeededRandom } from './seeded-random.ts';
import type { Stories } from './store-reading.ts';
import type { SimulatedProcess, World } from './world.ts';

/** Share of the runs that have a webhook. */
const SHARE = 0.3;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x3ebb_00c5;
/** Maximum milliseconds that the receiver is down. */
const DOWN_MS = 300_000;
const PACE = { backoffMs: 1_000, backoffMsMax: 60_000, timeoutMs: 15_000 };

/** The parts of the simulation that a receiver needs. */
export interface ReceiverSurroundings {
  readonly world: World;
  /** The run's other faults. When they stop, the faults of the receiver stop, too. */
  readonly faults: Pick<Faults, 'isOn'>;
  readonly ledger: Ledger;
}

interface Arrival {
  readonly seq: number;
  readonly id: string;
}

/** See the head of the file. */
export class SimulatedReceiver {
  readonly #surroundings: ReceiverSurroundings;
  readonly #random: SeededRandom;
  readonly #kinds: Faults;
  readonly #cursors = new Map<string, string>();
  /** The deliveries that arrived, by session, in order of arrival. */
  readonly #arrived = new Map<string, Arrival[]>();
  /**
   * Maximum number of sessions in the queue of a webhook. A small queue is often full, and then the webhook reads the
   * log again later.
   */
  readonly #sessionsMax: number;
  #downUntil = 0;

  private constructor(surroundings: ReceiverSurroundings, random: SeededRandom, only?: ReadonlySet<FaultKind>) {
    this.#surroundings = surroundings;
    this.#random = random;
    this.#kinds = new Faults(random.fork(), only, WEBHOOK_FAULT_KINDS);
    this.#sessionsMax = random.pick([1, 2, 5, 100]);
  }

  /** The receiver of a run; undefined: the run has no webhook. `only`: these faults and no others. */
  static draw(
    surroundings: ReceiverSurroundings,
    seed: number,
    only?: ReadonlySet<FaultKind>,
  ): SimulatedReceiver | undefined {
    const random = new SeededRandom((seed ^ STREAM) >>> 0);
    return random.chance(SHARE) ? new SimulatedReceiver(surroundings, random, only) : undefined;
  }

  /** The kinds of faults that may strike in this run. */
  get enabled(): readonly FaultKind[] {
    return this.#kinds.enabled;
  }

  /** How often each kind of fault struck. */
  get counts(): ReadonlyMap<FaultKind, number> {
    return this.#kinds.counts;
  }

  /** The texts of the durable cursors. */
  get cursors(): Iterable<string> {
    return this.#cursors.values();
  }

  /** The option `webhooks` of `open`. */
  get webhooks(): NonNullable<OpenOptions['webhooks']> {
    return [{ url: 'https://receiver.simulated/hook' }];
  }

  /** Returns the function that opens the webhooks of a process. */
  openerFor(process: SimulatedProcess): (parts: WebhooksParts) => Promise<Webhooks> {
    const ports = {
      cursors: this.#cursorsOf(process),
      send: this.#sendFrom(process),
      pace: PACE,
      sessionsMax: this.#sessionsMax,
    };
    return (parts) => Webhooks.open(parts, ports);
  }

  /** Moves the cursors to a store with another number of shards, as `open` does. */
  moveCursors(shards: number, moved: MovedSessions): void {
    for (const [name, text] of this.#cursors) this.#cursors.set(name, movedCursor(text, shards, moved));
  }

  /** Checks I25. Called after a process without faults has finished all work. */
  check(stories: Stories): void {
    const { ledger } = this.#surroundings;
    for (const [session, arrivals] of this.#arrived) {
      if (!ledger.isDeleted(session) && !stories.has(session)) {
        ledger.violate('changed', `${session} is unknown, and its notice ${arrivals[0]?.seq} was delivered (I25)`);
      }
    }
    for (const { id, announced, state } of stories.values()) {
      if (ledger.isDeleted(id)) continue;
      const isWanted = ({ type }: (typeof announced)[number]): boolean =>
        type === 'approval.required' || type === 'question.asked' || state.parent === undefined;
      const wanted = announced.filter(isWanted).map(({ seq }) => seq);
      const ids = new Map<number, string>();
      for (const { seq, id: delivery } of this.#arrived.get(id) ?? []) {
        const first = ids.get(seq) ?? delivery;
        ids.set(seq, first);
        if (first !== delivery) ledger.violate('changed', `notice ${seq} of ${id} came with two ids (I25)`);
      }
      const came = [...ids.keys()];
      if (came.join() === wanted.join()) continue;
      const missing = wanted.filter((seq) => !ids.has(seq));
      ledger.violate(
        missing.length > 0 ? 'lost' : 'reordered',
        `notices ${came.join()} of ${id} came, expected ${wanted.join()} (I25)`,
      );
    }
  }

  #cursorsOf(process: SimulatedProcess): CursorStore {
    const { world } = this.#surroundings;
    return {
      load: async (name) => this.#cursors.get(name),
      // The text reaches the disk after up to 20 ms. If the process dies before that, the previous text remains.
      save: async (name, text) => {
        await world.sleep(process, this.#random.number() * 20);
        this.#cursors.set(name, text);
      },
    };
  }

  #sendFrom(process: SimulatedProcess): SendDelivery {
    const { world } = this.#surroundings;
    return async ({ headers, body }, signal) => {
      await world.sleep(process, 1 + this.#random.number() * 200);
      if (signal.aborted) return { isDelivered: false, problem: 'late' };
      if (this.#strikes('webhook.down', 0.3)) this.#downUntil = world.elapsedMs + this.#random.number() * DOWN_MS;
      if (this.#surroundings.faults.isOn && world.elapsedMs < this.#downUntil) {
        return { isDelivered: false, problem: 'down' };
      }
      const { data } = JSON.parse(body) as { readonly data: { readonly session: string; readonly seq: number } };
      const arrivals = this.#arrived.get(data.session) ?? [];
      this.#arrived.set(data.session, [...arrivals, { seq: data.seq, id: headers['webhook-id'] ?? '' }]);
      // The receiver took the delivery, but its answer is lost.
      return this.#strikes('webhook.lost', 0.4) ? { isDelivered: false, problem: 'lost' } : { isDelivered: true };
    };
  }

  #strikes(kind: FaultKind, probability: number): boolean {
    return this.#surroundings.faults.isOn && this.#kinds.strikes(kind, probability);
  }
}
