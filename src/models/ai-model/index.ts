/** Subpath `troupe/ai-model`: any language model of the AI SDK as a provider. Loads no package of the AI SDK. */
export { type AiModelOptions, aiModel } from './ai-model.ts';
export { LOSSES, type Loss } from './losses.ts';
export type { LanguageModel } from './specification.ts';
