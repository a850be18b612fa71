/**
 * W7: the delay of the host thread and of single messages while W2 runs. W2 has 1,000 sessions at once, and starts a
 * new session as soon as one has made its three turns. The same probes run again on a runtime without other work
 * (`quiet`).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { workerUrl } from '../../src/threads/worker-url.ts';
import { costOf } from '../cost.ts';
import provider from '../latency/probe-model.ts';
import { add, stamp } from '../latency/probe-tools.ts';
import { Probes, type ProbeTimes } from '../latency/probes.ts';
import type { RunContext } from '../names.ts';
import { type Figures, latencies, numbers, type Row } from '../report/figures.ts';
import { timedTurn } from '../shared-work.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN } from '../systems/system.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';
import { warmUp } from '../warm-up.ts';

const IN_FLIGHT = 1_000;
const TURNS_EACH = 3;
/** Three windows give a median. */
const WINDOWS = 3;
const WINDOW_MS: Readonly<Record<RunContext['scale'], number>> = { quick: 1_000, full: 10_000, long: 10_000 };
/** Time between probes, long enough that the probes are no load. */
const PROBE_INTERVAL_MS = 20;
/** Every fourth probe is a steer. */
const STEER_EVERY = 4;
const QUIET_PROBES = 200;

const PROVIDER = { value: provider, url: workerUrl('../latency/probe-model', import.meta.url) };
const TOOLS = { value: [add, stamp], url: workerUrl('../latency/probe-tools', import.meta.url) };

/** Rows `full drain` and `quiet`. */
export function measureLatency(context: RunContext): Promise<readonly Row[]> {
  const options = { isolation: isolationOf(context), provider: PROVIDER, tools: TOOLS };
  return withTroupe(options, async (system) => {
    await warmUp(context, system);
    const repetitions: Figures[] = [];
    for (const window of numbers(WINDOWS)) {
      repetitions.push(await drainWindow(system, WINDOW_MS[context.scale], `w${window}-`));
    }
    const quiet = await probing(system, async (probes) => {
      for (const probe of numbers(QUIET_PROBES)) await (probe % STEER_EVERY === 0 ? probes.steer() : probes.send());
    });
    return [
      { variant: 'full drain', repetitions },
      { variant: 'quiet', repetitions: [quiet] },
    ];
  });
}

async function drainWindow(system: TroupeSystem, windowMs: number, label: string): Promise<Figures> {
  const turns: number[] = [];
  const endsAt = performance.now() + windowMs;
  return {
    ...(await probing(system, async (probes) => {
      const load = keepBusy(system, { turns, endsAt, label });
      const sent = sendProbes(probes, endsAt);
      await Promise.all([load, sent]);
    })),
    ...latencies(turns),
    rate: (turns.length * HALF_STEPS_A_TURN * 1_000) / windowMs,
  };
}

async function keepBusy(
  system: TroupeSystem,
  { turns, endsAt, label }: { readonly turns: number[]; readonly endsAt: number; readonly label: string },
): Promise<void> {
  let next = 0;
  await Promise.all(
    numbers(IN_FLIGHT).map(async () => {
      while (performance.now() < endsAt) {
        next += 1;
        const session = `${label}${next}`;
        for (let turn = 0; turn < TURNS_EACH; turn += 1) {
          const took = await timedTurn(system, session, { a: next, b: turn });
          if (performance.now() < endsAt) turns.push(took);
        }
      }
    }),
  );
}

async function sendProbes(probes: Probes, endsAt: number): Promise<void> {
  const running: Promise<void>[] = [];
  while (performance.now() < endsAt) {
    running.push(running.length % STEER_EVERY === 0 ? probes.steer() : probes.send());
    await delay(PROBE_INTERVAL_MS);
  }
  await Promise.all(running);
}

/** Runs `work` and measures its probes, the host's event loop and the flushes meanwhile. */
async function probing(system: TroupeSystem, work: (probes: Probes) => Promise<void>): Promise<Figures> {
  const probes = new Probes(system.runtime);
  try {
    const before = system.runtime.metrics().flushes;
    const startedAt = performance.now();
    const { figures } = await costOf(() => work(probes));
    const flushes = system.runtime.metrics().flushes - before;
    return { ...figures, flushMs: (performance.now() - startedAt) / flushes, ...probeFigures(probes.times) };
  } finally {
    probes.close();
  }
}

function probeFigures({ receipt, call, steer, missed }: ProbeTimes): Figures {
  if (receipt.length === 0 || steer.length === 0) throw new Error('no probe came back');
  const [receipts, calls, steers] = [latencies(receipt), latencies(call), latencies(steer)];
  return {
    receiptP50: receipts.p50,
    receiptP99: receipts.p99,
    callP50: calls.p50,
    callP99: calls.p99,
    steerP50: steers.p50,
    steerP99: steers.p99,
    steers: steer.length,
    steersMissed: missed,
  };
}
