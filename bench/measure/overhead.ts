/**
 * P10: what it costs to be watched. W2 without a reader and with each kind of reader, in turn on one runtime: of one session, of
 * all sessions as they are told and in two view modes, and as traces.
 */
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import type { SessionEvent } from '../../src/index.ts';
import { instrument } from '../../src/otel/index.ts';
import type { Figures, Row } from '../figures.ts';
import { numbers } from '../figures.ts';
import type { RunContext } from '../names.ts';
import { isolationOf, withTroupe } from '../open-system.ts';
import type { TroupeSystem } from '../troupe-system.ts';
import { warmUp } from '../warm-up.ts';
import { FULL_SIZE, manySessions, type Repetition } from '../workloads.ts';
import { measureOnce } from './repeat.ts';

const PAIRS: Readonly<Record<RunContext['scale'], number>> = { quick: 3, full: 7, long: 7 };

/** Begins to watch the sessions of a repetition. */
type Watch = (system: TroupeSystem, label: string) => Watcher;

interface Watcher {
  /** Resolves when the end of every turn was seen: what is behind then would be left out of the cost. */
  readonly caughtUp: Promise<void>;
  /** Ends it; what was seen. */
  end(): Promise<Figures>;
}

const TURNS = FULL_SIZE.sessions * FULL_SIZE.turnsEach;

const readAll: Watch = ({ runtime }) => read(runtime.events(), TURNS);

const WATCHES: Readonly<Record<string, Watch>> = {
  'reader of one session': ({ runtime }, label) =>
    read(runtime.session(`${label}s0`).events({ mode: 'basic' }), FULL_SIZE.turnsEach),
  'reader of all sessions': readAll,
  'basic view of all sessions': ({ runtime }) => read(runtime.events({ mode: 'basic' }), TURNS),
  'debug view of all sessions': ({ runtime }) => read(runtime.events({ mode: 'debug' }), TURNS),
  'traces of all sessions': trace,
};

/** A row `no reader` and one for each kind of reader; the latter also as ratios to the repetition they took turns with. */
export function measureOverhead(context: RunContext): Promise<readonly Row[]> {
  return withTroupe({ isolation: isolationOf(context) }, async (system) => {
    await warmUp(context, system, {
      also: async ({ label }) => {
        await drainWatched(system, label, readAll);
        return TURNS;
      },
    });
    const alone: Figures[] = [];
    const rows: Row[] = [];
    for (const [kind, [variant, watch]] of Object.entries(WATCHES).entries()) {
      const repetitions: Figures[] = [];
      for (const index of numbers(PAIRS[context.scale])) {
        repetitions.push(
          await measurePair({ system, label: `${kind}-${index}-`, watch, isFirst: index % 2 === 0, alone }),
        );
      }
      rows.push({ variant, repetitions });
    }
    return [{ variant: 'no reader', repetitions: alone }, ...rows];
  });
}

interface Pair {
  readonly system: TroupeSystem;
  readonly label: string;
  readonly watch: Watch;
  /** Whoever is second finds the store larger: they take turns in that. */
  readonly isFirst: boolean;
  readonly alone: Figures[];
}

/** Once without and once with a reader; what the latter cost, also as a ratio to the former. */
async function measurePair({ system, label, watch, isFirst, alone }: Pair): Promise<Figures> {
  const quiet = (): Promise<Figures> => measureOnce(`a${label}`, (repetition) => drain(system, repetition));
  const before = isFirst ? await quiet() : undefined;
  const watched = await drainWatched(system, `b${label}`, watch);
  const beside = before ?? (await quiet());
  alone.push(beside);
  return besides(watched, beside);
}

/** The figures with what they are of those of their pair: processor time a half-step, and rate. */
function besides(watched: Figures, alone: Figures): Figures {
  const ratio = (name: string): number => (watched[name] ?? Number.NaN) / (alone[name] ?? Number.NaN);
  return { ...watched, cpuRatio: ratio('cpuUs'), rateRatio: ratio('rate') };
}

async function drainWatched(system: TroupeSystem, label: string, watch: Watch): Promise<Figures> {
  const watcher = watch(system, label);
  const figures = await measureOnce(label, ({ timed }) =>
    drain(system, {
      label,
      timed: (work) =>
        timed(async () => {
          const value = await work();
          await watcher.caughtUp;
          return value;
        }),
    }),
  );
  return { ...figures, ...(await watcher.end()) };
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
function trace({ runtime }: TroupeSystem): Watcher {
  let seen = 0;
  const { promise: caughtUp, countDown } = countdown(TURNS);
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
  const instrumentation = instrument(runtime, { tracerProvider });
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

function drain(system: TroupeSystem, repetition: Repetition): ReturnType<typeof manySessions> {
  return manySessions(system, FULL_SIZE, repetition);
}
