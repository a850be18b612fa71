/**
 * The faults of a run, and how often they strike. Each seed enables a random subset of all kinds (swarm testing): some
 * runs meet one fault a hundred times, others meet many at once.
 *
 * Owns: the enabled kinds, the count of each. Does not own: the effect of a fault.
 */
import type { SeededRandom } from './seeded-random.ts';

/**
 * Faults of whole providers, for runs whose agents have several models. A provider is away for a while, asks for a long
 * wait, refuses the credentials, or declines to answer. The last kind is not a fault of a provider: the process dies
 * while a session moves to another model.
 */
export const PROVIDER_FAULT_KINDS = [
  'provider.away',
  'provider.paused',
  'provider.refused',
  'provider.declines',
  'provider.crash',
] as const;

/** Faults of the receiver of a webhook, for runs with a webhook: the receiver is down, or its answer is lost. */
export const WEBHOOK_FAULT_KINDS = ['webhook.down', 'webhook.lost'] as const;

/** The faults that any run may have. */
const COMMON_FAULT_KINDS = [
  // The process dies at an operation of the store: before the operation, in mid-write, or after the operation but
  // before its acknowledgement.
  'crash.before',
  'crash.torn',
  'crash.after',
  // The process ends, at any moment.
  'process.kill',
  'process.close',
  // The store.
  'store.full',
  'store.failed',
  'store.slow',
  'store.silent',
  'shelf.full',
  // Threads.
  'thread.sessions',
  'thread.models',
  'thread.tools',
  // Tools.
  'tool.hang',
  'tool.throw',
  'tool.oversize',
  'tool.uncloneable',
  'tool.surrogate',
  'tool.failure',
  'tool.late',
  // Models.
  'model.rate_limited',
  'model.overloaded',
  'model.failed',
  'model.connection',
  'model.silent',
  'model.broken_stream',
  'model.error_in_stream',
  'model.protocol',
  'model.bad_input',
  'model.unknown_tool',
  'model.duplicate_ids',
  'model.cut_call',
  'model.paused',
  'model.refusal',
  'model.context_full',
  'model.too_long',
  'model.empty',
  'model.malformed',
  'model.invalid_request',
  'model.authentication',
  'model.retired',
  'model.no_usage',
  'model.late',
  // Time.
  'clock.jump',
  // Readers of events.
  'reader.slow',
  'reader.vanished',
  // The embedder.
  'flood',
  'interrupt',
  'delete',
  'pause',
  // A write in flight when its process died reaches the store later.
  'store.late',
  // No model call succeeds for up to 20 minutes.
  'model.outage',
  // The embedder uses a key again with different content.
  'key.reused',
  // The outcome of a tool call is lost in transit, although the tool pool and the session live.
  'tool.lost',
  // Structured answers: an answer does not fit its schema, is refused, or is cut. Or the process dies just after an
  // answer that does not fit: before or after the request for a correction is durable.
  'answer.misfit',
  'answer.refused',
  'answer.cut',
  'answer.crash',
  // The API does not continue a message thread, which is a conversation that the API keeps. The reasons: the API forgot
  // the thread, the answer was already continued, a field differs, or the model has no threads.
  'model.thread_lost',
  'model.thread_continued',
  'model.thread_mismatch',
  'model.thread_unsupported',
  // The provider answers without the result of a call that it was asked to run.
  'model.unserved',
  // A tool holds the event loop of its thread and never releases it.
  'tool.spin',
  // A tool with `retry` fails a few times before it answers. Or the process dies while a call waits for its next
  // attempt.
  'tool.flaky',
  'tool.crash',
  // The provider passes a delta without a text.
  'model.malformed_delta',
] as const;

/** Every kind of fault that the simulator knows. */
export const FAULT_KINDS: readonly FaultKind[] = [
  ...COMMON_FAULT_KINDS,
  ...PROVIDER_FAULT_KINDS,
  ...WEBHOOK_FAULT_KINDS,
];

/** A kind of fault. */
export type FaultKind =
  | (typeof COMMON_FAULT_KINDS)[number]
  | (typeof PROVIDER_FAULT_KINDS)[number]
  | (typeof WEBHOOK_FAULT_KINDS)[number];

/** Draws faults and counts them. */
export class Faults {
  /** How often each kind struck. */
  readonly counts: Map<FaultKind, number> = new Map();
  readonly #random: SeededRandom;
  readonly #rates = new Map<FaultKind, number>();
  #isOn = true;

  /** `only`: enables exactly these of `kinds`. Missing: enables a subset of `kinds`, drawn from the seed. */
  constructor(random: SeededRandom, only?: ReadonlySet<FaultKind>, kinds: readonly FaultKind[] = COMMON_FAULT_KINDS) {
    this.#random = random;
    const share = random.pick([0, 0.15, 0.3, 0.5, 0.8]);
    for (const kind of kinds) {
      const isEnabled = random.chance(share);
      const rate = random.pick([0.3, 1, 1, 3]);
      if (only === undefined ? isEnabled : only.has(kind)) this.#rates.set(kind, rate);
    }
  }

  /** The kinds that may strike in this run. */
  get enabled(): readonly FaultKind[] {
    return [...this.#rates.keys()];
  }

  /** Stops all faults, so that the remaining work can finish. */
  off(): void {
    this.#isOn = false;
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Returns true if this fault strikes now, and counts it. `probability`: the probability in an average run. */
  strikes(kind: FaultKind, probability: number): boolean {
    const rate = this.#rates.get(kind);
    if (rate === undefined || !this.#isOn || !this.#random.chance(Math.min(0.9, probability * rate))) return false;
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    return true;
  }
}
