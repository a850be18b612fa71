/** The model of the benchmarks. It answers at once, in the process, from the last message alone. */
import type { ContentBlock } from '../../src/base/messages.ts';
import type { ModelProvider, ModelRequest, ModelResponse } from '../../src/models/provider.ts';

const USAGE = { input_tokens: 1, output_tokens: 1 };
let calls = 0;

/**
 * Answers `add a b` with a call of the tool, the tool's result with the sum, and other text with `noted`.
 * `add a b times n` makes n calls before the sum. The call's id has the number of calls left, since the model reads one
 * message only.
 */
export function answerTo(request: Pick<ModelRequest, 'messages'>): ModelResponse {
  const content = request.messages.at(-1)?.content ?? '';
  const question = /^add (\d+) (\d+)(?: times (\d+))?/.exec(typeof content === 'string' ? content : textOf(content));
  if (question !== null) {
    const [, a, b, times] = question;
    return callOf({ a: Number(a), b: Number(b) }, times === undefined ? undefined : Number(times) - 1);
  }
  const result = resultOf(content);
  const chain = /^toolu_(\d+)x(\d+)_/.exec(result?.id ?? '');
  if (result !== undefined && chain !== null && Number(chain[1]) > 0) {
    return callOf({ a: Number(result.text), b: Number(chain[2]) }, Number(chain[1]) - 1);
  }
  return { content: [{ type: 'text', text: sayResult(result?.text) }], stop_reason: 'end_turn', usage: USAGE };
}

function callOf(input: { readonly a: number; readonly b: number }, left: number | undefined): ModelResponse {
  calls += 1;
  const id = left === undefined ? `toolu_${calls}` : `toolu_${left}x${input.b}_${calls}`;
  return { content: [{ type: 'tool_use', id, name: 'add', input }], stop_reason: 'tool_use', usage: USAGE };
}

function textOf(blocks: readonly ContentBlock[]): string {
  const last = blocks.at(-1);
  return last?.type === 'text' ? last.text : '';
}

function resultOf(
  content: string | readonly ContentBlock[],
): { readonly id: string; readonly text: string } | undefined {
  const block = typeof content === 'string' ? undefined : content.at(-1);
  if (block?.type !== 'tool_result' || typeof block.content !== 'string') return undefined;
  return { id: block.tool_use_id, text: block.content };
}

function sayResult(text: string | undefined): string {
  return text !== undefined && /^\d+$/.test(text) ? `sum ${text}` : 'noted';
}

const provider: ModelProvider = { name: 'bench', generate: (request) => Promise.resolve(answerTo(request)) };

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
