/**
 * `MeterRecorder`: makes metrics from diagnostics and from the runtime's counters.
 *
 * Owns: the instruments, and the callback that reads the counters. Does not own: the meter, the export. No attribute
 * names a session. So the number of a metric's series depends only on the agents, models and tools.
 */
import type {
  Attributes,
  BatchObservableCallback,
  Counter,
  Histogram,
  Meter,
  Observable,
  UpDownCounter,
} from '@opentelemetry/api';
import type {
  CommitDiagnostics,
  MailboxDiagnostics,
  ModelCallDiagnostics,
  SessionFacts,
  ToolDiagnostics,
  TurnDiagnostics,
} from '../base/diagnostics.ts';
import { inputTokensOf } from '../base/messages.ts';
import type { RuntimeMetrics } from '../runtime/handles/runtime.ts';
import { ATTRIBUTE, HISTOGRAM, type HistogramKey, INSTRUMENT, OPERATION } from './conventions.ts';
import { failureOf } from './spans.ts';

type Histograms = Readonly<Record<HistogramKey, Histogram>>;

const MS_PER_SECOND = 1_000;

/** See the head of the file. */
export class MeterRecorder {
  readonly #histograms: Histograms;
  readonly #depth: UpDownCounter;
  readonly #flushes: Counter;
  readonly #commitTurns: Histogram;
  readonly #stopObserving: () => void;

  /** `counters`: returns the counters of the runtime. It is called when the metrics are collected. */
  constructor(meter: Meter, counters: () => RuntimeMetrics) {
    this.#histograms = histogramsOf(meter);
    this.#depth = meter.createUpDownCounter(INSTRUMENT.mailboxDepth, {
      unit: '{entry}',
      description: 'Entries that wait in mailboxes.',
    });
    this.#flushes = meter.createCounter(INSTRUMENT.flushes, { unit: '{flush}', description: 'Flushes of the store.' });
    this.#commitTurns = meter.createHistogram(INSTRUMENT.commitTurns, {
      unit: '{turn}',
      description: 'Transitions that share a flush, on average since the last collection.',
      advice: { explicitBucketBoundaries: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024] },
    });
    this.#stopObserving = observe(meter, counters);
  }

  turn(message: TurnDiagnostics): void {
    if (message.phase === 'start') return;
    const seconds = message.ms / MS_PER_SECOND;
    const failure = message.error?.code ?? (message.reason === 'cancelled' ? message.reason : undefined);
    const attributes = agentAttributes(message, failure);
    if (message.model !== undefined) attributes[ATTRIBUTE.requestModel] = message.model;
    this.#histograms.agentDuration.record(seconds, attributes);
    this.#histograms.turnDuration.record(seconds, attributes);
    const ofAgent = agentAttributes(message);
    this.#histograms.agentCalls.record(message.modelCalls, ofAgent);
    this.#histograms.agentTools.record(message.toolCalls, ofAgent);
  }

  modelCall(message: ModelCallDiagnostics): void {
    if (message.phase === 'start') return;
    const { ms, usage, firstChunkMs, provider, model } = message;
    const attributes: Attributes = { [ATTRIBUTE.operation]: OPERATION.chat, [ATTRIBUTE.provider]: provider };
    if (model !== undefined) attributes[ATTRIBUTE.requestModel] = model;
    const failure = failureOf(message);
    this.#histograms.chatDuration.record(
      ms / MS_PER_SECOND,
      failure === undefined ? attributes : { ...attributes, [ATTRIBUTE.errorType]: failure },
    );
    if (firstChunkMs !== undefined) this.#histograms.firstChunk.record(firstChunkMs / MS_PER_SECOND, attributes);
    if (usage === undefined) return;
    this.#histograms.tokens.record(inputTokensOf(usage), { ...attributes, [ATTRIBUTE.tokenType]: 'input' });
    this.#histograms.tokens.record(usage.output_tokens, { ...attributes, [ATTRIBUTE.tokenType]: 'output' });
  }

  tool(message: ToolDiagnostics): void {
    if (message.phase === 'start') return;
    const attributes = agentAttributes(message, message.success ? undefined : 'tool_error');
    attributes[ATTRIBUTE.toolName] = message.toolName;
    this.#histograms.toolDuration.record(message.ms / MS_PER_SECOND, attributes);
  }

  mailbox(message: MailboxDiagnostics): void {
    const attributes = { [ATTRIBUTE.entryType]: message.type };
    this.#depth.add(message.phase === 'start' ? 1 : -1, attributes);
    if (message.phase === 'start' || message.reason === 'unseen') return;
    this.#histograms.mailboxWait.record(message.waitMs / MS_PER_SECOND, attributes);
  }

  commit({ flushes, turns }: CommitDiagnostics): void {
    this.#flushes.add(flushes);
    this.#commitTurns.record(turns / flushes);
  }

  /** Stops reading the counters. */
  stop(): void {
    this.#stopObserving();
  }
}

function histogramsOf(meter: Meter): Histograms {
  const made = Object.entries(HISTOGRAM).map(([key, { name, unit, description, buckets }]) => [
    key,
    meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: [...buckets] } }),
  ]);
  return Object.fromEntries(made) as Histograms;
}

/** Observes the runtime's counters. Returns the function that ends the observation. */
function observe(meter: Meter, counters: () => RuntimeMetrics): () => void {
  const restarts = meter.createObservableCounter(INSTRUMENT.restarts, {
    unit: '{restart}',
    description: 'Session threads that died and were replaced.',
  });
  const sessions = meter.createObservableGauge(INSTRUMENT.sessions, {
    unit: '{session}',
    description: 'Sessions in memory, with work, and queued for work.',
  });
  const queue = meter.createObservableGauge(INSTRUMENT.queueDepth, {
    unit: '{call}',
    description: 'Calls that wait for a slot.',
  });
  const observables: Observable[] = [restarts, sessions, queue];
  const callback: BatchObservableCallback = (result) => {
    const now = counters();
    result.observe(restarts, now.restarts);
    result.observe(sessions, now.sessionsHot, { 'actor.session.state': 'hot' });
    result.observe(sessions, now.sessionsLive, { 'actor.session.state': 'live' });
    result.observe(sessions, now.sessionsQueued, { 'actor.session.state': 'queued' });
    for (const [name, { modelCallsWaiting }] of Object.entries(now.providers)) {
      const provider = name === '' ? {} : { [ATTRIBUTE.poolProvider]: name };
      result.observe(queue, modelCallsWaiting, { [ATTRIBUTE.pool]: 'models', ...provider });
    }
    result.observe(queue, now.toolCallsWaiting, { [ATTRIBUTE.pool]: 'tools' });
  };
  meter.addBatchObservableCallback(callback, observables);
  return () => meter.removeBatchObservableCallback(callback, observables);
}

/** The agent's attributes as a new object, to which the caller may add attributes. */
function agentAttributes({ agent }: SessionFacts, failure?: string): Attributes {
  const attributes: Attributes = {};
  attributes[ATTRIBUTE.agentName] = agent;
  if (failure !== undefined) attributes[ATTRIBUTE.errorType] = failure;
  return attributes;
}
