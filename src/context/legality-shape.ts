/**
 * The first step of the legality check (R14, R39): turns an unknown body into the view the other rules read, and
 * reports wrong shapes. R14 and R39 in general only warn. A missing required field or a value of the wrong type is
 * fatal nevertheless: no typed API accepts one. Unknown fields warn. Pure.
 */
import { isRecord } from '../base/json.ts';
import { modelTraits } from './legality-models.ts';
import type { BlockView, MessageView, Report, RequestView } from './legality-report.ts';

const BODY_FIELDS: ReadonlySet<string> = new Set([
  ...['model', 'max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'stream'],
  ...['temperature', 'top_p', 'top_k', 'stop_sequences', 'metadata', 'cache_control', 'container'],
  ...['context_management', 'mcp_servers', 'output_config', 'output_format', 'service_tier'],
  ...['speed', 'inference_geo', 'diagnostics'],
]);
const MESSAGE_FIELDS: ReadonlySet<string> = new Set(['role', 'content']);
/** Fields of the blocks this library writes itself; other types are not judged. */
const BLOCK_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  text: new Set(['type', 'text', 'cache_control', 'citations']),
  tool_use: new Set(['type', 'id', 'name', 'input', 'cache_control', 'caller']),
  tool_result: new Set(['type', 'tool_use_id', 'content', 'is_error', 'cache_control']),
  thinking: new Set(['type', 'thinking', 'signature', 'cache_control']),
  redacted_thinking: new Set(['type', 'data', 'cache_control']),
};
/** Required fields and their types, by block type. */
const REQUIRED_STRINGS: Readonly<Record<string, readonly string[]>> = {
  text: ['text'],
  tool_use: ['id', 'name'],
  tool_result: ['tool_use_id'],
  thinking: ['thinking', 'signature'],
  redacted_thinking: ['data'],
};

/** The view of a body, or undefined if there is nothing the other rules could read. */
export function viewRequest(body: unknown, counting: boolean, report: Report): RequestView | undefined {
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
  const traits = modelTraits(model);
  if (!counting || body['max_tokens'] !== undefined) {
    checkMaxTokens(body['max_tokens'], model, traits.outputTokensMax, report);
  }
  const messages = viewMessages(body['messages'], report);
  return {
    body,
    traits,
    messages,
    tools: viewTools(body['tools'], report),
    system: viewSystem(body['system'], report),
  };
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
  if (value < 1) {
    const message = 'max_tokens: Input should be greater than or equal to 1';
    report('R39', 'max_tokens', message, true);
  } else if (tokensMax !== undefined && value > tokensMax) {
    const limit = `the maximum allowed number of output tokens for ${model}`;
    report('R39', 'max_tokens', `max_tokens: ${value} > ${tokensMax}, which is ${limit}`);
  }
}

function viewMessages(value: unknown, report: Report): readonly MessageView[] {
  if (!Array.isArray(value)) {
    const message = value === undefined ? 'Field required' : 'Input should be a valid list';
    report('R39', 'messages', `messages: ${message}`, true);
    return [];
  }
  if (value.length === 0) {
    report('R14', 'messages', 'messages: at least one message is required', true);
  }
  const views: MessageView[] = [];
  value.forEach((message: unknown, index) => {
    const view = viewMessage(message, index, report);
    if (view !== undefined) views.push(view);
  });
  if (views[0] !== undefined && views[0].role !== 'user') {
    report('R14', 'messages.0.role', 'messages: first message must use the "user" role');
  }
  return views;
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
    return { index, role, isText: true, blocks };
  }
  return { index, role, isText: false, blocks: viewBlocks(content, `${path}.content`, report) };
}

/**
 * The blocks of a list. A block of the wrong shape is reported and replaced by an opaque one, so that positions stay
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
  if (fields === undefined) return true;
  for (const key of Object.keys(block)) {
    if (!fields.has(key)) {
      const at = `${path}.${block.type}.${key}`;
      report('R39', at, `${at}: Extra inputs are not permitted`);
    }
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
