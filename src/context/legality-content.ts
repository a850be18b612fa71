/** Rules for the content of messages and for their order: R08 to R13, R15, R38, R40, R42. Pure. */
import { IMAGE_CHARACTERS_MAX, IMAGE_TYPES, IMAGES_MAX } from '../base/content-rules.ts';
import { isRecord } from '../base/json.ts';
import { type BlockView, blockPath, type MessageView, type Report, type RequestView } from './legality-report.ts';

const EMPTY_TEXT = 'text content blocks must be non-empty';
const BLANK_TEXT = 'text content blocks must contain non-whitespace text';

/** Decides whether an assistant message in the last position is a paused turn that is being resumed (R38). */
export type PausedTurnTest = (blocks: readonly BlockView[]) => boolean;

/** Reports R08 to R13, R15, R38, R40 and R42. */
export function checkContent(view: RequestView, isPausedTurn: PausedTurnTest | undefined, report: Report): void {
  view.system.forEach((block, index) => {
    checkText(block, `system.${index}`, 'system', report);
  });
  view.messages.forEach((message, place) => {
    const isLast = place === view.messages.length - 1;
    checkMessage(message, isLast, report);
    checkOrder(view, message, view.messages[place - 1], report);
  });
  checkEnd(view, isPausedTurn, report);
  checkImages(view, report);
}

function checkMessage(message: MessageView, isLast: boolean, report: Report): void {
  if (message.blocks.length === 0 && !(isLast && message.role === 'assistant')) {
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
}

/** R08, R09. */
function checkText(block: BlockView, path: string, subject: string, report: Report): void {
  if (block.type !== 'text') return;
  const text = String(block['text']);
  if (text === '') report('R08', path, `${subject}: ${EMPTY_TEXT}`);
  else if (text.trim() === '') report('R09', path, `${subject}: ${BLANK_TEXT}`);
}

/** R08 and R09 inside a result, R40. */
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

/** R13, R15. */
function checkOrder(view: RequestView, message: MessageView, previous: MessageView | undefined, report: Report): void {
  const path = `messages.${message.index}`;
  if (message.role === 'system') {
    if (view.traits.systemMessages === false) {
      report(
        'R13',
        path,
        'messages: Unexpected role "system". The Messages API accepts a top-level system parameter, not "system" as an input message role.',
      );
    } else if (view.traits.systemMessages === true && previous?.role !== 'user') {
      report('R13', path, `${path}: a message of role 'system' must follow a user message`);
    }
  }
  if (previous !== undefined && previous.role === message.role) {
    report('R15', path, `${path}: roles must alternate, found multiple "${message.role}" roles in a row`);
  }
}

/** R11, R12, R38: the last message. */
function checkEnd(view: RequestView, isPausedTurn: PausedTurnTest | undefined, report: Report): void {
  const last = view.messages.at(-1);
  if (last === undefined || last.role !== 'assistant') return;
  const trailing = trailingBlocks(view.messages);
  const ranTools = trailing.some((block) => block.type.startsWith('server_tool') || block.type === 'mcp_tool_use');
  const isPaused = isPausedTurn === undefined ? ranTools : isPausedTurn(trailing);
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
  if (!view.traits.prefill) {
    report(
      'R12',
      path,
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    );
  }
}

/** The blocks of all assistant messages at the end: the API reads them as one. */
function trailingBlocks(messages: readonly MessageView[]): readonly BlockView[] {
  const start = messages.findLastIndex((message) => message.role !== 'assistant') + 1;
  return messages.slice(start).flatMap((message) => message.blocks);
}

/** R42: images of messages, and those inside results. */
function checkImages(view: RequestView, report: Report): void {
  let images = 0;
  const visit = (block: unknown, path: string): void => {
    if (!isRecord(block) || block['type'] !== 'image') return;
    images += 1;
    checkImage(block['source'], `${path}.image.source`, report);
  };
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      const path = blockPath(message, index);
      visit(block, path);
      if (block.type !== 'tool_result' || !Array.isArray(block['content'])) return;
      block['content'].forEach((part: unknown, at) => {
        visit(part, `${path}.tool_result.content.${at}`);
      });
    });
  }
  if (images > IMAGES_MAX) report('R42', 'messages', `messages: too many images: ${images} > ${IMAGES_MAX}`);
}

function checkImage(source: unknown, path: string, report: Report): void {
  if (!isRecord(source) || source['type'] !== 'base64') return;
  if (!IMAGE_TYPES.has(source['media_type'])) {
    const allowed = [...IMAGE_TYPES].map((type) => `'${String(type)}'`).join(', ');
    report('R42', path, `${path}.base64.media_type: Input should be one of ${allowed}`);
  }
  if (typeof source['data'] === 'string' && source['data'].length > IMAGE_CHARACTERS_MAX) {
    report('R42', path, `${path}.base64: image exceeds 5 MB maximum`);
  }
}
