/** A module whose default export is a provider, as a URL given to `open` names it. */
import { isMainThread } from 'node:worker_threads';
import { createOpenAI } from '@ai-sdk/openai';
import { aiModel } from '../../../src/models/ai-model/index.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { fakeOpenAi } from '../../../src/testing/wires/open-ai.ts';

const fake = fakeOpenAi({ script: () => (isMainThread ? 'on the host thread' : 'on a model thread') });
const provider: ModelProvider = aiModel(createOpenAI({ apiKey: 'k', fetch: fake.fetch })('gpt-5.5'));

// biome-ignore lint/style/noDefaultExport: the provider port asks a module for its default export
export default provider;
