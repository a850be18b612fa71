/**
 * Services of the host thread for its shards: runs the tools, the providers and the system functions that are values.
 */

import type { Clock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { asError, CancelledError, ConfigError, describeValue } from '../../base/errors.ts';
import type { Lane } from '../../base/lane.ts';
import { checkDelta } from '../../models/delta-check.ts';
import { callOwnProvider } from '../../models/own-provider.ts';
import type { ModelProvider } from '../../models/provider.ts';
import { readUsage } from '../../models/usage.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import { createHostRunner, type HostRunner, type HostWork, type McpToolOf } from '../../tools/host-tools.ts';
import type { AnyTool } from '../../tools/tool.ts';
import type { ToolWatch } from '../../tools/tool-watch.ts';
import type { SystemFunction } from '../protocol/agent.ts';
import { decideOnHost, type HostDecisions } from '../protocol/host-decisions.ts';
import type { HostCaller, HostMethods, HostModelCall } from '../protocol/host-methods.ts';
import type { RedactFunction } from '../protocol/redact-option.ts';
import { callUpgrade, type UpgradeFunction } from '../protocol/upgrade.ts';
import { type EnricherLibrary, lookUp } from './enricher-lookup.ts';

/** The values that an embedder gave. Values of an agent are found by the key of its definition (`agentKey`). */
export interface HostValues {
  /** The function of the option `redact`; missing: none was given as a value. Used if the shard runs on this thread. */
  readonly redact?: RedactFunction;
  /** Providers by key. */
  readonly providers: ReadonlyMap<string, ModelProvider>;
  /** Tools by agent and name. */
  readonly tools: ReadonlyMap<string, ReadonlyMap<string, AnyTool>>;
  /** Makes a tool that calls a tool of an MCP server; missing: there are no servers. */
  readonly mcpTool?: McpToolOf;
  /** Reports tools that hold the host thread; missing: they are not reported. */
  readonly toolWatch?: ToolWatch;
  readonly systems: ReadonlyMap<string, SystemFunction>;
  /** The `upgrade` functions; missing: there are none. */
  readonly upgrades?: ReadonlyMap<string, UpgradeFunction>;
  /** Listeners that runs wait for, guardrails, approval predicates. */
  readonly decisions?: HostDecisions;
  /** The sources that enrichers look up; missing: there are none. */
  readonly enricherLibrary?: EnricherLibrary;
  /** Removes messages of deleted sessions from the files of the search index; missing: there is no index. */
  readonly eraseIndex?: (sessions: readonly string[]) => Promise<void>;
  /** Lets one shard at a time compact its store; missing: there is only one shard. */
  readonly compactions?: Lane;
}

/** The services of one shard. A shard on this thread calls `ask` directly. */
export interface HostServer extends HostCaller {
  /** The tools given as values. */
  readonly runner: HostRunner;
  /** Called when the shard is gone: aborts every call that runs for it. */
  abandon(): void;
}

/** Parts for calling an embedder's values. */
export interface HostServerOptions {
  readonly clock: Clock;
  /** Tools of the same shard that still run, taken over from the previous services; missing: none. */
  readonly work?: HostWork;
}

/**
 * Answers the requests of one shard on `endpoint` (`HostMethods`), and runs its tools. Runs on the host thread; every
 * failure is a rejection or an outcome.
 */
export function serveHost(endpoint: Endpoint, values: HostValues, options: HostServerOptions): HostServer {
  const { clock, work } = options;
  const runner = createHostRunner({
    find: (agent, name) => values.tools.get(agent)?.get(name),
    progress: (id, data) => endpoint.notify('tool.progress', { id, data }),
    clock,
    ...defined({ work, mcpTool: values.mcpTool, watch: values.toolWatch }),
  });
  const calls = new Map<number, AbortController>();
  const compactions = new CompactionTurn(values.compactions);
  const methods: HostHandlers = {
    'host.generate': async ({ id, provider: key, session, request }) => {
      const provider = values.providers.get(key);
      if (provider === undefined) throw new ConfigError(`no provider was given by value as ${JSON.stringify(key)}`);
      const controller = new AbortController();
      const { signal } = controller;
      calls.set(id, controller);
      let fail: (error: Error) => void = () => undefined;
      const malformed = new Promise<never>((_resolve, reject) => {
        fail = reject;
      });
      // Answer and deltas are checked before they are cloned. A value that a clone would shorten or refuse is invalid
      // (F56).
      const onDelta = (given: unknown): void => {
        if (signal.aborted) return;
        const delta = checkDelta(given);
        if (!(delta instanceof Error)) return endpoint.notify('model.delta', { id, delta });
        fail(delta);
        controller.abort(delta);
      };
      const onUsage = (usage: unknown): void => {
        if (!signal.aborted) endpoint.notify('model.usage', { id, usage: readUsage(usage) });
      };
      const context = { signal, session, onDelta, onUsage };
      try {
        return await Promise.race([callOwnProvider(provider, request, context), malformed]);
      } finally {
        calls.delete(id);
      }
    },
    'host.evaluateSystem': ({ agent, session }) => evaluateSystem(values, agent, session),
    'host.consult': (question) => decideOnHost(values.decisions ?? {}, question),
    'host.upgrade': (question) => callUpgrade(values.upgrades ?? NO_UPGRADES, question),
    'host.lookUp': (question) => lookUp(values.enricherLibrary, question),
    'host.eraseIndex': async ({ sessions }) => {
      await values.eraseIndex?.(sessions);
      return null;
    },
    'host.beginCompaction': async () => {
      await compactions.begin();
      return null;
    },
    'host.endCompaction': async () => {
      compactions.end();
      return null;
    },
  };
  for (const [method, handler] of Object.entries(methods))
    endpoint.handle(method, handler as (payload: unknown) => unknown);
  endpoint.handle('host.abortModel', (note) => {
    const { id } = note as Pick<HostModelCall, 'id'>;
    calls.get(id)?.abort(new CancelledError('the model call was cancelled'));
  });
  return {
    runner,
    // An embedder's functions get their own copy of the messages, as they would across a thread boundary.
    ask: (method, request) => methods[method](COPIED.has(method) ? structuredClone(request) : request),
    abandon() {
      runner.abortAll('The session thread is gone');
      compactions.abandon();
      for (const controller of calls.values()) controller.abort(new CancelledError('the session thread is gone'));
    },
  };
}

/** A shard's permission to compact its store. One shard of a runtime has the permission at a time. */
class CompactionTurn {
  readonly #lane: Lane | undefined;
  #isGone = false;
  #end: (() => void) | undefined;

  constructor(lane: Lane | undefined) {
    this.#lane = lane;
  }

  /** Resolves when the shard may compact. Called once before each `end`. */
  async begin(): Promise<void> {
    const lane = this.#lane;
    if (lane === undefined) return;
    await new Promise<void>((resolve) => {
      void lane.run(async () => {
        if (this.#isGone) return;
        resolve();
        await new Promise<void>((end) => {
          this.#end = end;
        });
      });
    });
  }

  end(): void {
    this.#end?.();
    this.#end = undefined;
  }

  /** Called when the shard is gone: it gives the permission back, or never gets it. */
  abandon(): void {
    this.#isGone = true;
    this.end();
  }
}

const NO_UPGRADES: ReadonlyMap<string, UpgradeFunction> = new Map();
/** Requests with messages of a session. */
const COPIED: ReadonlySet<keyof HostMethods> = new Set(['host.consult', 'host.upgrade']);

type HostHandlers = {
  readonly [M in keyof HostMethods]: (request: HostMethods[M]['request']) => Promise<HostMethods[M]['answer']>;
};

async function evaluateSystem({ systems }: HostValues, agent: string, session: string): Promise<string> {
  const system = systems.get(agent);
  if (system === undefined) throw new ConfigError(`agent ${JSON.stringify(agent)} has no system function`);
  let text: unknown;
  try {
    text = await system({ session });
  } catch (error) {
    const { message } = asError(error);
    throw new ConfigError(`the system function of agent ${JSON.stringify(agent)} threw: ${message}`, { cause: error });
  }
  if (typeof text !== 'string') {
    throw new ConfigError(
      `the system function of agent ${JSON.stringify(agent)} must return a string, got ${describeValue(text)}`,
    );
  }
  return text;
}
