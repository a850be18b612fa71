/**
 * Makes a model's answer storable (contract §5.1, §5.2): drops blank text and calls with a reserved name, makes call
 * ids legal and unique, marks truncated calls. The answer may have any shape, because model output is not checked
 * before. Pure.
 */

import { CALLS_PER_ANSWER_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { describeValue } from '../../base/errors.ts';
import { DELIVERY_PREFIX, isCallId } from '../../base/ids.ts';
import { isRecord, type Json, NotPlainError, toPlainJson, wellFormed } from '../../base/json.ts';
import {
  type ContentBlock,
  isServerResult,
  isServerUse,
  isThought,
  type TextBlock,
  type ToolUseBlock,
} from '../../base/messages.ts';
import type { DispatchedCall, LoggedMessage } from '../state/messages.ts';
import { answersEarlierUse, resultId } from './server-uses.ts';

/** Blocks that only a user message may have. In an answer they would make every later request illegal (R04). */
const USER_BLOCKS: ReadonlySet<string> = new Set(['tool_result', 'image', 'document']);

/** Members of a call that are checked one by one, or never sent back to the model. */
const CALL_MEMBERS: ReadonlySet<string> = new Set(['type', 'id', 'name', 'input', 'cache_control']);

const NO_MEMBERS: Readonly<Record<string, Json>> = Object.freeze({});

/** Stop reasons that cut the output: a call that the model was writing is incomplete. */
export const STOPS_THAT_CUT: ReadonlySet<string> = new Set(['max_tokens', 'model_context_window_exceeded']);

/** True for a call of the model with a name that is reserved for phantom calls. Such a call is dropped (§5.2). */
function isPhantomCall(block: unknown): boolean {
  return (
    isRecord(block) &&
    block['type'] === 'tool_use' &&
    typeof block['name'] === 'string' &&
    block['name'].startsWith(DELIVERY_PREFIX)
  );
}

/** An answer in its stored form. */
export interface StorableAnswer {
  /** Blocks in the model's order, each legal in a later request. */
  readonly content: readonly ContentBlock[];
  /** The calls among the blocks, in order. */
  readonly calls: readonly DispatchedCall[];
  /**
   * True if a thought follows a dropped or changed block. A thought is bound to the original blocks before it (R21).
   */
  readonly isAltered: boolean;
}

/** The stored form of an answer. `stop`: the stop reason; `halfStep` and `taken` make generated ids unique. */
export function storableAnswer(
  rawContent: unknown,
  options: {
    readonly stop: string;
    readonly halfStep: number;
    readonly taken: ReadonlySet<string>;
    /** Ids of calls of the provider's own tools in earlier answers, whose results may be in this answer. */
    readonly awaited?: readonly string[] | undefined;
    /** The timeout in ms that the model asked for, if the tool allows that. */
    readonly timeoutMsOf: (toolName: string, input: Json) => number | undefined;
  },
): StorableAnswer {
  const content: ContentBlock[] = [];
  const calls: DispatchedCall[] = [];
  const blocks: readonly unknown[] = Array.isArray(rawContent) ? rawContent : [];
  const lastIndex = blocks.length - 1;
  /** Ids of the calls so far. The last block's id is not added, since no call follows it. */
  let own: Set<string> | undefined;
  /** Ids of the provider's calls whose results may follow. */
  const uses = new Set(options.awaited);
  let hasChanged = false;
  let isAltered = false;
  for (let index = 0; index <= lastIndex; index += 1) {
    const block = blocks[index];
    const cutOff = index === lastIndex && STOPS_THAT_CUT.has(options.stop);
    if (!isRecord(block) || typeof block['type'] !== 'string' || isPhantomCall(block)) {
      hasChanged = true;
      continue;
    }
    if (block['type'] !== 'tool_use') {
      const kept = storableBlock(block, uses, cutOff);
      if (kept === undefined) hasChanged = true;
      else content.push(kept);
      if (kept !== undefined && hasChanged && isThought(kept)) isAltered = true;
      continue;
    }
    // Calls of a refused turn are not executed, and calls without results must not be kept (R01).
    if (options.stop === 'refusal') {
      hasChanged = true;
      continue;
    }
    let id = isFreeId(block['id']) ? block['id'] : `call_${options.halfStep}_${index}`;
    if (own?.has(id) || options.taken.has(id)) id = nextFreeId(id, own, options.taken);
    if (index < lastIndex) own = (own ?? new Set()).add(id);
    const { block: call, problem } = storableCall(block, id);
    content.push(call);
    if (call.id !== block['id'] || call.name !== block['name'] || problem !== undefined) hasChanged = true;
    const timeoutMs = options.timeoutMsOf(call.name, call.input as Json);
    const refused = cutOff
      ? 'The call was truncated: the answer reached its token limit before the input was complete. It was not executed; repeat it, shorter.'
      : calls.length >= CALLS_PER_ANSWER_MAX
        ? `Not executed: one answer may ask for at most ${CALLS_PER_ANSWER_MAX} calls.`
        : problem;
    calls.push(dispatchedCall(id, refused, timeoutMs));
  }
  return { content, calls, isAltered };
}

function dispatchedCall(id: string, refused: string | undefined, timeoutMs: number | undefined): DispatchedCall {
  if (refused === undefined) return timeoutMs === undefined ? { id } : { id, timeoutMs };
  return timeoutMs === undefined ? { id, refused } : { id, refused, timeoutMs };
}

/** The first of `<id>_2`, `<id>_3`, … that is neither in this answer (`own`) nor in the log (`logged`) (R05). */
export function nextFreeId(id: string, own: ReadonlySet<string> | undefined, logged: ReadonlySet<string>): string {
  for (let n = 2; ; n += 1) {
    const candidate = `${id}_${n}`;
    if (own?.has(candidate) !== true && !logged.has(candidate)) return candidate;
  }
}

/**
 * The stored form of a block that is not a `tool_use`; undefined if a later request may not have the block. `uses`: ids
 * of the provider's calls so far; the block's own call is added. `cutOff`: the token limit cut this block.
 */
function storableBlock(
  block: Readonly<Record<string, unknown>>,
  uses: Set<string>,
  cutOff: boolean,
): ContentBlock | undefined {
  const type = String(block['type']);
  if (isServerUse({ type })) {
    const { id, input } = block;
    // The provider would run a call that was cut, or that cannot be read, with another input than the model meant.
    if (cutOff || typeof id !== 'string' || !isCallId(id) || !isRecord(input)) return undefined;
    uses.add(id);
  } else if (isServerResult({ type }) && !uses.has(resultId(block))) {
    // The result has no call (R37).
    return undefined;
  }
  if (block['type'] === 'text') {
    const text = typeof block['text'] === 'string' ? wellFormed(block['text']) : '';
    // The API itself can answer with an empty text block, but refuses a request that has such a block (R08, R09).
    if (text.trim() === '') return undefined;
    const [citations, origin] = [replayed(block['citations']), replayed(block['origin'])];
    if (citations === undefined && origin === undefined) return { type: 'text', text };
    return { type: 'text', text, ...defined({ citations, origin }) } as unknown as TextBlock;
  }
  if (USER_BLOCKS.has(String(block['type']))) return undefined;
  // A thinking block that was cut off before its signature cannot be sent back (R21). Thoughts of other vendors' models
  // have no signature.
  const isSigned = typeof block['signature'] === 'string' && block['signature'] !== '';
  if (block['type'] === 'thinking' && !isSigned && block['origin'] === undefined) return undefined;
  try {
    return toPlainJson(block) as unknown as ContentBlock;
  } catch (error) {
    if (error instanceof NotPlainError) return undefined;
    throw error;
  }
}

function storableCall(
  block: Readonly<Record<string, unknown>>,
  id: string,
): { readonly block: ToolUseBlock; readonly problem?: string } {
  const rawName = typeof block['name'] === 'string' ? block['name'] : '';
  const name = rawName.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 128) || 'unnamed';
  const rawInput = block['input'] ?? {};
  if (!isRecord(rawInput)) {
    return {
      block: { type: 'tool_use', id, name, input: {} },
      problem: `Not executed: the input at $ was not a JSON object but ${describeValue(rawInput)}. Repeat the call with an object.`,
    };
  }
  try {
    const input = toPlainJson(rawInput);
    return { block: { type: 'tool_use', id, name, input, ...replayedMembers(block) } };
  } catch (error) {
    if (!(error instanceof NotPlainError)) throw error;
    return {
      block: { type: 'tool_use', id, name, input: {} },
      problem: `Not executed: the input was ${error.message}.`,
    };
  }
}

/**
 * The other members of a call, such as `caller` and `toolset_name`, that are sent back to the model with the call.
 * Cache marks are left out, because each request sets its own marks.
 */
function replayedMembers(block: Readonly<Record<string, unknown>>): Readonly<Record<string, Json>> {
  const members: [string, Json][] = [];
  for (const name in block) {
    if (CALL_MEMBERS.has(name)) continue;
    const kept = replayed(block[name]);
    if (kept !== undefined) members.push([name, kept]);
  }
  return members.length === 0 ? NO_MEMBERS : Object.fromEntries(members);
}

/**
 * The member of a block that is sent back to the model, because a paused answer must come back unchanged (R38).
 * Undefined: the member is left out.
 */
function replayed(value: unknown): Json | undefined {
  if (value === undefined || value === null) return undefined;
  try {
    return toPlainJson(value);
  } catch {
    return undefined;
  }
}

/**
 * True for a legal id that cannot equal the id of a later phantom call. Ids of phantom calls begin with the reserved
 * prefix.
 */
function isFreeId(id: unknown): id is string {
  return typeof id === 'string' && isCallId(id) && !id.startsWith(DELIVERY_PREFIX);
}

/** All text of an answer's blocks, joined without a separator (§5.1). */
export function answerText(content: readonly ContentBlock[]): string {
  let text = '';
  for (const block of content) if (block.type === 'text') text += block.text;
  return text;
}

/**
 * True if the message begins an answer that continues an earlier answer. The earlier answer paused directly before this
 * message, or has a call that the provider ran only now. The two answers must stay together or leave together:
 * - The API reads a paused answer and its continuation as one message (R15).
 * - The API requires all thoughts of that message while results of the message's calls are due (R20).
 * - The API refuses a provider's call without its result, and a result without its call (R52, R37).
 */
export function continuesAnswer(before: LoggedMessage | undefined, message: LoggedMessage): boolean {
  if (message.blocks === undefined) return false;
  return before?.blocks !== undefined || before?.inAnswer === true || answersEarlierUse(message.blocks);
}
