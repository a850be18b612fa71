/**
 * Collects the messages of a request, and keeps the rules about adjacent messages.
 *
 * Owns: the messages so far, and which calls of the provider's own tools among them still have no result. Does not own:
 * which messages of a session are sent, and in which form (`render.ts`).
 *
 * D1 Adjacent messages of one role become one message, but never across a seal, the end of an answered request (R15).
 * D2 A call of the provider is sent only if it has its result, or may still get it (R52).
 * D3 The request does not end with text of the model that must not be continued (R12, R38). Such text is a paused
 *    answer that has lost a part, or a paused answer of an earlier epoch, perhaps of another model.
 */
import { isRecord } from '../base/json.ts';
import type { ContentBlock } from '../base/messages.ts';
import { isServerResult, isServerUse, isThought } from '../base/messages.ts';
import { awaitedUses, resultId, useId } from '../session/rules/server-uses.ts';

/** One message of a request; the shape of the Messages API. */
export interface RenderedMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly ContentBlock[];
}

/**
 * The first message of a request whose window begins with the model's text, because a request must begin with a user
 * message (R14).
 */
export const OPENING_TEXT = '[The conversation begins here.]';

/** The user message between a summary, or the rest of a paused answer, and the model's next text. */
export const RESUMING_TEXT = '[The conversation goes on here.]';

/** A call of the provider that has no result yet. */
interface WaitingUse {
  /** Index of the request message with the call; missing: that message is in an earlier part of the request. */
  readonly place?: number;
  /** True if the call may still get its result from an answer to this request. */
  readonly isKept: boolean;
  /** True if results of the session's own calls follow, so that the next answer must have this call's result. */
  isAsked: boolean;
}

/** See the head of the file. */
export class RequestDraft {
  readonly #messages: RenderedMessage[] = [];
  #sealed = 0;
  #isBroken = false;
  #mustResume = false;
  /** True if the last message is an answer of an earlier epoch. */
  #endsOld = false;
  readonly #dropsCitations: boolean;
  readonly #before: readonly RenderedMessage[];
  readonly #waiting = new Map<string, WaitingUse>();
  /** True if the current answer is of an earlier epoch. Calls of the provider in it can no longer get results. */
  #isOld = false;

  constructor(dropsCitations: boolean, before: readonly RenderedMessage[]) {
    this.#dropsCitations = dropsCitations;
    this.#before = before;
    const isAsked = before.at(-1)?.role === 'user';
    for (const id of waitingUses(before)) this.#waiting.set(id, { isKept: true, isAsked });
  }

  /**
   * True if the model's turn at the end of the request has begun without a thought. A turn begins after a user's
   * message without results of calls. The turn may lack its thought because a paused answer lost it, or because an
   * embedder wrote the model's text.
   */
  turnLacksThought(): boolean {
    // A break adds a user's message before the next answer, and a new turn begins there.
    if (this.#isBroken) return false;
    let first: RenderedMessage | undefined;
    for (const messages of [this.#messages, this.#before]) {
      for (let index = messages.length - 1; index >= 0; index -= 1) {
        const message = messages[index];
        if (message?.role === 'assistant') first = message;
        else if (message !== undefined && !blocksOf(message.content).some(isResult)) {
          return first !== undefined && !beginsWithThought(blocksOf(first.content));
        }
      }
    }
    return first !== undefined && !beginsWithThought(blocksOf(first.content));
  }

  /**
   * Separates the model's next text from its text so far. `atEnd`: true if the request must not end with the text so
   * far.
   */
  breakAfter(atEnd = false): void {
    this.#isBroken = this.#messages.at(-1)?.role === 'assistant';
    this.#mustResume = this.#isBroken && atEnd;
  }

  /**
   * Announces that the blocks of an answer come next. `isOld`: the answer is of an earlier epoch. `isAnswer`: false if
   * an embedder wrote the answer. The request for this answer may have ended with the user's message that D3 adds. Then
   * that message is added here again, even if no block of the answer is sent.
   */
  beginAnswer(isOld: boolean, isAnswer: boolean): void {
    this.#isOld = isOld;
    if (isOld || !isAnswer || !this.#endsOld) return;
    this.#endRequest();
    this.#endsOld = false;
    this.seal();
  }

  /** Adds a user's message at the end, if a request must not end with the last message (D3). */
  #endRequest(): void {
    this.#takeOut(({ isKept }) => !isKept, true);
    const endsOld = this.#endsOld && this.#messages.at(-1)?.role === 'assistant';
    if (!this.#mustResume && !endsOld) return;
    this.#messages.push({ role: 'user', content: RESUMING_TEXT });
    this.#isBroken = false;
    this.#mustResume = false;
  }

  /** Makes the next content start a separate message. `isSent`: a request of this epoch ended here (D3). */
  seal(isSent = false): void {
    if (isSent && this.#endsOld) {
      this.#endRequest();
      this.#endsOld = false;
    }
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
    if (this.#isBroken) {
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
    this.#endsOld = role === 'assistant' && this.#isOld;
    if (role === 'assistant') this.#note(kept);
  }

  /**
   * The blocks of an answer, without results whose call is missing. Also removes earlier calls of the provider whose
   * results this answer should have had.
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

  /**
   * Handles a user's content after waiting calls of the provider. The calls stay only if the content has only results.
   */
  #ask(content: string | readonly ContentBlock[]): void {
    if (this.#waiting.size === 0) return;
    const isResults = typeof content !== 'string' && content.every(isResult);
    this.#takeOut(({ isAsked }) => isAsked || !isResults, false);
    for (const use of this.#waiting.values()) use.isAsked = true;
  }

  /** Remembers the calls of the provider in an answer that have no result there. */
  #note(content: string | readonly ContentBlock[]): void {
    if (typeof content === 'string') return;
    const place = this.#messages.length - 1;
    for (const id of awaitedUses(content) ?? []) {
      this.#waiting.set(id, { place, isKept: !this.#isOld, isAsked: false });
    }
  }

  /**
   * Removes calls of the provider from the request. `isOpen`: no user's message follows. An answer that has lost a part
   * must not be continued (R38).
   */
  #takeOut(isGone: (use: WaitingUse) => boolean, isOpen: boolean): void {
    for (const id of [...this.#waiting.keys()]) {
      // Each entry is looked up here, because removing a message changes the indexes of the others.
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

  /** The messages. `isStart`: they begin the request. `isSent`: a request ends with them (D3). */
  finish(isStart: boolean, isSent: boolean): readonly RenderedMessage[] {
    if (isSent) this.#endRequest();
    else this.#takeOut(({ isKept }) => !isKept, true);
    if (!isStart || this.#messages[0]?.role !== 'assistant') return this.#messages;
    return [{ role: 'user', content: OPENING_TEXT }, ...this.#messages];
  }
}

/** The ids of the provider's calls that have no result yet at the end of these request messages. */
function waitingUses(messages: readonly RenderedMessage[]): readonly string[] {
  let end = messages.length;
  const last = messages[end - 1];
  if (last?.role === 'user') {
    if (typeof last.content === 'string' || !last.content.every(isResult)) return [];
    end -= 1;
  }
  let start = end;
  while (messages[start - 1]?.role === 'assistant') start -= 1;
  return awaitedUses(messages.slice(start, end).flatMap(({ content }) => blocksOf(content))) ?? [];
}

function sendable(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  return blocks.every(isSendable) ? blocks.slice() : blocks.filter(isSendable);
}

/** The block, with citations of its sources switched off. */
function withoutCitations<Block extends ContentBlock>(block: Block): Block {
  if ('citations' in block && isRecord(block.citations) && block.citations['enabled'] === true) {
    const { citations: _citations, ...rest } = block;
    return rest as unknown as Block;
  }
  if (block.type !== 'tool_result' || !Array.isArray(block.content)) return block;
  return { ...block, content: (block.content as readonly ContentBlock[]).map(withoutCitations) };
}

function isResult({ type }: ContentBlock): boolean {
  return type === 'tool_result';
}

/** False for a block that the API refuses because it is blank (R08, R09). */
export function isSendable(block: ContentBlock): boolean {
  return block.type !== 'text' || block.text.trim() !== '';
}

function blocksOf(content: string | readonly ContentBlock[]): readonly ContentBlock[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

/** True if the first block is a thought of Claude. Thoughts of other vendors' models are not sent to Claude. */
export function beginsWithThought([first]: readonly ContentBlock[]): boolean {
  return first !== undefined && isThought(first) && !('origin' in first);
}
