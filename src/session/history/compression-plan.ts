/**
 * Decides whether a conversation is due for compression, and which messages a compression archives, keeps and shortens.
 * Pure: the functions only read a state.
 */
import { CHUNK_TOPICS_CHARACTERS_MAX, KEPT_RESULT_CHARACTERS_MAX } from '../../base/bounds.ts';
import { cutText } from '../../base/json.ts';
import { type ContentBlock, isThought, tokensOf } from '../../base/messages.ts';
import type { CompressionFacts } from '../state/inputs.ts';
import type { LoggedMessage } from '../state/messages.ts';
import type { ArchivedChunk, SeqRange } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { historySize, MessageGroups } from './recents.ts';

/** The effect of a compression on the window. */
export interface CompactionPlan {
  readonly archived: readonly SeqRange[];
  /** Seq of the first kept message. */
  readonly kept: number;
  readonly cut: readonly { readonly seq: number; readonly content: string | readonly ContentBlock[] }[];
  /** The archive that this compression makes; undefined if all its messages are injected messages or summaries. */
  readonly chunk: Omit<ArchivedChunk, 'number' | 'topics'> | undefined;
}

/** Tokens that an estimate adds for each message, for the structure around its text. */
const MESSAGE_TOKENS = 4;
/** A compression that is due only because of the number of tokens must save at least this share of the tokens. */
const SAVING_MIN = 0.1;

/** True if an automatic compression is due. Soon after a failed compression no compression is due. */
export function isDue(state: SessionState, facts: CompressionFacts): boolean {
  const { compression } = state;
  if (compression !== undefined && state.nextMessageSeq < compression.restsUntil) return false;
  return reachesBounds(state, facts);
}

/**
 * True if the conversation reaches a threshold of the settings, even soon after a failed compression. The messages that
 * a compression keeps may reach the threshold for tokens alone, and a low threshold for messages as well. Such a
 * threshold also needs `keepRecent` new messages since the last compression. Otherwise the compression would be
 * repeated at each half-step.
 */
export function reachesBounds(state: SessionState, facts: CompressionFacts): boolean {
  const size = historySize(state.messages);
  const hasGrown =
    state.compression === undefined || state.nextMessageSeq - state.compression.since >= facts.keepRecent;
  if (size >= facts.messages && (hasGrown || facts.keepRecent + 1 < facts.messages)) return true;
  if (!hasGrown) return false;
  const tokens = conversationTokens(state, size);
  return tokens >= facts.tokens && tokens - facts.targetTokens >= tokens * SAVING_MIN;
}

/** True if a forced compression is worth its model call. */
export function isWorthForcing(state: SessionState, facts: CompressionFacts): boolean {
  const size = historySize(state.messages);
  return size > facts.idleMinMessages && conversationTokens(state, size) >= facts.idleMinTokens;
}

/** Tokens of the conversation: the API's last count in this epoch, or the estimate, whichever is larger. */
function conversationTokens(state: SessionState, size: number): number {
  return Math.max(reportedTokens(state), state.tokens + size * MESSAGE_TOKENS);
}

/** The API's last count in this epoch; 0 before the first answer, because earlier counts belong to other requests. */
function reportedTokens(state: SessionState): number {
  if (state.sealedSeq === 0) return 0;
  const usage = state.messages.findLast((message) => message.usage !== undefined)?.usage;
  return usage === undefined ? 0 : tokensOf(usage);
}

/**
 * True if the history before the last answer may change. It may not change if the model binds its thoughts to the
 * history, and the last answer has both thoughts and calls. The model must then get these thoughts back with the
 * results of the calls (R20, R21).
 */
export function mayRewrite(state: SessionState, facts: CompressionFacts): boolean {
  if (!facts.bindsThinking) return true;
  const blocks = state.messages.findLast((message) => message.blocks !== undefined)?.blocks ?? [];
  return !(blocks.some(isThought) && blocks.some((block) => block.type === 'tool_use'));
}

/**
 * The messages that a compression archives, keeps and shortens; `undefined` if there are no messages to sum up except
 * earlier summaries. `through`: messages after this seq stay. `tail`: messages from this seq on stay.
 */
export function planCompaction(
  state: SessionState,
  facts: CompressionFacts,
  bounds: { readonly through: number; readonly tail?: number | undefined },
): CompactionPlan | undefined {
  const { messages } = state;
  const end = endOf(messages, bounds);
  const kept = new MessageGroups(messages).recent(facts.keepRecent, end);
  const archived: LoggedMessage[] = [];
  let first: number | undefined;
  for (const [index, message] of messages.entries()) {
    if (message.prompt === true) continue;
    if (!kept.has(index)) archived.push(message);
    else first ??= message.seq;
  }
  if (first === undefined || archived.every(isSummary)) return undefined;
  const own = archived.filter((message) => !isInjected(message) && !isSummary(message));
  return {
    archived: rangesOf(archived),
    kept: first,
    cut: cutResults(messages, kept, end),
    chunk: own.length === 0 ? undefined : { messages: rangesOf(own), messageCount: historySize(own) },
  };
}

/**
 * The index from which on all messages stay: messages that the summary request left out (`tail`), and messages that
 * were added while the summary was written (`through`).
 */
function endOf(
  messages: readonly LoggedMessage[],
  bounds: { readonly through: number; readonly tail?: number | undefined },
): number {
  let end = messages.length;
  while (end > 0 && (messages[end - 1]?.seq ?? 0) > bounds.through) end -= 1;
  const tail = bounds.tail === undefined ? -1 : messages.findIndex((message) => message.seq === bounds.tail);
  return tail === -1 ? end : Math.min(end, tail);
}

/** True for a summary made by a compression. */
export function isSummary(message: LoggedMessage): boolean {
  return message.history?.compressedSummary === true;
}

/**
 * True for a message that is not part of the conversation itself: a note of the runtime, a part of a phantom pair (an
 * entry shown as a call with its result), an index card, or a message that an embedder marked as injected.
 */
function isInjected(message: LoggedMessage): boolean {
  if (message.history !== undefined) return message.history.systemInjected === true;
  return message.type === 'system_message' || message.phantom === true;
}

/** The seqs of these messages as ranges, ascending. */
function rangesOf(messages: readonly LoggedMessage[]): readonly SeqRange[] {
  const seqs = messages.map((message) => message.seq).sort((a, b) => a - b);
  const ranges: [number, number][] = [];
  for (const seq of seqs) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] + 1 === seq) last[1] = seq;
    else ranges.push([seq, seq]);
  }
  return ranges;
}

/** A function that tests whether a seq is in one of the ranges. */
export function inRanges(ranges: readonly SeqRange[]): (seq: number) => boolean {
  return (seq) => ranges.some(([from, to]) => seq >= from && seq <= to);
}

/**
 * The long results among the kept messages, in shortened form. A result after the last answer stays whole, because the
 * model has not read it yet.
 */
function cutResults(messages: readonly LoggedMessage[], kept: ReadonlySet<number>, end: number): CompactionPlan['cut'] {
  const lastAnswer = messages.findLastIndex((message) => message.blocks !== undefined);
  const cut: { seq: number; content: string | readonly ContentBlock[] }[] = [];
  for (const [index, message] of messages.entries()) {
    if (index >= end || index > lastAnswer || message.type !== 'tool_response' || !kept.has(index)) continue;
    const content = shortened(message.content);
    if (content !== undefined) cut.push({ seq: message.seq, content });
  }
  return cut;
}

/** The shortened content of a result; `undefined` if the content is short enough. */
function shortened(content: LoggedMessage['content']): string | readonly ContentBlock[] | undefined {
  if (typeof content === 'string') return shortenedText(content);
  let isCut = false;
  const blocks = content.map((block) => {
    const text = block.type === 'text' ? shortenedText(block.text) : undefined;
    if (text === undefined) return block;
    isCut = true;
    return { type: 'text', text } as const;
  });
  return isCut ? blocks : undefined;
}

function shortenedText(text: string): string | undefined {
  if (text.length <= KEPT_RESULT_CHARACTERS_MAX) return undefined;
  let end = 0;
  let count = 0;
  for (const character of text) {
    if (count < KEPT_RESULT_CHARACTERS_MAX) end += character.length;
    count += 1;
  }
  if (count <= KEPT_RESULT_CHARACTERS_MAX) return undefined;
  return `${text.slice(0, end)}\n[Shortened: the first ${KEPT_RESULT_CHARACTERS_MAX} of ${count} characters.]`;
}

const TOPICS = /<topics>([\s\S]*?)<\/topics>/i;

/** Splits an answer of the summarising model into the summary and the topics of its `<topics>` element. */
export function readSummary(text: string): { readonly summary: string; readonly topics: string | undefined } {
  const match = TOPICS.exec(text);
  const summary = (match === null ? text : text.replace(match[0], '')).trim();
  const topics = cutText((match?.[1] ?? '').replace(/\s+/g, ' ').trim(), CHUNK_TOPICS_CHARACTERS_MAX);
  return { summary, topics: topics === '' ? undefined : topics };
}

/** The reason of a compression that was given up on request. */
export const INTERRUPTED = 'interrupted';
