/**
 * Runs the enrichers of a shard's sessions. It starts the runs that a session asks for (`startEnricher`), and submits
 * the end of each run as an input.
 *
 * Owns: which runs are in flight. Does not own: the loops' conversations (`enricher-loop.ts`), the effect of a run on
 * its session (`src/session/decide/enrichment.ts`).
 *  M1 nothing of a run that was cancelled, or whose session left memory, reaches its session: not the run's end, and no
 *     action of a tool. No further tool of the run starts;
 *  M2 a run acts on its session only through inputs, each in its own transition. An action is durable before the run's
 *     model receives the action's result.
 */

import { defined } from '../../src/base/defined.ts';
import type { ErrorShape } from '../../src/base/errors.ts';
import { CancelledError, errorShape } from '../../src/base/errors.ts';
import { NO_USAGE } from '../../src/base/messages.ts';
import type { ModelCompletion } from '../../src/models/pool.ts';
import type { EnricherName, Input } from '../../src/session/state/inputs.ts';
import type { ReadContent } from '../../src/session/state/messages.ts';
import type { SessionAgent } from '../agent-catalog.ts';
import type { SessionActor } from '../session-actor.ts';
import {
  EnricherLoop,
  type EnricherLoopHost,
  type EnricherOutcome,
  type EnricherRun,
  type EnricherTask,
} from './enricher-loop.ts';
import type { LookUp } from './enricher-sources.ts';
import type { EnricherStage } from './enricher-stage.ts';
import { meleteTask } from './melete.ts';
import { type SummaryInput, SummaryWriter } from './mneme.ts';
import { namerTask } from './namer.ts';
import { recallTask } from './recall.ts';

/** The services that the enrichers need from the shard. */
export interface EnrichersHost extends EnricherLoopHost {
  readonly lookUp: LookUp;
  /** Runs a transition of the session. Resolves with its result once the transition is durable, or rejects. */
  act(sessionId: string, input: Input): Promise<unknown>;
  submit(sessionId: string, input: Input): void;
  /**
   * Returns a function that reads the content of a waiting entry from the session's log, if only the log has the
   * content.
   */
  readContentOf(actor: SessionActor): ReadContent;
  /** Names of the other children of a child's parent. */
  siblingsOf(actor: SessionActor): readonly string[];
  /** Logs the failure of a run. */
  failed(sessionId: string, message: string, error: ErrorShape): void;
}

interface Out {
  readonly session: string;
  readonly run: number;
  isOver: boolean;
  loop: EnricherRun | undefined;
}

/** The enrichers of a shard's sessions (see the file header). Lives on the session's thread. */
export class Enrichers {
  readonly #host: EnrichersHost;
  readonly #loop: EnricherLoop;
  readonly #out = new Map<string, Out[]>();
  #running = 0;

  constructor(host: EnrichersHost) {
    this.#host = host;
    this.#loop = new EnricherLoop(host);
  }

  /** Number of runs in flight. */
  get running(): number {
    return this.#running;
  }

  /** True if a run is in flight for this session. */
  isOut(sessionId: string): boolean {
    return this.#out.has(sessionId);
  }

  /** Takes the pool's completions. */
  completed(completions: readonly ModelCompletion[]): void {
    this.#loop.completed(completions);
  }

  /** Starts a run of a session, unless a run of this number is already in flight. */
  start(actor: SessionActor, agent: SessionAgent, enricher: EnricherName, run: number): void {
    if (this.#out.get(actor.id)?.some((each) => each.run === run) === true) return;
    const out: Out = { session: actor.id, run, isOver: false, loop: undefined };
    const stage: EnricherStage = {
      actor,
      agent,
      settings: this.#host.settings,
      lookUp: this.#host.lookUp,
      readContent: this.#host.readContentOf(actor),
      act: async (input) => {
        if (out.isOver) throw new CancelledError('the run that wants to act was given up');
        return await this.#host.act(actor.id, input);
      },
    };
    switch (enricher) {
      case 'melete':
        this.#prepare(out, () => meleteTask(stage), 'a turn was not prepared');
        return;
      case 'recall':
        this.#prepare(out, () => recallTask(stage), 'nothing was recalled');
        return;
      case 'namer':
        this.#prepare(out, () => namerTask(stage, this.#host.siblingsOf(actor)), 'a sub-agent was not named');
        return;
      case 'mneme': {
        const writer = new SummaryWriter(stage, run);
        const onEnd = (outcome: EnricherOutcome): void => this.#publishSummarised(actor.id, writer.ended(outcome));
        void this.#run(out, () => writer.task(), onEnd);
      }
    }
  }

  /** Gives up a run. Unknown runs are ignored. */
  cancel(sessionId: string, run: number): void {
    const out = this.#out.get(sessionId)?.find((each) => each.run === run);
    if (out !== undefined) this.#giveUp(out);
  }

  /** Gives up all runs of a session that left memory, or whose state is read again from its log. */
  forget(sessionId: string): void {
    for (const out of [...(this.#out.get(sessionId) ?? [])]) this.#giveUp(out);
  }

  /** Gives up all runs. The next open of the store starts them again. */
  close(): void {
    for (const session of [...this.#out.keys()]) this.forget(session);
  }

  /** Starts a run that prepares a turn, recalls messages, or names a sub-agent. `failure`: the text of its log line. */
  #prepare(out: Out, makeTask: () => Promise<EnricherTask>, failure: string): void {
    const { session, run } = out;
    void this.#run(out, makeTask, ({ usage, error }) => {
      if (error !== undefined) this.#host.failed(session, failure, error);
      this.#host.submit(session, { type: 'enriched', run, usage, ...defined({ error }) });
    });
  }

  /** Submits the outcome of a summary run to its session. If the run failed, it also reports the failure. */
  #publishSummarised(session: string, input: SummaryInput): void {
    if (input.error !== undefined) this.#host.failed(session, 'a summary was not written', input.error);
    this.#host.submit(session, input);
  }

  /**
   * Makes the task, runs its loop, and calls `onEnd` once with the outcome, even if no task could be made. Never calls
   * `onEnd` for a run that was given up.
   */
  async #run(
    out: Out,
    makeTask: () => Promise<EnricherTask> | EnricherTask,
    onEnd: (outcome: EnricherOutcome) => void,
  ): Promise<void> {
    const others = this.#out.get(out.session);
    if (others === undefined) this.#out.set(out.session, [out]);
    else others.push(out);
    this.#running += 1;
    let outcome: EnricherOutcome;
    try {
      const task = await makeTask();
      if (out.isOver) return;
      out.loop = this.#loop.run(task);
      outcome = await out.loop.done;
    } catch (error) {
      // No task could be made, usually because the host thread did not answer. The session continues without the run.
      outcome = { usage: NO_USAGE, rounds: 0, error: errorShape(error) };
    }
    if (out.isOver) return;
    this.#remove(out);
    onEnd(outcome);
  }

  #giveUp(out: Out): void {
    this.#remove(out);
    out.loop?.cancel();
  }

  #remove(out: Out): void {
    if (out.isOver) return;
    out.isOver = true;
    this.#running -= 1;
    const left = (this.#out.get(out.session) ?? []).filter((each) => each !== out);
    if (left.length === 0) this.#out.delete(out.session);
    else this.#out.set(out.session, left);
  }
}
