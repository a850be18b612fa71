/**
 * Converts messages and tool data to span attributes: JSON texts of bounded length. Pure. Used only with
 * `captureContent`.
 */
import { SPAN_CONTENT_CHARACTERS_MAX } from '../base/bounds.ts';
import { type ContentBlock, type Message, textOf } from '../base/messages.ts';

interface Part {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Users' messages as `gen_ai.input.messages`. */
export function inputMessages(messages: readonly Message[]): string {
  return bounded(messages.map(({ content }) => ({ role: 'user', parts: partsOf(content) })));
}

/** The messages of one answer as `gen_ai.output.messages`. */
export function outputMessages(answer: readonly Message[], finishReason: string): string {
  const parts = answer.flatMap((message): readonly Part[] =>
    message.type === 'tool_call'
      ? [{ type: 'tool_call', id: message.toolUseId, name: message.toolName, arguments: message.input }]
      : partsOf(message.content),
  );
  return bounded([{ role: 'assistant', parts, finish_reason: finishReason }]);
}

/** A tool's input as `gen_ai.tool.call.arguments`. */
export function toolArguments(input: unknown): string {
  return bounded(input ?? {});
}

/** A tool's result as `gen_ai.tool.call.result`. */
export function toolResult(content: string | readonly ContentBlock[]): string {
  return clipped(textOf(content));
}

function partsOf(content: string | readonly ContentBlock[]): readonly Part[] {
  if (typeof content === 'string') return [{ type: 'text', content }];
  // For other blocks only their kind is recorded, because an image would fill the whole attribute.
  return content.map((block) =>
    block.type === 'text' ? { type: 'text', content: block.text } : { type: 'generic', kind: block.type },
  );
}

function bounded(value: unknown): string {
  return clipped(JSON.stringify(value));
}

function clipped(text: string): string {
  return text.length <= SPAN_CONTENT_CHARACTERS_MAX ? text : `${text.slice(0, SPAN_CONTENT_CHARACTERS_MAX)}…`;
}
