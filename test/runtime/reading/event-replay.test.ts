/**
 * Goal: Y1 to Y3 of the replays: pages equal the events of one fold of the whole log, and do not read it from the start
 * each time. Method: the pure core writes a log into a journal in memory, whose entries are counted as they are read.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { REPLAYS_MAX } from '../../../src/base/bounds.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { openMemoryJournal } from '../../../src/journal/memory-journal.ts';
import type { SessionKey, StoredEntry } from '../../../src/journal/position.ts';
import { EventReplays } from '../../../src/runtime/reading/event-replay.ts';
import { encodeHead, summaryOf } from '../../../src/runtime/reading/head.ts';
import { encodeTransition } from '../../../src/session/state/records.ts';
import { snapshotState } from '../../../src/session/state/snapshot.ts';
import { call, type Machine, startedSession } from '../../support/session-kit.ts';

/** Messages, calls and results. */
function talk(rounds: number): Machine {
  const machine = startedSession({ sent: 'go' });
  for (let round = 0; round < rounds; round += 1) {
    machine.answer([call(`a${round}`, 'read_file'), call(`b${round}`, 'read_file')]);
    machine.finish(`a${round}`, `found ${round}`);
    machine.finish(`b${round}`, 'nothing');
    machine.answer(`answer ${round}`);
    machine.send(`more ${round}`);
  }
  return machine;
}

class Stage {
  journal: Journal = openMemoryJournal();
  readonly key: SessionKey = this.journal.intern('s');
  readonly replays: EventReplays;
  read = 0;

  constructor() {
    const counted: Pick<Journal, 'read' | 'head' | 'blob'> = {
      read: (key, after) => this.#counted(key, after),
      head: (key) => this.journal.head(key),
      blob: (address) => this.journal.blob(address),
    };
    this.replays = new EventReplays(Object.assign(Object.create(this.journal) as Journal, counted));
  }

  *#counted(key: SessionKey, after: number): Iterable<StoredEntry> {
    for (const entry of this.journal.read(key, after)) {
      this.read += 1;
      yield entry;
    }
  }

  /** Returns the position of the last transition written. */
  write({ turns }: Machine, from = 0, to: number = turns.length): number {
    return turns
      .slice(from, to)
      .reduce((_, turn) => this.journal.append([{ key: this.key, data: encodeTransition(turn) }]), 0);
  }

  /** Numbers and kinds of a page. */
  page(
    after: number,
    limit: number,
    bytesMax = Number.MAX_SAFE_INTEGER,
  ): { readonly told: readonly string[]; readonly isComplete: boolean } {
    const { events, isComplete } = this.replays.page('s', this.key, after, { limit, bytesMax });
    return { told: events.map(({ seq, at, type }) => `${seq} ${type} ${at}`), isComplete };
  }
}

test('Y1: any pages, requested in any order while the log grows, match one fold of the whole log', () => {
  const machine = talk(12);
  const whole = new Stage();
  whole.write(machine);
  const all = whole.page(0, Number.MAX_SAFE_INTEGER).told;
  const asked = fc.tuple(fc.nat(all.length + 2), fc.integer({ min: 1, max: 40 }), fc.boolean(), fc.nat(6));
  fc.assert(
    fc.property(fc.array(asked, { minLength: 1, maxLength: 60 }), (pages) => {
      const stage = new Stage();
      let written = 0;
      let last = 0;
      for (const [anywhere, limit, goesOn, more] of pages) {
        stage.write(machine, written, written + more);
        written = Math.min(written + more, machine.turns.length);
        const there = new Stage();
        there.write(machine, 0, written);
        const now = there.page(0, Number.MAX_SAFE_INTEGER).told;
        const after = goesOn ? last : anywhere;
        const { told, isComplete } = stage.page(after, limit);
        expect(told).toEqual(now.slice(after, after + limit));
        expect(isComplete).toBe(after + limit >= now.length);
        last = after + told.length;
      }
    }),
    { numRuns: 40 },
  );
});

test('Y2: a reader of successive pages loads each transition once, also beside other readers', () => {
  const machine = talk(200);
  const stage = new Stage();
  stage.write(machine);
  const readers = Array.from({ length: REPLAYS_MAX }, (_, index) => ({ after: 0, limit: 5 + index, told: 0 }));
  for (let isOver = false; !isOver; ) {
    isOver = true;
    for (const reader of readers) {
      const { told, isComplete } = stage.page(reader.after, reader.limit);
      reader.after += told.length;
      reader.told += told.length;
      isOver &&= isComplete;
    }
  }
  expect(new Set(readers.map(({ told }) => told)).size).toBe(1);
  // If two readers are at the same event, one reader takes the fold, and the other must build it again.
  expect(stage.read).toBeLessThan(REPLAYS_MAX * 3 * machine.turns.length);
  const alone = new Stage();
  alone.write(machine);
  for (let after = 0, isComplete = false; !isComplete; ) {
    const page = alone.page(after, 5);
    after += page.told.length;
    isComplete = page.isComplete;
  }
  expect(alone.read).toBe(machine.turns.length);
});

test('Y2: a reader with a late cursor reads from the snapshot on, one with an early cursor from the start', () => {
  const machine = talk(50);
  const half = startedSession({ sent: 'go' });
  const stage = new Stage();
  const cut = Math.floor(machine.turns.length / 2);
  const position = stage.write(machine, 0, cut);
  for (const turn of machine.turns.slice(half.turns.length, cut))
    for (const record of turn.records) half.replay(record);
  const address = stage.journal.putBlob(snapshotState(half.state));
  const data = encodeHead({ summary: summaryOf(half.state), snapshot: { address, position } });
  stage.journal.checkpoint([{ key: stage.key, position, data, runnable: false }], position);
  stage.write(machine, cut);
  const whole = new Stage();
  whole.write(machine);
  const all = whole.page(0, Number.MAX_SAFE_INTEGER).told;
  const { eventSeq } = half.state;
  expect(stage.page(eventSeq + 3, 10).told).toEqual(all.slice(eventSeq + 3, eventSeq + 13));
  expect(stage.read).toBeLessThan(12);
  stage.read = 0;
  expect(stage.page(eventSeq - 1, 10).told).toEqual(all.slice(eventSeq - 1, eventSeq + 9));
  expect(stage.read).toBeGreaterThan(cut);
});

test('Y3: lost transitions are no longer published, but the ones that replaced them are', () => {
  const stage = new Stage();
  stage.write(talk(8));
  expect(stage.page(0, 8).told).toHaveLength(8);
  const other = new Stage();
  other.write(startedSession({ sent: 'something else' }));
  const left = other.page(0, 100).told;
  stage.journal = other.journal;
  stage.replays.clear();
  expect(stage.page(8, 100).told).toEqual(left.slice(8));
  expect(stage.page(0, 100).told).toEqual(left);
});

test('Y4: a page ends at its bound in bytes, holds at least one event, and the next one continues after it', () => {
  const machine = startedSession({ sent: 'go' });
  for (let index = 0; index < 12; index += 1) machine.send(`${index} ${'x'.repeat(50_000)}`);
  const stage = new Stage();
  stage.write(machine);
  const all = stage.page(0, 1_000).told;
  const sizes: number[] = [];
  const told: string[] = [];
  for (let isComplete = false; !isComplete; ) {
    const page = stage.page(told.length, 1_000, 120_000);
    sizes.push(page.told.length);
    told.push(...page.told);
    isComplete = page.isComplete;
  }
  expect(told).toEqual(all);
  expect(Math.max(...sizes.slice(1))).toBe(2);
  expect(stage.page(all.length - 3, 1_000, 1).told).toEqual(all.slice(-3, -2));
});

test('Y4: large folds are kept only for the reader served last', () => {
  const machine = startedSession({ sent: 'go', tokenBudget: 1_000_000_000 });
  for (let index = 0; index < 20; index += 1) {
    machine.answer(`${index} ${'x'.repeat(1024 * 1024)}`);
    machine.send('more');
  }
  const stage = new Stage();
  stage.write(machine);
  const before = machine.seen.events.length - 4;
  stage.page(0, before);
  const { read } = stage;
  stage.page(0, before - 1);
  // The first of the two starts again, since both together exceed the bound.
  stage.page(before, 1);
  expect(stage.read - read).toBeGreaterThan(machine.turns.length);
});
