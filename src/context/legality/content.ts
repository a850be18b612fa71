/** Rules for the content of messages and for their order: R08 to R12, R15, R38, R40, R50, R51, R69. Pure. */
import { isRecord } from '../../base/json.ts';
import {
  type BlockView,
  blockPath,
  given,
  type MessageView,
  type PausedTurnTest,
  type Report,
  type RequestView,
} from './report.ts';
import { isCompaction } from './shape.ts';
import { isEffortOnly } from './system-messages.ts';

const EMPTY_TEXT = 'text content blocks must be non-empty';
const BLANK_TEXT = 'text content blocks must contain non-whitespace text';

/** Reports R08 to R12, R15, R38, R40, R50, R51 and R69. */
export function checkContent(view: RequestView, isPausedTurn: PausedTurnTest | undefined, report: Report): void {
  view.system.forEach((block, index) => {
    checkText(block, `system.${index}`, 'system', report);
  });
  view.messages.forEach((message, place) => {
    const isLast = place === view.messages.length - 1;
    checkMessage(message, isLast, report);
    if (view.isCurrent) checkRole(message, report);
    checkOrder(message, view.messages[place - 1], report);
  });
  checkEnd(view, isPausedTurn, report);
}

function checkMessage(message: MessageView, isLast: boolean, report: Report): void {
  const mayBeEmpty = (isLast && message.role === 'assistant') || isEffortOnly(message);
  if (message.blocks.length === 0 && !mayBeEmpty) {
    const path = `messages.${message.index}`;
    report(
      'R10',
      path,
      `${path}: all messages must have non-empty content except for the optional final assistant message`,
    );
  }
  message.blocks.forEach((block, index) => {
    const path = blockPath(message, index);
    checkText(block, path, 'messages', report);
    if (block.type === 'tool_result') checkResult(block, path, report);
  });
  checkRider(message, report);
}

/** Reports R69: text after the results of calls teaches the model to end its turn without an answer. */
function checkRider(message: MessageView, report: Report): void {
  const results = message.blocks.findLastIndex((block) => block.type === 'tool_result');
  if (message.role !== 'user' || results === -1) return;
  const text = message.blocks.findIndex((block, index) => index > results && block.type === 'text');
  if (text === -1) return;
  const path = blockPath(message, text);
  report('R69', path, `${path}: text after \`tool_result\` blocks makes the model end its turn without an answer`);
}

/** Reports R50 and R51: blocks and fields that only the other role may send. */
function checkRole(message: MessageView, report: Report): void {
  message.blocks.forEach((block, index) => {
    const path = blockPath(message, index);
    if (message.role === 'assistant' && block.type === 'document') {
      report('R50', path, `${path}: \`document\` blocks can only be in \`user\` messages`);
    }
    if (message.role !== 'user') return;
    if (block.type === 'text') checkCitations(block, path, report);
    if (block.type !== 'tool_result' || !Array.isArray(block['content'])) return;
    block['content'].forEach((part: unknown, at) => {
      if (isRecord(part) && part['type'] === 'text') checkCitations(part, `${path}.tool_result.content.${at}`, report);
    });
  });
}

function checkCitations(block: Readonly<Record<string, unknown>>, path: string, report: Report): void {
  if (!given(block['citations'])) return;
  const at = `${path}.text.citations`;
  report('R51', at, `${at}: \`citations\` can only be on \`text\` blocks in \`assistant\` messages`);
}

/** Reports R08 and R09 for a text block. */
function checkText(block: BlockView, path: string, subject: string, report: Report): void {
  if (block.type !== 'text') return;
  const text = String(block['text']);
  if (text === '') report('R08', path, `${subject}: ${EMPTY_TEXT}`);
  else if (text.trim() === '') report('R09', path, `${subject}: ${BLANK_TEXT}`);
}

/** Reports R08 and R09 inside a result, and R40. */
function checkResult(block: BlockView, path: string, report: Report): void {
  const content = block['content'];
  if (Array.isArray(content)) {
    content.forEach((part: unknown, index) => {
      if (isRecord(part) && part['type'] === 'text') {
        checkText(part as BlockView, `${path}.tool_result.content.${index}`, 'messages', report);
      }
    });
  }
  const isEmpty = content === undefined || content === '' || (Array.isArray(content) && content.length === 0);
  if (block['is_error'] === true && isEmpty) {
    const at = `${path}.tool_result`;
    report('R40', at, `${at}: content cannot be empty if is_error is true`);
  }
}

/** Reports R15. System messages may follow each other, because the API reads them as one message (R13). */
function checkOrder(message: MessageView, previous: MessageView | undefined, report: Report): void {
  if (previous === undefined || previous.role !== message.role || message.role === 'system') return;
  const path = `messages.${message.index}`;
  report('R15', path, `${path}: roles must alternate, found multiple "${message.role}" roles in a row`);
}

/** Reports R11, R12 and R38 for the last message. */
function checkEnd(view: RequestView, isPausedTurn: PausedTurnTest | undefined, report: Report): void {
  const last = view.messages.at(-1);
  if (last === undefined || last.role !== 'assistant') return;
  // A compaction replaces all messages before it, so it may be last. A request to compact may end with any message.
  if (isCompaction(last) || given(view.body['compaction'])) return;
  const { ranTools, isPaused } = pausedEnd(view.messages, isPausedTurn);
  if (isPaused) return;
  const path = `messages.${last.index}`;
  if (ranTools) {
    report('R38', path, `${path}: a paused assistant message must be sent back unchanged`);
    return;
  }
  const end = last.blocks.at(-1);
  if (end?.type === 'text' && /\s$/.test(String(end['text'])) && String(end['text']).trim() !== '') {
    report('R11', path, 'messages: final assistant content cannot end with trailing whitespace');
  }
  // A request with this token follows a refused call, and ends with the text of that call.
  if (view.traits.prefill === false && !given(view.body['fallback_credit_token'])) {
    report(
      'R12',
      path,
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    );
  }
}

/**
 * Examines the assistant messages at the end, which the API reads as one message. `isPaused`: they are a paused turn
 * that the request continues. `ranTools`: the provider's own tools ran in them.
 */
export function pausedEnd(
  messages: readonly MessageView[],
  isPausedTurn: PausedTurnTest | undefined,
): { readonly ranTools: boolean; readonly isPaused: boolean } {
  const start = messages.findLastIndex((message) => message.role !== 'assistant') + 1;
  const trailing = messages.slice(start).flatMap((message) => message.blocks);
  const ranTools = trailing.some((block) => block.type.startsWith('server_tool') || block.type === 'mcp_tool_use');
  return { ranTools, isPaused: isPausedTurn === undefined ? ranTools : isPausedTurn(trailing) };
}
