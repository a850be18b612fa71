import type { ModelProvider } from '../../../src/models/provider.ts';

const provider: ModelProvider = {
  name: 'mine',
  generate: () =>
    Promise.resolve({
      content: [{ type: 'text', text: 'mine' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    }),
};

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
