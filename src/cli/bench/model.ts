/**
 * The model of `troupe bench`: it answers at once, from the last message alone. It answers `add 1 2` with a tool call,
 * and the result of the call with the sum.
 */
import type { ContentBlock } from '../../base/messages.ts';
import type { ModelProvider, ModelRequest, ModelResponse } from '../../models/provider.ts';

const USAGE = { input_tokens: 1, output_tokens: 1 };
let calls = 0;

function answerTo({ messages }: Pick<ModelRequest, 'messages'>): ModelResponse {
  const content = messages.at(-1)?.content ?? '';
  const result = resultOf(content);
  if (result !== undefined) {
    return { content: [{ type: 'text', text: `sum ${result}` }], stop_reason: 'end_turn', usage: USAGE };
  }
  const [, a, b] = /^add (\d+) (\d+)$/.exec(questionOf(content)) ?? [];
  calls += 1;
  const input = { a: Number(a), b: Number(b) };
  return {
    content: [{ type: 'tool_use', id: `toolu_${calls}`, name: 'add', input }],
    stop_reason: 'tool_use',
    usage: USAGE,
  };
}

function questionOf(content: string | readonly ContentBlock[]): string {
  if (typeof content === 'string') return content;
  const last = content.at(-1);
  return last?.type === 'text' ? last.text : '';
}

function resultOf(content: string | readonly ContentBlock[]): string | undefined {
  const last = typeof content === 'string' ? undefined : content.at(-1);
  return last?.type === 'tool_result' && typeof last.content === 'string' ? last.content : undefined;
}

const provider: ModelProvider = { name: 'bench', generate: (request) => Promise.resolve(answerTo(request)) };

// biome-ignore lint/style/noDefaultExport: the provider port loads the default export of a module
export default provider;
