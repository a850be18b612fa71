/** The tools of a story. They take time, take effect at a known moment, and record both in the ledger. */
import { type Ledger, sessionOfKey, type ToolStart, type ToolStory } from '../../src/testing/simulation/ledger.ts';
import { resultOf } from '../../src/testing/simulation/simulated-tools.ts';
import type { SimulatedProcess, World } from '../../src/testing/simulation/world.ts';
import type { AnyTool, Effect } from '../../src/tools/tool.ts';

/** The parts that a story's tools need. */
export interface StoryToolParts {
  readonly world: World;
  readonly ledger: Ledger;
  readonly toolStart: (session: string, process: SimulatedProcess) => ToolStart;
  readonly trace: (text: string) => void;
  /** Runs that began in any life and have not ended in it. */
  readonly running: Set<string>;
}

interface ToolPlan {
  readonly name: string;
  readonly effect: Effect;
  /** Virtual ms before and after its effect on the world. */
  readonly beforeMs: number;
  readonly afterMs: number;
  readonly end?: 'failure' | 'throw';
}

const PLANS: readonly ToolPlan[] = [
  { name: 'look', effect: 'pure', beforeMs: 300, afterMs: 300 },
  { name: 'save', effect: 'keyed', beforeMs: 300, afterMs: 300 },
  { name: 'fire', effect: 'once', beforeMs: 300, afterMs: 300 },
  { name: 'early', effect: 'probe', beforeMs: 0, afterMs: 600 },
  { name: 'late', effect: 'probe', beforeMs: 600, afterMs: 0 },
  { name: 'refuse', effect: 'pure', beforeMs: 100, afterMs: 100, end: 'failure' },
  { name: 'break', effect: 'pure', beforeMs: 100, afterMs: 100, end: 'throw' },
  { name: 'long', effect: 'pure', beforeMs: 5_000, afterMs: 5_000 },
];

/**
 * The tools of a process, named by their effect: `look`, `save`, `fire`, `early`, `late`; and `refuse`, `break`,
 * `long`.
 */
export function storyTools(parts: StoryToolParts, process: SimulatedProcess): readonly AnyTool[] {
  return PLANS.map((plan) => ({
    name: plan.name,
    description: `Acts, ${plan.effect}.`,
    input: { type: 'object', properties: { n: { type: 'number' } } },
    effect: plan.effect,
    timeoutMs: 60_000,
    run: (_input: unknown, { key, signal }: { readonly key: string; readonly signal: AbortSignal }) =>
      run(parts, process, plan, key, signal),
    ...(plan.effect === 'probe' ? { probe: ({ key }: { readonly key: string }) => probe(parts, plan, key) } : {}),
  }));
}

function probe({ ledger, trace }: StoryToolParts, { name }: ToolPlan, key: string): unknown {
  const effects = ledger.tools.get(key)?.effects ?? 0;
  trace(`probe of ${name} for ${key}: ${effects}`);
  return effects === 0 ? undefined : resultOf(name, key);
}

async function run(
  parts: StoryToolParts,
  process: SimulatedProcess,
  plan: ToolPlan,
  key: string,
  signal: AbortSignal,
): Promise<unknown> {
  const { ledger, world, toolStart, trace, running } = parts;
  const { name, effect, beforeMs, afterMs, end } = plan;
  if (!process.isAlive) return new Promise(() => undefined);
  const story: ToolStory = ledger.tools.get(key) ?? { tool: name, effect, starts: [], effects: 0 };
  ledger.tools.set(key, story);
  ledger.toolStarted(key, story, toolStart(sessionOfKey(key), process));
  trace(`tool ${name} starts for ${key}`);
  running.add(name);
  process.onDeath(() => running.delete(name));
  signal.addEventListener('abort', () => running.delete(name));
  await world.sleep(process, beforeMs);
  // A cancelled run has no further effect.
  if (signal.aborted) throw signal.reason;
  story.effects += 1;
  trace(`tool ${name} took effect for ${key}`);
  await world.sleep(process, afterMs);
  running.delete(name);
  if (end === 'failure') return { error: 'it did not work' };
  if (end === 'throw') throw new RangeError('it broke');
  story.result = resultOf(name, key);
  return story.result;
}
