/**
 * Goal: compactions begin when they are due (C2, C3, C5), one at a time, and failures only make them wait (C4). Method:
 * a journal that the test controls, and a clock that it moves.
 */
import { expect, test } from 'vitest';
import { COMPACT_FREE_PAUSE_MS, COMPACT_RETRY_MS_MAX } from '../../../../src/base/bounds.ts';
import { CancelledError, LimitError, StoreFullError } from '../../../../src/base/errors.ts';
import type { CompactionResult, StoreUse } from '../../../../src/journal/engine.ts';
import { Counters, createCounterMemory, readCounters } from '../../../../src/runtime/protocol/metrics.ts';
import type { LogLine } from '../../../../src/runtime/protocol/protocol.ts';
import { Compactor } from '../../../../src/runtime/shard/compaction/compactor.ts';
import { manualClock } from '../../../../src/testing/manual-clock.ts';

const WITHIN_MS = 60_000;
const RESULT: CompactionResult = { bytesBefore: 100, bytes: 40, sliceMs: 2 };
const FULL: StoreUse = { bytes: 40_000_000, freeBytes: 0 };
const HALF_FREE: StoreUse = { bytes: 40_000_000, freeBytes: 20_000_000 };

function compactor() {
  const clock = manualClock();
  const memory = createCounterMemory();
  const lines: LogLine[] = [];
  const turns: string[] = [];
  const state = { isOwed: false, use: FULL, isRefusing: false, tookMs: 0, error: undefined as Error | undefined };
  const startedAt: number[] = [];
  let during: (() => void) | undefined;
  const made = new Compactor({
    kind: 'compaction',
    journal: { erasures: () => new Map() },
    copies: {
      get isOwed() {
        return state.isOwed;
      },
      use: () => state.use,
      run: async () => {
        startedAt.push(clock.monotonic());
        state.isOwed = false;
        during?.();
        await new Promise<void>((resolve) => clock.setTimer(resolve, state.tookMs));
        if (state.error === undefined) return RESULT;
        state.isOwed = true;
        throw state.error;
      },
    },
    clock,
    counters: new Counters(memory),
    eraseWithinMs: WITHIN_MS,
    host: {
      beginCompaction: async () => void turns.push('begin'),
      endCompaction: async () => void turns.push('end'),
      log: (line) => void lines.push(line),
    },
    isRefusing: () => state.isRefusing,
  });
  const erase = (): void => {
    state.isOwed = true;
    made.erased();
  };
  return {
    compactor: made,
    clock,
    state,
    lines,
    turns,
    startedAt,
    erase,
    counters: () => readCounters([memory]),
    during: (run: () => void) => {
      during = run;
    },
  };
}

test('C2: one compaction begins after half the time, and serves all that was erased in the meantime', async () => {
  const { clock, startedAt, erase, turns, counters, lines } = compactor();
  erase();
  await clock.advance(20_000);
  erase();
  await clock.advance(9_999);
  expect(startedAt).toEqual([]);
  await clock.advance(1);
  expect(startedAt).toEqual([30_000]);
  expect(turns).toEqual(['begin', 'end']);
  expect(counters()).toMatchObject({
    compactions: 1,
    compactionsRunning: 0,
    compactionsFailed: 0,
    compactionBytesBefore: 100,
    compactionBytes: 40,
    compactionSliceMs: 2,
  });
  expect(lines.map(({ level }) => level)).toEqual(['debug']);
  // C5: nothing is due.
  expect(clock.pending).toBe(0);
});

test('C2: what is erased during a compaction counts from its beginning', async () => {
  const { clock, startedAt, erase, state, during } = compactor();
  state.tookMs = 1_000;
  during(() => {
    if (startedAt.length === 1) state.isOwed = true;
  });
  erase();
  await clock.advance(90_000);
  expect(startedAt).toEqual([30_000, 60_000]);
});

test('C2: what a former process owes is compacted at once', async () => {
  const { compactor: made, clock, startedAt, state } = compactor();
  state.isOwed = true;
  made.begin();
  await clock.advance(0);
  expect(startedAt).toEqual([0]);
});

test('C3: a long compaction is followed by nine times its duration', async () => {
  const { clock, startedAt, erase, state } = compactor();
  state.tookMs = 20_000;
  erase();
  await clock.advance(50_000);
  erase();
  await clock.advance(179_999);
  expect(startedAt).toEqual([30_000]);
  await clock.advance(1);
  expect(startedAt).toEqual([30_000, 230_000]);
});

test('a file with many free pages is compacted, and not again soon', async () => {
  const { compactor: made, clock, startedAt, state } = compactor();
  made.look();
  await clock.advance(1_000);
  expect(startedAt).toEqual([]);
  state.use = HALF_FREE;
  made.look();
  await clock.advance(COMPACT_FREE_PAUSE_MS - 1);
  made.look();
  await clock.advance(0);
  expect(startedAt).toEqual([1_000]);
  await clock.advance(1);
  made.look();
  await clock.advance(0);
  expect(startedAt).toEqual([1_000, 1_000 + COMPACT_FREE_PAUSE_MS]);
});

test('C4: failures are logged and counted, and the wait grows up to its bound', async () => {
  const { clock, startedAt, erase, state, lines, counters } = compactor();
  state.error = new StoreFullError('no space left on device', {});
  erase();
  await clock.advance(30_000);
  expect(lines).toMatchObject([{ level: 'warn', error: { code: 'store_full' } }]);
  expect(lines[0]?.message).toContain('too little space');
  state.error = new LimitError('too much was committed');
  await clock.advance(5_000 + 10_000 + 20_000);
  expect(startedAt).toEqual([30_000, 35_000, 45_000, 65_000]);
  expect(lines.at(-1)?.message).toContain('too much was committed');
  expect(counters()).toMatchObject({ compactions: 0, compactionsFailed: 4, compactionsRunning: 0 });
  await clock.advance(4 * COMPACT_RETRY_MS_MAX);
  const [before = 0, last = 0] = startedAt.slice(-2);
  expect(last - before).toBe(COMPACT_RETRY_MS_MAX);
  state.error = undefined;
  await clock.advance(COMPACT_RETRY_MS_MAX);
  expect(counters().compactions).toBe(1);
  expect(clock.pending).toBe(0);
});

test('nothing begins while the store refuses writes, and a recovered store begins again', async () => {
  const { compactor: made, clock, startedAt, erase, state, lines, turns } = compactor();
  erase();
  state.isRefusing = true;
  await clock.advance(100_000);
  made.look();
  expect(clock.pending).toBe(0);
  expect(turns).toEqual([]);
  state.isRefusing = false;
  made.begin();
  await clock.advance(0);
  expect(startedAt).toEqual([100_000]);
  expect(lines.map(({ level }) => level)).toEqual(['debug']);
});

test('after a close no compaction begins, one that is ended is no failure, and its turn ends', async () => {
  const first = compactor();
  first.erase();
  first.compactor.close();
  first.compactor.begin();
  expect(first.clock.pending).toBe(0);
  const second = compactor();
  second.state.tookMs = 10;
  second.state.error = new CancelledError('the store is closed');
  second.erase();
  await second.clock.advance(30_000);
  expect(second.counters().compactionsRunning).toBe(1);
  second.compactor.close();
  await second.clock.advance(10);
  expect(second.counters()).toMatchObject({ compactionsRunning: 0, compactionsFailed: 0 });
  expect(second.lines).toEqual([]);
  expect(second.turns).toEqual(['begin', 'end']);
  expect(second.clock.pending).toBe(0);
});
