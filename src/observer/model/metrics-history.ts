/**
 * The counters of a runtime over the last minute, as rates.
 *
 * Owns: the last readings. Does not own: the times of readings.
 *  M1 A rate covers the time between two readings. If a counter fell, the server has restarted, and a new history
 *   begins.
 */
import { METRICS_HISTORY } from '../bounds.ts';

/** One reading of the counters. `at`: epoch ms. */
export interface MetricsLook {
  readonly at: number;
  readonly counters: Readonly<Record<string, number>>;
  /** The counters of each provider by its name. */
  readonly providers?: ReadonlyMap<string, Readonly<Record<string, number>>>;
}

/** The figures of one provider. */
export interface ProviderFigures {
  /** The provider's name; empty for the provider of the option `provider`. */
  readonly name: string;
  readonly running: number;
  readonly waiting: number;
  /** The reason why calls to the provider are held back; undefined: they are not held back. */
  readonly trouble: string | undefined;
}

/**
 * The figures of the head line. Rates are per second. A figure is undefined if the server does not report it, or if it
 * is not known yet.
 */
export interface HeadFigures {
  readonly halfStepRate: number | undefined;
  /** Half-steps per second between two readings, oldest first. */
  readonly history: readonly number[];
  /** Transitions per flush of the journal. */
  readonly commitTurns: number | undefined;
  readonly flushRate: number | undefined;
  /** Delay of the server's event loop in milliseconds. */
  readonly loopDelayMs: number | undefined;
  readonly sessionsLive: number | undefined;
  readonly sessionsQueued: number | undefined;
  readonly modelCallsRunning: number | undefined;
  readonly modelCallsWaiting: number | undefined;
  readonly toolCallsRunning: number | undefined;
  /** The providers; empty unless there are several. */
  readonly providers: readonly ProviderFigures[];
  readonly toolCallsWaiting: number | undefined;
  /** Tool calls that wait for a person. */
  readonly callsWaiting: number | undefined;
  readonly restarts: number | undefined;
  /** Sessions with undelivered notices; undefined while no webhook has had a notice. */
  readonly webhooksWaiting: number | undefined;
}

/** See the head of the file. */
export class MetricsHistory {
  #looks: MetricsLook[] = [];
  #rates: number[] = [];

  /** Takes a reading. Ignores it unless it is newer than the previous reading. */
  add(look: MetricsLook): void {
    const last = this.#looks.at(-1);
    if (last !== undefined && look.at <= last.at) return;
    if (last !== undefined && rate('halfSteps', last, look) === undefined) this.clear();
    const before = this.#looks.at(-1);
    if (before !== undefined) this.#rates.push(rate('halfSteps', before, look) ?? 0);
    this.#looks.push(look);
    if (this.#looks.length > METRICS_HISTORY) this.#looks.shift();
    if (this.#rates.length > METRICS_HISTORY) this.#rates.shift();
  }

  clear(): void {
    this.#looks = [];
    this.#rates = [];
  }

  figures(): HeadFigures {
    const look = this.#looks.at(-1);
    const before = this.#looks.at(-2);
    const counters = look?.counters ?? {};
    const rateOf = (name: string): number | undefined =>
      before === undefined || look === undefined ? undefined : rate(name, before, look);
    const flushRate = rateOf('flushes');
    const turnRate = rateOf('journalTurns');
    const hasFlushed = flushRate !== undefined && turnRate !== undefined && flushRate > 0;
    return {
      halfStepRate: rateOf('halfSteps'),
      history: this.#rates,
      commitTurns: hasFlushed ? turnRate / flushRate : undefined,
      flushRate,
      loopDelayMs: counters['loopDelayMs'],
      sessionsLive: counters['sessionsLive'],
      sessionsQueued: counters['sessionsQueued'],
      modelCallsRunning: counters['modelCallsRunning'],
      modelCallsWaiting: counters['modelCallsWaiting'],
      toolCallsRunning: counters['toolCallsRunning'],
      providers: providersOf(look),
      toolCallsWaiting: counters['toolCallsWaiting'],
      callsWaiting: counters['callsWaitingForPerson'],
      restarts: counters['restarts'],
      webhooksWaiting: hasNotices(counters) ? counters['webhooksWaiting'] : undefined,
    };
  }
}

function hasNotices(counters: MetricsLook['counters']): boolean {
  return ['webhooksDelivered', 'webhooksFailed', 'webhooksWaiting'].some((name) => (counters[name] ?? 0) > 0);
}

function providersOf({ providers = new Map() }: Partial<MetricsLook> = {}): readonly ProviderFigures[] {
  if (providers.size < 2) return [];
  return [...providers].map(([name, figures]) => ({
    name,
    running: figures['modelCallsRunning'] ?? 0,
    waiting: figures['modelCallsWaiting'] ?? 0,
    trouble:
      (figures['credentialsRefused'] ?? 0) > 0
        ? 'refused the credentials'
        : (figures['circuitsOpen'] ?? 0) > 0
          ? 'does not answer'
          : undefined,
  }));
}

/** The rate of a counter per second; undefined when the counter is not reported, or fell. */
function rate(name: string, before: MetricsLook, look: MetricsLook): number | undefined {
  const from = before.counters[name];
  const to = look.counters[name];
  if (from === undefined || to === undefined || to < from) return undefined;
  return ((to - from) * 1_000) / (look.at - before.at);
}
