/**
 * `render`: what the model is told. Turns logged messages into request messages that are legal by construction, for every
 * prefix of every log (A8, `legality.ts`), and byte-stable: what was sent stays a prefix of what is sent next.
 *
 * How each rule is kept: a call is sent only with its response, right after it, results first (R01 to R04); ids are unique
 * since they were made so when stored (R05); blank text never gets here (R08, R09); neighbours of one role are merged
 * (R15), but never across the border of an answered request; the answer's own blocks are replayed as they came (R20).
 * Pure: messages in, messages out.
 */
import type { ContentBlock, ToolResultBlock } from '../base/messages.ts';
import { textOf } from '../base/messages.ts';
import type { LoggedMessage } from '../session/state.ts';

/** One message of a request; the shape of the Messages API. */
export interface RenderedMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly ContentBlock[];
}

/** How an epoch is rendered. */
export interface RenderOptions {
  /** A UTC time line stands before user text (§6.6). */
  readonly timestamps: boolean;
  /**
   * Deliveries are sent as user text and not as phantom pairs: under manual thinking an assistant turn with a call must
   * start with thinking (R22), and calls in a history need tools (R41).
   */
  readonly deliveriesAsText: boolean;
}

/** Stands first where the window begins with the model's own words: a request begins with a user message (R14). */
export const OPENING_TEXT = '[The conversation begins here.]';

/** Messages of a window, ascending by seq, as request messages. `isStart`: nothing comes before them in the request. */
export function renderMessages(
  messages: readonly LoggedMessage[],
  options: RenderOptions,
  isStart = true,
): readonly RenderedMessage[] {
  const responses = new Responses(messages);
  const request = new RequestDraft();
  for (const message of messages) renderMessage(message, responses, options, request);
  return request.finish(isStart);
}

/** Messages that are searched for a response one by one; of more an index is made. */
const SEARCHED_MAX = 16;

/** The responses among some messages, by call. A half-step renders few messages and asks for few responses, or for none. */
class Responses {
  readonly #messages: readonly LoggedMessage[];
  #byCall: Map<string, LoggedMessage> | undefined;

  constructor(messages: readonly LoggedMessage[]) {
    this.#messages = messages;
  }

  /** The response to a call, if there is one. */
  to(callId: string): LoggedMessage | undefined {
    if (this.#messages.length > SEARCHED_MAX) {
      this.#byCall ??= responsesByCall(this.#messages);
      return this.#byCall.get(callId);
    }
    for (let index = this.#messages.length - 1; index >= 0; index -= 1) {
      const message = this.#messages[index];
      if (message?.type === 'tool_response' && message.toolUseId === callId) return message;
    }
    return undefined;
  }
}

function responsesByCall(messages: readonly LoggedMessage[]): Map<string, LoggedMessage> {
  const responses = new Map<string, LoggedMessage>();
  for (const message of messages) {
    if (message.type === 'tool_response' && message.toolUseId !== undefined) {
      responses.set(message.toolUseId, message);
    }
  }
  return responses;
}

function renderMessage(
  message: LoggedMessage,
  responses: Responses,
  options: RenderOptions,
  request: RequestDraft,
): void {
  if (message.opens === true) request.seal();
  if (message.type === 'tool_response' || message.inAnswer === true) return;
  if (message.phantom === true) {
    renderDelivery(message, responses, options, request);
  } else if (message.blocks !== undefined) {
    renderAnswer(message.blocks, responses, request);
  } else if (message.type === 'user_message') {
    request.add('user', withTime(message, options));
  } else if (message.type === 'system_message') {
    request.add('user', `[system] ${textOf(message.content)}`);
  } else {
    request.add('assistant', message.content);
  }
}

/** The answer's blocks, less the calls that have no response yet, then the results in call order. */
function renderAnswer(blocks: readonly ContentBlock[], responses: Responses, request: RequestDraft): void {
  const answered: ContentBlock[] = [];
  const results: ToolResultBlock[] = [];
  for (const block of blocks) {
    if (block.type !== 'tool_use') {
      answered.push(block);
      continue;
    }
    const response = responses.to(block.id);
    if (response === undefined) continue;
    answered.push(block);
    results.push(resultBlock(block.id, response));
  }
  request.add('assistant', answered);
  if (results.length > 0) request.add('user', results);
}

function resultBlock(toolUseId: string, response: LoggedMessage): ToolResultBlock {
  const content = textOf(response.content);
  return response.success === false
    ? { type: 'tool_result', tool_use_id: toolUseId, content, is_error: true }
    : { type: 'tool_result', tool_use_id: toolUseId, content };
}

/** A delivery: the phantom call with its result, or the same as text. */
function renderDelivery(
  call: LoggedMessage,
  responses: Responses,
  options: RenderOptions,
  request: RequestDraft,
): void {
  const id = call.toolUseId;
  const response = id === undefined ? undefined : responses.to(id);
  if (id === undefined || response === undefined) return;
  if (options.deliveriesAsText) {
    const name = call.toolName ?? '';
    request.add('user', `[${name}] ${textOf(response.content)}`);
    return;
  }
  request.add('assistant', [{ type: 'tool_use', id, name: call.toolName ?? '', input: call.input ?? {} }]);
  request.add('user', [resultBlock(id, response)]);
}

function withTime(message: LoggedMessage, options: RenderOptions): string | readonly ContentBlock[] {
  if (!options.timestamps) return message.content;
  const time = timeLine(message.at);
  if (typeof message.content === 'string') return `${time}\n${message.content}`;
  return [{ type: 'text', text: time }, ...message.content];
}

const DAYS: readonly string[] = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS: readonly string[] = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** UTC `Ddd Mon D HH:MM`, the day without a leading zero. */
export function timeLine(at: number): string {
  const time = new Date(at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${DAYS[time.getUTCDay()]} ${MONTHS[time.getUTCMonth()]} ${time.getUTCDate()}`;
  return `${day} ${two(time.getUTCHours())}:${two(time.getUTCMinutes())}`;
}

/** Collects request messages and merges neighbours of one role, up to a seal. */
class RequestDraft {
  readonly #messages: RenderedMessage[] = [];
  #sealed = 0;

  /** What comes next starts a message of its own. */
  seal(): void {
    this.#sealed = this.#messages.length;
  }

  add(role: 'user' | 'assistant', content: string | readonly ContentBlock[]): void {
    // Never the list of the log itself: what is sent leaves the session.
    const kept = typeof content === 'string' ? content : sendable(content);
    if (kept.length === 0) return;
    const last = this.#messages.at(-1);
    if (last === undefined || last.role !== role || this.#messages.length === this.#sealed) {
      this.#messages.push({ role, content: kept });
      return;
    }
    this.#messages[this.#messages.length - 1] = { role, content: [...blocksOf(last.content), ...blocksOf(kept)] };
  }

  finish(isStart: boolean): readonly RenderedMessage[] {
    if (!isStart || this.#messages[0]?.role !== 'assistant') return this.#messages;
    return [{ role: 'user', content: OPENING_TEXT }, ...this.#messages];
  }
}

function sendable(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  return blocks.every(isSendable) ? blocks.slice() : blocks.filter(isSendable);
}

function isSendable(block: ContentBlock): boolean {
  return block.type !== 'text' || block.text.trim() !== '';
}

function blocksOf(content: string | readonly ContentBlock[]): readonly ContentBlock[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}
