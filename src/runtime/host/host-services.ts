/** What the host thread does for its shards: runs the tools, the provider and the system functions given as values. */

import type { Clock } from '../../base/clock.ts';
import { asError, CancelledError, ConfigError, describeValue } from '../../base/errors.ts';
import { checkResponse } from '../../models/anthropic/response-check.ts';
import type { ModelDelta, ModelProvider } from '../../models/provider.ts';
import { createHostRunner, type HostWork } from '../../tools/host-tools.ts';
import type { AnyTool } from '../../tools/tool.ts';
import type { SystemFunction } from '../protocol/agent.ts';
import { decideOnHost, type HostDecisions } from '../protocol/host-decisions.ts';
import type { HostServices } from '../protocol/protocol.ts';
import { lookUp, type MuseLibrary } from './muse-lookup.ts';

/** The values an embedder gave. */
export interface HostValues {
  readonly provider: ModelProvider | undefined;
  /** Tools by agent and name. */
  readonly tools: ReadonlyMap<string, ReadonlyMap<string, AnyTool>>;
  readonly systems: ReadonlyMap<string, SystemFunction>;
  /** Listeners that are waited for, guardrails, approval predicates. */
  readonly decisions?: HostDecisions;
  /** What enrichers look up; missing: there are none. */
  readonly museLibrary?: MuseLibrary;
}

/** Takes what a running value tells before its end. */
export interface HostNotes {
  toolProgress(id: number, data: unknown): void;
  modelDelta(id: number, delta: ModelDelta): void;
}

/** The services of one shard, and their end. */
export interface HostServer extends HostServices {
  /** The shard is gone: whatever runs for it is aborted, as nobody waits for it any more. */
  abandon(): void;
}

/**
 * The services of one shard. Runs on the host thread; every failure is a rejection or an outcome. `work`: what tools of the
 * same shard are still at, given over from services that were abandoned.
 */
export function createHostServices(values: HostValues, notes: HostNotes, clock: Clock, work?: HostWork): HostServer {
  const runner = createHostRunner({
    find: (agent, name) => values.tools.get(agent)?.get(name),
    progress: (id, data) => notes.toolProgress(id, data),
    clock,
    ...(work === undefined ? {} : { work }),
  });
  const calls = new Map<number, AbortController>();
  return {
    run: (run) => runner.run(run),
    abort: (id, reason) => runner.abort(id, reason),
    async generate({ id, session, request }) {
      const { provider } = values;
      if (provider === undefined) throw new ConfigError('no provider was given by value');
      const controller = new AbortController();
      calls.set(id, controller);
      let deltas = 0;
      try {
        const response = await provider.generate(request, {
          signal: controller.signal,
          session,
          onDelta: (delta) => {
            deltas += 1;
            notes.modelDelta(id, delta);
          },
        });
        // Here, where it is whole: what a clone would drop or refuse is a broken answer, and is asked for again (F56).
        return { response: checkResponse(response), deltas };
      } finally {
        calls.delete(id);
      }
    },
    consult: (question) => decideOnHost(values.decisions ?? {}, question),
    lookUp: (question) => lookUp(values.museLibrary, question),
    abandon() {
      runner.abortAll('The session thread is gone');
      for (const controller of calls.values()) controller.abort(new CancelledError('the session thread is gone'));
    },
    abortModel(id) {
      calls.get(id)?.abort(new CancelledError('the model call was cancelled'));
    },
    async evaluateSystem(agent, session) {
      const system = values.systems.get(agent);
      if (system === undefined) throw new ConfigError(`agent ${JSON.stringify(agent)} has no system function`);
      let text: unknown;
      try {
        text = await system({ session });
      } catch (error) {
        const { message } = asError(error);
        throw new ConfigError(`the system function of agent ${JSON.stringify(agent)} threw: ${message}`, {
          cause: error,
        });
      }
      if (typeof text !== 'string') {
        throw new ConfigError(
          `the system function of agent ${JSON.stringify(agent)} must return a string, got ${describeValue(text)}`,
        );
      }
      return text;
    },
  };
}
