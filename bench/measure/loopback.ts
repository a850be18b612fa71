/**
 * W5 and W5s: 300 sessions, 3 turns each, through the official SDK over loopback HTTP, the server in another process.
 */
import { anthropic } from '../../src/index.ts';
import type { RunContext } from '../names.ts';
import type { Row } from '../report/figures.ts';
import { type Measurement, manySessions, type Repetition } from '../shared-work.ts';
import { startStage } from '../stage.ts';
import { isolationOf, withTroupe } from '../systems/open-system.ts';
import { openSdkLoop } from '../systems/sdk-system.ts';
import type { DrainSystem } from '../systems/system.ts';
import { warmUp } from '../warm-up.ts';
import { repeat, repeatCold } from './repeat.ts';

const SIZE = { sessions: 300, turnsEach: 3 };
const QUICK = { sessions: 60, turnsEach: 3 };
const REPETITIONS = 3;

/** W5. */
export function measurePlain(context: RunContext): Promise<readonly Row[]> {
  return measureLoopback(context, false);
}

/** W5s. troupe always asks for a stream; only the SDK loop differs. */
export function measureStreamed(context: RunContext): Promise<readonly Row[]> {
  return measureLoopback(context, true);
}

async function measureLoopback(context: RunContext, isStreamed: boolean): Promise<readonly Row[]> {
  const server = startStage('./systems/fake-server', []);
  try {
    const baseURL = `http://127.0.0.1:${Number(await server.line())}`;
    if (context.system === 'sdk') return await drain(context, openSdkLoop(baseURL, isStreamed));
    const provider = anthropic({ apiKey: 'bench', baseURL, listModels: false });
    return await withTroupe({ isolation: isolationOf(context), provider }, (system) => drain(context, system));
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

async function drain(context: RunContext, system: DrainSystem): Promise<readonly Row[]> {
  const size = context.scale === 'quick' ? QUICK : SIZE;
  const once = (repetition: Repetition): Promise<Measurement> => manySessions(system, size, repetition);
  const cold = await repeatCold(context, once);
  await warmUp(context, system, { pass: size });
  return [{ variant: '', cold, repetitions: await repeat(REPETITIONS, once) }];
}
