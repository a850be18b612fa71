/**
 * Renders logged messages as the messages of a request. For every prefix of every log the request is legal by
 * construction (A8, `legality.ts`). It is also byte-stable: within an epoch, each request begins with the whole
 * previous request.
 *
 * How the rules of the API are kept:
 * - A call's response is sent directly after the call, wherever it is in the log. A call without a response gets a
 *   notice. In a message, results come first (R01 to R04).
 * - Ids are unique, because duplicates were replaced before they were stored (R05).
 * - Blank text is left out (R08, R09).
 * - Adjacent messages of one role are merged (R15), but never across the end of an answered request.
 * - An answer's blocks are sent back unchanged (R20). Calls of the provider's own tools that can no longer get a result
 *   are left out, and so are results without their call (R37, R52). If the model binds thoughts to the messages before
 *   them, thoughts of an earlier epoch are left out too (R21).
 *
 * Pure.
 */
import type { ContentBlock, ResultBlock, ToolResultBlock } from '../base/messages.ts';
import { isThought, textOf } from '../base/messages.ts';
import { BLANK_RESULT, MISSING_RESULT } from '../session/rules/tool-texts.ts';
import type { LoggedMessage } from '../session/state/messages.ts';
import type { SessionState } from '../session/state/state.ts';
import { beginsWithThought, isSendable, type RenderedMessage, RequestDraft } from './request-draft.ts';

/** How an epoch is rendered. */
export interface RenderOptions {
  /** True if a UTC time line precedes user text. */
  readonly timestamps: boolean;
  /**
   * True if deliveries (mailbox entries that no user sent) are rendered as user text. Otherwise they are phantom pairs:
   * a call that the runtime adds, with the entry as its result. Phantom pairs are not possible without tools, nor with
   * thinking of type `enabled`: a turn with a call must then start with thinking.
   */
  readonly deliveriesAsText: boolean;
  /** True if the request has no tools. Then calls of an imported history are sent as text too. */
  readonly callsAsText?: boolean;
  /**
   * True if an answer with a call, and the model's turn with that answer, must begin with thinking. If one of them does
   * not, the answer is sent as text.
   */
  readonly callsNeedThought?: boolean;
  /** True if the model refuses thoughts whose preceding messages have changed. */
  readonly bindsThinking?: boolean;
  /** True if the request asks for a structured answer. Then sources must not have citations enabled. */
  readonly dropsCitations?: boolean;
}

/**
 * Messages of a window, in their order, as request messages.
 * - `isStart`: true if they are the beginning of the request.
 * - `thoughtFloor`: messages below this seq are of an earlier epoch. Their thoughts belong to another history, and so
 *   do paused answers and calls of the provider that have no result yet.
 * - `prefix`: the text before the window.
 * - `before`: the request messages that precede the result.
 * - `isSent`: false if no request ends with these messages, because the session waits for its next message.
 */
export function renderMessages(
  messages: readonly LoggedMessage[],
  options: RenderOptions,
  isStart = true,
  thoughtFloor = 0,
  prefix?: ContextPrefix,
  before: readonly RenderedMessage[] = [],
  isSent = true,
): readonly RenderedMessage[] {
  const responses = new Responses(messages);
  const request = new RequestDraft(options.dropsCitations === true, before);
  if (prefix !== undefined) renderPrefix(prefix, options, request);
  for (const message of messages) renderMessage(message, responses, options, request, thoughtFloor);
  return request.finish(isStart, isSent);
}

/** The open goals and pinned messages, shown before a window that some messages have left (§6.7). */
export interface ContextPrefix {
  readonly session: string;
  readonly text: string;
}

/** Renders the prefix: as a call that no model made, with its result, or as user text. */
function renderPrefix({ session, text }: ContextPrefix, options: RenderOptions, request: RequestDraft): void {
  if (options.deliveriesAsText) {
    request.add('user', `[from_melete_goal] ${text}`);
    return;
  }
  const id = `goal_snapshot_${session.replace(/[^a-zA-Z0-9_-]/gu, '_')}`;
  request.add('assistant', [{ type: 'tool_use', id, name: 'from_melete_goal', input: {} }]);
  request.add('user', [{ type: 'tool_result', tool_use_id: id, content: text }]);
}

/** The text before a session's window in this epoch; `undefined` if no message has left, or if no goal is open. */
export function prefixOf(state: {
  readonly id: string;
  readonly prefix: string | undefined;
}): ContextPrefix | undefined {
  return state.prefix === undefined ? undefined : { session: state.id, text: state.prefix };
}

/**
 * The messages of a whole request of a session: of its window, or of other given messages. `isSent`: false for the
 * request of a session that makes no call now (see `renderMessages`).
 */
export function renderSession(
  state: SessionState,
  options: RenderOptions,
  messages: readonly LoggedMessage[] = state.messages,
  isSent = true,
): readonly RenderedMessage[] {
  return renderMessages(messages, options, true, state.thoughtFloor, prefixOf(state), [], isSent);
}

/** The most messages that are searched for a response one by one. For more messages, an index is built. */
const SEARCHED_MAX = 16;

/**
 * Finds the responses of calls among some messages. The first response after the call counts. A response that an
 * embedder put before its call is never sent. The index is built only on demand, because most half-steps render few
 * messages and look up few responses.
 */
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
    let isAsked = false;
    for (let index = 0; index < this.#messages.length; index += 1) {
      const message = this.#messages[index];
      if (message?.toolUseId !== callId) continue;
      if (message.type === 'tool_call') isAsked = true;
      else if (isAsked && message.type === 'tool_response') return message;
    }
    return undefined;
  }
}

function responsesByCall(messages: readonly LoggedMessage[]): Map<string, LoggedMessage> {
  const responses = new Map<string, LoggedMessage>();
  const asked = new Set<string>();
  for (const message of messages) {
    const { toolUseId } = message;
    if (toolUseId === undefined) continue;
    if (message.type === 'tool_call') asked.add(toolUseId);
    // The first of several responses is the one that was sent.
    else if (message.type === 'tool_response' && asked.has(toolUseId) && !responses.has(toolUseId)) {
      responses.set(toolUseId, message);
    }
  }
  return responses;
}

function renderMessage(
  message: LoggedMessage,
  responses: Responses,
  options: RenderOptions,
  request: RequestDraft,
  floor: number,
): void {
  if (message.opens === true) request.seal(message.seq >= floor);
  if (message.type === 'tool_response' || message.inAnswer === true || message.prompt === true) return;
  if (message.phantom === true) {
    renderDelivery(message, responses, options, request);
  } else if (message.blocks !== undefined) {
    const isOld = message.seq < floor;
    const isStale = isOld && options.bindsThinking === true;
    const blocks = isStale ? message.blocks.filter((block) => !isThought(block)) : message.blocks;
    request.beginAnswer(isOld, message.history === undefined);
    if (sendsCallsAsText(blocks, options, request)) renderAsText(blocks, responses, request);
    else renderAnswer(blocks, responses, request);
    if (message.history?.compressedSummary === true) request.breakAfter();
  } else if (message.type === 'user_message') {
    request.add('user', withTime(message, options));
  } else if (message.type === 'system_message') {
    request.add('user', `[system] ${textOf(message.content)}`);
  } else {
    request.add('assistant', message.content);
  }
}

/**
 * Renders an answer: its blocks, then the existing results of its calls in call order, then a notice for each missing
 * result.
 */
function renderAnswer(blocks: readonly ContentBlock[], responses: Responses, request: RequestDraft): void {
  const results: ToolResultBlock[] = [];
  let missing: ToolResultBlock[] | undefined;
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    const response = responses.to(block.id);
    if (response !== undefined) {
      results.push(resultBlock(block.id, response));
    } else {
      missing ??= [];
      missing.push({ type: 'tool_result', tool_use_id: block.id, content: MISSING_RESULT, is_error: true });
    }
  }
  request.add('assistant', blocks);
  if (missing !== undefined) results.push(...missing);
  if (results.length > 0) request.add('user', results);
}

function sendsCallsAsText(blocks: readonly ContentBlock[], options: RenderOptions, request: RequestDraft): boolean {
  if (options.callsAsText !== true && options.callsNeedThought !== true) return false;
  if (!blocks.some((block) => block.type === 'tool_use')) return false;
  return options.callsAsText === true || !beginsWithThought(blocks) || request.turnLacksThought();
}

/**
 * Renders an answer whose calls the request may not have: the model's text, and its calls with results as user text.
 */
function renderAsText(blocks: readonly ContentBlock[], responses: Responses, request: RequestDraft): void {
  const said = blocks.filter((block) => block.type !== 'tool_use');
  request.add('assistant', said.every(isThought) ? [] : said);
  for (const block of blocks) {
    if (block.type !== 'tool_use') continue;
    const response = responses.to(block.id);
    const result = response === undefined ? MISSING_RESULT : textOf(response.content);
    request.add('user', `[${block.name} ${JSON.stringify(block.input)}] ${result}`);
  }
}

function resultBlock(toolUseId: string, response: LoggedMessage): ToolResultBlock {
  const content = resultContent(response.content);
  return response.success === false
    ? { type: 'tool_result', tool_use_id: toolUseId, content, is_error: true }
    : { type: 'tool_result', tool_use_id: toolUseId, content };
}

/**
 * The content of a result: its text, or its blocks that a result may have. The content is never blank: R40 requires
 * this for a failure.
 */
function resultContent(content: LoggedMessage['content']): NonNullable<ToolResultBlock['content']> {
  if (typeof content === 'string') return content.trim() === '' ? BLANK_RESULT : content;
  const kept: ResultBlock[] = [];
  for (const block of content) if (isResultBlock(block) && isSendable(block)) kept.push(block);
  return kept.length === 0 ? BLANK_RESULT : kept;
}

function isResultBlock(block: ContentBlock): block is ResultBlock {
  const { type } = block;
  return type === 'text' || type === 'image' || type === 'document' || type === 'search_result';
}

/** Renders a phantom pair: the call with its result, or both as user text. */
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

/** The UTC time as `Ddd Mon D HH:MM`; the day has no leading zero. `at`: epoch ms. */
export function timeLine(at: number): string {
  const time = new Date(at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${DAYS[time.getUTCDay()]} ${MONTHS[time.getUTCMonth()]} ${time.getUTCDate()}`;
  return `${day} ${two(time.getUTCHours())}:${two(time.getUTCMinutes())}`;
}
