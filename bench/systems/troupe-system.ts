/** troupe itself, either inline (one thread, everything by value) or isolated (the defaults). */

import { LIMIT_DEFAULTS } from '../../src/base/bounds.ts';
import { add } from '../../src/cli/bench/tools.ts';
import {
  agent,
  type ModelProvider,
  type OpenOptions,
  open,
  type ProviderData,
  type Runtime,
  type Tool,
} from '../../src/index.ts';
import type { ClusterPlan } from '../../src/postgres/index.ts';
import { workerUrl } from '../../src/threads/worker-url.ts';
import provider from './model.ts';
import { type DrainSystem, textOf } from './system.ts';

/** The use of threads. */
export type Isolation = 'inline' | 'isolated';

/**
 * A module's default export as a value, which runs on this thread, and the module's address, which another thread
 * loads.
 */
export interface Loadable<T> {
  readonly value: T;
  readonly url: URL;
}

/** The options of a run. */
export interface TroupeOptions {
  readonly isolation: Isolation;
  /** Tokens of the conversation that a model is shown; if missing, the default. */
  readonly tokenBudget?: number;
  /** If missing, the model of the benchmarks. */
  readonly provider?: Loadable<ModelProvider> | ProviderData;
  /** If missing, `add`. */
  readonly tools?: Loadable<readonly Tool<Readonly<Record<string, unknown>>>[]>;
  /** Session threads of `isolated`; if missing, one, the default. */
  readonly sessionThreads?: number;
  /** True to take the directory over from the process that has it open. */
  readonly takesOver?: boolean;
  /** If missing, the default of `store.eraseWithinMs`. */
  readonly eraseWithinMs?: number;
  /** If missing, the log is on this machine. */
  readonly cluster?: ClusterPlan;
}

/** A runtime as a measured system. */
export interface TroupeSystem extends DrainSystem {
  readonly runtime: Runtime;
}

/** The tool of `troupe bench`, so that both measure the same work. */
const TOOLS = { value: [add], url: workerUrl('../../src/cli/bench/tools', import.meta.url) };
const MODEL: Loadable<ModelProvider> = { value: provider, url: workerUrl('./model', import.meta.url) };

/** Opens a runtime in a new directory, `durability: 'flush'`. */
export async function openTroupe(directory: string, options: TroupeOptions): Promise<TroupeSystem> {
  const runtime = await open(directory, troupeOptions(options));
  return {
    runtime,
    turn: (session, question) => runtime.session(session).ask(textOf(question)),
    async family(parent, questions) {
      const session = runtime.session(parent);
      const children = await session.spawnAll(questions.map((question) => ({ task: textOf(question) })));
      await children.all();
      // Waits until the parent has read its replies.
      await runtime.drain();
    },
    async replies(parent) {
      const replies: string[] = [];
      for (const message of await runtime.session(parent).messages()) {
        if (message.type === 'tool_response' && message.source?.type === 'subagent')
          replies.push(String(message.content));
      }
      return replies;
    },
    messages: async (session) => (await runtime.session(session).messages()).length,
    close: () => runtime.close(),
  };
}

/** The options of `open`. `makeAgent`: `agent` of the package whose `open` takes them. */
export function troupeOptions(options: TroupeOptions, makeAgent: typeof agent = agent): OpenOptions {
  const isInline = options.isolation === 'inline';
  const {
    provider: model = MODEL,
    tools = TOOLS,
    tokenBudget,
    sessionThreads,
    takesOver,
    eraseWithinMs,
    cluster,
  } = options;
  return {
    durability: 'flush',
    ...(takesOver === true ? { takeover: true } : {}),
    ...(eraseWithinMs === undefined ? {} : { store: { eraseWithinMs } }),
    ...(cluster === undefined ? {} : { cluster }),
    provider: 'kind' in model ? model : isInline ? model.value : model.url,
    agents: [
      makeAgent({
        name: 'adder',
        model: 'claude-opus-4-6',
        tools: isInline ? tools.value : [tools.url],
        // The systems beside it have no such bound.
        subagents: { maxActive: LIMIT_DEFAULTS.children },
        ...(tokenBudget === undefined ? {} : { tokenBudget }),
      }),
    ],
    ...(isInline ? { threads: { sessions: 0, models: 0 } } : {}),
    ...(isInline || sessionThreads === undefined ? {} : { threads: { sessions: sessionThreads } }),
  };
}
