/**
 * A model provider of one's own: any service, or none, in the shape of the Messages API. This one has a model that counts words. It must not
 * retry by itself: an error that may be tried again is thrown as retryable, and the runtime waits and tells of it.
 */
import { agent, ModelError, type ModelProvider, open } from 'troupe';

let isWarm = false;

const wordCounter: ModelProvider = {
  name: 'word-counter',
  async generate(request, { onDelta, signal }) {
    signal.throwIfAborted();
    if (!isWarm) {
      isWarm = true;
      throw new ModelError('model_overloaded', 'warming up', { retryable: true, retryAfterMs: 1 });
    }
    const last = request.messages.at(-1)?.content ?? '';
    const words =
      typeof last === 'string' ? last : last.map((block) => (block.type === 'text' ? block.text : '')).join(' ');
    const text = `${words.split(/\s+/).filter((word) => word !== '').length} words`;
    for (const piece of text.split(/(?<= )/)) onDelta({ type: 'text', text: piece });
    return {
      content: [{ type: 'text', text }],
      stop_reason: 'end_turn',
      usage: { input_tokens: words.length, output_tokens: text.length },
    };
  },
};

await using runtime = await open(':memory:', { provider: wordCounter, agents: [agent({ name: 'counter' })] });
const session = runtime.session('s');
const receipt = await session.send('one two three');
let streamed = '';
for await (const event of session.events({ until: receipt })) {
  if (event.type === 'llm.retry') console.log(`attempt ${event.attempt} failed, the next in ${event.waitMs} ms`);
  if (event.type === 'text.delta') streamed += event.text;
}
console.log('streamed:', streamed);
console.log('answered:', await receipt.answer());
