/**
 * The simulator itself: a seed always gives the same run, faults are drawn, and the runtime keeps its guarantees under
 * them.
 */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { FAULT_KINDS, simulate } from '../../../src/testing/index.ts';
import { PROVIDER_FAULT_KINDS } from '../../../src/testing/simulation/faults.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { SimulatedProcess, World } from '../../../src/testing/simulation/world.ts';

/** `.ci/run` simulates two thousand; these show that the faults are drawn and that the runs stay the same. */
const SEEDS = 20;
/**
 * A digest of the runs of these seeds. Moving code does not change the digest. A change of behaviour, or of the
 * draws from a seed, needs a new digest, and its commit says why.
 */
const RECORDED = '6caa26c758a37f7d';
/** The seeds of 1 to 12 whose model keeps the conversation, so that its API can fail to keep it. */
const KEEPING_SEEDS = [5, 10, 11, 12];
/** The seeds of 1 to 24 with several models and a provider that fails. */
const MOVING_SEEDS = [2, 5, 9, 17, 19, 20];

test('T1, F01-F07, F20-F39, F50-F54, F59, F61-F64: every invariant holds under seeded faults, seeds 1 to 20', async () => {
  const drawn = new Set<string>();
  const runs = createHash('sha256');
  let simulatedMs = 0;
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const result = await simulate({ seed });
    expect(result.violations, `seed ${seed}; replay: npx troupe sim --seed ${seed}`).toEqual([]);
    for (const kind of Object.keys(result.faults)) drawn.add(kind);
    runs.update(`${seed} ${result.fingerprint}\n`);
    simulatedMs += result.simulatedMs;
  }
  expect(drawn.size).toBeGreaterThan(FAULT_KINDS.length * 0.75);
  expect(simulatedMs).toBeGreaterThan(1_800_000);
  expect(runs.digest('hex').slice(0, 16)).toBe(RECORDED);
}, 120_000);

test('T1: a seed always gives the same run, whatever ran before', async () => {
  const first = await simulate({ seed: 7 });
  await simulate({ seed: 8 });
  const again = await simulate({ seed: 7 });
  expect(again.fingerprint).toBe(first.fingerprint);
  expect(again).toEqual(first);
  expect((await simulate({ seed: 9 })).fingerprint).not.toBe(first.fingerprint);
});

test('T1: only the requested faults are drawn', async () => {
  const result = await simulate({ seed: 3, faults: ['crash.after', 'process.kill'] });
  expect(result.violations).toEqual([]);
  for (const kind of Object.keys(result.faults)) expect(['crash.after', 'process.kill']).toContain(kind);
});

test('I17: a call whose outcome is lost while both threads live is answered in time, seeds 1 to 6', async () => {
  let lost = 0;
  for (let seed = 1; seed <= 6; seed += 1) {
    const result = await simulate({ seed, faults: ['tool.lost'] });
    expect(result.violations, `seed ${seed}`).toEqual([]);
    lost += result.faults['tool.lost'] ?? 0;
  }
  expect(lost).toBeGreaterThan(10);
}, 120_000);

test('I20, R62: the model receives what the log says, however its API fails to keep it, on chosen seeds', async () => {
  const faults = FAULT_KINDS.filter((kind) => kind.startsWith('model.thread_'));
  const struck = new Map<string, number>();
  let continued = 0;
  for (const seed of KEEPING_SEEDS) {
    const onTrace = (line: string): void => {
      if (line.includes(' continue of ')) continued += 1;
    };
    const result = await simulate({ seed, faults, onTrace });
    expect(result.violations, `seed ${seed}`).toEqual([]);
    for (const [kind, times] of Object.entries(result.faults)) struck.set(kind, (struck.get(kind) ?? 0) + times);
  }
  expect(continued).toBeGreaterThan(60);
  expect([...struck.keys()].sort()).toEqual([...faults].sort());
}, 120_000);

test('I21, I22, I23: sessions with several models move between two vendors, on chosen seeds', async () => {
  const struck = new Map<string, number>();
  const asked = new Map<string, number>();
  for (const seed of MOVING_SEEDS) {
    const onTrace = (line: string): void => {
      const reason = / the calls move to the model \S+ \((\w+)\)/.exec(line)?.[1];
      if (reason !== undefined) asked.set(reason, (asked.get(reason) ?? 0) + 1);
    };
    const result = await simulate({ seed, faults: [...PROVIDER_FAULT_KINDS], onTrace });
    expect(result.violations, `seed ${seed}`).toEqual([]);
    for (const [kind, times] of Object.entries(result.faults)) struck.set(kind, (struck.get(kind) ?? 0) + times);
  }
  expect([...struck.keys()].sort()).toEqual([...PROVIDER_FAULT_KINDS].sort());
  for (const reason of ['refusal', 'model_authentication', 'model_overloaded', 'model_rate_limited']) {
    expect(asked.get(reason) ?? 0, reason).toBeGreaterThan(0);
  }
}, 240_000);

test('V1, V2, V3: tasks run in the order of their time; a dead process and its children do nothing more', async () => {
  const world = new World(new SeededRandom(1), {
    uncaught: (_process, thrown) => {
      throw thrown;
    },
  });
  const parent = new SimulatedProcess('parent');
  const child = new SimulatedProcess('child', parent);
  const other = new SimulatedProcess('other');
  const ran: string[] = [];
  world.schedule(child, 20, () => ran.push('child'));
  world.schedule(other, 10, () => ran.push('second'));
  world.schedule(other, 5, () => ran.push('first'));
  world.schedule(other, 10, () => {
    ran.push('third');
    parent.kill();
  });
  world.cancel(world.schedule(other, 1, () => ran.push('cancelled')));
  expect(await world.run(() => false)).toBe(true);
  expect(ran).toEqual(['first', 'second', 'third']);
  expect(child.isAlive).toBe(false);
});

test('V4: wall time jumps, monotonic time does not', async () => {
  const world = new World(new SeededRandom(1), { uncaught: () => undefined });
  const clock = world.clockOf(new SimulatedProcess('any'));
  const [wall, monotonic] = [clock.now(), clock.monotonic()];
  world.jump(-3_600_000);
  expect(clock.now()).toBe(wall - 3_600_000);
  expect(clock.monotonic()).toBe(monotonic);
});

test('V5: an error thrown by a task is reported', async () => {
  const told: unknown[] = [];
  const world = new World(new SeededRandom(1), { uncaught: (_process, thrown) => told.push(thrown) });
  const fault = new Error('nobody caught it');
  world.schedule(new SimulatedProcess('any'), 0, () => {
    throw fault;
  });
  await world.run(() => false);
  expect(told).toEqual([fault]);
});
