/**
 * `render`: the content a model receives. Turns logged messages into request messages that are legal by construction,
 * for every prefix of every log (A8, `legality.ts`). They are also byte-stable: a sent request stays a prefix of the
 * next one.
 *
 * How each rule is kept:
 * - A call is sent with its response right after it, wherever that is in the log, or with a notice that there is none.
 *   Results come first (R01 to R04).
 * - Ids are unique, since they were made so when stored (R05).
 * - Blank text is left out (R08, R09).
 * - Neighbours of one role are merged (R15), but never across the border of an answered request.
 * - The answer's own blocks are replayed unchanged (R20), except for the provider's calls that have no result and
 *   cannot get one any more, and for results without their call (R37, R52).
 *
 * Pure: messages in, messages out.
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
   * Deliveries are sent as user text and not as phantom pairs. Under manual thinking an assistant turn with a call must
   * start with thinking, and calls in a history need tools.
   */
  readonly deliveriesAsText: boolean;
  /** True if the request has no tools. Then calls of an imported history are sent as text too. */
  readonly callsAsText?: boolean;
  /**
   * True if an answer with a call, and the turn it belongs to, must begin with thinking. If one of them begins
   * otherwise, the answer is sent as text.
   */
  readonly callsNeedThought?: boolean;
  /** True if the model refuses thoughts whose preceding messages have changed. */
  readonly bindsThinking?: boolean;
  /** True if the request asks for a structured answer: then no source may ask for citations. */
  readonly dropsCitations?: boolean;
}

/**
 * Messages of a window, in their order, as request messages. `isStart`: no message precedes them in the request.
 * `thoughtFloor`: thoughts of messages below this seq belong to another history. So do the provider's calls that still
 * wait for results, and a paused answer. `before`: the request messages that precede them. `isSent`: false if
 * no request ends with them, since the session waits for its next message.
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

/** The prefix as a delivery: a call that no model made, and its result. */
function renderPrefix({ session, text }: ContextPrefix, options: RenderOptions, request: RequestDraft): void {
  if (options.deliveriesAsText) {
    request.add('user', `[from_melete_goal] ${text}`);
    return;
  }
  const id = `goal_snapshot_${session.replace(/[^a-zA-Z0-9_-]/gu, '_')}`;
  request.add('assistant', [{ type: 'tool_use', id, name: 'from_melete_goal', input: {} }]);
  request.add('user', [{ type: 'tool_result', tool_use_id: id, content: text }]);
}

/** The text before the window of a session now; `undefined` as long as all messages are in the window. */
export function prefixOf(state: {
  readonly id: string;
  readonly prefix: string | undefined;
}): ContextPrefix | undefined {
  return state.prefix === undefined ? undefined : { session: state.id, text: state.prefix };
}

/**
 * A whole request of a session: of its window, or of other messages in its place. `isSent`: false for the request as it
 * stands between two calls.
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
 * The responses among some messages, by call. The first response after its call counts. A response that an embedder put
 * before the call answers nothing, and was never sent. A half-step renders few messages and looks up few responses, or
 * none.
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
 * The answer's blocks, then the results of its calls: the existing ones in call order, and a notice for each missing
 * one.
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

/** An answer for a request that may not hold its calls: the model's text, and the outcome of its calls as user text. */
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
 * A result's text, or its blocks if an embedder gave blocks that a result may hold. Never blank for a failure (R40).
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

/** A delivery: the phantom call with its result, or both as text. */
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
