/**
 * Subpath `troupe/otel`: traces and metrics of a runtime, by the GenAI conventions of OpenTelemetry. Needs
 * `@opentelemetry/api`. To export them, your program must also set up an OpenTelemetry SDK.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  createNoopMeter,
  type Meter,
  type MeterProvider,
  metrics,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { DIAGNOSTICS_CHANNELS, type DiagnosticsMessages, type DiagnosticsName } from '../base/diagnostics.ts';
import type { Runtime } from '../index.ts';
import { publishDiagnosticsOf } from '../runtime/handles/runtime.ts';
import { VERSION } from '../runtime/protocol/version.ts';
import { SCOPE, STABILITY_VARIABLE, wantsFormerNames } from './conventions.ts';
import { MeterRecorder } from './meters.ts';
import { SpanRecorder } from './spans.ts';

export { CONVENTIONS_COMMIT } from './conventions.ts';

/** The options of instrumenting a runtime. */
export interface InstrumentOptions {
  /** The provider of tracers. Default: the global provider. */
  readonly tracerProvider?: TracerProvider;
  /** The provider of meters. Default: the global provider. */
  readonly meterProvider?: MeterProvider;
  /**
   * True: messages, tool inputs and tool results are recorded as attributes of spans. Default false, because they may
   * hold confidential data.
   */
  readonly captureContent?: boolean;
}

/** An active instrumentation. */
export interface Instrumentation {
  /** Ends the open spans and unsubscribes. Safe to call again. */
  stop(): void;
}

/**
 * Produces traces and metrics of `runtime` from now on, until `stop`. Call it right after `open`: a turn that already
 * runs is recorded from its next half-step. The instrumentation runs on the host thread and reads the diagnostics that
 * the runtime publishes there.
 *
 * With `OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`, only the newest attribute names are set. Otherwise
 * the names of version 1.36 (`gen_ai.system`) are set as well.
 */
export function instrument(runtime: Runtime, options: InstrumentOptions = {}): Instrumentation {
  const { tracerProvider = trace.getTracerProvider(), meterProvider = metrics.getMeterProvider() } = options;
  const spans = new SpanRecorder({
    tracer: tracerProvider.getTracer(SCOPE, VERSION),
    hasContent: options.captureContent === true,
    hasFormerNames: wantsFormerNames(process.env[STABILITY_VARIABLE]),
  });
  const meter = meterProvider.getMeter(SCOPE, VERSION);
  const meters = isHeard(meter) ? new MeterRecorder(meter, () => runtime.metrics()) : undefined;
  const stops: (() => void)[] = [];
  const listen = <N extends DiagnosticsName>(name: N, take: (message: DiagnosticsMessages[N]) => void): void => {
    const listener = (published: unknown): void => {
      const message = published as DiagnosticsMessages[N];
      if (message.runtime === runtime) take(message);
    };
    subscribe(DIAGNOSTICS_CHANNELS[name], listener);
    stops.push(() => unsubscribe(DIAGNOSTICS_CHANNELS[name], listener));
  };
  listen('turn', (message) => {
    meters?.turn(message);
    spans.turn(message);
  });
  listen('modelCall', (message) => {
    meters?.modelCall(message);
    spans.modelCall(message);
  });
  listen('tool', (message) => {
    meters?.tool(message);
    spans.tool(message);
  });
  listen('spawn', (message) => spans.spawn(message));
  if (meters !== undefined) {
    listen('mailbox', (message) => meters.mailbox(message));
    listen('commit', (message) => meters.commit(message));
  }
  publishDiagnosticsOf(runtime);
  return {
    stop: () => {
      for (const stop of stops.splice(0)) stop();
      spans.stop();
      meters?.stop();
    },
  };
}

/** False for the meter of a process that has no SDK for metrics. In such a process nothing is measured. */
function isHeard(meter: Meter): boolean {
  return meter.constructor !== createNoopMeter().constructor;
}
