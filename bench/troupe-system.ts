/** troupe itself: inline (one thread, everything by value) or isolated (the defaults). */
import { agent, open, type Runtime } from '../src/index.ts';
import { workerUrl } from '../src/threads/worker-url.ts';
import provider from './model.ts';
import { type DrainSystem, textOf } from './system.ts';
import { add } from './tools.ts';

/** How threads are used. */
export type Isolation = 'inline' | 'isolated';

/** What a run may change. */
export interface TroupeOptions {
  readonly isolation: Isolation;
  /** Tokens of the conversation a model is shown; missing: the default. */
  readonly tokenBudget?: number;
}

/** A runtime as a drain system. */
export interface TroupeSystem extends DrainSystem {
  readonly runtime: Runtime;
}

/** Opens a runtime in a new directory, `durability: 'flush'`. */
export async function openTroupe(directory: string, options: TroupeOptions): Promise<TroupeSystem> {
  const isInline = options.isolation === 'inline';
  const runtime = await open(directory, {
    durability: 'flush',
    provider: isInline ? provider : workerUrl('./model', import.meta.url),
    agents: [
      agent({
        name: 'adder',
        model: 'claude-opus-4-6',
        tools: [isInline ? add : workerUrl('./tools', import.meta.url)],
        ...(options.tokenBudget === undefined ? {} : { tokenBudget: options.tokenBudget }),
      }),
    ],
    ...(isInline ? { threads: { sessions: 0, models: 0 } } : {}),
  });
  return {
    runtime,
    turn: (session, question) => runtime.session(session).ask(textOf(question)),
    async family(parent, questions) {
      const session = runtime.session(parent);
      const children = await session.spawnAll(questions.map((question) => ({ task: textOf(question) })));
      await children.all();
      // Until the parent has read what it was told.
      await runtime.drain();
    },
    async told(parent) {
      const told: string[] = [];
      for (const message of await runtime.session(parent).messages()) {
        if (message.type === 'tool_response' && message.source?.type === 'subagent') told.push(String(message.content));
      }
      return told;
    },
    messages: async (session) => (await runtime.session(session).messages()).length,
    close: () => runtime.close(),
  };
}
