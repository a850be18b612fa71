/**
 * The first step of the legality check (R14, R39): turns an unknown body into the view that the other rules read, and
 * reports wrong shapes. Most violations of R14 and R39, such as unknown fields, are warnings. A missing required field
 * or a value of the wrong type is fatal, because no typed API accepts such a request. Pure.
 */
import { isRecord } from '../../base/json.ts';
import { findListed, modelTraits } from '../model-traits.ts';
import { BETA_FIELDS, BLOCK_FIELDS, BODY_FIELDS, MESSAGE_FIELDS, REQUIRED_STRINGS } from './fields.ts';
import {
  type BlockView,
  given,
  type LegalityOptions,
  type MessageView,
  member,
  needsBeta,
  type Report,
  type RequestView,
} from './report.ts';
import { isEffortOnly } from './system-messages.ts';

/** Most messages of one request. */
const MESSAGES_MAX = 100_000;
/** The version of the API that requests name. R49 to R51 apply from this version on. */
export const API_VERSION = '2026-10-21';

/** The view of a body; undefined if the body is not an object, because the other rules could not read it. */
export function viewRequest(body: unknown, options: LegalityOptions, report: Report): RequestView | undefined {
  if (!isRecord(body)) {
    report('R39', '', 'Input should be a valid dictionary', true);
    return undefined;
  }
  for (const key of Object.keys(body)) {
    if (!BODY_FIELDS.has(key)) report('R39', key, `${key}: Extra inputs are not permitted`);
  }
  if (typeof body['model'] !== 'string' || body['model'] === '') {
    report('R39', 'model', 'model: Field required', true);
  }
  const model = typeof body['model'] === 'string' ? body['model'] : '';
  const traits = modelTraits(model, findListed(model, options.listed ?? []));
  if (options.counting !== true || body['max_tokens'] !== undefined) {
    checkMaxTokens(body['max_tokens'], model, traits.outputTokensMax, report);
  }
  const isContinued = member(body['thread'], 'type') === 'continue';
  const messages = viewMessages(body['messages'], isContinued, report);
  const betas = options.betas === undefined ? undefined : new Set(options.betas);
  const view: RequestView = {
    body,
    traits,
    messages,
    tools: viewTools(body['tools'], report),
    system: viewSystem(body['system'], report),
    isBatch: options.batch === true,
    isCurrent: (options.version ?? API_VERSION) >= API_VERSION,
    hasBeta: (...flags) => betas === undefined || flags.some((flag) => betas.has(flag)),
  };
  for (const [field, flags] of Object.entries(BETA_FIELDS)) {
    // The API was seen to refuse only one of these fields, `output_format`.
    if (given(body[field])) needsBeta(view, flags, 'R39', field, report, field === 'output_format');
  }
  return view;
}

function checkMaxTokens(value: unknown, model: string, tokensMax: number | undefined, report: Report): void {
  if (value === undefined) {
    report('R39', 'max_tokens', 'max_tokens: Field required', true);
    return;
  }
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    report('R39', 'max_tokens', 'max_tokens: Input should be a valid integer', true);
    return;
  }
  // With 0 the API writes the prompt to the cache and generates nothing.
  if (value < 0) {
    const message = 'max_tokens: Input should be greater than or equal to 0';
    report('R39', 'max_tokens', message, true);
  } else if (tokensMax !== undefined && value > tokensMax) {
    const limit = `the maximum allowed number of output tokens for ${model}`;
    report('R39', 'max_tokens', `max_tokens: ${value} > ${tokensMax}, which is ${limit}`);
  }
}

/** The messages as views. `isContinued`: earlier messages are in a thread that the API keeps. */
function viewMessages(value: unknown, isContinued: boolean, report: Report): readonly MessageView[] {
  if (!Array.isArray(value)) {
    const message = value === undefined ? 'Field required' : 'Input should be a valid list';
    report('R39', 'messages', `messages: ${message}`, true);
    return [];
  }
  if (value.length > MESSAGES_MAX) {
    const message = `messages: List should have at most ${MESSAGES_MAX} items`;
    report('R39', 'messages', message, true);
    return [];
  }
  if (value.length === 0 && !isContinued) {
    report('R14', 'messages', 'messages: at least one message is required', true);
  }
  const views: MessageView[] = [];
  value.forEach((message: unknown, index) => {
    const view = viewMessage(message, index, report);
    if (view !== undefined) views.push(view);
  });
  if (!isContinued) checkFirst(views, report);
  return views;
}

/**
 * Reports R14: a user message must come first. Two other messages may come first: an assistant message that contains
 * only a compaction, and a system message that only sets the effort. R13 judges other system messages.
 */
function checkFirst(views: readonly MessageView[], report: Report): void {
  const first = views.find((message) => !isEffortOnly(message));
  if (first?.role !== 'assistant' || isCompaction(first)) return;
  report('R14', `messages.${first.index}.role`, 'messages: first message must use the "user" role');
}

/** True for an assistant message that contains only compaction blocks. */
export function isCompaction(message: MessageView): boolean {
  const { role, blocks } = message;
  return role === 'assistant' && blocks.length > 0 && blocks.every(({ type }) => type === 'compaction');
}

function viewMessage(message: unknown, index: number, report: Report): MessageView | undefined {
  const path = `messages.${index}`;
  if (!isRecord(message)) {
    report('R39', path, `${path}: Input should be a valid dictionary`, true);
    return undefined;
  }
  for (const key of Object.keys(message)) {
    if (!MESSAGE_FIELDS.has(key)) {
      report('R39', `${path}.${key}`, `${path}.${key}: Extra inputs are not permitted`);
    }
  }
  const role = message['role'];
  if (role !== 'user' && role !== 'assistant' && role !== 'system') {
    report('R14', `${path}.role`, `${path}.role: Input should be 'user' or 'assistant'`, true);
    return undefined;
  }
  const content = message['content'];
  if (typeof content === 'string') {
    const blocks = content === '' ? [] : [{ type: 'text', text: content }];
    return { index, role, isText: true, blocks, fields: message };
  }
  // Only a system message may have no content. R10 then requires that the message sets the effort.
  const blocks = content === undefined && role === 'system' ? [] : viewBlocks(content, `${path}.content`, report);
  return { index, role, isText: false, blocks, fields: message };
}

/**
 * The blocks of a list. A block of the wrong shape is reported and replaced by a placeholder, so that positions stay
 * correct.
 */
function viewBlocks(content: unknown, path: string, report: Report): readonly BlockView[] {
  if (!Array.isArray(content)) {
    const what = content === undefined ? 'Field required' : 'Input should be a valid list';
    report('R39', path, `${path}: ${what}`, true);
    return [{ type: 'unreadable' }];
  }
  return content.map((block: unknown, index) => {
    const at = `${path}.${index}`;
    if (!isRecord(block) || typeof block['type'] !== 'string') {
      report('R39', at, `${at}.type: Field required`, true);
      return { type: 'unreadable' };
    }
    return checkBlock(block as BlockView, at, report) ? (block as BlockView) : { type: 'unreadable' };
  });
}

function checkBlock(block: BlockView, path: string, report: Report): boolean {
  const fields = Object.hasOwn(BLOCK_FIELDS, block.type) ? BLOCK_FIELDS[block.type] : undefined;
  if (fields === undefined) {
    report(
      'R39',
      path,
      `${path}: Input tag '${block.type}' found using 'type' does not match any of the expected tags`,
    );
    return true;
  }
  for (const key of Object.keys(block)) {
    if (key === 'type' || fields.has(key)) continue;
    const at = `${path}.${block.type}.${key}`;
    const rule = block.type === 'compaction' ? 'R55' : 'R39';
    report(rule, at, `${at}: Extra inputs are not permitted`);
  }
  for (const key of REQUIRED_STRINGS[block.type] ?? []) {
    if (typeof block[key] === 'string') continue;
    const at = `${path}.${block.type}.${key}`;
    const what = block[key] === undefined ? 'Field required' : 'Input should be a valid string';
    report('R39', at, `${at}: ${what}`, true);
    return false;
  }
  if (block.type === 'tool_use' && !isRecord(block['input'])) {
    const at = `${path}.tool_use.input`;
    report('R39', at, `${at}: Input should be a valid dictionary`, true);
  }
  return true;
}

function viewTools(value: unknown, report: Report): RequestView['tools'] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    report('R39', 'tools', 'tools: Input should be a valid list', true);
    return [];
  }
  const tools: { index: number; tool: Readonly<Record<string, unknown>> }[] = [];
  value.forEach((tool: unknown, index) => {
    if (isRecord(tool)) tools.push({ index, tool });
    else report('R39', `tools.${index}`, `tools.${index}: Input should be a valid dictionary`, true);
  });
  return tools;
}

function viewSystem(value: unknown, report: Report): readonly BlockView[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return value === '' ? [] : [{ type: 'text', text: value }];
  return viewBlocks(value, 'system', report);
}
