/**
 * How victims end, drawn at random. Most are killed at work, some while they open, recover or close. Some are ordered
 * to stop, once or twice. A few are stopped and continued; some end by themselves.
 */
import type { Assault } from './life.ts';

/** The end of one life. */
export interface Fate {
  readonly assault?: Assault;
  /** The victim's plan makes it close this many ms after it is open. */
  readonly closeAfterMs?: number;
  /** The victim has short timeouts and is stopped for longer than these. */
  readonly isStopped?: true;
  /** The victim sends to very many sessions. */
  readonly isFlood?: true;
  /** The victim only compacts the files. */
  readonly isCompaction?: true;
  /** The victim makes and deletes sessions with large images. */
  readonly hasBallast?: true;
}

/** Timeouts of a life that is stopped. */
export const SHORT_TIMEOUTS: { readonly toolMs: number; readonly modelMs: number } = { toolMs: 300, modelMs: 500 };
/** Share of the kills aimed at recovery. It is above the required share, since not every such kill hits a recovery. */
const RECOVERY_SHARE = 0.3;

/** The facts known when the end of a life is drawn. */
export interface FateOdds {
  readonly random: () => number;
  /** How long lives of this kind take to open, ms. */
  readonly openMs: number;
  /** How long a compaction takes, ms. */
  readonly compactMs: number;
  readonly kills: number;
  readonly killsInRecovery: number;
  /** False before the first life has made the store. */
  readonly hasStore: boolean;
  /** Sessions that a crash interrupted at work. */
  readonly interrupted: number;
}

/** The end of the next life. */
export function drawFate(odds: FateOdds): Fate {
  const { random } = odds;
  const lags = odds.interrupted > 0 && odds.killsInRecovery < RECOVERY_SHARE * odds.kills;
  if (lags && random() < 0.8) return killInRecovery(odds);
  const special = random();
  if (special < 0.08 && odds.hasStore) return inCompaction(odds);
  if (special < 0.12) return afterBallast(random);
  if (special < 0.2)
    return { assault: { after: 'deleted', times: 1 + Math.floor(random() * 4), steps: [kill(random() * 120)] } };
  // Long enough for a search for old history, and for the erasure of what it finds.
  if (special < 0.28) return { assault: { after: 'opened', times: 1, steps: [kill(250 + random() * 600)] } };
  const chance = random();
  if (chance < 0.15) return killInRecovery(odds);
  if (chance < 0.3) return { assault: { after: 'recovered', times: 1, steps: [kill(random() * 60)] } };
  if (chance < 0.7) return { assault: killAtWork(random) };
  if (chance < 0.73)
    return { isFlood: true, assault: { ...killAtWork(random), times: 1 + Math.floor(random() * 330) } };
  // Long enough for a timed checkpoint, or for a draft.
  if (chance < 0.74) return { assault: { after: 'opened', times: 1, steps: [kill(1_000 + random() * 500)] } };
  if (chance < 0.75) return { assault: { after: 'opened', times: 1, steps: [kill(2_100 + random() * 700)] } };
  if (chance < 0.8) {
    const closeAfterMs = random() * 60;
    return { closeAfterMs, assault: { after: 'closing', times: 1, steps: [kill(random() * 30)] } };
  }
  if (chance < 0.84) return { closeAfterMs: random() * 60 };
  if (chance < 0.93) return { assault: { ...killAtWork(random), steps: [term(random() * 40)] } };
  if (chance < 0.98) return { assault: { ...killAtWork(random), steps: [term(random() * 40), term(random() * 12)] } };
  return stopped(random);
}

/** Killed while it copies, or at the end: the copy takes most of the time. */
function inCompaction({ random, compactMs }: FateOdds): Fate {
  if (random() < 0.2) return { isCompaction: true };
  return {
    isCompaction: true,
    assault: { after: 'compacting', times: 1, steps: [kill(random() * 1.1 * compactMs)] },
  };
}

/** Killed while it erases the ballast, or afterwards: then the next open compacts the files. */
function afterBallast(random: () => number): Fate {
  const after = random() < 0.3 ? 'deleted' : 'erased';
  return { hasBallast: true, assault: { after, times: 1, steps: [kill(random() * 100)] } };
}

function killInRecovery({ random, openMs }: FateOdds): Fate {
  if (random() < 0.4) return { assault: { after: 'opened', times: 1, steps: [kill(random() * 4)] } };
  return { assault: { after: 'opening', times: 1, steps: [kill((0.3 + random() * 0.9) * openMs)] } };
}

/** Counts acknowledgements, so that a kill comes after as much work on a slow machine as on a fast one. */
function killAtWork(random: () => number): Assault {
  return { after: 'acknowledged', times: 1 + Math.floor(random() * 30), steps: [kill(random() * 40)] };
}

/**
 * The victim is stopped for up to three times its timeouts, continued, and killed while the timed-out calls are made
 * again.
 */
function stopped(random: () => number): Fate {
  const stopMs = SHORT_TIMEOUTS.modelMs * (1.2 + random() * 1.8);
  const steps = [
    { signal: 'SIGSTOP', delayMs: random() * 40 },
    { signal: 'SIGCONT', delayMs: stopMs },
    kill(random() * 1_500),
  ] as const;
  return { isStopped: true, assault: { ...killAtWork(random), steps } };
}

function kill(delayMs: number): Assault['steps'][number] {
  return { signal: 'SIGKILL', delayMs };
}

function term(delayMs: number): Assault['steps'][number] {
  return { signal: 'SIGTERM', delayMs };
}
