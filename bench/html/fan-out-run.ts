/** Runs one small fan-out on a runtime with the defaults. Its times come from the events of the runtime. */
import { agent, open, type Runtime, type SessionEvent } from '../../src/index.ts';
import { workerUrl } from '../../src/threads/worker-url.ts';
import { numbers } from '../report/figures.ts';
import { withDirectory } from '../systems/open-system.ts';
import { answerOf, textOf } from '../systems/system.ts';
import { MODEL_MS, TOOL_MS } from './fan-out-latency.ts';
import type { FanOutResult, FanOutSpan } from './fan-out-result.ts';

const CHILDREN = 50;
/** Fewer than the children, so that the drawing shows the queue. */
const LIVE_SESSIONS = 16;
/** Enough that no call waits for a thread, so the drawing shows the time of the tool itself. */
const TOOL_THREADS = LIVE_SESSIONS;
const PARENT = 'parent';
const WARM = 'warm-up';

/** Runs the fan-out, in about a second and a half. Rejects if an answer is wrong or an event was missed. */
export function runFanOut(): Promise<FanOutResult> {
  return withDirectory(async (directory) => {
    const runtime = await open(directory, {
      provider: workerUrl('./fan-out-model', import.meta.url),
      agents: [
        agent({
          name: 'adder',
          tools: [workerUrl('./fan-out-tools', import.meta.url)],
          subagents: { maxActive: CHILDREN },
        }),
      ],
      limits: { liveSessions: LIVE_SESSIONS },
      threads: { tools: TOOL_THREADS },
    });
    const seen: SessionEvent[] = [];
    const watching = new AbortController();
    const watched = (async () => {
      for await (const event of runtime.events({ signal: watching.signal })) seen.push(event);
    })();
    try {
      // A first run before the drawn one starts the threads and loads the code.
      await askFamily(runtime, WARM, TOOL_THREADS);
      await askFamily(runtime, PARENT, CHILDREN);
    } finally {
      await runtime.close();
      watching.abort();
    }
    await watched;
    return {
      children: CHILDREN,
      liveSessions: LIVE_SESSIONS,
      modelMs: MODEL_MS,
      toolMs: TOOL_MS,
      spans: spansOf(seen),
    };
  });
}

async function askFamily(runtime: Runtime, parent: string, count: number): Promise<void> {
  const questions = numbers(count).map((index) => ({ a: index, b: count }));
  const family = await runtime.session(parent).spawnAll(questions.map((question) => ({ task: textOf(question) })));
  const results = await family.all();
  for (const [index, question] of questions.entries()) {
    const reply = results[index]?.reply;
    if (reply !== answerOf(question)) throw new Error(`child ${index + 1} said ${JSON.stringify(reply)}`);
  }
  await runtime.drain();
}

/**
 * Computes the states of the children from all events of a fan-out. Throws for a gap, since a drawing must not guess.
 */
export function spansOf(events: readonly SessionEvent[]): readonly FanOutSpan[] {
  const own = events.filter(({ session }) => session === PARENT || session.startsWith(`${PARENT}:`));
  if (events.some(({ type }) => type === 'gap')) throw new Error('events of the fan-out were missed');
  const startedAt = Math.min(...own.map(({ at }) => at));
  const doing = new Map<string, { readonly state: FanOutSpan['state']; readonly at: number }>();
  const spans: FanOutSpan[] = [];
  const change = (id: string, at: number, state: FanOutSpan['state'] | undefined): void => {
    const before = doing.get(id);
    if (before?.state === state) return;
    if (before !== undefined && at > before.at) {
      const child = Number(id.slice(PARENT.length + 1));
      spans.push({ child, state: before.state, fromMs: before.at - startedAt, toMs: at - startedAt });
    }
    if (state === undefined) doing.delete(id);
    else doing.set(id, { state, at });
  };
  for (const event of own) {
    if (event.type === 'child.spawned' && !doing.has(event.child)) change(event.child, event.at, 'queued');
    if (event.type === 'session.state' && event.session !== PARENT) {
      change(event.session, event.at, STATES[event.state]);
    }
  }
  return spans;
}

const STATES = { awaiting: 'model', executing: 'tool', idle: undefined } as const;
