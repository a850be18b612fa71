/** Model and tool threads report times to the host thread: notes on a channel of the process, on one clock. */
import { BroadcastChannel } from 'node:worker_threads';

/** One event of probe `n`. */
export interface Note {
  /** `called`: the model was asked; `opened`: the tool returned; `steered`: the next request was made. */
  readonly kind: 'called' | 'opened' | 'steered' | 'release';
  readonly n: number;
  /** Time of the process's monotonic clock, ms; all threads share it. */
  readonly atMs: number;
  /** `steered`: the request contains the steer. */
  readonly isIncluded?: boolean;
}

const NAME = 'troupe-bench-probes';
const NS_A_MS = 1e6;

/** Milliseconds of the clock that all threads share. */
export function clockMs(): number {
  return Number(process.hrtime.bigint()) / NS_A_MS;
}

/**
 * A channel to all threads of the process. `listen` receives the notes of the others. It does not keep the process
 * alive.
 */
export function openChannel(listen?: (note: Note) => void): {
  readonly publish: (note: Omit<Note, 'atMs'>) => void;
  readonly close: () => void;
} {
  const channel = new BroadcastChannel(NAME);
  if (listen !== undefined) {
    channel.onmessage = (event: unknown) => {
      const data = typeof event === 'object' && event !== null ? Reflect.get(event, 'data') : undefined;
      if (isNote(data)) listen(data);
    };
  }
  channel.unref();
  return {
    publish: (note) => channel.postMessage({ ...note, atMs: clockMs() }),
    close: () => channel.close(),
  };
}

function isNote(value: unknown): value is Note {
  return typeof value === 'object' && value !== null && 'kind' in value && 'n' in value && 'atMs' in value;
}
