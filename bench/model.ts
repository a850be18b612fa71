/** The model of the benchmarks: answers at once, in the process, from the last message alone. */
import type { ContentBlock } from '../src/base/messages.ts';
import type { ModelProvider, ModelRequest, ModelResponse } from '../src/models/provider.ts';

const USAGE = { input_tokens: 1, output_tokens: 1 };
let calls = 0;

/** `add a b` is answered with a call of the tool, its result with the sum, anything else with a word. */
export function answerTo(request: Pick<ModelRequest, 'messages'>): ModelResponse {
  const content = request.messages.at(-1)?.content ?? '';
  const question = /^add (\d+) (\d+)/.exec(typeof content === 'string' ? content : textOf(content));
  if (question !== null) {
    calls += 1;
    const input = { a: Number(question[1]), b: Number(question[2]) };
    return {
      content: [{ type: 'tool_use', id: `toolu_${calls}`, name: 'add', input }],
      stop_reason: 'tool_use',
      usage: USAGE,
    };
  }
  return { content: [{ type: 'text', text: sayResult(content) }], stop_reason: 'end_turn', usage: USAGE };
}

function textOf(blocks: readonly ContentBlock[]): string {
  const last = blocks.at(-1);
  return last?.type === 'text' ? last.text : '';
}

function sayResult(content: string | readonly ContentBlock[]): string {
  const block = typeof content === 'string' ? undefined : content.at(-1);
  const result = block?.type === 'tool_result' ? block.content : undefined;
  return typeof result === 'string' && /^\d+$/.test(result) ? `sum ${result}` : 'noted';
}

const provider: ModelProvider = { name: 'bench', generate: (request) => Promise.resolve(answerTo(request)) };

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
