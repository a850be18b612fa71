/**
 * Makes an entry of the system prompt and the tools that precede a conversation, for debug readers (contract §10.6).
 * Pure.
 */
import { BYTES_PER_TOKEN } from '../base/bounds.ts';
import type { ModelRequest } from '../index.ts';

/** The system prompt as an entry before the first message. */
export interface DebugContext {
  readonly id: 0;
  readonly type: 'system_prompt';
  readonly rendered: {
    readonly role: 'system_prompt';
    readonly content: string;
    /** Estimated tokens of the prompt and the tools. */
    readonly tokens: number;
    readonly estimated: true;
    /** The tools as they are sent; absent if there are none. */
    readonly tools?: unknown;
  };
}

/** The context of a request; undefined if there is no system prompt. */
export function debugContext(request: Omit<ModelRequest, 'messages'>): DebugContext | undefined {
  const content = request.system ?? '';
  if (content === '') return undefined;
  const tools = request.tools ?? [];
  const sent = tools.length === 0 ? '' : JSON.stringify(tools);
  const tokens = Math.ceil((Buffer.byteLength(content) + Buffer.byteLength(sent)) / BYTES_PER_TOKEN);
  return {
    id: 0,
    type: 'system_prompt',
    rendered: { role: 'system_prompt', content, tokens, estimated: true, ...(tools.length === 0 ? {} : { tools }) },
  };
}
