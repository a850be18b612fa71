/** Kinds of readers for P10: of one session, of all sessions as they are told and in two view modes, and traces. */
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import type { SessionEvent } from '../../src/index.ts';
import { instrument } from '../../src/otel/index.ts';
import type { Figures } from '../figures.ts';
import type { TroupeSystem } from '../troupe-system.ts';
import type { WorkSize } from '../workloads.ts';

/** What is watched: the sessions of one repetition, whose names begin with `label`. */
export interface Watched {
  readonly system: TroupeSystem;
  readonly label: string;
  readonly size: Pick<WorkSize, 'sessions' | 'turnsEach'>;
}

/** A reader at work. */
export interface Watcher {
  /** Resolves when the end of every turn was seen: what is behind then would be left out of the cost. */
  readonly caughtUp: Promise<void>;
  /** Ends it; what was seen. */
  end(): Promise<Figures>;
}

/** Begins to watch. */
export type Watch = (watched: Watched) => Watcher;

/** Readers of one session of many. */
export const OF_ONE: Readonly<Record<string, Watch>> = {
  'basic view of one session': (watched) => ofOne(watched, 'basic'),
  'debug view of one session': (watched) => ofOne(watched, 'debug'),
};

/** Readers of every session. */
export const OF_ALL: Readonly<Record<string, Watch>> = {
  'reader of all sessions': ({ system, size }) => read(system.runtime.events(), turnsOf(size)),
  'basic view of all sessions': ({ system, size }) => read(system.runtime.events({ mode: 'basic' }), turnsOf(size)),
  'debug view of all sessions': ({ system, size }) => read(system.runtime.events({ mode: 'debug' }), turnsOf(size)),
  'traces of all sessions': trace,
};

/** Turns of one repetition. */
export function turnsOf({ sessions, turnsEach }: Watched['size']): number {
  return sessions * turnsEach;
}

function ofOne({ system, label, size }: Watched, mode: 'basic' | 'debug'): Watcher {
  return read(system.runtime.session(`${label}s0`).events({ mode }), size.turnsEach);
}

function read(events: AsyncIterableIterator<SessionEvent>, turns: number): Watcher {
  let seen = 0;
  let gaps = 0;
  const { promise: caughtUp, countDown } = countdown(turns);
  const reading = (async () => {
    for await (const event of events) {
      seen += 1;
      if (event.type === 'gap') gaps += 1;
      if (event.type === 'turn.finished') countDown();
    }
  })();
  return {
    caughtUp: Promise.race([caughtUp, reading.then(() => Promise.reject(new Error('the reader was cut off')))]),
    end: async () => {
      await events.return?.();
      await reading;
      return { events: seen, gaps };
    },
  };
}

/** Spans of every turn, call and tool, handed in batches to an exporter that lets them go. */
function trace({ system, size }: Watched): Watcher {
  let seen = 0;
  const { promise: caughtUp, countDown } = countdown(turnsOf(size));
  const counter: SpanProcessor = {
    onStart: () => undefined,
    onEnd: ({ name }) => {
      seen += 1;
      if (name.startsWith('invoke_agent')) countDown();
    },
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
  };
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: async () => undefined,
  };
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [counter, new BatchSpanProcessor(exporter)] });
  const instrumentation = instrument(system.runtime, { tracerProvider });
  return {
    caughtUp,
    end: async () => {
      instrumentation.stop();
      await tracerProvider.shutdown();
      return { spans: seen };
    },
  };
}

function countdown(count: number): { readonly promise: Promise<void>; readonly countDown: () => void } {
  let left = count;
  let done: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    done = resolve;
  });
  return {
    promise,
    countDown: () => {
      left -= 1;
      if (left === 0) done();
    },
  };
}
