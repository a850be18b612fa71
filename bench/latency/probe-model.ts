/**
 * The model of W7: the model of the benchmarks with two more questions. It notes the arrival of `probe n`. It answers
 * `hold n` with a call of `stamp` once the host says `release n`. A steer is sent meanwhile, and the request after the
 * call's result shows whether the steer arrived.
 */
import type { ModelProvider, ModelRequest, ModelResponse } from '../../src/models/provider.ts';
import { answerTo } from '../systems/model.ts';
import { openChannel } from './channel.ts';

const USAGE = { input_tokens: 1, output_tokens: 1 };
const releases = new Map<number, () => void>();
const channel = openChannel(({ kind, n }) => {
  if (kind !== 'release') return;
  releases.get(n)?.();
  releases.delete(n);
});

async function generate(request: ModelRequest): Promise<ModelResponse> {
  const content = request.messages.at(-1)?.content ?? '';
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const stamped = /toolu_stamp_(\d+)/.exec(text)?.[1];
  if (stamped !== undefined) {
    channel.publish({ kind: 'steered', n: Number(stamped), isIncluded: text.includes(`steer ${stamped}`) });
    return say('noted');
  }
  const [, question, number] = /\b(probe|hold) (\d+)/.exec(text) ?? [];
  if (question === undefined) return answerTo(request);
  const n = Number(number);
  if (question === 'probe') {
    channel.publish({ kind: 'called', n });
    return say('noted');
  }
  const released = new Promise<void>((resolve) => releases.set(n, resolve));
  channel.publish({ kind: 'called', n });
  await released;
  const call = { type: 'tool_use' as const, id: `toolu_stamp_${n}`, name: 'stamp', input: { n } };
  return { content: [call], stop_reason: 'tool_use', usage: USAGE };
}

function say(text: string): ModelResponse {
  return { content: [{ type: 'text', text }], stop_reason: 'end_turn', usage: USAGE };
}

const provider: ModelProvider = { name: 'bench-probe', generate };

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
