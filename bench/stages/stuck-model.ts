/**
 * A model that does not answer. If `a` is odd, the model answers the question, but not the tool's result. If `a` is
 * even, it does not answer the question. So half of the killed sessions are in their first half-step, and half in their
 * second.
 */
import type { ModelProvider } from '../../src/models/provider.ts';
import { answerTo } from '../systems/model.ts';

const provider: ModelProvider = {
  name: 'bench-stuck',
  generate: (request) => {
    const content = request.messages.at(-1)?.content ?? '';
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const asked = /\badd (\d+) /.exec(text)?.[1];
    if (asked !== undefined && Number(asked) % 2 === 1) return Promise.resolve(answerTo(request));
    return new Promise(() => undefined);
  },
};

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
