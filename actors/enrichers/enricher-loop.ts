/**
 * Runs the loops of enrichers. An enricher is a model that watches a conversation and acts through its own tools. A
 * loop calls the model and runs the requested tools in order. It repeats both until the model answers without a tool
 * call, or until a bound is reached.
 *
 * Owns: the conversations of the running loops, their calls, retries and time limits. Nothing of a loop is kept after
 * its end.
 * Does not own: the actions of the tools, what follows from an outcome, the threads on which the calls run.
 *  U1 `done` of a loop settles exactly once, and never rejects;
 *  U2 a loop that is over makes no call and starts no tool; completions that arrive later are dropped;
 *  U3 a loop's calls have their own mirror. Its name is `<session>: <enricher>`, so it cannot be a session id. The
 *     mirror is forgotten when the loop ends. The session's own context is not touched. The governor counts the calls
 *     as calls of the session's tree;
 *  U4 one loop runs per session and enricher; a new loop ends the previous one as cancelled.
 */
import { z } from 'zod';
import type { Limits } from '../../src/base/bounds.ts';
import type { Clock, Random } from '../../src/base/clock.ts';
import {
  CancelledError,
  ConfigError,
  type ErrorShape,
  errorShape,
  LimitError,
  TimeoutError,
} from '../../src/base/errors.ts';
import { addUsage, type ContentBlock, NO_USAGE, type ToolResultBlock, type Usage } from '../../src/base/messages.ts';
import type { Settings } from '../../src/base/settings.ts';
import { readModelName } from '../../src/models/model-name.ts';
import type { ModelCompletion, ModelPool, RequestHeader } from '../../src/models/pool.ts';
import type { ModelResponse, RequestMessage, ToolSchema } from '../../src/models/provider.ts';
import { retryWaitMs } from '../../src/session/decide/answer.ts';
import { storableAnswer } from '../../src/session/rules/answer.ts';
import { inputSchemaOf } from '../../src/tools/input-schema.ts';
import { resultText, thrownText } from '../../src/tools/result-text.ts';
import { toolTruncationReason } from '../../src/tools/truncation.ts';
import type { ResultShortener } from '../result-store.ts';

/**
 * One tool of an enricher. `input` checks the model's arguments. A thrown error becomes `{"error": …}` for the model.
 */
export interface EnricherTool {
  readonly name: string;
  readonly description: string;
  readonly input: z.ZodType;
  run(input: unknown): Promise<string> | string;
}

/** An enricher's tool whose `run` receives the parsed `input` of a call. */
export function enricherTool<T extends z.ZodType>(options: {
  readonly name: string;
  readonly description: string;
  readonly input: T;
  readonly run: (input: z.output<T>) => Promise<string> | string;
}): EnricherTool {
  // The loop checks the input before it runs the tool.
  return { ...options, run: (input) => options.run(input as z.output<T>) };
}

/** The task of a loop. */
export interface EnricherTask {
  readonly session: string;
  /** Name of the enricher, as used in the mirror's key. */
  readonly enricher: string;
  /** The name of the model, which may begin with the name of its provider. */
  readonly model: string;
  readonly maxTokens: number;
  readonly system: string;
  /** The one message from which the loop starts. */
  readonly text: string;
  readonly tools: readonly EnricherTool[];
  /**
   * Milliseconds after which the loop ends, even in the middle of a call. Missing: only the number of rounds limits the
   * loop.
   */
  readonly timeoutMs?: number;
}

/** The outcome of a loop. */
export interface EnricherOutcome {
  /** Usage of all answers of the loop, including those before a failure. */
  readonly usage: Usage;
  /** Number of answers that asked for tools. */
  readonly rounds: number;
  /** Why the loop ended early: the model's error, `timeout`, `limit` (too many rounds), or `cancelled`. */
  readonly error?: ErrorShape;
}

/** A running loop. */
export interface EnricherRun {
  readonly done: Promise<EnricherOutcome>;
  /** Ends the loop at once, as `cancelled`. */
  cancel(): void;
}

/** The services that the loops need from the shard. */
export interface EnricherLoopHost {
  readonly pool: ModelPool;
  readonly settings: Settings;
  readonly limits: Limits;
  /** The names of the providers. A model's name may begin with one of them. */
  readonly providers: readonly string[];
  readonly clock: Clock;
  readonly random: Random;
  readonly resultStore: ResultShortener;
  /** Returns a number that no other call of the pool has. */
  callId(): number;
  /** Called when a model call is sent. */
  called(): void;
}

const SECOND_MS = 1_000;

/** The running loops of a shard (see the file header). Lives on the session's thread. */
export class EnricherLoop {
  readonly #host: EnricherLoopHost;
  readonly #byKey = new Map<string, Loop>();
  readonly #byCall = new Map<number, Loop>();

  constructor(host: EnricherLoopHost) {
    this.#host = host;
  }

  /** Number of running loops. */
  get running(): number {
    return this.#byKey.size;
  }

  /** Starts a loop; see U4. */
  run(task: EnricherTask): EnricherRun {
    const key = `${task.session}: ${task.enricher}`;
    this.#byKey.get(key)?.cancel();
    const loop = new Loop(key, task, this.#host, {
      calls: this.#byCall,
      over: () => {
        if (this.#byKey.get(key) === loop) this.#byKey.delete(key);
      },
    });
    this.#byKey.set(key, loop);
    loop.start();
    return loop;
  }

  /** Takes the pool's completions; completions of other callers' calls are skipped. */
  completed(completions: readonly ModelCompletion[]): void {
    if (this.#byCall.size === 0) return;
    for (const completion of completions) {
      const loop = this.#byCall.get(completion.id);
      if (loop === undefined) continue;
      this.#byCall.delete(completion.id);
      loop.completed(completion);
    }
  }

  /** Ends all loops as cancelled. */
  cancelAll(): void {
    for (const loop of [...this.#byKey.values()]) loop.cancel();
  }
}

/** The parts of `EnricherLoop` that a running loop uses. */
interface LoopPlace {
  readonly calls: Map<number, Loop>;
  readonly over: () => void;
}

class Loop implements EnricherRun {
  readonly done: Promise<EnricherOutcome>;
  readonly #key: string;
  readonly #task: EnricherTask;
  readonly #host: EnricherLoopHost;
  readonly #place: LoopPlace;
  readonly #tools: ReadonlyMap<string, EnricherTool>;
  readonly #header: RequestHeader;
  readonly #messages: RequestMessage[];
  readonly #callIds = new Set<string>();
  /** Number of messages in the last request. */
  #sent = 0;
  #epoch = 0;
  #attempt = 1;
  #rounds = 0;
  #usage: Usage = NO_USAGE;
  #call: number | undefined;
  #retryTimer: unknown;
  #limitTimer: unknown;
  #isOver = false;
  #settle: (outcome: EnricherOutcome) => void = () => undefined;

  constructor(key: string, task: EnricherTask, host: EnricherLoopHost, place: LoopPlace) {
    this.#key = key;
    this.#task = task;
    this.#host = host;
    this.#place = place;
    this.#tools = new Map(task.tools.map((tool) => [tool.name, tool]));
    const tools = task.tools.map(schemaOf);
    const { model, provider } = readModelName(task.model, host.providers);
    this.#header = {
      model,
      max_tokens: task.maxTokens,
      system: task.system,
      ...(tools.length === 0 ? {} : { tools }),
      ...(provider === undefined ? {} : { transport: { provider } }),
    };
    this.#messages = [{ role: 'user', content: task.text }];
    this.done = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  start(): void {
    const { timeoutMs } = this.#task;
    if (timeoutMs !== undefined)
      this.#limitTimer = this.#host.clock.setTimer(() => this.#timedOut(timeoutMs), timeoutMs);
    this.#ask();
  }

  cancel(): void {
    this.#end(errorShape(new CancelledError(`${this.#task.enricher} was cancelled`)));
  }

  completed(completion: ModelCompletion): void {
    this.#call = undefined;
    if (this.#isOver) return;
    if ('error' in completion) this.#failed(completion.error);
    else this.#answered(completion.response);
  }

  #timedOut(timeoutMs: number): void {
    this.#limitTimer = undefined;
    this.#end(errorShape(new TimeoutError(`${this.#task.enricher} was not done within ${timeoutMs} ms`)));
  }

  #ask(): void {
    const { pool, settings } = this.#host;
    const id = this.#host.callId();
    // Each loop has its own epoch, so that it does not reuse the contents of an earlier mirror of the same name.
    if (this.#epoch === 0) this.#epoch = id;
    const epoch = this.#epoch;
    const all = [...this.#messages];
    const keep = this.#sent;
    this.#sent = all.length;
    this.#call = id;
    this.#place.calls.set(id, this);
    this.#host.called();
    const whole = () => ({ epoch, keep: 0, append: all, header: this.#header });
    const isHeld = keep > 0 && pool.holds(this.#key, epoch, keep);
    pool.call(
      {
        id,
        session: this.#key,
        context: isHeld ? { epoch, keep, append: all.slice(keep) } : whole(),
        wantsDeltas: false,
        timeoutMs: settings.timeouts.api * SECOND_MS,
        // While credentials are refused, the call ends at once with an error, and the turn continues without this run.
        waitsForResume: false,
      },
      isHeld ? whole : undefined,
    );
  }

  /**
   * Retries a failed call as a half-step does, with the same delays and attempts. A failure that is not retryable ends
   * the loop.
   */
  #failed(error: ErrorShape): void {
    if (error.retryable !== true || this.#attempt >= this.#host.settings.llm.retry.attempts) {
      this.#end(error);
      return;
    }
    const delayMs = retryWaitMs(this.#host.settings.llm.retry, this.#attempt, error, this.#host.random());
    this.#attempt += 1;
    this.#retryTimer = this.#host.clock.setTimer(() => {
      this.#retryTimer = undefined;
      this.#ask();
    }, delayMs);
  }

  #answered(response: ModelResponse): void {
    this.#attempt = 1;
    this.#usage = addUsage(this.#usage, response.usage);
    const { content, calls } = storableAnswer(response.content, {
      stop: response.stop_reason ?? 'end_turn',
      halfStep: this.#rounds + 1,
      taken: this.#callIds,
      timeoutMsOf: () => undefined,
    });
    if (calls.length === 0) {
      this.#end();
      return;
    }
    this.#rounds += 1;
    const { maxToolRounds } = this.#host.settings.llm;
    if (this.#rounds > maxToolRounds) {
      const message = `${this.#task.enricher} was stopped after ${maxToolRounds} rounds of tools (llm.maxToolRounds)`;
      this.#end(errorShape(new LimitError(message, { data: { limit: 'maxToolRounds', value: maxToolRounds } })));
      return;
    }
    this.#messages.push({ role: 'assistant', content });
    const refused = new Map(calls.map((call) => [call.id, call.refused]));
    void this.#runTools(content, refused);
  }

  /** Runs calls one after the other, because a later call may build on an earlier one. */
  async #runTools(content: readonly ContentBlock[], refused: ReadonlyMap<string, string | undefined>): Promise<void> {
    const results: ToolResultBlock[] = [];
    for (const block of content) {
      if (block.type !== 'tool_use') continue;
      this.#callIds.add(block.id);
      const why = refused.get(block.id);
      const result =
        why === undefined ? await this.#runTool(block.name, block.input) : { content: why, success: false };
      if (this.#isOver) return;
      const text = await this.#shortened(block.name, result.content);
      if (this.#isOver) return;
      results.push({
        type: 'tool_result',
        tool_use_id: block.id,
        content: text,
        ...(result.success ? {} : { is_error: true }),
      });
    }
    this.#messages.push({ role: 'user', content: results });
    this.#ask();
  }

  async #runTool(name: string, input: unknown): Promise<{ readonly content: string; readonly success: boolean }> {
    const { toolResultBytes } = this.#host.limits;
    try {
      const tool = this.#tools.get(name);
      if (tool === undefined) throw new ConfigError(`Unknown tool: ${name}`);
      const checked = tool.input.safeParse(input);
      if (!checked.success) throw new ConfigError(z.prettifyError(checked.error));
      return resultText(await tool.run(checked.data), toolResultBytes);
    } catch (error) {
      return thrownText(error, toolResultBytes);
    }
  }

  #shortened(toolName: string, text: string): string | Promise<string> {
    const { settings, limits, resultStore } = this.#host;
    return resultStore.shorten(text, {
      session: this.#task.session,
      isUnlogged: true,
      charactersMax: settings.tools.maxToolResponseChars,
      bytesMax: limits.toolResultBytes,
      reason: toolTruncationReason(toolName),
    });
  }

  #end(error?: ErrorShape): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { clock, pool } = this.#host;
    if (this.#retryTimer !== undefined) clock.clearTimer(this.#retryTimer);
    if (this.#limitTimer !== undefined) clock.clearTimer(this.#limitTimer);
    if (this.#call !== undefined) {
      this.#place.calls.delete(this.#call);
      pool.cancel(this.#call);
    }
    pool.forget(this.#key);
    this.#place.over();
    const outcome = { usage: this.#usage, rounds: this.#rounds };
    this.#settle(error === undefined ? outcome : { ...outcome, error });
  }
}

function schemaOf({ name, description, input }: EnricherTool): ToolSchema {
  return { name, description, input_schema: inputSchemaOf(input, `enricher tool ${JSON.stringify(name)}`) };
}
