/**
 * Makes spans from diagnostics: a turn is a span `invoke_agent`, an attempt of a model call `chat`, a tool call
 * `execute_tool`. The spans of a child's turns are below the span of the parent's turn that spawned the child.
 *
 * Owns: the open spans, the parent context of each child. Does not own: the tracer, the export.
 * K1 Every span that was started is ended: when its operation ends, or when the instrumentation is stopped.
 * K2 Content is set only if the option `captureContent` asks for it.
 */
import {
  type Attributes,
  type Context,
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { DIAGNOSED_SESSIONS_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import type {
  ModelCallDiagnostics,
  SessionFacts,
  SpawnDiagnostics,
  ToolDiagnostics,
  TurnDiagnostics,
} from '../base/diagnostics.ts';
import { inputTokensOf, type Usage } from '../base/messages.ts';
import { RecentMap } from '../models/recent-map.ts';
import { inputMessages, outputMessages, toolArguments, toolResult } from './content.ts';
import { ATTRIBUTE, OPERATION } from './conventions.ts';

const MS_PER_SECOND = 1_000;
const NANOSECONDS_PER_MS = 1_000_000;

/** The options for making spans. */
export interface SpanOptions {
  readonly tracer: Tracer;
  readonly hasContent: boolean;
  /** True if the attribute names of version 1.36 are set besides the newest names. */
  readonly hasFormerNames: boolean;
}

/** The open spans of one session. */
interface OpenSpans {
  turn: Span | undefined;
  /** The context of operations within the turn. */
  context: Context;
  /** The attempt of a model call. */
  call: Span | undefined;
  /** Tool calls, by call id; undefined until there is one. */
  tools: Map<string, Span> | undefined;
}

/** See the head of the file. */
export class SpanRecorder {
  readonly #options: SpanOptions;
  /** The open spans by session. A session without open spans has no entry. */
  readonly #open = new Map<string, OpenSpans>();
  /**
   * The parent context of a child's turns, by the child's id. An entry stays after the child's exit, because the child
   * may have another turn, and its diagnostics may come later than those of its parent.
   */
  readonly #births = new RecentMap<Context>(DIAGNOSED_SESSIONS_MAX);

  constructor(options: SpanOptions) {
    this.#options = options;
  }

  /** The number of open spans. */
  get size(): number {
    let size = 0;
    for (const open of this.#open.values()) size += spansOf(open).length;
    return size;
  }

  turn(message: TurnDiagnostics): void {
    const { session, agent, at } = message;
    if (message.phase === 'start') {
      const above = this.#births.get(session) ?? ROOT_CONTEXT;
      const attributes = this.#facts(message, OPERATION.agent);
      attributes[ATTRIBUTE.agentId] = session;
      const span = this.#start(`${OPERATION.agent} ${agent}`, SpanKind.INTERNAL, at, above, attributes);
      const open = this.#openOf(session);
      open.turn = span;
      open.context = trace.setSpan(above, span);
      return;
    }
    const open = this.#open.get(session);
    const span = open?.turn;
    if (open === undefined || span === undefined) return;
    open.turn = undefined;
    open.context = ROOT_CONTEXT;
    this.#forgetQuiet(session, open);
    const { reason, usage, error, messages } = message;
    span.setAttribute(ATTRIBUTE.turnReason, reason);
    if (usage !== undefined) setUsage(span, usage);
    if (this.#options.hasContent) span.setAttribute(ATTRIBUTE.inputMessages, inputMessages(messages));
    if (error !== undefined) failed(span, error.code, error.message);
    else if (reason === 'cancelled') failed(span, reason);
    span.end(timeOf(at));
  }

  modelCall(message: ModelCallDiagnostics): void {
    const { session, model, at } = message;
    if (message.phase === 'start') {
      const name = model === undefined ? OPERATION.chat : `${OPERATION.chat} ${model}`;
      const attributes = this.#facts(message, OPERATION.chat);
      attributes[ATTRIBUTE.attempt] = message.attempt;
      const open = this.#openOf(session);
      open.call = this.#start(name, SpanKind.CLIENT, at, open.context, attributes);
      return;
    }
    const open = this.#open.get(session);
    const span = open?.call;
    if (open === undefined || span === undefined) return;
    open.call = undefined;
    this.#forgetQuiet(session, open);
    const { usage, stop, answer } = message;
    if (usage !== undefined) setUsage(span, usage);
    if (stop !== undefined && answer.length > 0) span.setAttribute(ATTRIBUTE.finishReasons, [stop]);
    if (this.#options.hasContent && answer.length > 0) {
      span.setAttribute(ATTRIBUTE.outputMessages, outputMessages(answer, stop ?? 'error'));
    }
    const failure = failureOf(message);
    if (failure !== undefined) failed(span, failure, message.error?.message);
    span.end(timeOf(at));
  }

  tool(message: ToolDiagnostics): void {
    const { session, toolUseId, toolName, at } = message;
    if (message.phase === 'start') {
      const open = this.#openOf(session);
      const attributes = this.#facts(message, OPERATION.tool);
      attributes[ATTRIBUTE.toolName] = toolName;
      attributes[ATTRIBUTE.toolCallId] = toolUseId;
      attributes[ATTRIBUTE.toolType] = 'function';
      const span = this.#start(`${OPERATION.tool} ${toolName}`, SpanKind.INTERNAL, at, open.context, attributes);
      if (this.#options.hasContent) span.setAttribute(ATTRIBUTE.toolArguments, toolArguments(message.input));
      open.tools ??= new Map();
      open.tools.set(toolUseId, span);
      return;
    }
    const open = this.#open.get(session);
    const span = open?.tools?.get(toolUseId);
    if (open === undefined || span === undefined) return;
    open.tools?.delete(toolUseId);
    this.#forgetQuiet(session, open);
    const { success, result } = message;
    if (this.#options.hasContent && result !== undefined) {
      span.setAttribute(ATTRIBUTE.toolResult, toolResult(result));
    }
    if (!success) failed(span, 'tool_error');
    span.end(timeOf(at));
  }

  spawn({ session, child, phase }: SpawnDiagnostics): void {
    if (phase === 'end') return;
    const open = this.#open.get(session);
    const above = open?.turn === undefined ? this.#births.get(session) : open.context;
    if (above !== undefined) this.#births.put(child, above);
  }

  /** Ends the open spans, because no more diagnostics will come. */
  stop(): void {
    for (const open of this.#open.values()) for (const span of spansOf(open)) span.end();
    this.#open.clear();
  }

  #openOf(session: string): OpenSpans {
    let open = this.#open.get(session);
    if (open === undefined) {
      open = { turn: undefined, context: ROOT_CONTEXT, call: undefined, tools: undefined };
      this.#open.set(session, open);
    }
    return open;
  }

  #forgetQuiet(session: string, { turn, call, tools }: OpenSpans): void {
    if (turn === undefined && call === undefined && (tools?.size ?? 0) === 0) this.#open.delete(session);
  }

  #start(name: string, kind: SpanKind, at: number, above: Context, attributes: Attributes): Span {
    return this.#options.tracer.startSpan(name, { kind, attributes, startTime: timeOf(at) }, above);
  }

  /**
   * The attributes that every span has. They are set at the start of the span, because a sampler sees only the
   * attributes from the start. They are assigned one by one, because spreading an object costs as much as a span.
   */
  #facts({ session, agent, model, provider }: SessionFacts, operation: string): Attributes {
    const attributes: Attributes = {};
    attributes[ATTRIBUTE.operation] = operation;
    attributes[ATTRIBUTE.provider] = provider;
    attributes[ATTRIBUTE.conversation] = session;
    if (this.#options.hasFormerNames) attributes[ATTRIBUTE.formerProvider] = provider;
    attributes[ATTRIBUTE.agentName] = agent;
    if (model !== undefined) attributes[ATTRIBUTE.requestModel] = model;
    return attributes;
  }
}

/** The open spans. Spans within a turn come before the span of the turn. */
function spansOf({ turn, call, tools }: OpenSpans): readonly Span[] {
  return [...(tools?.values() ?? []), ...(call === undefined ? [] : [call]), ...(turn === undefined ? [] : [turn])];
}

/**
 * The `error.type` of an attempt: the code of its error, the HTTP status of an attempt that is retried, `cancelled`, or
 * `unseen`. Undefined when the attempt was answered.
 */
export function failureOf(message: ModelCallDiagnostics): string | undefined {
  if (message.phase === 'start') return undefined;
  const { error, status, retryAfterMs, stop, answer } = message;
  if (error !== undefined) return error.code;
  if (retryAfterMs !== undefined) return status === undefined ? '_OTHER' : String(status);
  return answer.length === 0 && (stop === 'cancelled' || stop === 'unseen') ? stop : undefined;
}

function setUsage(span: Span, usage: Usage): void {
  const { cache_read_input_tokens: read, cache_creation_input_tokens: created } = usage;
  span.setAttribute(ATTRIBUTE.inputTokens, inputTokensOf(usage));
  span.setAttribute(ATTRIBUTE.outputTokens, usage.output_tokens);
  if (read !== undefined) span.setAttribute(ATTRIBUTE.cacheReadTokens, read);
  if (created !== undefined) span.setAttribute(ATTRIBUTE.cacheCreationTokens, created);
}

/**
 * Converts epoch ms to a tracer's form: seconds and nanoseconds. A tracer could mistake a plain number for a time of
 * the process's own clock.
 */
function timeOf(at: number): HrTime {
  const seconds = Math.trunc(at / MS_PER_SECOND);
  return [seconds, Math.round((at - seconds * MS_PER_SECOND) * NANOSECONDS_PER_MS)];
}

/** Marks a span as failed. `message`: omitted if it could hold content. */
function failed(span: Span, type: string, message?: string): void {
  span.setAttribute(ATTRIBUTE.errorType, type);
  span.setStatus({ code: SpanStatusCode.ERROR, ...defined({ message }) });
}
