/**
 * Goal: the sweep can fail. Method: stories with a wrong ending, stores changed without the runtime's knowledge, a disk
 * that acknowledges false writes. Each must be reported, with a plan that repeats it.
 */
import { expect, test } from 'vitest';
import { openMemoryJournal } from '../../src/journal/memory-journal.ts';
import type { MemoryStore } from '../../src/journal/memory-store.ts';
import { decodeTransition, encodeTransition } from '../../src/session/state/records.ts';
import { SimulatedProcess } from '../../src/testing/simulation/world.ts';
import { FAULT_KINDS } from './faults.ts';
import { compareLines, type Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';
import { runStory } from './story-run.ts';
import { describeFailure, sweep } from './sweep.ts';

function scenario(name: string): Scenario {
  const found = SCENARIOS.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no scenario ${name}`);
  return found;
}

/** The kinds of violation in a run, each once. */
function kinds(result: Awaited<ReturnType<typeof runStory>>): readonly string[] {
  return [...new Set(result.violations.map(({ kind }) => kind))].sort();
}

/** Writes a session's last transition again, like a store that repeats itself. */
async function repeatLastTurn(store: MemoryStore, session: string): Promise<void> {
  const journal = openMemoryJournal({ store });
  const key = journal.keyOf(session) ?? 0;
  const last = [...journal.read(key, 0)].at(-1);
  if (last === undefined) throw new Error(`${session} has no log`);
  journal.append([{ key, data: encodeTransition(decodeTransition(last.data)) }]);
  await journal.close();
}

test('T2: there are thirty scenarios or more, ten of them with pairs, each with a different name', () => {
  expect(SCENARIOS.length).toBeGreaterThanOrEqual(30);
  expect(SCENARIOS.filter(({ pairs }) => pairs === true).length).toBeGreaterThanOrEqual(10);
  expect(new Set(SCENARIOS.map(({ name }) => name)).size).toBe(SCENARIOS.length);
});

test('T2: the same plan gives the same run, line by line', async () => {
  const plan = [{ kind: 'torn', at: 5 }] as const;
  const [one, two] = [
    await runStory(scenario('model-spawns'), { plan }),
    await runStory(scenario('model-spawns'), { plan }),
  ];
  expect(one.violations).toEqual([]);
  expect(one.trace).toEqual(two.trace);
});

test('T2: each kind of fault has its effect: a crash ends a life, a refusal costs an attempt to recover', async () => {
  for (const kind of FAULT_KINDS) {
    const result = await runStory(scenario('tool-pure'), { plan: [{ kind, at: 3 }] });
    expect(result.struck, kind).toEqual([3]);
    const isRefusal = kind === 'ENOSPC' || kind === 'EIO';
    // The last life only checks that nothing changes.
    expect(result.lives, kind).toBe(isRefusal ? 2 : 3);
    expect(result.operations.includes('reopen'), kind).toBe(isRefusal);
  }
});

test('T2: a wrong ending is reported, with the command that repeats it', async () => {
  const wrong: Scenario = { ...scenario('simple-turn'), ending: { logs: { main: ['user m1 please'] } }, pairs: false };
  const { failures } = await sweep(wrong);
  expect(failures.length).toBeGreaterThanOrEqual(3);
  const [whole, first] = failures.map(describeFailure);
  expect(whole).toContain('the log of main is');
  expect(whole).toContain('agent answer to m1');
  expect(first).toContain('test/sweep/replay.ts simple-turn before 1');
  expect(first).toMatch(/operation 1: open, before/);
});

test('T2: a wrong answer, an unexpected session and a child without its reply are reported', async () => {
  const story = scenario('spawn-with-mailbox');
  const ending = { ...story.ending, replies: { t1: 'cancelled' } };
  expect(kinds(await runStory({ ...story, ending }, { plan: [] }))).toEqual(['changed']);
  const logs = { main: story.ending.logs['main'] ?? [] };
  expect(kinds(await runStory({ ...story, ending: { logs } }, { plan: [] }))).toEqual(['changed']);
  expect(
    kinds(await runStory({ ...story, ending: { ...story.ending, answers: { m9: 'text' } } }, { plan: [] })),
  ).toEqual(['changed']);
});

test('T2: a store that lost an acknowledged message is reported', async () => {
  const result = await runStory(scenario('simple-turn'), {
    plan: [],
    doctor: async ([store]) => {
      const journal = openMemoryJournal({ ...(store === undefined ? {} : { store }) });
      journal.remove([journal.keyOf('main') ?? 0]);
      await journal.close();
    },
  });
  expect(kinds(result)).toContain('lost');
});

test('T2: a store that holds a transition twice is reported', async () => {
  const result = await runStory(scenario('simple-turn'), {
    plan: [],
    doctor: async ([store]) => {
      if (store !== undefined) await repeatLastTurn(store, 'main');
    },
  });
  expect(result.violations).not.toEqual([]);
});

test('T2: a tool that takes effect without an entry in its log is reported', async () => {
  const story = scenario('tool-once');
  const result = await runStory(story, {
    plan: [],
    doctor: (_stores, ledger) => {
      const process = new SimulatedProcess('tool');
      const start = { incarnation: 99, storedRow: Number.MAX_SAFE_INTEGER, process, attempt: 1, atMs: 0 };
      for (const run of ledger.tools.values()) run.starts.push(start);
    },
  });
  expect(kinds(result)).toEqual(['repeated']);
});

test('T2: a planned fault that was never reached is reported', async () => {
  const { failures } = await sweep(
    { ...scenario('simple-turn'), pairs: false },
    { run: (story, { plan }) => runStory(story, { plan: plan.map(({ kind, at }) => ({ kind, at: at + 100 })) }) },
  );
  expect(failures.map(({ result }) => result.violations[0]?.what)).toContain('a planned fault was never reached');
});

test('T2: all required lines must be present, in their order or in any; optional ones may be missing', () => {
  expect(compareLines(['a', 'b'], ['a', 'b'])).toBeUndefined();
  expect(compareLines(['b', 'a'], ['a', 'b'])).toBeDefined();
  expect(compareLines(['a'], ['a', 'b'])).toBeDefined();
  expect(compareLines(['a', 'b'], ['a'])).toBeDefined();
  expect(compareLines(['a', 'c'], ['a', { maybe: 'b' }, /^c/])).toBeUndefined();
  expect(compareLines(['b', 'a'], { anyOrder: ['a', 'b'] })).toBeUndefined();
  expect(compareLines(['b', 'a', 'a'], { anyOrder: ['a', 'b'] })).toBeDefined();
  expect(compareLines(['b', 'a', 'c'], { anyOrder: ['a', /b/, { maybe: 'c' }] })).toBeUndefined();
  expect(compareLines(['b'], { anyOrder: ['a', /b/] })).toBeDefined();
});
