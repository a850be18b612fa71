/**
 * The counters of a runtime over the last minute, as rates.
 *
 * Owns: the last looks. Does not own: when it looks.
 *  M1  A rate is over the time between two looks; a counter that fell (the server began anew) starts a new history.
 */
import { METRICS_HISTORY } from '../bounds.ts';

/** One look at the counters. `at`: epoch ms. */
export interface MetricsLook {
  readonly at: number;
  readonly counters: Readonly<Record<string, number>>;
}

/** What the head line shows. Rates are per second; missing: not told, or not known yet. */
export interface HeadFigures {
  readonly halfStepRate: number | undefined;
  /** Half-steps a second of the looks, oldest first. */
  readonly history: readonly number[];
  /** Turns of actors that one flush of the journal makes durable. */
  readonly commitTurns: number | undefined;
  readonly flushRate: number | undefined;
  /** Milliseconds by which the server's loop is late. */
  readonly loopDelayMs: number | undefined;
  readonly sessionsLive: number | undefined;
  readonly sessionsQueued: number | undefined;
  readonly modelCallsRunning: number | undefined;
  readonly modelCallsWaiting: number | undefined;
  readonly toolCallsRunning: number | undefined;
  readonly restarts: number | undefined;
}

/** See the head of the file. */
export class MetricsHistory {
  #looks: MetricsLook[] = [];
  #rates: number[] = [];

  /** Takes a look, newer than the one before. */
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
      restarts: counters['restarts'],
    };
  }
}

/** Of a counter, per second; undefined when it is not told, or fell. */
function rate(name: string, before: MetricsLook, look: MetricsLook): number | undefined {
  const from = before.counters[name];
  const to = look.counters[name];
  if (from === undefined || to === undefined || to < from) return undefined;
  return ((to - from) * 1_000) / (look.at - before.at);
}
