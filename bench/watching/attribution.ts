/** What profiles say of a cost: samples whose stack holds a function of a kind, and the collector's time by what such stacks allocate. */
import type { Frame } from './telling.ts';

/** Samples of one thread, as the inspector gives them. Times in microseconds of the clock of `process.hrtime`. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: Frame;
    readonly children?: readonly number[] | undefined;
  }[];
  readonly startTime: number;
  /** Nodes by id, and the time up to each of them since the one before. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Sampled allocations by stack: bytes, collected since or not. */
export interface AllocationNode {
  readonly callFrame: Frame;
  readonly selfSize: number;
  readonly children: readonly AllocationNode[];
}

/** A time in which the work was done, in microseconds of `process.hrtime`; samples outside are not of it. */
export interface Window {
  readonly fromUs: number;
  readonly toUs: number;
}

/** Where one thread's time went, in microseconds. */
export interface ThreadTime {
  /** All of it but idling and the inspector's own work. A thread that waits for a core is busy: see `asRan`. */
  readonly busy: number;
  /** Of `busy`: under a function that is told of, each sample once. */
  readonly told: number;
  /** Of `busy`: the collector. */
  readonly collector: number;
  /** Of `busy`: posting messages to other threads, of whatever kind. */
  readonly posting: number;
}

/** Bytes that were allocated, and those under a function that is told of. */
export interface Allocated {
  readonly bytes: number;
  readonly told: number;
}

const IDLE = '(idle)';
const COLLECTOR = '(garbage collector)';
const POSTING = 'postMessage';
const INSPECTOR = /^node:(internal\/)?inspector|\/bench\/profile\.js$/;

/** Reads the samples within the windows. */
export function timeOf(profile: CpuProfile, isOf: (frame: Frame) => boolean, windows: readonly Window[]): ThreadTime {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map(profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const holds = (test: (frame: Frame) => boolean): ((id: number) => boolean) => {
    const known = new Map<number, boolean>();
    const under = (id: number): boolean => {
      const before = known.get(id);
      if (before !== undefined) return before;
      const node = nodes.get(id);
      const parent = parents.get(id);
      const found = (node !== undefined && test(node.callFrame)) || (parent !== undefined && under(parent));
      known.set(id, found);
      return found;
    };
    return under;
  };
  const isInspector = holds(({ url }) => INSPECTOR.test(url));
  const isTold = holds(isOf);
  const time = { busy: 0, told: 0, collector: 0, posting: 0 };
  let at = profile.startTime;
  for (const [index, id] of profile.samples.entries()) {
    const took = profile.timeDeltas[index] ?? 0;
    at += took;
    const window = windows.find(({ fromUs, toUs }) => at > fromUs && at <= toUs);
    const frame = nodes.get(id)?.callFrame;
    if (window === undefined || frame === undefined || frame.functionName === IDLE || isInspector(id)) continue;
    const within = Math.min(took, at - window.fromUs);
    time.busy += within;
    if (frame.functionName === COLLECTOR) time.collector += within;
    else if (isTold(id)) time.told += within;
    else if (frame.functionName === POSTING) time.posting += within;
  }
  return time;
}

/**
 * The same shares of the time that the thread ran for in passes without a profiler, which counts what samples miss and nothing that
 * sampling costs: a thread that wakes for a message reads it while profiles still call it idle. `ran` 0: nobody knows.
 */
export function asRan(time: ThreadTime, ran: number): ThreadTime {
  return ran === 0 || time.busy === 0 ? time : scaled(time, ran / time.busy);
}

/** So many times each of its times. */
export function scaled({ busy, told, collector, posting }: ThreadTime, times: number): ThreadTime {
  return { busy: busy * times, told: told * times, collector: collector * times, posting: posting * times };
}

/** Reads where bytes were allocated, without the inspector's own. */
export function allocatedIn(head: AllocationNode, isOf: (frame: Frame) => boolean): Allocated {
  let [bytes, told] = [0, 0];
  const walk = (node: AllocationNode, isUnder: boolean): void => {
    if (INSPECTOR.test(node.callFrame.url)) return;
    const isTold = isUnder || isOf(node.callFrame);
    bytes += node.selfSize;
    if (isTold) told += node.selfSize;
    for (const child of node.children) walk(child, isTold);
  };
  walk(head, false);
  return { bytes, told };
}

/** The collector's time that falls to what is told, in the unit of `collector`: by bytes, as each is collected once. */
export function collectorShare({ collector }: Pick<ThreadTime, 'collector'>, { bytes, told }: Allocated): number {
  return bytes === 0 ? 0 : (collector * told) / bytes;
}

/** How many times the work without it the work with it is. */
export function ratioOf(busy: number, cost: number): number {
  return 1 + cost / (busy - cost);
}
