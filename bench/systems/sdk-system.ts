/**
 * The bare SDK loop shows the limit of the SDK: the official client on one thread against the fake server. History is
 * in an array; nothing is persisted. troupe's defaults use one thread for model calls as well.
 */
import { Anthropic } from '@anthropic-ai/sdk';
import { add } from '../../src/cli/bench/tools.ts';
import { type DrainSystem, type Question, textOf } from './system.ts';

const MODEL = 'claude-opus-4-6';
const MAX_TOKENS = 8_192;
const TOOL: Anthropic.Tool = {
  name: add.name,
  description: add.description,
  input_schema: add.input as Anthropic.Tool.InputSchema,
};

/** The loop against this address. `isStreamed`: the calls use the SDK's stream helper, which is read to its end. */
export function openSdkLoop(baseURL: string, isStreamed: boolean): DrainSystem {
  return new SdkLoop(new Anthropic({ apiKey: 'bench', baseURL, maxRetries: 0, logLevel: 'off' }), isStreamed);
}

class SdkLoop implements DrainSystem {
  readonly #client: Anthropic;
  readonly #isStreamed: boolean;
  readonly #contexts = new Map<string, Anthropic.MessageParam[]>();

  constructor(client: Anthropic, isStreamed: boolean) {
    this.#client = client;
    this.#isStreamed = isStreamed;
  }

  async turn(session: string, question: Question): Promise<string> {
    const context = this.#contextOf(session);
    context.push({ role: 'user', content: textOf(question) });
    const call = (await this.#answer(context)).content[0];
    if (call?.type !== 'tool_use') throw new Error('the model called no tool');
    const { a, b } = call.input as Question;
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: String(a + b) };
    context.push({ role: 'user', content: [result] });
    const answer = (await this.#answer(context)).content[0];
    if (answer?.type !== 'text') throw new Error('the model said nothing');
    return answer.text;
  }

  async family(parent: string, questions: readonly Question[]): Promise<void> {
    const context = this.#contextOf(parent);
    await Promise.all(
      questions.map(async (question, index) => {
        context.push({ role: 'user', content: await this.turn(`${parent}:${index}`, question) });
      }),
    );
  }

  replies(parent: string): Promise<readonly string[]> {
    return Promise.resolve(this.#contextOf(parent).map(({ content }) => String(content)));
  }

  messages(session: string): Promise<number> {
    return Promise.resolve(this.#contextOf(session).length);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #answer(messages: Anthropic.MessageParam[]): Promise<Anthropic.Message> {
    const body = { model: MODEL, max_tokens: MAX_TOKENS, tools: [TOOL], messages };
    const message = this.#isStreamed
      ? await this.#client.messages.stream(body).finalMessage()
      : await this.#client.messages.create(body);
    messages.push({ role: 'assistant', content: message.content });
    return message;
  }

  #contextOf(session: string): Anthropic.MessageParam[] {
    const known = this.#contexts.get(session);
    if (known !== undefined) return known;
    const context: Anthropic.MessageParam[] = [];
    this.#contexts.set(session, context);
    return context;
  }
}
