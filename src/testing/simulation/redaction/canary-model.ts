/**
 * A provider in a run with canaries (I38 of `invariants.ts`). A canary in a request is a violation. The answers have
 * canaries in their texts, their thoughts and the inputs of their calls. A canary of a streamed text comes in two
 * deltas.
 */
import { isRecord } from '../../../base/json.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from '../../../models/provider.ts';
import type { SimulatedModel } from '../simulated-model.ts';
import type { Canaries } from './canaries.ts';

type Model = Pick<SimulatedModel, 'providerOf'>;

/** Share of the answers whose texts, thoughts or inputs carry canaries. */
const TEXT_SHARE = 0.5;
const THOUGHT_SHARE = 0.2;
const INPUT_SHARE = 0.4;
/** Number of characters of a canary that come in its first delta. */
const CUT = 5;

/** The model with canaries. */
export function canaryModel(model: Model, canaries: Canaries): Model {
  return {
    providerOf: (process) => {
      const provider = model.providerOf(process);
      return { ...provider, generate: (request, context) => generate(provider, canaries, request, context) };
    },
  };
}

async function generate(
  provider: ModelProvider,
  canaries: Canaries,
  request: ModelRequest,
  context: GenerateContext,
): Promise<ModelResponse> {
  canaries.check(request, `a request of ${context.session}`);
  const { random } = canaries;
  const canary = canaries.next();
  const [inTexts, inThoughts, inInputs] = [TEXT_SHARE, THOUGHT_SHARE, INPUT_SHARE].map((share) => random.chance(share));
  const carries = (type: unknown): boolean =>
    (type === 'text' && inTexts === true) || (type === 'thinking' && inThoughts === true);
  const onDelta: GenerateContext['onDelta'] = (delta) => {
    context.onDelta(delta);
    if (!carries(delta.type) || typeof delta.text !== 'string' || delta.text.trim() === '') return;
    context.onDelta({ type: delta.type, text: canary.slice(0, CUT) });
    context.onDelta({ type: delta.type, text: canary.slice(CUT) });
  };
  const response = await provider.generate(request, { ...context, onDelta });
  if (!Array.isArray(response.content)) return response;
  const content = (response.content as readonly unknown[]).map((block) => {
    if (!isRecord(block)) return block;
    const { type } = block;
    if (type === 'tool_use') return inInputs === true ? { ...block, input: canaries.value(block['input']) } : block;
    const text = block[String(type)];
    return carries(type) && typeof text === 'string' && text.trim() !== ''
      ? { ...block, [String(type)]: text + canary }
      : block;
  });
  return { ...response, content: content as ModelResponse['content'] };
}
