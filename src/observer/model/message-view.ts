/**
 * The content of a message in each view mode. `basic` shows the conversation, `verbose` also the actions, `debug`
 * everything. Each mode shows everything that the previous mode shows. Pure.
 */
import type { ContentBlock, Message, Pending } from '../../base/messages.ts';
import { isRecord } from '../wire.ts';

/** The modes, from the least detailed to the most detailed. */
export type ViewMode = 'basic' | 'verbose' | 'debug';

/** The modes in order. */
export const VIEW_MODES: readonly ViewMode[] = ['basic', 'verbose', 'debug'];

/** The author of a message. */
export type Speaker = 'user' | 'assistant' | 'system' | 'tool call' | 'tool result' | 'thought' | 'sub-agent' | 'note';

/** A message as a mode shows it. */
export interface MessageView {
  readonly speaker: Speaker;
  /** A name beside the speaker: the name of a tool or a sub-agent. */
  readonly title: string;
  readonly body: string;
  /** True if the body is data or output, drawn in a fixed-width font. */
  readonly isCode: boolean;
  /** Details in small print, such as time, tokens and ids. Only the details that the mode shows. */
  readonly facts: readonly string[];
  readonly isFailed: boolean;
  /** True if the entry waits in the mailbox. */
  readonly isPending: boolean;
}

/** Types of blocks that the mode `basic` shows as part of the conversation. */
const BASIC_BLOCKS: ReadonlySet<string> = new Set(['text', 'image', 'document']);

/** Formats the times of a view. */
export type Clock = (at: number) => string;

/** A message in a mode; undefined when the mode leaves it out. */
export function viewMessage(message: Message, mode: ViewMode, clock: Clock): MessageView | undefined {
  const facts = mode === 'basic' ? [] : [clock(message.at)];
  if (mode === 'debug') facts.push(...debugFacts(message));
  const base = { facts, isFailed: false, isPending: false, isCode: false, title: '' };
  switch (message.type) {
    case 'user_message':
      return { ...base, ...userSide(message, mode), body: bodyOf(message.content, mode) };
    case 'agent_message': {
      const body = bodyOf(message.content, mode);
      return body === '' ? undefined : { ...base, speaker: 'assistant', body };
    }
    case 'system_message':
      return mode === 'basic' ? undefined : { ...base, speaker: 'system', body: bodyOf(message.content, mode) };
    case 'tool_call':
      return viewCall(message, mode, base);
    case 'tool_response':
      return viewResult(message, mode, base);
  }
}

/** A mailbox entry in a mode; undefined when the mode leaves it out. */
export function viewPending(entry: Pending, mode: ViewMode, clock: Clock): MessageView | undefined {
  const facts = mode === 'basic' ? [] : [clock(entry.at)];
  if (mode === 'debug') facts.push(`entry ${entry.id}`);
  if (entry.deliver !== undefined && entry.deliver !== 'ride') facts.push(`deliver ${entry.deliver}`);
  const text = bodyOf(entry.content, mode);
  const body = mode === 'debug' ? text : firstLines(text, 3);
  const base = {
    facts,
    isPending: true,
    isCode: false,
    isFailed: entry.success === false,
    title: entry.source.name ?? '',
  };
  if (entry.type === 'user_message') return { ...base, speaker: 'user', body: text };
  if (mode === 'basic') return undefined;
  if (entry.type === 'tool_response') return { ...base, speaker: 'tool result', body, isCode: true };
  if (entry.type === 'subagent') return { ...base, speaker: 'sub-agent', body };
  return { ...base, speaker: 'note', title: entry.type, body };
}

/** The input of a tool call, in one or two lines. */
export function previewOf(tool: string, input: unknown): string {
  if (!isRecord(input)) return firstLines(JSON.stringify(input) ?? '', 2);
  if (tool === 'bash') return firstLines(`$ ${String(input['command'] ?? '')}`, 2);
  if (tool === 'web_get') return `GET ${String(input['url'] ?? '')}`;
  if (tool.endsWith('_file') && typeof input['path'] === 'string') return input['path'];
  const members = Object.entries(input).map(([name, value]) => `${name}: ${shortJson(value)}`);
  return members.length === 0 ? '(no input)' : members.join(', ');
}

function viewCall(
  message: Message,
  mode: ViewMode,
  base: Pick<MessageView, 'facts' | 'isFailed' | 'isPending' | 'isCode' | 'title'>,
): MessageView | undefined {
  const tool = message.toolName ?? '';
  if (tool === 'think' && isRecord(message.input)) {
    const isAloud = message.input['visibility'] === 'aloud';
    if (mode === 'basic' && !isAloud) return undefined;
    const body = String(message.input['thoughts'] ?? message.input['content'] ?? '');
    return { ...base, speaker: 'thought', title: isAloud ? 'aloud' : 'inner', body };
  }
  if (mode === 'basic') return undefined;
  const body =
    mode === 'verbose' ? previewOf(tool, message.input) : (JSON.stringify(message.input, undefined, 2) ?? '');
  return { ...base, speaker: 'tool call', title: tool, body, isCode: true };
}

function viewResult(
  message: Message,
  mode: ViewMode,
  base: Pick<MessageView, 'facts' | 'isFailed' | 'isPending' | 'isCode' | 'title'>,
): MessageView | undefined {
  const tool = message.toolName ?? message.source?.name ?? '';
  if (mode === 'basic' || (mode === 'verbose' && tool === 'think')) return undefined;
  const text = bodyOf(message.content, mode);
  const body = mode === 'verbose' ? firstLines(text, 3) : text;
  return { ...base, speaker: 'tool result', title: tool, body, isCode: true, isFailed: message.success === false };
}

function userSide(message: Message, mode: ViewMode): { readonly speaker: Speaker; readonly title: string } {
  const { source } = message;
  if (source === undefined || source.type === 'user')
    return { speaker: 'user', title: mode === 'basic' ? '' : (source?.name ?? '') };
  return { speaker: source.type === 'subagent' ? 'sub-agent' : 'note', title: source.name ?? source.type };
}

function debugFacts(message: Message): readonly string[] {
  const facts = [`#${message.seq}`, `${message.tokens.toLocaleString('en')} tokens`];
  const { usage, toolUseId } = message;
  if (toolUseId !== undefined) facts.push(toolUseId);
  if (usage !== undefined) {
    facts.push(`in ${usage.input_tokens.toLocaleString('en')}`, `out ${usage.output_tokens.toLocaleString('en')}`);
    if (usage.cache_read_input_tokens !== undefined) {
      facts.push(`cache ${usage.cache_read_input_tokens.toLocaleString('en')}`);
    }
  }
  return facts;
}

/** The text of a content. A block without text is shown by its type, in `debug` as JSON. */
function bodyOf(content: string | readonly ContentBlock[], mode: ViewMode): string {
  if (typeof content === 'string') return content;
  const parts = mode === 'basic' ? content.filter((block) => BASIC_BLOCKS.has(block.type)) : content;
  return parts
    .map((block) => blockText(block, mode))
    .filter((text) => text !== '')
    .join('\n');
}

function nameOf(block: ContentBlock): string {
  return `[${block.type}]`;
}

function blockText(block: ContentBlock, mode: ViewMode): string {
  if (block.type === 'text') return block.text;
  if (block.type === 'thinking') return `[thinking]\n${block.thinking}`;
  return mode === 'debug' ? JSON.stringify(block, undefined, 2) : nameOf(block);
}

/** The first lines of a text, followed by a mark if the text has more lines. */
export function firstLines(text: string, count: number): string {
  const lines = text.split('\n', count + 1);
  return lines.length > count ? `${lines.slice(0, count).join('\n')}\n…` : text;
}

function shortJson(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null';
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
