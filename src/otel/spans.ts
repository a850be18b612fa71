/**
 * Spans from diagnostics: a turn is `invoke_agent`, an attempt of a model call `chat`, a tool call `execute_tool`; the turns of a
 * child are below the turn of its parent that spawned it.
 *
 * Owns: the spans that are open, the place of each child below its parent. Does not own: the tracer, the export.
 *  K1 A span that was started is ended: with its operation, or when this is stopped.
 *  K2 No content is set unless it was asked for.
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

/** How spans are made. */
export interface SpanOptions {
  readonly tracer: Tracer;
  readonly hasContent: boolean;
  /** The attribute names of version 1.36 are set beside the newest. */
  readonly hasFormerNames: boolean;
}

/** See the head of the file. */
export class SpanTeller {
  readonly #options: SpanOptions;
  /** Open turns, by session. */
  readonly #turns = new Map<string, { readonly span: Span; readonly context: Context }>();
  /** Open attempts, by session. */
  readonly #calls = new Map<string, Span>();
  /** Open tool calls, by session and call. */
  readonly #tools = new Map<string, Span>();
  /** Where the turns of a child belong, by child: it may have one after its exit, and be told of later than its parent. */
  readonly #births = new RecentMap<Context>(DIAGNOSED_SESSIONS_MAX);

  constructor(options: SpanOptions) {
    this.#options = options;
  }

  /** Spans that are open. */
  get size(): number {
    return this.#turns.size + this.#calls.size + this.#tools.size;
  }

  turn(message: TurnDiagnostics): void {
    const { session, agent, at } = message;
    if (message.phase === 'start') {
      const above = this.#births.get(session) ?? ROOT_CONTEXT;
      const attributes = this.#facts(message, OPERATION.agent);
      attributes[ATTRIBUTE.agentId] = session;
      const span = this.#start(`${OPERATION.agent} ${agent ?? session}`, SpanKind.INTERNAL, at, above, attributes);
      this.#turns.set(session, { span, context: trace.setSpan(above, span) });
      return;
    }
    const open = this.#turns.get(session);
    this.#turns.delete(session);
    if (open === undefined) return;
    const { span } = open;
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
      const above = this.#turns.get(session)?.context ?? ROOT_CONTEXT;
      const attributes = this.#facts(message, OPERATION.chat);
      attributes[ATTRIBUTE.attempt] = message.attempt;
      this.#calls.set(session, this.#start(name, SpanKind.CLIENT, at, above, attributes));
      return;
    }
    const span = this.#calls.get(session);
    this.#calls.delete(session);
    if (span === undefined) return;
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
    const key = `${session} ${toolUseId}`;
    if (message.phase === 'start') {
      const above = this.#turns.get(session)?.context ?? ROOT_CONTEXT;
      const attributes = this.#facts(message, OPERATION.tool);
      attributes[ATTRIBUTE.toolName] = toolName;
      attributes[ATTRIBUTE.toolCallId] = toolUseId;
      attributes[ATTRIBUTE.toolType] = 'function';
      const span = this.#start(`${OPERATION.tool} ${toolName}`, SpanKind.INTERNAL, at, above, attributes);
      if (this.#options.hasContent) span.setAttribute(ATTRIBUTE.toolArguments, toolArguments(message.input));
      this.#tools.set(key, span);
      return;
    }
    const span = this.#tools.get(key);
    this.#tools.delete(key);
    if (span === undefined) return;
    const { success, result } = message;
    if (this.#options.hasContent && result !== undefined) {
      span.setAttribute(ATTRIBUTE.toolResult, toolResult(result));
    }
    if (!success) failed(span, 'tool_error');
    span.end(timeOf(at));
  }

  spawn({ session, child, phase }: SpawnDiagnostics): void {
    if (phase === 'end') return;
    const above = this.#turns.get(session)?.context ?? this.#births.get(session);
    if (above !== undefined) this.#births.put(child, above);
  }

  /** Ends what is open: nothing more will be told. */
  stop(): void {
    for (const span of [...this.#tools.values(), ...this.#calls.values()]) span.end();
    for (const { span } of this.#turns.values()) span.end();
    for (const open of [this.#tools, this.#calls, this.#turns]) open.clear();
  }

  #start(name: string, kind: SpanKind, at: number, above: Context, attributes: Attributes): Span {
    return this.#options.tracer.startSpan(name, { kind, attributes, startTime: timeOf(at) }, above);
  }

  /** What every span says, for its start, where a sampler sees it. Set one by one: an object spread in costs as much as a span. */
  #facts({ session, agent, model, provider }: SessionFacts, operation: string): Attributes {
    const attributes: Attributes = {};
    attributes[ATTRIBUTE.operation] = operation;
    attributes[ATTRIBUTE.provider] = provider;
    attributes[ATTRIBUTE.conversation] = session;
    if (this.#options.hasFormerNames) attributes[ATTRIBUTE.formerProvider] = provider;
    if (agent !== undefined) attributes[ATTRIBUTE.agentName] = agent;
    if (model !== undefined) attributes[ATTRIBUTE.requestModel] = model;
    return attributes;
  }
}

/** `error.type` of an attempt: the code of its error, the HTTP status of one that is tried again; undefined when it answered. */
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

/** Epoch ms as a tracer keeps it: seconds and nanoseconds. A plain number could be taken for one of the process's own clock. */
function timeOf(at: number): HrTime {
  const seconds = Math.trunc(at / MS_PER_SECOND);
  return [seconds, Math.round((at - seconds * MS_PER_SECOND) * NANOSECONDS_PER_MS)];
}

/** `message`: left out where it could hold content. */
function failed(span: Span, type: string, message?: string): void {
  span.setAttribute(ATTRIBUTE.errorType, type);
  span.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
}
