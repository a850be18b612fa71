/** The model of the benchmark with the provider interface of the AI SDK, which two of the peers use. */
import type { LanguageModelV4, LanguageModelV4GenerateResult, LanguageModelV4Message } from '@ai-sdk/provider';
import { ADD, type Shown, say } from './script.ts';

const USAGE: LanguageModelV4GenerateResult['usage'] = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

/** Answers at once. */
export const model: LanguageModelV4 = {
  specificationVersion: 'v4',
  provider: 'bench',
  modelId: 'scripted',
  supportedUrls: {},
  doGenerate: ({ prompt }) => Promise.resolve(answerTo(prompt.at(-1))),
  doStream: () => Promise.reject(new Error('nothing is streamed here')),
};

function answerTo(message: LanguageModelV4Message | undefined): LanguageModelV4GenerateResult {
  const said = say(shownIn(message));
  if (said.type === 'answer') {
    return {
      content: [{ type: 'text', text: said.text }],
      finishReason: { unified: 'stop', raw: undefined },
      usage: USAGE,
      warnings: [],
    };
  }
  return {
    content: [{ type: 'tool-call', toolCallId: said.id, toolName: ADD.name, input: JSON.stringify(said.input) }],
    finishReason: { unified: 'tool-calls', raw: undefined },
    usage: USAGE,
    warnings: [],
  };
}

function shownIn(message: LanguageModelV4Message | undefined): Shown {
  const part = message === undefined || message.role === 'system' ? undefined : message.content.at(-1);
  if (part?.type === 'text') return { type: 'question', text: part.text };
  if (part?.type === 'tool-result' && (part.output.type === 'json' || part.output.type === 'text')) {
    return { type: 'result', text: String(part.output.value) };
  }
  throw new Error('the model was shown neither a question nor a result');
}
