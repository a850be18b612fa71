/**
 * The rendering table (contract §10.5): the form of messages and mailbox entries in the modes `basic`, `verbose` and
 * `debug`. `viewed-event.ts` defines which members events carry, and has the invariants V2 to V4. Pure.
 *
 * V1 A more verbose mode shows everything that a terser mode shows.
 */
import { ConfigError, describeValue } from '../base/errors.ts';
import { type ContentBlock, type Message, type Pending, textOf } from '../base/messages.ts';
import { type Rendered, VIEW_MODES, type ViewMode } from './rendered.ts';
import { compactText, firstLines } from './shortening.ts';

/** Lines of a result that the mode `verbose` shows. */
const RESULT_LINES = 3;
/** Lines of a call's input that the mode `verbose` shows. */
const PREVIEW_LINES = 2;
/** The name of the tool that a model calls to reason. */
const THINK = 'think';

/** Checks a view mode from an outside caller. Throws `ConfigError` for a value that is no view mode. */
export function checkViewMode(mode: unknown): ViewMode {
  const known = VIEW_MODES.find((each) => each === mode);
  if (known !== undefined) return known;
  throw new ConfigError(
    `option "mode": must be ${VIEW_MODES.map((each) => JSON.stringify(each)).join(', ')}; got ${describeValue(mode)}`,
    { data: { key: 'mode' } },
  );
}

/** A message as a mode shows it; null if the mode hides it. Throws for a type that has no row in the table. */
export function renderMessage(message: Message, mode: ViewMode): Rendered | null {
  switch (message.type) {
    case 'user_message':
      return renderSpoken('user', message, mode);
    case 'agent_message':
      return renderSpoken('assistant', message, mode);
    case 'system_message':
      if (mode === 'basic') return null;
      return { role: 'system', content: shownText(message.content), timestamp: message.at };
    case 'tool_call':
      return renderCall(message, mode);
    case 'tool_response':
      return response(message, mode);
    default:
      throw noRow(message.type);
  }
}

/** A mailbox entry as a mode shows it; null if the mode hides it. Throws for a type that has no row in the table. */
export function renderPending(pending: Pending, mode: ViewMode): Rendered | null {
  const full = shownText(pending.content);
  if (pending.type === 'user_message') return { role: 'user', content: full, status: 'pending' };
  if (mode === 'basic') return null;
  const content = mode === 'debug' ? full : firstLines(full, RESULT_LINES);
  const status = 'pending';
  const source = pending.source.name ?? '';
  switch (pending.type) {
    case 'tool_response':
      return {
        role: 'tool_response',
        tool: source,
        success: pending.success ?? true,
        tool_use_id: pending.toolUseId ?? '',
        content,
        status,
      };
    case 'subagent':
      return { role: 'pending_subagent', source, content, status };
    case 'from_mneme':
      return { role: 'pending_mneme', content, status };
    case 'from_melete_skill':
      return { role: 'pending_melete', kind: 'skill', source, content, status };
    case 'from_melete_workflow':
      return { role: 'pending_melete', kind: 'workflow', source, content, status };
    case 'from_melete_goal':
      return { role: 'pending_melete', kind: 'goal', source, content, status };
    default:
      throw noRow(pending.type);
  }
}

/** A content as text for a person, with a placeholder for each image, document and search result. */
export function shownText(content: string | readonly ContentBlock[]): string {
  if (typeof content === 'string') return content;
  if (content.every((block) => block.type === 'text')) return textOf(content);
  const parts: string[] = [];
  for (const block of content) {
    if (block.type === 'text') parts.push(block.text);
    else if (block.type === 'search_result') parts.push(`[search result: ${block.title}]`);
    else if (block.type === 'image' || block.type === 'document') parts.push(`[${block.type}]`);
  }
  return parts.join('\n');
}

/** The model's thought, and whether the user may read it. */
export function thoughtOf(message: Pick<Message, 'input'>): {
  readonly content: string;
  readonly visibility: 'inner' | 'aloud';
} {
  const content = memberOf(message.input, 'thoughts') ?? '';
  return { content, visibility: memberOf(message.input, 'visibility') === 'aloud' ? 'aloud' : 'inner' };
}

/** True for a call or a result of the tool `think`. */
export function isThought(message: Message): boolean {
  return message.toolName === THINK && (message.type === 'tool_call' || message.type === 'tool_response');
}

/** A text of a message, or a piece of such a text, as a mode shows it. */
export function renderSpoken(
  role: 'user' | 'assistant',
  message: Pick<Message, 'content' | 'at' | 'tokens'>,
  mode: ViewMode,
): Rendered {
  const content = shownText(message.content);
  if (mode === 'basic') return { role, content };
  const { at: timestamp, tokens } = message;
  return mode === 'verbose' ? { role, content, timestamp } : { role, content, timestamp, tokens };
}

/** A call as a mode shows it; null if the mode hides it. The call is in a message, or waits for approval. */
export function renderCall(call: Call, mode: ViewMode): Rendered | null {
  return call.toolName === THINK ? thought(call, mode) : toolCall(call, mode);
}

/** The facts used to render a call. */
type Call = Pick<Message, 'toolName' | 'input' | 'at' | 'toolUseId'>;

function thought(message: Call, mode: ViewMode): Rendered | null {
  const { content, visibility } = thoughtOf(message);
  if (mode === 'basic') return visibility === 'aloud' ? { role: 'think', content, visibility } : null;
  const verbose = { role: 'think', content, visibility, timestamp: message.at } as const;
  return mode === 'verbose' ? verbose : { ...verbose, tool_use_id: message.toolUseId ?? '' };
}

function toolCall(message: Call, mode: ViewMode): Rendered | null {
  if (mode === 'basic') return null;
  const { toolName: tool = '', at: timestamp, toolUseId = '' } = message;
  if (mode === 'verbose') return { role: 'tool_call', tool, timestamp, input: previewOf(tool, message.input) };
  return { role: 'tool_call', tool, timestamp, input: wholeInput(tool, message.input), tool_use_id: toolUseId };
}

function response(message: Message, mode: ViewMode): Rendered | null {
  if (mode === 'basic' || (mode === 'verbose' && isThought(message))) return null;
  const { toolName: tool = '', success = true, at: timestamp, toolUseId = '', tokens } = message;
  const whole = shownText(message.content);
  const role = 'tool_response';
  if (mode === 'verbose') return { role, tool, success, timestamp, content: firstLines(whole, RESULT_LINES) };
  return { role, tool, success, timestamp, content: whole, tool_use_id: toolUseId, tokens };
}

/** A short form of a call's input: a command, a URL or a path; for other tools the first lines. */
function previewOf(tool: string, input: unknown): string {
  switch (tool) {
    case 'bash':
      return `$ ${memberOf(input, 'command') ?? ''}`;
    case 'web_get':
      return `GET ${memberOf(input, 'url') ?? ''}`;
    case 'read_file':
    case 'edit_file':
    case 'write_file':
      return memberOf(input, 'path') ?? '';
    default:
      return firstLines(compactText(input ?? {}), PREVIEW_LINES);
  }
}

/** The whole input; for `write_file`, the path and the content with its line breaks. */
function wholeInput(tool: string, input: unknown): string {
  const content = tool === 'write_file' ? memberOf(input, 'content') : undefined;
  if (content !== undefined && content !== '') return `${memberOf(input, 'path') ?? ''}\n${content}`;
  return compactText(input ?? {});
}

/**
 * A member of a model's input; undefined if it is not a string. The check is needed because a model may send anything.
 */
function memberOf(input: unknown, name: string): string | undefined {
  if (typeof input !== 'object' || input === null || !Object.hasOwn(input, name)) return undefined;
  const value: unknown = Reflect.get(input, name);
  return typeof value === 'string' ? value : undefined;
}

function noRow(type: never): Error {
  return new Error(`no view mode has a cell for ${describeValue(type)}`);
}
