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
import { isRecord } from '../base/json.ts';
import type { ContentBlock, ResultBlock, ToolResultBlock } from '../base/messages.ts';
import { isServerResult, isServerUse, isThought, textOf } from '../base/messages.ts';
import { awaitedUses, resultId, useId } from '../session/rules/server-uses.ts';
import { BLANK_RESULT, MISSING_RESULT } from '../session/rules/tool-texts.ts';
import type { LoggedMessage } from '../session/state/messages.ts';
import type { SessionState } from '../session/state/state.ts';

/** One message of a request; the shape of the Messages API. */
export interface RenderedMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly ContentBlock[];
}

/** How an epoch is rendered. */
export interface RenderOptions {
  /** True if a UTC time line precedes user text (§6.6). */
  readonly timestamps: boolean;
  /**
   * Deliveries are sent as user text and not as phantom pairs. Under manual thinking an assistant turn with a call must
   * start with thinking (R22), and calls in a history need tools (R41).
   */
  readonly deliveriesAsText: boolean;
  /** True if the request has no tools. Then calls of an imported history are sent as text too (R41). */
  readonly callsAsText?: boolean;
  /** True if an answer with a call must begin with thinking (R22). An answer that begins otherwise is sent as text. */
  readonly callsNeedThought?: boolean;
  /** True if the model refuses thoughts whose preceding messages have changed (R21). */
  readonly bindsThinking?: boolean;
  /** True if the request asks for a structured answer: then no source may ask for citations (R58). */
  readonly dropsCitations?: boolean;
}

/**
 * The first message of a request whose window begins with the model's text, because a request must begin with a user
 * message (R14).
 */
export const OPENING_TEXT = '[The conversation begins here.]';

/** Separates a summary, or the rest of a paused answer, from the model's next text, which is a separate answer. */
const RESUMING_TEXT = '[The conversation goes on here.]';

/**
 * Messages of a window, in their order, as request messages. `isStart`: no message precedes them in the request.
 * `thoughtFloor`: thoughts of messages below this seq belong to another history, and so do the provider's calls that
 * still wait for results. `before`: the request messages that precede them.
 */
export function renderMessages(
  messages: readonly LoggedMessage[],
  options: RenderOptions,
  isStart = true,
  thoughtFloor = 0,
  prefix?: ContextPrefix,
  before: readonly RenderedMessage[] = [],
): readonly RenderedMessage[] {
  const responses = new Responses(messages);
  const request = new RequestDraft(options.dropsCitations === true, before);
  if (prefix !== undefined) renderPrefix(prefix, options, request);
  for (const message of messages) renderMessage(message, responses, options, request, thoughtFloor);
  return request.finish(isStart);
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

/** A whole request of a session: of its window, or of other messages in its place. */
export function renderSession(
  state: SessionState,
  options: RenderOptions,
  messages: readonly LoggedMessage[] = state.messages,
): readonly RenderedMessage[] {
  return renderMessages(messages, options, true, state.thoughtFloor, prefixOf(state));
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
  if (message.opens === true) request.seal();
  if (message.type === 'tool_response' || message.inAnswer === true || message.prompt === true) return;
  if (message.phantom === true) {
    renderDelivery(message, responses, options, request);
  } else if (message.blocks !== undefined) {
    const isOld = options.bindsThinking === true && message.seq < floor;
    const isStale = isOld && message.blocks.some(isThought);
    request.keepsUses = message.seq >= floor;
    const blocks = isStale ? message.blocks.filter((block) => !isThought(block)) : message.blocks;
    if (sendsCallsAsText(blocks, options)) renderAsText(blocks, responses, request);
    else renderAnswer(blocks, responses, request);
    if (message.history?.compressedSummary === true) request.breakAfter();
    // A paused answer that lacks a thought cannot be resumed (R38): a user message must come first (R12). The same
    // applies to the answer that followed the paused one, if that answer has no thought either.
    else if (isStale || (isOld && request.isResumed)) request.breakAfter(true);
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

function sendsCallsAsText(blocks: readonly ContentBlock[], options: RenderOptions): boolean {
  if (options.callsAsText !== true && options.callsNeedThought !== true) return false;
  if (!blocks.some((block) => block.type === 'tool_use')) return false;
  const [first] = blocks;
  return options.callsAsText === true || first === undefined || !isThought(first);
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

/** The place of a call of the provider that has no result. */
interface WaitingUse {
  /** Index of its request message; missing: the message precedes this part of the request. */
  readonly place?: number;
  /** True if the call may still get its result from an answer to this request. */
  readonly isKept: boolean;
  /** True if the results of the calls beside it follow: the next answer must have its result. */
  isAsked: boolean;
}

/**
 * Collects request messages and merges neighbours of one role, up to a seal. A call of the provider stays while its
 * result may still come or has come (R52); otherwise it is taken out again.
 */
class RequestDraft {
  readonly #messages: RenderedMessage[] = [];
  #sealed = 0;
  #isBroken = false;
  #mustResume = false;
  #isResumed = false;
  readonly #dropsCitations: boolean;
  readonly #waiting = new Map<string, WaitingUse>();
  /** Whether the provider's calls that come next may wait for their results at the end of the request. */
  keepsUses = true;

  constructor(dropsCitations: boolean, before: readonly RenderedMessage[]) {
    this.#dropsCitations = dropsCitations;
    const isAsked = before.at(-1)?.role === 'user';
    for (const id of waitingUses(before)) this.#waiting.set(id, { isKept: true, isAsked });
  }

  /** True if the model's last text follows other text of the model that no earlier request may have ended with. */
  get isResumed(): boolean {
    return this.#isResumed;
  }

  /**
   * Separates the model's next text from its text so far. `atEnd`: whether the request must not end with the text so
   * far either.
   */
  breakAfter(atEnd = false): void {
    this.#isBroken = this.#messages.at(-1)?.role === 'assistant';
    this.#mustResume = this.#isBroken && atEnd;
  }

  /** Makes the next content start a separate message. */
  seal(): void {
    this.#sealed = this.#messages.length;
  }

  add(role: 'user' | 'assistant', content: string | readonly ContentBlock[]): void {
    // The content is copied, because sent content leaves the session and must not be the log's own list.
    const sent = typeof content === 'string' ? content : sendable(content);
    const plain = typeof sent === 'string' || !this.#dropsCitations ? sent : sent.map(withoutCitations);
    if (plain.length === 0 || (typeof plain === 'string' && plain.trim() === '')) return;
    const kept = role === 'assistant' ? this.#settle(plain) : plain;
    if (role === 'user') this.#ask(plain);
    if (kept.length === 0) return;
    if (role === 'user') this.#isResumed = false;
    if (this.#isBroken) {
      this.#isResumed = role === 'assistant' && this.#mustResume;
      this.#isBroken = false;
      this.#mustResume = false;
      if (role === 'assistant') this.#messages.push({ role: 'user', content: RESUMING_TEXT });
    }
    const last = this.#messages.at(-1);
    if (last === undefined || last.role !== role || this.#messages.length === this.#sealed) {
      this.#messages.push({ role, content: kept });
    } else {
      this.#messages[this.#messages.length - 1] = { role, content: [...blocksOf(last.content), ...blocksOf(kept)] };
    }
    if (role === 'assistant') this.#note(kept);
  }

  /**
   * The blocks of an answer without results of no call. Takes out the calls before it that should have got their
   * results in it.
   */
  #settle(content: string | readonly ContentBlock[]): string | readonly ContentBlock[] {
    const hasResult = typeof content !== 'string' && content.some(isServerResult);
    if (!hasResult && this.#waiting.size === 0) return content;
    const answered = new Set<string>();
    const own = new Set<string>();
    const kept = blocksOf(content).filter((block) => {
      if (isServerUse(block)) own.add(useId(block));
      if (!isServerResult(block)) return true;
      const id = resultId(block);
      if (own.delete(id)) return true;
      if (!this.#waiting.has(id) || this.#isBroken) return false;
      answered.add(id);
      return true;
    });
    for (const id of answered) this.#waiting.delete(id);
    this.#takeOut(({ isKept, isAsked }) => !isKept || isAsked || this.#isBroken, true);
    return typeof content === 'string' ? content : kept;
  }

  /** The model gets this content next: calls that wait stay only before the results of the calls beside them. */
  #ask(content: string | readonly ContentBlock[]): void {
    if (this.#waiting.size === 0) return;
    const isResults = typeof content !== 'string' && content.every(({ type }) => type === 'tool_result');
    this.#takeOut(({ isAsked }) => isAsked || !isResults, false);
    for (const use of this.#waiting.values()) use.isAsked = true;
  }

  /** Remembers the calls of an answer that have no result in it. */
  #note(content: string | readonly ContentBlock[]): void {
    if (typeof content === 'string') return;
    const place = this.#messages.length - 1;
    for (const id of awaitedUses(content) ?? []) {
      this.#waiting.set(id, { place, isKept: this.keepsUses, isAsked: false });
    }
  }

  /**
   * Takes calls of the provider out of the request. `isOpen`: no user's message follows. An answer that has lost a part
   * cannot be resumed (R38).
   */
  #takeOut(isGone: (use: WaitingUse) => boolean, isOpen: boolean): void {
    for (const id of [...this.#waiting.keys()]) {
      // Looked up one by one, because a removed message moves the others.
      const use = this.#waiting.get(id);
      if (use === undefined || !isGone(use)) continue;
      this.#waiting.delete(id);
      const { place } = use;
      const message = place === undefined ? undefined : this.#messages[place];
      if (place === undefined || message === undefined) continue;
      const content = blocksOf(message.content).filter((block) => !isServerUse(block) || useId(block) !== id);
      if (content.length > 0) {
        this.#messages[place] = { role: message.role, content };
        if (isOpen && place === this.#messages.length - 1) this.breakAfter(true);
      } else {
        this.#remove(place);
      }
    }
  }

  #remove(place: number): void {
    this.#messages.splice(place, 1);
    if (this.#sealed > place) this.#sealed -= 1;
    if (this.#messages.at(-1)?.role !== 'assistant') {
      this.#isBroken = false;
      this.#mustResume = false;
    }
    for (const [id, use] of this.#waiting) {
      if (use.place !== undefined && use.place > place) this.#waiting.set(id, { ...use, place: use.place - 1 });
    }
  }

  finish(isStart: boolean): readonly RenderedMessage[] {
    this.#takeOut(({ isKept }) => !isKept, true);
    if (this.#mustResume) this.#messages.push({ role: 'user', content: RESUMING_TEXT });
    if (!isStart || this.#messages[0]?.role !== 'assistant') return this.#messages;
    return [{ role: 'user', content: OPENING_TEXT }, ...this.#messages];
  }
}

/** The ids of the provider's calls that have no result yet at the end of these request messages. */
function waitingUses(messages: readonly RenderedMessage[]): readonly string[] {
  let end = messages.length;
  const last = messages[end - 1];
  if (last?.role === 'user') {
    if (typeof last.content === 'string' || !last.content.every(({ type }) => type === 'tool_result')) return [];
    end -= 1;
  }
  let start = end;
  while (messages[start - 1]?.role === 'assistant') start -= 1;
  return awaitedUses(messages.slice(start, end).flatMap(({ content }) => blocksOf(content))) ?? [];
}

function sendable(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  return blocks.every(isSendable) ? blocks.slice() : blocks.filter(isSendable);
}

/** The block, whose sources do not ask the model to cite them. */
function withoutCitations<Block extends ContentBlock>(block: Block): Block {
  if ('citations' in block && isRecord(block.citations) && block.citations['enabled'] === true) {
    const { citations: _citations, ...rest } = block;
    return rest as unknown as Block;
  }
  if (block.type !== 'tool_result' || !Array.isArray(block.content)) return block;
  return { ...block, content: (block.content as readonly ContentBlock[]).map(withoutCitations) };
}

function isSendable(block: ContentBlock): boolean {
  return block.type !== 'text' || block.text.trim() !== '';
}

function blocksOf(content: string | readonly ContentBlock[]): readonly ContentBlock[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}
