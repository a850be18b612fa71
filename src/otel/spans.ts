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
      const span = this.#start(`${OPERATION.agent} ${agent ?? session}`, SpanKind.INTERNAL, at, above, {
        ...this.#facts(message, OPERATION.agent),
        [ATTRIBUTE.agentId]: session,
      });
      this.#turns.set(session, { span, context: trace.setSpan(above, span) });
      return;
    }
    const open = this.#turns.get(session);
    this.#turns.delete(session);
    if (open === undefined) return;
    const { span } = open;
    const { reason, usage, error, messages } = message;
    span.setAttribute(ATTRIBUTE.turnReason, reason);
    if (usage !== undefined) span.setAttributes(usageAttributes(usage));
    if (this.#options.hasContent) span.setAttribute(ATTRIBUTE.inputMessages, inputMessages(messages));
    if (error !== undefined) failed(span, error.code, error.message);
    else if (reason === 'cancelled') failed(span, reason);
    span.end(new Date(at));
  }

  modelCall(message: ModelCallDiagnostics): void {
    const { session, model, at } = message;
    if (message.phase === 'start') {
      const name = model === undefined ? OPERATION.chat : `${OPERATION.chat} ${model}`;
      const span = this.#start(name, SpanKind.CLIENT, at, this.#turns.get(session)?.context ?? ROOT_CONTEXT, {
        ...this.#facts(message, OPERATION.chat),
        [ATTRIBUTE.attempt]: message.attempt,
      });
      this.#calls.set(session, span);
      return;
    }
    const span = this.#calls.get(session);
    this.#calls.delete(session);
    if (span === undefined) return;
    const { usage, stop, answer } = message;
    if (usage !== undefined) span.setAttributes(usageAttributes(usage));
    if (stop !== undefined && answer.length > 0) span.setAttribute(ATTRIBUTE.finishReasons, [stop]);
    if (this.#options.hasContent && answer.length > 0) {
      span.setAttribute(ATTRIBUTE.outputMessages, outputMessages(answer, stop ?? 'error'));
    }
    const failure = failureOf(message);
    if (failure !== undefined) failed(span, failure, message.error?.message);
    span.end(new Date(at));
  }

  tool(message: ToolDiagnostics): void {
    const { session, toolUseId, toolName, at } = message;
    const key = `${session} ${toolUseId}`;
    if (message.phase === 'start') {
      const above = this.#turns.get(session)?.context ?? ROOT_CONTEXT;
      const span = this.#start(`${OPERATION.tool} ${toolName}`, SpanKind.INTERNAL, at, above, {
        ...this.#facts(message, OPERATION.tool),
        [ATTRIBUTE.toolName]: toolName,
        [ATTRIBUTE.toolCallId]: toolUseId,
        [ATTRIBUTE.toolType]: 'function',
      });
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
    span.end(new Date(at));
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
    return this.#options.tracer.startSpan(name, { kind, attributes, startTime: new Date(at) }, above);
  }

  /** What every span says; set at its start, where a sampler sees it. */
  #facts({ session, agent, model, provider }: SessionFacts, operation: string): Attributes {
    return {
      [ATTRIBUTE.operation]: operation,
      [ATTRIBUTE.provider]: provider,
      [ATTRIBUTE.conversation]: session,
      ...(this.#options.hasFormerNames ? { [ATTRIBUTE.formerProvider]: provider } : {}),
      ...(agent === undefined ? {} : { [ATTRIBUTE.agentName]: agent }),
      ...(model === undefined ? {} : { [ATTRIBUTE.requestModel]: model }),
    };
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

function usageAttributes(usage: Usage): Attributes {
  const { cache_read_input_tokens: read, cache_creation_input_tokens: created } = usage;
  return {
    [ATTRIBUTE.inputTokens]: inputTokensOf(usage),
    [ATTRIBUTE.outputTokens]: usage.output_tokens,
    ...(read === undefined ? {} : { [ATTRIBUTE.cacheReadTokens]: read }),
    ...(created === undefined ? {} : { [ATTRIBUTE.cacheCreationTokens]: created }),
  };
}

/** `message`: left out where it could hold content. */
function failed(span: Span, type: string, message?: string): void {
  span.setAttribute(ATTRIBUTE.errorType, type);
  span.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
}
