/**
 * The work that runs for the sessions of a shard beside their transitions: model calls, tools, enrichers, and questions
 * to the host. Each result returns as an input of its session.
 *
 * Owns: the pools, and all calls to them. Does not own: which work starts, since a transition decides that; when a
 * transition is durable.
 * Invariants:
 *  H2 of the shard: only effects that publish nothing start with the transition that asks for them (`runEarly`). These
 *     are a model call, a call of a tool that is declared `pure`, the evaluation of a system function, a timer, a log
 *     line and a cancellation. With durability `strict`, the model calls and tool calls wait too. In a cluster they
 *     wait while the node has no valid lease. All other work starts after the flush (`start`);
 *  W1 work starts only for the resident actor, and only if its state still waits for that work. Both may have changed
 *     between a transition and its flush, and then nothing starts.
 */
import type { SessionAgent } from '../../../actors/agent-catalog.ts';
import { Enrichers } from '../../../actors/enrichers/enrichers.ts';
import { ModelCaller } from '../../../actors/model-caller.ts';
import type { SessionActor } from '../../../actors/session-actor.ts';
import type { ActorEffect } from '../../../actors/supervision/tree-transition.ts';
import { ToolRunner, type ToolStart } from '../../../actors/tool-runner.ts';
import { BUDGETS_REPORTED_MAX, RUN_AHEAD_TURNS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { type ErrorShape, errorShape } from '../../base/errors.ts';
import { NO_USAGE } from '../../base/messages.ts';
import type { EventBody, StreamNoteBody } from '../../events/event.ts';
import type { CallWait, ModelCompletion, ModelPool } from '../../models/pool.ts';
import { RecentMap } from '../../models/recent-map.ts';
import { turnName } from '../../session/apply/turn.ts';
import type { Effect, EnricherName, Input } from '../../session/state/inputs.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { Unjudged } from '../../session/state/verdicts.ts';
import type { ToolPool } from '../../tools/pool.ts';
import { hostQuestion } from '../protocol/host-question.ts';
import type { LogLine } from '../protocol/protocol.ts';
import { contentReader } from '../reading/content-reader.ts';
import type { AnswerDrafts } from './answer-drafts.ts';
import type { SessionTimers } from './session-timers.ts';
import { logThrown, type Reply, type ShardParts } from './shard-parts.ts';
import { Upgrades } from './upgrades.ts';

/** The shard functions that session work uses. */
export interface WorkPlace {
  readonly timers: SessionTimers;
  readonly drafts: AnswerDrafts;
  submit(sessionId: string, inputs: readonly Input[], reply?: Reply): void;
  find(sessionId: string): SessionActor | undefined;
  inMemory(sessionId: string): SessionActor | undefined;
  agentOf(actor: SessionActor): SessionAgent | undefined;
  isWatched(sessionId: string): boolean;
  /** Publishes an ephemeral event, after everything that was journalled before it. */
  publish(sessionId: string, body: EventBody | StreamNoteBody): void;
  /** Called when a call in flight has ended. */
  still(): void;
  isClosing(): boolean;
  /** True once no input is taken any more. */
  isOver(): boolean;
}

/** See the head of the file. */
export class SessionWork {
  readonly #parts: ShardParts;
  readonly #place: WorkPlace;
  readonly #modelPool: ModelPool;
  readonly #toolPool: ToolPool;
  readonly #models: ModelCaller;
  readonly #tools: ToolRunner;
  readonly #enrichers: Enrichers;
  /** The last logged limit of each used-up budget, by the session that has the budget. So a fan-out logs one line. */
  readonly #budgetsReported = new RecentMap<number>(BUDGETS_REPORTED_MAX);
  /** Moves of sessions to another version of their agent. */
  readonly upgrades: Upgrades;

  constructor(parts: ShardParts, place: WorkPlace) {
    this.#parts = parts;
    this.#place = place;
    this.upgrades = new Upgrades(parts.host, place);
    this.#modelPool = parts.makeModelPool({
      completed: (completions) => {
        for (const completion of completions) this.#countSent(completion);
        this.#models.completed(completions);
        this.#enrichers.completed(completions);
        place.still();
      },
      delta: (id, _session, delta) => this.#models.delta(id, delta),
    });
    this.#toolPool = parts.makeToolPool({
      finished: (id, outcome) => {
        this.#tools.finished(id, outcome);
        place.still();
      },
      progress: (id, data) => this.#tools.progress(id, data),
    });
    const submit = (sessionId: string, ...inputs: readonly Input[]): void => place.submit(sessionId, inputs);
    this.#models = new ModelCaller(this.#modelPool, {
      submit,
      isOver: () => place.isOver(),
      drafted: (call, draft) => place.drafts.note(call, draft),
      ended: (call) => place.drafts.ending(call),
      abandoned: (call) => place.drafts.abandoned(call),
      givenUp: ({ session, key }, lost) => {
        // The session may have been deleted in the meantime, and another session may have its id.
        if (parts.journal.nameOf(key) !== session) return;
        try {
          place.submit(session, [lost]);
        } catch (thrown) {
          // The session cannot be read. The completions of other sessions must still be taken.
          logThrown(parts.host, 'the text of a lost answer cannot be recorded', thrown, session);
        }
      },
      settings: parts.settings,
      wantsDeltas: (id) => place.isWatched(id),
      delta: (session, turn, delta) =>
        place.publish(session, {
          type: delta.type === 'text' ? 'text.delta' : 'thinking.delta',
          text: delta.text,
          turn: turnName(turn),
        }),
      streamed: (session, turn, pieces) => {
        const after = place.inMemory(session)?.state.eventSeq;
        if (after !== undefined) place.publish(session, { type: 'streamed', after, turn: turnName(turn), pieces });
      },
      threw: (session, stack) => this.#warn(session, 'the provider threw', { stack }),
      threaded: (session, turn, { thread, code, bytes }) => {
        if (thread === undefined || !place.isWatched(session)) return;
        place.publish(session, { type: 'llm.thread', turn: turnName(turn), thread, ...defined({ code, bytes }) });
      },
    });
    this.#tools = new ToolRunner(this.#toolPool, {
      submit,
      settings: parts.settings,
      limits: parts.limits,
      resultStore: parts.resultStore,
      progress: (session, toolUseId, data) => {
        if (place.isWatched(session)) place.publish(session, { type: 'tool.progress', toolUseId, data });
      },
      threw: (session, toolName, stack) => this.#warn(session, `tool ${JSON.stringify(toolName)} threw`, { stack }),
      retried: (session, retry) => {
        const { toolName, attempt, waitMs, reason } = retry;
        parts.counters.add('toolRetries');
        const message = `attempt ${attempt} of tool ${JSON.stringify(toolName)} failed (${reason}); it runs again`;
        this.#warn(session, message, { ms: waitMs });
        if (place.isWatched(session)) place.publish(session, { type: 'tool.retry', ...retry });
      },
      clock: parts.clock,
      random: parts.random,
    });
    this.#enrichers = new Enrichers({
      pool: this.#modelPool,
      settings: parts.settings,
      limits: parts.limits,
      providers: parts.providers,
      clock: parts.clock,
      random: parts.random,
      resultStore: parts.resultStore,
      callId: () => this.#models.takeId(),
      called: () => parts.counters.add('modelCalls'),
      lookUp: (question) => parts.host.lookUp(question),
      submit,
      act: (id, input) => new Promise((resolve, reject) => place.submit(id, [input], { resolve, reject })),
      readContentOf: (actor) => contentReader(parts.journal, actor.key),
      siblingsOf: (actor) => this.#siblingsOf(actor),
      failed: (session, message, error) => parts.host.log({ level: 'warn', message, session, error }),
    });
  }

  /** Model calls in flight or waiting for the governor. */
  get modelCalls(): number {
    return this.#models.running;
  }

  /** Model calls that are sent only after `resumeModels`, because the credentials were refused (F36). */
  get stoppedCalls(): number {
    return this.#modelPool.stopped ?? 0;
  }

  /** Why the governor holds the session's model call back; undefined if it does not. */
  callWaitOf(sessionId: string): CallWait | undefined {
    return this.#models.waitOf(sessionId);
  }

  /** Tool calls in flight. */
  get toolCalls(): number {
    return this.#tools.running;
  }

  /** True if work is in flight for the session. */
  isOut(sessionId: string): boolean {
    return this.#models.isOut(sessionId) || this.#tools.isOut(sessionId) || this.#enrichers.isOut(sessionId);
  }

  /** True if the tool runner still holds this call, so that its result will come. */
  holdsCall(sessionId: string, callId: string): boolean {
    return this.#tools.holds(sessionId, callId);
  }

  /**
   * Called when a subscriber of a session begins or ends; without an id, a subscriber of all sessions. `isNew`: a
   * reader of this session begins.
   */
  watched(sessionId: string | undefined, isNew: boolean): void {
    this.#models.watched(sessionId, isNew);
  }

  /** Forgets the model calls that were given up. Called when the store takes writes again, before sessions resume. */
  forgetGivenUp(): void {
    this.#models.forgetGivenUp();
  }

  /** Called when an idle session leaves memory. */
  passivated(sessionId: string): void {
    this.#models.forget(sessionId);
  }

  /** Gives up the work that runs for the session. */
  forget(sessionId: string): void {
    this.#models.forget(sessionId);
    this.#tools.forget(sessionId);
    this.#enrichers.forget(sessionId);
    this.upgrades.forget(sessionId);
  }

  /** Lets all sessions try the provider's key or the model again (F36, F37). */
  resumeModels(): void {
    this.#modelPool.resume?.();
  }

  /**
   * Ends enrichers at once, because a run may take a minute. An ended run begins again at the next open. `inMemory`:
   * the resident actors of the shard.
   */
  closeEnrichers(inMemory: Iterable<SessionActor>): void {
    this.#enrichers.close();
    for (const actor of [...inMemory]) this.#endNaming(actor);
  }

  /** Gives up all work in flight. */
  async close(): Promise<void> {
    this.#tools.close();
    await Promise.all([this.#modelPool.close(), this.#toolPool.close()]);
  }

  /** Runs an effect at once if it may start before the flush (H2). Returns false if it must wait for the flush. */
  runEarly({ actor, effect }: ActorEffect): boolean {
    switch (effect.type) {
      case 'audited':
        // The entry of the audit log was written in the append of the transition.
        return true;
      case 'callModel':
        if (!this.#parts.runsAhead()) return false;
        this.#callModel(actor, effect.halfStep, effect.attempt);
        return true;
      case 'runTool':
        if (!this.#mayRunAhead(actor, effect)) return false;
        this.#startTool(actor, effect);
        return true;
      case 'cancelModel':
        this.#models.cancel(actor.id);
        return true;
      case 'cancelEnricher':
        this.#enrichers.cancel(actor.id, effect.run);
        return true;
      case 'cancelTool':
        this.#tools.cancel(actor.id, effect.callId, effect.reason);
        return true;
      case 'retryLater':
        if (effect.firstError !== undefined) this.#logRetry(actor, effect.firstError, effect.delayMs);
        this.#place.timers.retryLater(actor, effect.halfStep, effect.attempt, effect.delayMs);
        return true;
      case 'reportFallback':
        this.#warn(actor.id, `the calls move to the model ${effect.model} (${effect.reason})`, {});
        return true;
      case 'reportFailure': {
        const { error, isBlocked } = effect;
        if (this.#isKnownBudget(error)) return true;
        const what = isBlocked
          ? 'the session is blocked until someone acts: see explain()'
          : 'a turn ended in a failure';
        this.#warn(actor.id, `${what} (${error.code}: ${error.message})`, { error });
        return true;
      }
      case 'restartTimer':
        this.#place.timers.restartLater(actor, effect.delayMs);
        return true;
      case 'evaluateSystem':
        void this.#evaluateSystem(actor, effect.epoch);
        return true;
      case 'stale':
        this.#parts.counters.add('staleCompletions');
        return true;
      case 'upgrade':
        // The session is held from now on. The `upgrade` function starts after the flush.
        this.upgrades.note(actor.id, effect);
        return false;
      case 'upgradeFailed':
        this.upgrades.failed(actor, effect.error);
        return true;
      default:
        return false;
    }
  }

  /** Starts an effect that had to wait for the flush. */
  start({ actor, effect }: ActorEffect): void {
    if (effect.type === 'runTool') this.#startTool(actor, effect);
    else if (effect.type === 'callModel') this.#callModel(actor, effect.halfStep, effect.attempt);
    else if (effect.type === 'consult') void this.#consult(actor, effect);
    else if (effect.type === 'startEnricher') this.#startEnricher(actor, effect.enricher, effect.run);
    else if (effect.type === 'upgrade') this.upgrades.startWaiting();
  }

  /**
   * True if a tool call may start before the flush: it is `pure`, so it changes nothing outside. If a crash loses the
   * call and the record of it, the call is made again, like a model call. A call may run only a bounded number of
   * transitions ahead of the disk: after a crash, all work since the last flush is done again.
   */
  #mayRunAhead(actor: SessionActor, start: ToolStart): boolean {
    if (start.isRuntimeTool || !this.#parts.runsAhead() || actor.unflushed > RUN_AHEAD_TURNS_MAX) return false;
    return this.#place.agentOf(actor)?.facts.tool(start.name)?.effect === 'pure';
  }

  #isHot(actor: SessionActor): boolean {
    return this.#place.inMemory(actor.id) === actor;
  }

  #startTool(actor: SessionActor, start: ToolStart): void {
    const agent = this.#place.agentOf(actor);
    if (agent === undefined || !this.#isHot(actor) || !actor.state.openCalls.has(start.callId)) return;
    this.#parts.counters.add('toolCalls');
    this.#tools.start(actor.id, agent, start);
  }

  #countSent(completion: ModelCompletion): void {
    const sent = 'response' in completion ? completion.response.sent : undefined;
    if (sent === undefined) return;
    const { counters } = this.#parts;
    if (sent.bytes !== undefined) counters.add('requestBytes', sent.bytes);
    if (sent.thread === 'continued') counters.add('threadsContinued');
    if (sent.thread === 'replayed') counters.add('threadsReplayed');
  }

  /** Logs one line for each model call, however often it is retried. The event `llm.retry` has each attempt. */
  #logRetry(actor: SessionActor, error: ErrorShape, delayMs: number): void {
    const status = error.data?.['status'];
    const what = typeof status === 'number' ? `status ${status}` : error.code;
    this.#warn(actor.id, `a model call failed (${what}) and is made again`, { error, ms: delayMs });
  }

  #warn(session: string, message: string, fields: Pick<LogLine, 'error' | 'ms' | 'stack'>): void {
    const agent = this.#place.inMemory(session)?.state.agent;
    this.#parts.host.log({ level: 'warn', message, session, ...fields, ...(agent === undefined ? {} : { agent }) });
  }

  /** True if the error is a used-up budget, and a turn that failed at the same limit was logged already. */
  #isKnownBudget({ data }: ErrorShape): boolean {
    if (data?.['limit'] !== 'budget') return false;
    const [holder, tokens] = [String(data['session']), Number(data['budget'])];
    const isKnown = this.#budgetsReported.get(holder) === tokens;
    this.#budgetsReported.put(holder, tokens);
    return isKnown;
  }

  #callModel(actor: SessionActor, halfStep: number, attempt: number): void {
    const agent = this.#place.agentOf(actor);
    // Between the transition and its flush the call may have been interrupted, or the actor dropped.
    if (agent === undefined || !this.#isHot(actor) || actor.state.current?.halfStep !== halfStep) return;
    this.#parts.counters.add('modelCalls');
    if (attempt === 1) this.#parts.counters.add('halfSteps');
    this.#models.call(actor, agent, halfStep, attempt);
  }

  /** Starts the run of an enricher, after the flush: an enricher must not work on a state that is not durable. */
  #startEnricher(actor: SessionActor, enricher: EnricherName, run: number): void {
    const agent = this.#place.agentOf(actor);
    // Between the transition and its flush the run may have been given up, or the actor dropped. A run that begins
    // while the runtime closes would be lost.
    if (agent === undefined || !this.#isHot(actor) || !isEnricherDue(actor.state, run)) return;
    if (this.#place.isClosing()) this.#endNaming(actor);
    else this.#enrichers.start(actor, agent, enricher, run);
  }

  /**
   * Ends a run that names a sub-agent. The sub-agent keeps the name that it has. The parent's spawn call waits for the
   * name, and must not stay open after an orderly close (F13).
   */
  #endNaming(actor: SessionActor): void {
    const { enrichment } = actor.state;
    if (enrichment?.stage !== 'naming') return;
    this.#place.submit(actor.id, [{ type: 'enriched', run: enrichment.run, usage: NO_USAGE }]);
  }

  #siblingsOf({ state }: SessionActor): readonly string[] {
    const parent = state.parent === undefined ? undefined : this.#place.find(state.parent);
    return [...(parent?.state.childNames ?? [])].filter((name) => name !== state.name);
  }

  async #evaluateSystem(actor: SessionActor, epoch: number): Promise<void> {
    const key = this.#place.agentOf(actor)?.key ?? '';
    const input = await this.#parts.host.evaluateSystem(key, actor.id).then(
      (text): Input => ({ type: 'systemEvaluated', epoch, text }),
      (error: unknown): Input => ({ type: 'systemFailed', epoch, error: errorShape(error) }),
    );
    this.#place.submit(actor.id, [input]);
  }

  /** Asks the host for a verdict. Runs after the flush, because the question publishes state. */
  async #consult(actor: SessionActor, consult: Extract<Effect, { type: 'consult' }>): Promise<void> {
    const key = this.#place.agentOf(actor)?.key ?? '';
    const question = this.#isHot(actor) ? hostQuestion(actor.state, consult, key) : undefined;
    // The session was interrupted between the transition and its flush, or was read again. Then the session's next
    // transition asks again.
    if (question === undefined) return;
    const verdict = await this.#parts.host
      .consult(question)
      .catch((error: unknown): Unjudged => ({ error: errorShape(error) }));
    // The host answers with the kind of verdict that the question asks for.
    this.#place.submit(actor.id, [{ ...consult, type: 'verdict', verdict } as Input]);
  }
}

/** True if the session waits for the run with this number. */
function isEnricherDue(state: SessionState, run: number): boolean {
  const summary = state.memory?.summarising;
  return state.enrichment?.run === run || (summary?.run === run && summary.ended === undefined);
}
