/** Token estimates (contract §6.1). Pure. */
import { BYTES_PER_TOKEN } from '../../base/bounds.ts';
import type { ContentBlock } from '../../base/messages.ts';
import type { AnswerForm } from './answer-form.ts';

/** `ceil(UTF-8 bytes / 4)`. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

/** UTF-8 bytes of a content: its text, or the JSON of its blocks. */
export function contentBytes(content: string | readonly ContentBlock[]): number {
  return Buffer.byteLength(typeof content === 'string' ? content : JSON.stringify(content));
}

/** UTF-8 bytes of the JSON schema of an answer's form. */
export function formBytes({ schema }: AnswerForm): number {
  return Buffer.byteLength(JSON.stringify(schema));
}

/** Estimated tokens of a content: its text, or the JSON of its blocks. */
export function estimateContent(content: string | readonly ContentBlock[]): number {
  return Math.ceil(contentBytes(content) / BYTES_PER_TOKEN);
}

/**
 * Estimated tokens of a tool call, from the JSON of its whole payload, as the contract prescribes for tool messages.
 */
export function estimateCall(call: { readonly id: string; readonly name: string; readonly input: unknown }): number {
  return estimateTokens(
    JSON.stringify({
      type: 'tool_call',
      tool_name: call.name,
      tool_use_id: call.id,
      tool_input: call.input,
      content: callLabel(call.name),
    }),
  );
}

/** The short text that represents a call. */
export function callLabel(toolName: string): string {
  return `Calling ${toolName}`;
}
