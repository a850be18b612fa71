/**
 * Runs the calls of a shard's sessions. Calls of runtime tools are inputs of their session; all other calls run in the
 * pool. The runner bounds how many calls of a session run at once, shortens results, and submits each outcome exactly
 * once.
 *
 * Owns: which runs are in flight, and which calls wait for a slot. Does not own: deadlines (the pool's), states, effect
 * classes.
 *  T1 each call that runs in the pool ends in exactly one `toolFinished`, or in an `ask` if its MCP server asks a
 *     question. Exceptions: the call was cancelled, its session was forgotten, or its outcome was lost on the way from
 *     the pool. After a loss, `holds` returns false for the call;
 *  T2 at most `PARALLEL_CALLS_MAX` pool runs of a session are in flight, or as many as its agent allows. The others
 *     wait in call order;
 *  T3 a call whose tool has `retry` runs at most `retry.attempts` times here, and any other call once. While a call
 *     waits for its next attempt, it holds no slot and nothing in the pool, but its result is still to come.
 */

import { resolve } from 'node:path';
import type { Limits } from '../src/base/bounds.ts';
import { PARALLEL_CALLS_MAX } from '../src/base/bounds.ts';
import type { Clock, Random } from '../src/base/clock.ts';
import { defined } from '../src/base/defined.ts';
import { isRecord } from '../src/base/json.ts';
import type { ResultBlock } from '../src/base/messages.ts';
import type { Settings } from '../src/base/settings.ts';
import type { Effect, Input } from '../src/session/state/inputs.ts';
import { contentBytes } from '../src/session/state/tokens.ts';
import { READ_FILE_URL } from '../src/tools/built-in/read-file.ts';
import type { ToolPlace, ToolPool } from '../src/tools/pool.ts';
import { tooLargeText } from '../src/tools/result-text.ts';
import { type RetryPolicy, retryWaitMs } from '../src/tools/retry.ts';
import type { ToolDescription, ToolFailure, ToolOutcome } from '../src/tools/tool.ts';
import { toolTruncationReason } from '../src/tools/truncation.ts';
import type { SessionAgent } from './agent-catalog.ts';
import type { ResultShortener } from './result-store.ts';
import { runtimeToolInput } from './runtime-tools.ts';

/** A call to start. */
export type ToolStart = Extract<Effect, { type: 'runTool' }>;

/** The services that the runner needs from its host. */
export interface ToolRunnerHost {
  submit(sessionId: string, input: Input): void;
  progress(sessionId: string, callId: string, data: unknown): void;
  /** Called when a tool threw; its call is answered by a failure. */
  threw(sessionId: string, toolName: string, stack: string): void;
  /** Called when an attempt of a call has failed and the call runs again. */
  retried(sessionId: string, retry: RetriedCall): void;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: Settings;
  readonly limits: Limits;
  readonly resultStore: ResultShortener;
}

/** A call whose attempt `attempt` (from 1) has failed, and which runs again after `waitMs`. */
export interface RetriedCall {
  readonly toolUseId: string;
  readonly toolName: string;
  readonly attempt: number;
  readonly waitMs: number;
  readonly reason: ToolFailure;
}

/** A call that waits for a slot. `attempt`: the number of its next attempt, from 1. */
interface CallStart {
  readonly agent: SessionAgent;
  readonly start: ToolStart;
  readonly attempt: number;
}

interface RunOut extends CallStart {
  readonly id: number;
  readonly session: string;
  readonly callId: string;
  readonly toolName: string;
  /** The bounds of the result that the model receives, in characters and in UTF-8 bytes. */
  readonly charactersMax: number;
  readonly bytesMax: number;
  readonly retry: RetryPolicy | undefined;
  /** True while the pool does not know the run: the file that it reads, or its outcome, is being stored. */
  isStoring: boolean;
}

interface SessionRuns {
  readonly running: Map<string, RunOut>;
  readonly waiting: CallStart[];
  /** The timers of calls that wait for their next attempt, by call (T3). */
  readonly pauses: Map<string, unknown>;
}

/** Runs the tool calls of a shard's sessions (see the file header). */
export class ToolRunner {
  readonly #pool: ToolPool;
  readonly #host: ToolRunnerHost;
  readonly #byId = new Map<number, RunOut>();
  readonly #sessions = new Map<string, SessionRuns>();
  #nextId = 1;

  constructor(pool: ToolPool, host: ToolRunnerHost) {
    this.#pool = pool;
    this.#host = host;
  }

  /** Number of runs in flight. */
  get running(): number {
    return this.#byId.size;
  }

  /** True if a call of this session is in flight, or waits for a slot or its next attempt. */
  isOut(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  /**
   * True if the result of this call is still to come. The call then waits for a slot or its next attempt, or the pool
   * has it, or its result is being stored.
   */
  holds(sessionId: string, callId: string): boolean {
    const runs = this.#sessions.get(sessionId);
    if (runs === undefined) return false;
    const run = runs.running.get(callId);
    if (run !== undefined) return run.isStoring || this.#pool.holds(run.id);
    return runs.pauses.has(callId) || runs.waiting.some(({ start }) => start.callId === callId);
  }

  /** Starts a call, or queues it after the session's other calls. */
  start(sessionId: string, agent: SessionAgent, start: ToolStart): void {
    if (isElsewhere(agent, start)) {
      const content = 'The MCP server that asked no longer has the tool, so the call cannot continue.';
      this.#host.submit(sessionId, { type: 'toolFinished', callId: start.callId, content, success: false });
      return;
    }
    if (start.isRuntimeTool) {
      this.#host.submit(sessionId, runtimeToolInput(start.name, start.callId, start.input));
      return;
    }
    const runs: SessionRuns = this.#sessions.get(sessionId) ?? { running: new Map(), waiting: [], pauses: new Map() };
    this.#sessions.set(sessionId, runs);
    runs.waiting.push({ agent, start, attempt: 1 });
    this.#fill(sessionId, runs);
  }

  #fill(sessionId: string, runs: SessionRuns): void {
    for (;;) {
      const [next] = runs.waiting;
      if (next === undefined || runs.running.size >= (next.agent.toolBounds.concurrency ?? PARALLEL_CALLS_MAX)) return;
      runs.waiting.shift();
      this.#run(sessionId, runs, next);
    }
  }

  #run(sessionId: string, runs: SessionRuns, next: CallStart): void {
    const { agent, start } = next;
    const place = agent.place(start.name);
    const description = agent.registry.get(start.name)?.description;
    const id = this.#nextId;
    this.#nextId += 1;
    const run: RunOut = {
      ...next,
      id,
      session: sessionId,
      callId: start.callId,
      toolName: start.name,
      ...this.#boundsOf(description, agent),
      retry: description?.retry,
      isStoring: false,
    };
    if (place === undefined) throw new Error(`tool ${start.name} has no place to run`);
    this.#byId.set(id, run);
    runs.running.set(start.callId, run);
    const file = this.#resultOf(place, start.input);
    const restored = file === undefined ? undefined : this.#host.resultStore.fileOf(file);
    if (restored === undefined) {
      this.#begin(run, place, start.input, file === undefined ? undefined : this.#host.resultStore.fileKeyOf(file));
      return;
    }
    run.isStoring = true;
    void restored.then((found) => {
      if (this.#byId.get(id) !== run) return;
      run.isStoring = false;
      const isHere = found !== undefined && isRecord(start.input);
      this.#begin(run, place, isHere ? { ...start.input, path: found.path } : start.input, found?.fileKey);
    });
  }

  /** Hands a run to the pool. `fileKey`: the key of the encrypted result that the run reads. */
  #begin(run: RunOut, place: ToolPlace, input: unknown, fileKey: string | undefined): void {
    const { id, session, callId, toolName, agent, start, attempt } = run;
    const { key, timeoutMs, mode, elicited } = start;
    const { concurrency, effect = 'once' } = agent.registry.get(toolName)?.description ?? {};
    this.#pool.run({
      id,
      session,
      callId,
      key,
      toolName,
      place,
      input,
      timeoutMs,
      mode,
      attempt,
      effect,
      ...defined({ concurrency, elicited, fileKey }),
    });
  }

  /** The path that a call of `read_file` reads, perhaps that of a result. */
  #resultOf(place: ToolPlace, input: unknown): string | undefined {
    if (place.kind !== 'thread' || place.url !== READ_FILE_URL || !isRecord(input)) return undefined;
    const { path } = input;
    return typeof path === 'string' ? resolve(path) : undefined;
  }

  #boundsOf(
    description: ToolDescription | undefined,
    { toolBounds }: SessionAgent,
  ): Pick<RunOut, 'charactersMax' | 'bytesMax'> {
    const { settings, limits } = this.#host;
    const { truncate = true, maxResultChars, maxResultBytes = Number.POSITIVE_INFINITY } = description ?? {};
    const charactersMax = maxResultChars ?? toolBounds.resultChars ?? settings.tools.maxToolResponseChars;
    return {
      charactersMax: truncate ? charactersMax : Number.POSITIVE_INFINITY,
      bytesMax: Math.min(maxResultBytes, limits.toolResultBytes),
    };
  }

  /** Gives up a call whose result is no longer needed, because the session has already answered it. */
  cancel(sessionId: string, callId: string, reason: string): void {
    const runs = this.#sessions.get(sessionId);
    if (runs === undefined) return;
    const waiting = runs.waiting.findIndex(({ start }) => start.callId === callId);
    if (waiting !== -1) runs.waiting.splice(waiting, 1);
    this.#endPause(runs, callId);
    const run = runs.running.get(callId);
    if (run !== undefined) {
      this.#release(run);
      this.#pool.cancel(run.id, reason);
    }
    this.#settle(sessionId, runs);
  }

  /** Gives up all calls of a session that was deleted or left memory. */
  forget(sessionId: string): void {
    const runs = this.#sessions.get(sessionId);
    if (runs === undefined) return;
    runs.waiting.length = 0;
    for (const callId of [...runs.pauses.keys()]) this.cancel(sessionId, callId, 'the session is gone');
    for (const callId of [...runs.running.keys()]) this.cancel(sessionId, callId, 'the session is gone');
  }

  /** Gives up the calls that wait for their next attempt. They run again when their session is opened again. */
  close(): void {
    for (const runs of this.#sessions.values()) {
      for (const callId of [...runs.pauses.keys()]) this.#endPause(runs, callId);
    }
  }

  /** Runs a call again after a failed attempt, if its tool has `retry` (T3). Returns false if the outcome stands. */
  #runAgain(run: RunOut, outcome: ToolOutcome): boolean {
    const { session, callId, toolName, agent, start, attempt } = run;
    const { clock, random } = this.#host;
    const waitMs = retryWaitMs(run.retry, attempt, outcome, random);
    const runs = this.#sessions.get(session);
    if (waitMs === undefined || outcome.failed === undefined || runs === undefined) return false;
    this.#release(run);
    const resume = (): void => {
      runs.pauses.delete(callId);
      runs.waiting.unshift({ agent, start, attempt: attempt + 1 });
      this.#fill(session, runs);
    };
    runs.pauses.set(callId, clock.setTimer(resume, waitMs));
    this.#host.retried(session, { toolUseId: callId, toolName, attempt, waitMs, reason: outcome.failed });
    this.#settle(session, runs);
    return true;
  }

  #endPause(runs: SessionRuns, callId: string): void {
    const timer = runs.pauses.get(callId);
    if (timer !== undefined) this.#host.clock.clearTimer(timer);
    runs.pauses.delete(callId);
  }

  /** Takes the pool's outcome of a run. */
  finished(id: number, outcome: ToolOutcome): void {
    const run = this.#byId.get(id);
    if (run === undefined) return;
    if (outcome.stack !== undefined) this.#host.threw(run.session, run.toolName, outcome.stack);
    if (outcome.asks !== undefined) {
      this.#end(run, { type: 'ask', callId: run.callId, asked: 'human', ...outcome.asks });
      return;
    }
    if (this.#runAgain(run, outcome)) return;
    if (outcome.blocks !== undefined) {
      this.#finishedBlocks(run, outcome.blocks, outcome);
      return;
    }
    const content = this.#shortened(run, outcome.content, 1);
    if (typeof content === 'string') this.#report(run, content, outcome);
    else {
      run.isStoring = true;
      void content.then((kept) => this.#report(run, kept, outcome));
    }
  }

  /**
   * Takes a result of blocks. Its texts share the bounds of one text. All blocks together have the bound of a message.
   */
  #finishedBlocks(run: RunOut, blocks: readonly ResultBlock[], outcome: ToolOutcome): void {
    const { messageBytes } = this.#host.limits;
    const bytes = contentBytes(blocks);
    if (bytes > messageBytes) {
      const content = `result ${tooLargeText(bytes, messageBytes)} (limits.messageBytes)`;
      this.#report(run, content, { ...outcome, success: false });
      return;
    }
    const texts = blocks.filter(({ type }) => type === 'text').length;
    const shortened = blocks.map((block): ResultBlock | Promise<ResultBlock> => {
      if (block.type !== 'text') return block;
      const text = this.#shortened(run, block.text, texts);
      return typeof text === 'string' ? { ...block, text } : text.then((kept) => ({ ...block, text: kept }));
    });
    const ready: ResultBlock[] = [];
    for (const block of shortened) if (!(block instanceof Promise)) ready.push(block);
    if (ready.length === shortened.length) this.#report(run, ready, outcome);
    else {
      run.isStoring = true;
      void Promise.all(shortened).then((kept) => this.#report(run, kept, outcome));
    }
  }

  /** A text of a result, cut to its share of the bounds. `texts`: how many texts the result has. */
  #shortened(run: RunOut, text: string, texts: number): string | Promise<string> {
    const { session, toolName, charactersMax, bytesMax } = run;
    return this.#host.resultStore.shorten(text, {
      session,
      charactersMax: Math.floor(charactersMax / texts),
      bytesMax: Math.floor(bytesMax / texts),
      reason: toolTruncationReason(toolName),
    });
  }

  /**
   * Submits a result. A long result was shortened before, and its whole text was kept. Until the submission the call
   * counts as in flight, and may be given up.
   */
  #report(run: RunOut, content: string | readonly ResultBlock[], { success, ms }: ToolOutcome): void {
    this.#end(run, { type: 'toolFinished', callId: run.callId, content, success, ms });
  }

  #end(run: RunOut, input: Input): void {
    if (this.#byId.get(run.id) !== run) return;
    this.#release(run);
    const runs = this.#sessions.get(run.session);
    if (runs !== undefined) this.#settle(run.session, runs);
    this.#host.submit(run.session, input);
  }

  /** Takes a tool's progress report. */
  progress(id: number, data: unknown): void {
    const run = this.#byId.get(id);
    if (run !== undefined) this.#host.progress(run.session, run.callId, data);
  }

  #release(run: RunOut): void {
    this.#byId.delete(run.id);
    this.#sessions.get(run.session)?.running.delete(run.callId);
  }

  #settle(sessionId: string, runs: SessionRuns): void {
    this.#fill(sessionId, runs);
    const { running, waiting, pauses } = runs;
    if (running.size + waiting.length + pauses.size === 0) this.#sessions.delete(sessionId);
  }
}

/** True if the call should continue at an MCP server that no longer has the call's tool. */
function isElsewhere(agent: SessionAgent, { name, elicited }: ToolStart): boolean {
  if (elicited === undefined) return false;
  const place = agent.place(name);
  return place?.kind !== 'mcp' || place.server !== elicited.server;
}
