/**
 * W12: sessions ask without end, through the official SDK over loopback HTTP. The server refuses a share of the calls
 * with 529 and 429 in turn, without `retry-after`. Half-steps are counted within a span: the time to drain a batch
 * would be the wait of its unluckiest session, since the contract waits 1, 16, 81 and 256 seconds between attempts.
 *
 * If a fifth of the calls is refused, each half-step waits 1.9 seconds on average, whatever the governor does. With 300
 * sessions these waits alone allow only 150 half-steps a second. So this share is measured with enough sessions to keep
 * the processor busy.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { anthropic } from '../../src/index.ts';
import type { RunContext } from '../names.ts';
import type { Figures, Row } from '../report/figures.ts';
import { startStage } from '../stage.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN } from '../systems/system.ts';
import type { TroupeSystem } from '../systems/troupe-system.ts';
import { askWithoutEnd } from './endless-turns.ts';

interface Variant {
  readonly name: string;
  readonly share: number;
  readonly sessions: number;
  /** Seconds until the waits overlap; half-steps are counted after them. */
  readonly before: number;
  readonly counted: number;
}

const FEW = { sessions: 300, before: 5, counted: 15 };
const MANY = { sessions: 6_000, before: 25, counted: 20 };
const QUICK = { before: 2, counted: 5 };

const VARIANTS: readonly Variant[] = [
  { name: '300 sessions, none refused', share: 0, ...FEW },
  { name: '300 sessions, 1 % refused', share: 0.01, ...FEW },
  { name: '6,000 sessions, none refused', share: 0, ...MANY },
  { name: '6,000 sessions, 20 % refused', share: 0.2, ...MANY },
];

/** W12. */
export async function measureRefusals(context: RunContext): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const variant of VARIANTS) {
    const size = context.scale === 'quick' ? { ...variant, ...QUICK } : variant;
    rows.push({ variant: variant.name, repetitions: [await measureVariant(context, size)] });
  }
  return rows;
}

async function measureVariant(context: RunContext, variant: Variant): Promise<Figures> {
  const server = startStage('./systems/fake-server', [String(variant.share), String(context.seed)]);
  try {
    const baseURL = `http://127.0.0.1:${Number(await server.line())}`;
    const provider = anthropic({ apiKey: 'bench', baseURL, listModels: false });
    return await withTroupe({ isolation: isolationOf(context), provider }, (system) => count(system, variant));
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

async function count(system: TroupeSystem, { sessions, before, counted }: Variant): Promise<Figures> {
  const turns = askWithoutEnd(system, sessions);
  await delay(before * 1_000);
  const [turnsBefore, startedAt] = [turns.ended, performance.now()];
  await delay(counted * 1_000);
  const wallMs = performance.now() - startedAt;
  const counting = turns.ended - turnsBefore;
  turns.stop();
  return { rate: ((counting * HALF_STEPS_A_TURN) / wallMs) * 1_000, wallMs, turns: counting };
}
