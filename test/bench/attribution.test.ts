/**
 * Goal: the cost attributed to publishing is exactly what the profiles contain. Method: profiles made by hand, small
 * enough to be added up mentally.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  type AllocationNode,
  allocatedIn,
  asRan,
  type CpuProfile,
  collectorShare,
  ratioOf,
  timeOf,
} from '../../bench/watching/attribution.ts';
import { type Frame, isTelling, TELLING } from '../../bench/watching/telling.ts';
import { costOf, crossingOf } from '../../bench/watching/watching-cost.ts';

const frame = (functionName: string, url = ''): Frame => ({ functionName, url });
const TELL = frame('tell', 'file:///dist/src/session/apply/fold.js');
const BELOW = frame('push', 'file:///dist/src/base/list.js');
const WORK = frame('apply', 'file:///dist/src/session/apply/apply.js');
const ALWAYS = [{ fromUs: 0, toUs: 1_000_000 }];

/**
 * Numbers of nodes: 1 root, 2 work, 3 publishing in it, 4 below that, 5 publishing in that again, then those that are
 * not functions.
 */
const profile = (samples: readonly (readonly [id: number, us: number])[], startTime = 0): CpuProfile => ({
  startTime,
  nodes: [
    { id: 1, callFrame: frame('(root)'), children: [2, 6, 7, 8, 9] },
    { id: 2, callFrame: WORK, children: [3, 11] },
    { id: 3, callFrame: TELL, children: [4] },
    { id: 4, callFrame: BELOW, children: [5] },
    { id: 5, callFrame: TELL },
    { id: 6, callFrame: frame('(idle)') },
    { id: 7, callFrame: frame('(garbage collector)') },
    { id: 8, callFrame: frame('(program)') },
    { id: 9, callFrame: frame('post', 'node:inspector'), children: [10] },
    { id: 10, callFrame: frame('dispatch') },
    { id: 11, callFrame: frame('postMessage') },
  ],
  samples: samples.map(([id]) => id),
  timeDeltas: samples.map(([, us]) => us),
});

describe('time of a thread', () => {
  test('a sample counts once, wherever in its stack the publishing is', () => {
    const samples = [
      [2, 100],
      [3, 10],
      [4, 20],
      [5, 40],
    ] as const;
    expect(timeOf(profile(samples), isTelling, ALWAYS)).toEqual({ busy: 170, told: 70, collector: 0, posting: 0 });
  });

  test('idling and the inspector are not work; the collector and posting are, and are counted apart', () => {
    const samples = [
      [6, 1_000],
      [9, 500],
      [10, 500],
      [7, 30],
      [8, 5],
      [11, 7],
      [2, 100],
    ] as const;
    expect(timeOf(profile(samples), isTelling, ALWAYS)).toEqual({ busy: 142, told: 0, collector: 30, posting: 7 });
  });

  test('samples outside of the windows are left out, a sample on the border in part', () => {
    const samples = [
      [2, 100],
      [3, 100],
      [2, 100],
      [3, 100],
    ] as const;
    const windows = [{ fromUs: 1_150, toUs: 1_300 }];
    expect(timeOf(profile(samples, 1_000), isTelling, windows)).toMatchObject({ busy: 150, told: 50 });
    expect(timeOf(profile(samples, 5_000), isTelling, windows)).toMatchObject({ busy: 0, told: 0 });
  });

  test('shares of samples are shares of the time the thread ran; if that is unknown, they stay', () => {
    const time = { busy: 100, told: 10, collector: 20, posting: 4 };
    expect(asRan(time, 75)).toEqual({ busy: 75, told: 7.5, collector: 15, posting: 3 });
    expect(asRan(time, 0)).toEqual(time);
    const idle = { busy: 0, told: 0, collector: 0, posting: 0 };
    expect(asRan(idle, 5)).toEqual(idle);
  });
});

describe('allocations', () => {
  const node = (callFrame: Frame, selfSize: number, ...children: AllocationNode[]): AllocationNode => ({
    callFrame,
    selfSize,
    children,
  });

  test('bytes under publishing functions count; the inspector is left out', () => {
    const below = node(BELOW, 20, node(TELL, 30));
    const head = node(
      frame('(root)'),
      0,
      node(WORK, 100, node(TELL, 50, below)),
      node(frame('on', 'node:inspector'), 7),
    );
    expect(allocatedIn(head, isTelling)).toEqual({ bytes: 200, told: 100 });
  });

  test("the collector's time is shared by bytes; without bytes it is shared by none", () => {
    expect(collectorShare({ collector: 40 }, { bytes: 200, told: 50 })).toBe(10);
    expect(collectorShare({ collector: 40 }, { bytes: 0, told: 0 })).toBe(0);
  });
});

test('the ratio is of the work without the cost', () => {
  expect(ratioOf(110, 10)).toBe(1.1);
  expect(ratioOf(100, 0)).toBe(1);
});

describe('the cost of being watched', () => {
  const threads = {
    cpuUs: 150,
    toldUs: 6,
    toldCollectorUs: 4,
    'host.ranUs': 20,
    'host.toldUs': 4,
    'host.toldCollectorUs': 3,
    'session.ranUs': 90,
    'session.toldUs': 2,
    'session.collectorUs': 15,
    'session.postingUs': 9,
  };
  const unwatched = {
    cpuUs: 100,
    'host.ranUs': 5,
    'session.ranUs': 45,
    'session.collectorUs': 9,
    'session.postingUs': 4,
  };

  test('across threads: the additional run time of the host, and the additional posting of the session thread', () => {
    // The session thread's own work took 64 in this process and 32 in the other: the machine was half as fast.
    expect(crossingOf(threads, unwatched)).toBe(20 - 2 * 5 + (9 - 2 * 4));
    expect(crossingOf({ cpuUs: 60, 'host.ranUs': 60, 'host.toldUs': 4 }, { cpuUs: 50, 'host.ranUs': 50 })).toBe(0);
  });

  test('the cost is publishing, its share of the collector, and the crossing, which includes all of the host', () => {
    const apart = { costUs: 2 + 1 + 12, cpuUs: 150, moreUs: 50, ratio: 1 + 15 / 135 };
    expect(costOf(threads, unwatched, 12)).toMatchObject(apart);
    const inline = { cpuUs: 66, toldUs: 4, toldCollectorUs: 2, 'host.toldUs': 4, 'host.toldCollectorUs': 2 };
    expect(costOf(inline, { cpuUs: 50 }, 0)).toMatchObject({ costUs: 6, gcUs: 2, ratio: 1.1, moreUs: 16 });
  });
});

describe('publishing functions', () => {
  const dist = 'file:///somewhere/bench/dist';

  test('are whole files, or functions of a file with other uses', () => {
    expect(isTelling(frame('anything', `${dist}/src/events/reading/fan-out.js`))).toBe(true);
    expect(isTelling(frame('', `${dist}/src/runtime/events/diagnostics-tracker.js`))).toBe(true);
    expect(isTelling(frame('counts', `${dist}/src/session/apply/fold.js`))).toBe(true);
    expect(isTelling(frame('append', `${dist}/src/session/apply/fold.js`))).toBe(false);
    expect(isTelling(frame('#tellDeltas', `${dist}/src/models/pools/in-place-pool.js`))).toBe(true);
    expect(isTelling(frame('isWatched', `${dist}/src/runtime/shard/audience.js`))).toBe(true);
  });

  test('exclude functions that also wait for an answer, and those without a file', () => {
    expect(isTelling(frame('settled', `${dist}/src/runtime/shard/audience.js`))).toBe(false);
    expect(isTelling(frame('observer', `${dist}/src/runtime/shard/audience.js`))).toBe(false);
    expect(isTelling(frame('tell'))).toBe(false);
  });

  test('each line names existing files, and functions in one of them', () => {
    const root = fileURLToPath(new URL('../..', import.meta.url));
    const sources = ['src', 'actors', 'bench/measure']
      .flatMap((folder) =>
        readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join('/', folder, name)),
      )
      .filter((name) => name.endsWith('.ts'));
    for (const { file, functions = [], except = [] } of TELLING) {
      // Not of this package.
      if (/opentelemetry|node:/.test(file.source)) continue;
      const meant = sources.filter((name) => file.test(`${dist}${name.replace(/\.ts$/, '.js')}`));
      expect(meant, String(file)).not.toEqual([]);
      const text = meant.map((name) => readFileSync(join(root, name), 'utf8')).join('\n');
      for (const name of [...functions, ...except])
        expect(text, `${file}: ${name}`).toMatch(new RegExp(`\\b${name}\\b`));
    }
  });

  test('each line gives its reason', () => {
    expect(TELLING.filter(({ reason }) => reason === '')).toEqual([]);
  });
});
