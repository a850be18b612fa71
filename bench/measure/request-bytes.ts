/**
 * `request-bytes`: the bytes that a half-step sends, by the length of its conversation, with message threads and
 * without. Over the real client, against the strict fake in this process: the bytes do not depend on the machine. The
 * time contains the fake's own, which checks the whole conversation either way.
 */
import { agent, anthropic, open } from '../../src/index.ts';
import { strictFake } from '../../src/testing/index.ts';
import type { RunContext } from '../names.ts';
import { type Figures, latencies, numbers, type Row } from '../report/figures.ts';
import { isolationOf, withDirectory } from '../systems/open-system.ts';

const LENGTHS: Readonly<Record<RunContext['scale'], readonly number[]>> = {
  quick: [50, 500],
  full: [50, 500, 5_000],
  long: [5_000],
};
const TURNS = 10;
/** About 200 bytes. */
const FILLER = 'a conversation that is long '.repeat(7);
/** Above the longest conversation, so that no message leaves the window. */
const TOKEN_BUDGET = 900_000;
const SYSTEM = 'Answer in one word. '.repeat(100);

/** Rows `<n> messages` and `<n> messages, threads`. */
export async function measureRequestBytes(context: RunContext): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const length of LENGTHS[context.scale]) {
    for (const threads of [false, true]) {
      const variant = `${length} messages${threads ? ', threads' : ''}`;
      rows.push({ variant, repetitions: [await measure(context, length, threads)] });
    }
  }
  return rows;
}

function measure(context: RunContext, length: number, threads: boolean): Promise<Figures> {
  return withDirectory(async (directory) => {
    const fake = await strictFake({ script: () => 'fine' });
    const runtime = await open(directory, {
      provider: anthropic({ apiKey: 'bench', baseURL: fake.url, listModels: false }),
      agents: [agent({ name: 'a', model: 'claude-opus-5-5', system: SYSTEM, tokenBudget: TOKEN_BUDGET })],
      settings: { llm: { threads } },
      ...(isolationOf(context) === 'inline' ? { threads: { sessions: 0, models: 0 } } : {}),
    });
    try {
      const session = runtime.session('s');
      await session.history.seed(
        numbers(length).map((index) => ({
          role: index % 2 === 0 ? 'user' : 'assistant',
          content: `${index} ${FILLER}`,
        })),
      );
      // The first request is whole either way.
      await session.ask('begin');
      const before = runtime.metrics();
      const times: number[] = [];
      for (const turn of numbers(TURNS)) {
        const start = performance.now();
        await session.ask(`turn ${turn}`);
        times.push(performance.now() - start);
      }
      const after = runtime.metrics();
      const halfSteps = after.halfSteps - before.halfSteps;
      if (halfSteps !== TURNS) throw new Error(`${halfSteps} half-steps in ${TURNS} turns`);
      const continued = after.threadsContinued - before.threadsContinued;
      if (continued !== (threads ? TURNS : 0)) throw new Error(`${continued} of ${TURNS} requests continued a thread`);
      return { bytes: (after.requestBytes - before.requestBytes) / halfSteps, ...latencies(times) };
    } finally {
      await runtime.close();
      await fake.close();
    }
  });
}
