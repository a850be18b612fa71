/**
 * Subpath `troupe/ai-sdk`: translates a turn to a UI message stream of the Vercel AI SDK, which `useChat` and
 * `readUIMessageStream` read.
 *
 * Source of the protocol: the AI SDK's documentation, "Stream Protocols", data stream protocol of version 5 and later.
 * Tools are sent as dynamic tools, so the client need not know them. Data outside the conversation is sent as
 * `data-<name>` parts.
 */
import { z } from 'zod';
import { ContentError, describeValue } from '../base/errors.ts';
import type { ContentBlock, UserContent } from '../base/messages.ts';
import type { Receipt, Session } from '../index.ts';
import { receiptOfPage, replacing } from './replaced-message.ts';
import { recorded, replayed, untilAborted } from './turn-recording.ts';
import type { Piece } from './turn-story.ts';
import {
  eventStream,
  followTurn,
  problemsOf,
  STREAM_HEADERS,
  sse,
  type TurnSource,
  TurnStream,
  type Writer,
} from './turn-stream.ts';
import { loggedValue } from './ui-messages.ts';

export type { TurnSource, TurnStream } from './turn-stream.ts';
export { type UiMessage, type UiPart, type UiToolPart, uiMessages } from './ui-messages.ts';

/** The options of streaming a turn. */
export interface UiStreamOptions {
  /**
   * A signal that ends only this stream, for example the request's own signal. The turn and its other streams continue.
   */
  readonly signal?: AbortSignal;
  /** Id of the assistant's message in the client; default: the receipt's id. */
  readonly messageId?: string;
  /** Headers to add to those of the response. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The options of streaming a turn to a page that connects again. */
export interface ResumeOptions extends UiStreamOptions {
  /** Id of the user's message whose answer the page wants. The turn of that message is streamed even after its end. */
  readonly key?: string;
}

/** One chunk of the protocol. */
export type UiMessageChunk = { readonly type: string } & Readonly<Record<string, unknown>>;

/** The content of a `useChat` request. */
export interface ChatInput {
  /** Id of the chat in the client; a service may use it as a session's id. */
  readonly id: string | undefined;
  readonly content: UserContent;
  /** Id of the user's message. It becomes the message's key, so a repeated request is accepted once. */
  readonly key: string | undefined;
  /**
   * True if the message replaces an earlier message: the user edited the earlier message, or wants another answer to
   * it. `key` then names the earlier message, by the key that it was sent with or by its id in `history`.
   */
  readonly replaces: boolean;
}

const DATA_URL = /^data:([^;,]+);base64,(.*)$/s;
const partSchema = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('file'), mediaType: z.string(), url: z.string() }),
  z.looseObject({ type: z.string() }),
]);
const bodySchema = z.looseObject({
  id: z.string().optional(),
  trigger: z.enum(['submit-message', 'regenerate-message']).optional(),
  messageId: z.string().nullish(),
  messages: z.array(z.looseObject({ id: z.string().optional(), role: z.string(), parts: z.array(partSchema) })).min(1),
});

/**
 * The newest user message of a `useChat` request body. Throws `ContentError` for a body of another form, and for a
 * conversation that does not end with a user's message. Also throws it for a file that is not an image or PDF in a data
 * URL, and for a replacement without an id.
 */
export function chatInput(body: unknown): ChatInput {
  const parsed = bodySchema.safeParse(body);
  if (!parsed.success) throw new ContentError(`not a chat request: ${problemsOf(parsed.error)}`);
  const message = parsed.data.messages.at(-1);
  if (message?.role !== 'user') throw new ContentError('the last message of a chat request must be the user’s');
  const blocks = message.parts.flatMap((part): readonly ContentBlock[] => {
    if (part.type === 'text') return [{ type: 'text', text: String(part['text']) }];
    return part.type === 'file' ? [fileBlock(String(part['mediaType']), String(part['url']))] : [];
  });
  const [first] = blocks;
  const content = blocks.length === 1 && first?.type === 'text' ? first.text : blocks;
  const { id, trigger, messageId } = parsed.data;
  const replaces = trigger === 'regenerate-message' || (message.id !== undefined && messageId === message.id);
  if (replaces && message.id === undefined)
    throw new ContentError('a message that is replaced or answered again needs an id');
  return { id, content, key: message.id, replaces };
}

/**
 * Answers a request with the turn that consumes `source`. If the client disconnects, the turn continues. A failure of
 * the turn is reported in the stream. Rejects as `session.send` does, if there is a message to send.
 *
 * A `ChatInput` replaces an earlier message if it comes from `regenerate`, or is sent again with the id of the earlier
 * message. The transition that accepts the new message removes the earlier message and everything after it from the
 * history. Rejects with `InvalidArgumentError` (`message_not_found`) if the conversation does not have the earlier
 * message.
 */
export async function uiMessageResponse(
  session: Session,
  source: TurnSource | ChatInput,
  options: UiStreamOptions = {},
): Promise<Response> {
  // The signal ends only this client's stream. The turn is still read, for clients that connect later.
  const { signal: _signal, ...others } = options;
  const chunks = await uiMessageChunks(session, source, others);
  const body = eventStream(chunks, {
    last: ['[DONE]'],
    fail: (error) => [JSON.stringify({ type: 'error', errorText: error.message }), '[DONE]'],
  });
  return streamResponse(recorded(chunks.receipt, startOf(chunks.receipt, options), body), options);
}

/** The first event of a stream. It has the id of the assistant's message. */
function startOf(receipt: Receipt, { messageId = receipt.id }: UiStreamOptions): Uint8Array {
  return new TextEncoder().encode(sse(JSON.stringify({ type: 'start', messageId })));
}

function streamResponse(body: ReadableStream<Uint8Array>, options: UiStreamOptions): Response {
  return new Response(untilAborted(body, options.signal), {
    headers: { ...STREAM_HEADERS, 'x-vercel-ai-ui-message-stream': 'v1', ...options.headers },
  });
}

/**
 * Answers the request of `useChat({ resume: true })`, which asks for the running turn. The stream has the turn from its
 * beginning, and then follows the turn live. The status is 204 if the session is idle. With `key`, the stream has the
 * turn of that message, even after the turn has ended. So a client that lost its connection gets the whole answer. If
 * no message has that key, the stream has the running turn. If the turn was interrupted before it had any content, the
 * status is 204, because a client would show an empty message.
 *
 * If this process already streams the turn, the stream is repeated as it was sent. Otherwise the turn is read from the
 * log. For a model call in flight, the stream has the text that was written so far, and then the new text live.
 */
export async function resumeResponse(session: Session, options: ResumeOptions = {}): Promise<Response> {
  const { key, ...others } = options;
  const wanted = key === undefined ? undefined : await receiptOfPage(session, key);
  const receipt = wanted ?? (await session.current());
  if (receipt === undefined || (await isEmpty(session, receipt)))
    return new Response(null, { status: 204, headers: { ...options.headers } });
  const body = replayed(receipt, startOf(receipt, options));
  return body === undefined ? uiMessageResponse(session, receipt, others) : streamResponse(body, options);
}

/** The types of chunks that add nothing to a message. */
const FRAME = new Set(['start', 'start-step', 'finish-step', 'abort']);

/** True if the turn was interrupted before it had any content. */
async function isEmpty(session: Session, receipt: Receipt): Promise<boolean> {
  if ((await receipt.status()).status !== 'interrupted') return false;
  for await (const { type } of await uiMessageChunks(session, receipt)) if (!FRAME.has(type)) return false;
  return true;
}

/**
 * Returns the chunks that `uiMessageResponse` would send, one by one, for custom transports. Calling `return` stops the
 * reading. Rejects as `session.send` does.
 */
export async function uiMessageChunks(
  session: Session,
  source: TurnSource | ChatInput,
  options: UiStreamOptions = {},
): Promise<TurnStream<UiMessageChunk>> {
  const { signal } = options;
  const sent = isChatInput(source) ? await turnSource(session, source) : source;
  const reading = await followTurn(session, sent, signal);
  const first = { type: 'start', messageId: options.messageId ?? reading.receipt.id };
  return new TurnStream<UiMessageChunk>(reading, { first, writer: new ChunkWriter(), signal });
}

function isChatInput(source: TurnSource | ChatInput): source is ChatInput {
  return typeof source === 'object' && 'replaces' in source;
}

async function turnSource(session: Session, { content, key, replaces }: ChatInput): Promise<TurnSource> {
  if (key === undefined) return { content };
  return { content, ...(replaces ? await replacing(session, key) : { key }) };
}

/** Opens and closes parts as the protocol requires. */
class ChunkWriter implements Writer<UiMessageChunk> {
  #open: { readonly kind: 'text' | 'reasoning'; readonly id: string } | undefined;
  #isStepOpen = false;
  #parts = 0;

  take(piece: Piece): readonly UiMessageChunk[] {
    switch (piece.type) {
      case 'step': {
        const ended = this.#endStep();
        this.#isStepOpen = true;
        return [...ended, { type: 'start-step' }];
      }
      case 'text':
        return this.#delta('text', piece.delta);
      case 'thinking':
        return this.#delta('reasoning', piece.delta);
      case 'break':
        return this.#endPart();
      case 'call': {
        const call = { toolCallId: piece.id, toolName: piece.name, dynamic: true };
        return [
          { type: 'tool-input-start', ...call },
          { type: 'tool-input-available', ...call, input: piece.input },
        ];
      }
      case 'result':
        return [
          piece.success
            ? { type: 'tool-output-available', toolCallId: piece.id, output: loggedValue(piece.text), dynamic: true }
            : { type: 'tool-output-error', toolCallId: piece.id, errorText: piece.text, dynamic: true },
        ];
      case 'note':
        // A client keeps a part in its message unless the part is transient.
        return [
          { type: `data-${piece.name}`, data: piece.data, ...(piece.name === 'progress' && { transient: true }) },
        ];
      case 'end':
        return [...this.#endStep(), ...ending(piece)];
    }
  }

  #delta(kind: 'text' | 'reasoning', delta: string): readonly UiMessageChunk[] {
    if (this.#open?.kind === kind) return [{ type: `${kind}-delta`, id: this.#open.id, delta }];
    const ended = this.#endPart();
    this.#parts += 1;
    const id = `${kind}-${this.#parts}`;
    this.#open = { kind, id };
    return [...ended, { type: `${kind}-start`, id }, { type: `${kind}-delta`, id, delta }];
  }

  #endPart(): readonly UiMessageChunk[] {
    const open = this.#open;
    this.#open = undefined;
    return open === undefined ? [] : [{ type: `${open.kind}-end`, id: open.id }];
  }

  #endStep(): readonly UiMessageChunk[] {
    const ended = this.#endPart();
    if (!this.#isStepOpen) return ended;
    this.#isStepOpen = false;
    return [...ended, { type: 'finish-step' }];
  }
}

function ending({ how, turn, usage, error, reason }: Extract<Piece, { type: 'end' }>): readonly UiMessageChunk[] {
  if (how === 'cancelled') return [{ type: 'abort' }];
  if (how === 'failed') return [{ type: 'error', errorText: error?.message ?? reason }];
  return [{ type: 'finish', messageMetadata: { turn, reason, usage } }];
}

function fileBlock(mediaType: string, url: string): ContentBlock {
  const [, type, data] = DATA_URL.exec(url) ?? [];
  if (type === undefined || data === undefined) throw new ContentError('a file of a chat request must be a data URL');
  const source = { type: 'base64', media_type: mediaType, data };
  if (mediaType.startsWith('image/')) return { type: 'image', source };
  if (mediaType === 'application/pdf') return { type: 'document', source };
  throw new ContentError(`a file of a chat request must be an image or a PDF, got ${describeValue(mediaType)}`);
}
