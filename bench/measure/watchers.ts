/** Kinds of readers for P10: of one session and of all sessions in two view modes, and traces. */
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import type { ViewedEvent } from '../../src/index.ts';
import { instrument } from '../../src/otel/index.ts';
import type { Figures } from '../report/figures.ts';
import type { WorkSize } from '../shared-work.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';

/** The watched sessions of one repetition: their names begin with `label`. */
export interface Watched {
  readonly label: string;
  readonly size: Pick<WorkSize, 'sessions' | 'turnsEach'>;
}

/** A reader at work, for one repetition or for many. */
export interface Watcher {
  /**
   * Call it before each repetition. `caughtUp` resolves once the reader saw the end of each watched turn. Before that
   * the measured cost would leave out unread events.
   */
  expect(watched: Watched): Promise<{ readonly caughtUp: Promise<void> }>;
  /** Ends the reader and returns what it saw. */
  end(): Promise<Figures>;
}

/** Begins to watch. */
export type Watch = (system: TroupeSystem) => Watcher;

/** Readers of one session of many: the first session of each repetition. */
export const OF_ONE: Readonly<Record<string, Watch>> = {
  'basic view of one session': (system) => readFirst(system, 'basic'),
  'debug view of one session': (system) => readFirst(system, 'debug'),
};

/** Readers of every session. */
export const OF_ALL: Readonly<Record<string, Watch>> = {
  'basic view of all sessions': ({ runtime }) => readAll(runtime.events({ mode: 'basic' })),
  'debug view of all sessions': ({ runtime }) => readAll(runtime.events({ mode: 'debug' })),
  // This kind is for a process that is traced from its start to its end. The first and the last subscriber of a channel
  // make V8 discard compiled code, which would cost more than the spans.
  'traces of all sessions': trace,
};

/** Turns of one repetition. */
function turnsOf({ sessions, turnsEach }: Watched['size']): number {
  return sessions * turnsEach;
}

/** Turns whose end is awaited. */
class Tally {
  #left = 0;
  #reached: () => void = () => undefined;
  #failed: (error: Error) => void = () => undefined;

  /** Adds this many awaited turns; resolves when none is left. */
  async expect(turns: number): Promise<{ readonly caughtUp: Promise<void> }> {
    this.#left += turns;
    const caughtUp = new Promise<void>((resolve, reject) => {
      this.#reached = resolve;
      this.#failed = reject;
    });
    // If the work itself fails, nothing awaits this promise, and its rejection must not hide the error of the work.
    caughtUp.catch(() => undefined);
    return { caughtUp };
  }

  ended(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#reached();
  }

  cutOff(): void {
    if (this.#left > 0) this.#failed(new Error('the reader was cut off'));
  }
}

interface Reading {
  readonly tally: Tally;
  end(): Promise<Figures>;
}

function read(events: AsyncIterableIterator<ViewedEvent>): Reading {
  const tally = new Tally();
  let seen = 0;
  let gaps = 0;
  const reading = (async () => {
    for await (const event of events) {
      seen += 1;
      if (event.type === 'gap') gaps += 1;
      if (event.type === 'turn.finished') tally.ended();
    }
    tally.cutOff();
  })();
  return {
    tally,
    end: async () => {
      await events.return?.();
      await reading;
      return { events: seen, gaps };
    },
  };
}

function readAll(events: AsyncIterableIterator<ViewedEvent>): Watcher {
  const { tally, end } = read(events);
  return { expect: ({ size }) => tally.expect(turnsOf(size)), end };
}

function readFirst({ runtime }: TroupeSystem, mode: 'basic' | 'debug'): Watcher {
  let reading: Reading | undefined;
  let before = { events: 0, gaps: 0 };
  const end = async (): Promise<Figures> => {
    const { events = 0, gaps = 0 } = (await reading?.end()) ?? {};
    before = { events: before.events + events, gaps: before.gaps + gaps };
    return before;
  };
  return {
    expect: async ({ label, size }) => {
      await end();
      reading = read(runtime.session(`${label}s0`).events({ mode }));
      return reading.tally.expect(size.turnsEach);
    },
    end,
  };
}

/** Spans of every turn, call and tool, handed in batches to an exporter that discards them. */
function trace({ runtime }: TroupeSystem): Watcher {
  const tally = new Tally();
  let seen = 0;
  const counter: SpanProcessor = {
    onStart: () => undefined,
    onEnd: ({ name }) => {
      seen += 1;
      if (name.startsWith('invoke_agent')) tally.ended();
    },
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
  };
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: async () => undefined,
  };
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [counter, new BatchSpanProcessor(exporter)] });
  const instrumentation = instrument(runtime, { tracerProvider });
  return {
    expect: ({ size }) => tally.expect(turnsOf(size)),
    end: async () => {
      instrumentation.stop();
      await tracerProvider.shutdown();
      return { spans: seen };
    },
  };
}
