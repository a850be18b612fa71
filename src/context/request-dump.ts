/**
 * The dump of a request: the order and sizes of its blocks, for `explain()` of a session whose request was refused. A
 * user may pass the dump on, because it contains no text, input or image. Pure.
 */
import { REQUEST_DUMP_MESSAGES_MAX } from '../base/bounds.ts';
import type { ContentBlock } from '../base/messages.ts';
import type { RequestShape } from '../session/explain.ts';
import type { RenderedMessage } from './request-draft.ts';

/** The parts of a request that a dump reads. */
export interface DumpedRequest {
  readonly model: string;
  readonly tools?: readonly { readonly name?: unknown }[] | undefined;
  readonly messages: readonly RenderedMessage[];
}

/** The dump of a request. */
export function dumpRequest({ model, tools = [], messages }: DumpedRequest): RequestShape {
  const first = Math.max(0, messages.length - REQUEST_DUMP_MESSAGES_MAX);
  return {
    model,
    tools: tools.map(({ name }) => String(name ?? '')),
    messageCount: messages.length,
    messages: messages
      .slice(first)
      .map(({ role, content }, index) => ({ index: first + index, shape: `${role}: ${shapeOf(content)}` })),
  };
}

function shapeOf(content: RenderedMessage['content']): string {
  if (typeof content === 'string') return sized('text', content);
  return content.map(blockShape).join(', ');
}

function blockShape(block: ContentBlock): string {
  const marked = 'cache_control' in block && block.cache_control !== undefined ? ' with a cache mark' : '';
  return `${bareShape(block)}${marked}`;
}

function bareShape(block: ContentBlock): string {
  switch (block.type) {
    case 'text':
      return sized('text', block.text);
    case 'thinking':
      return sized('thinking', block.thinking);
    case 'redacted_thinking':
      return sized('redacted_thinking', block.data);
    case 'tool_use':
      return `${sized('tool_use', JSON.stringify(block.input) ?? '')} of ${block.name} (${block.id})`;
    case 'tool_result':
      return `tool_result of ${block.tool_use_id}: ${block.content === undefined ? 'nothing' : shapeOf(block.content)}`;
    case 'image':
    case 'document':
      return sized(
        `${block.type} (${String(block.source['media_type'] ?? block.source['type'] ?? '')})`,
        JSON.stringify(block.source),
      );
    default:
      return sized(block.type, JSON.stringify(block));
  }
}

function sized(name: string, text: string): string {
  return `${name}, ${text.length} characters`;
}
