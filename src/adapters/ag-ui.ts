/**
 * Subpath `troupe/ag-ui`: translates a turn to events of the Agent User Interaction protocol (AG-UI). The turn that
 * consumes a message is one run of the protocol. Each half-step (one model call and its tools) is one step.
 *
 * Source of the protocol: https://docs.ag-ui.com/concepts/events. The events are plain data, so a server needs no
 * package of the protocol.
 */
import { z } from 'zod';
import { ContentError } from '../base/errors.ts';
import type { Usage } from '../base/messages.ts';
import type { Session } from '../index.ts';
import type { Piece } from './turn-story.ts';
import {
  eventStream,
  followTurn,
  problemsOf,
  STREAM_HEADERS,
  type TurnSource,
  TurnStream,
  type Writer,
} from './turn-stream.ts';

export type { TurnSource, TurnStream } from './turn-stream.ts';

/** The options of a run. */
export interface AgUiOptions {
  /** A signal that stops the reading. The session continues. */
  readonly signal?: AbortSignal;
  /** The id of the thread in the protocol. Default: the session's id. */
  readonly threadId?: string;
  /** The id of the run in the protocol. Default: the receipt's id. */
  readonly runId?: string;
  /** Headers to add to those of the response. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** One event of the protocol. */
export type AgUiEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

/** The content of a run request. */
export interface AgUiInput {
  readonly threadId: string;
  readonly runId: string;
  readonly content: string;
  /** Id of the user's message. It becomes the message's key, so a repeated request is accepted once. */
  readonly key: string | undefined;
}

const inputSchema = z.looseObject({
  threadId: z.string().min(1),
  runId: z.string().min(1),
  messages: z.array(z.looseObject({ id: z.string().optional(), role: z.string(), content: z.unknown() })).min(1),
});
const textPart = z.looseObject({ type: z.literal('text'), text: z.string() });

/**
 * The newest user message of a run request. Throws `ContentError` for a body of another form, for a conversation that
 * does not end with a user's message, and for content other than text.
 */
export function agUiInput(body: unknown): AgUiInput {
  const parsed = inputSchema.safeParse(body);
  if (!parsed.success) throw new ContentError(`not a run request: ${problemsOf(parsed.error)}`);
  const { threadId, runId, messages } = parsed.data;
  const message = messages.at(-1);
  if (message?.role !== 'user') throw new ContentError('the last message of a run request must be the user’s');
  const parts = z.array(textPart).safeParse(message.content);
  if (typeof message.content !== 'string' && !parts.success) {
    throw new ContentError('the content of a run request must be text');
  }
  const content =
    typeof message.content === 'string' ? message.content : parts.data?.map(({ text }) => text).join('\n');
  return { threadId, runId, content: content ?? '', key: message.id };
}

/**
 * Answers a request with the run of the turn that consumes `source`. If the client disconnects, the turn continues. A
 * failure of the turn is reported in the stream. Rejects as `session.send` does, if there is a message to send.
 */
export async function agUiResponse(session: Session, source: TurnSource, options: AgUiOptions = {}): Promise<Response> {
  const events = await agUiEvents(session, source, options);
  const body = eventStream(events, {
    last: [],
    fail: (error) => [JSON.stringify({ type: 'RUN_ERROR', message: error.message })],
  });
  return new Response(body, { headers: { ...STREAM_HEADERS, ...options.headers } });
}

/**
 * Returns the events that `agUiResponse` would send, one by one, for a custom transport. Calling `return` stops the
 * reading. Rejects as `session.send` does.
 */
export async function agUiEvents(
  session: Session,
  source: TurnSource,
  options: AgUiOptions = {},
): Promise<TurnStream<AgUiEvent>> {
  const { signal } = options;
  const reading = await followTurn(session, source, signal);
  const run = { threadId: options.threadId ?? session.id, runId: options.runId ?? reading.receipt.id };
  const first = { type: 'RUN_STARTED', ...run };
  return new TurnStream<AgUiEvent>(reading, { first, writer: new RunWriter(run), signal });
}

/** Opens and closes messages and steps as the protocol requires. */
class RunWriter implements Writer<AgUiEvent> {
  readonly #run: { readonly threadId: string; readonly runId: string };
  #open: { readonly kind: 'text' | 'thinking'; readonly messageId: string } | undefined;
  #step: string | undefined;
  #steps = 0;
  #messages = 0;

  constructor(run: { readonly threadId: string; readonly runId: string }) {
    this.#run = run;
  }

  take(piece: Piece): readonly AgUiEvent[] {
    switch (piece.type) {
      case 'step': {
        const ended = this.#endStep();
        this.#steps += 1;
        this.#step = `half-step-${this.#steps}`;
        return [...ended, { type: 'STEP_STARTED', stepName: this.#step }];
      }
      case 'text':
      case 'thinking':
        return this.#delta(piece.type, piece.delta);
      case 'break':
        return this.#endMessage();
      case 'call': {
        const { id: toolCallId, name: toolCallName, input } = piece;
        return [
          { type: 'TOOL_CALL_START', toolCallId, toolCallName },
          { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(input) },
          { type: 'TOOL_CALL_END', toolCallId },
        ];
      }
      case 'result': {
        const { id: toolCallId, text: content } = piece;
        return [{ type: 'TOOL_CALL_RESULT', messageId: `${toolCallId}-result`, toolCallId, content, role: 'tool' }];
      }
      case 'note':
        return [{ type: 'CUSTOM', name: `troupe.${piece.name}`, value: piece.data }];
      case 'end':
        return [...this.#endStep(), this.#ending(piece)];
    }
  }

  #delta(kind: 'text' | 'thinking', delta: string): readonly AgUiEvent[] {
    const prefix = kind === 'text' ? 'TEXT_MESSAGE' : 'REASONING_MESSAGE';
    if (this.#open?.kind === kind) return [{ type: `${prefix}_CONTENT`, messageId: this.#open.messageId, delta }];
    const ended = this.#endMessage();
    this.#messages += 1;
    const messageId = `${this.#run.runId}-${this.#messages}`;
    this.#open = { kind, messageId };
    return [
      ...ended,
      ...(kind === 'thinking' ? [{ type: 'REASONING_START', messageId }] : []),
      { type: `${prefix}_START`, messageId, role: kind === 'text' ? 'assistant' : 'reasoning' },
      { type: `${prefix}_CONTENT`, messageId, delta },
    ];
  }

  #endMessage(): readonly AgUiEvent[] {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return [];
    const { kind, messageId } = open;
    if (kind === 'text') return [{ type: 'TEXT_MESSAGE_END', messageId }];
    return [
      { type: 'REASONING_MESSAGE_END', messageId },
      { type: 'REASONING_END', messageId },
    ];
  }

  #endStep(): readonly AgUiEvent[] {
    const ended = this.#endMessage();
    const stepName = this.#step;
    this.#step = undefined;
    return stepName === undefined ? ended : [...ended, { type: 'STEP_FINISHED', stepName }];
  }

  #ending({ how, reason, turn, usage, error }: Extract<Piece, { type: 'end' }>): AgUiEvent {
    if (how === 'failed') return { type: 'RUN_ERROR', message: error?.message ?? reason, code: error?.code ?? reason };
    return {
      type: 'RUN_FINISHED',
      ...this.#run,
      outcome: { type: how === 'cancelled' ? 'cancelled' : 'success' },
      result: { turn, reason },
      ...(usage === undefined ? {} : { usage: [tokensOf(usage)] }),
    };
  }
}

/** Converts a usage to the protocol's accounting, which counts tokens read from or written to a cache as input. */
function tokensOf(usage: Usage): Readonly<Record<string, number>> {
  const { cache_read_input_tokens: cachedInputTokens = 0, cache_creation_input_tokens: cacheWriteInputTokens = 0 } =
    usage;
  const inputTokens = usage.input_tokens + cachedInputTokens + cacheWriteInputTokens;
  const outputTokens = usage.output_tokens;
  const totalTokens = inputTokens + outputTokens;
  return { inputTokens, outputTokens, totalTokens, cachedInputTokens, cacheWriteInputTokens };
}
