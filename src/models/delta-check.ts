/**
 * Checks the deltas that a provider passes to `onDelta`. Pure. The check runs for each piece of an answer, so it must
 * be cheap.
 */
import { describeValue, ModelError } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import type { ModelDelta } from './provider.ts';

/**
 * A new object with only the two members of the delta, or the error that ends its call. The error is not retryable: the
 * code of the provider would pass the same delta again.
 */
export function checkDelta(delta: unknown): ModelDelta | ModelError {
  if (!isRecord(delta)) return deltaError(describeValue(delta));
  const { type, text } = delta;
  if (type !== 'text' && type !== 'thinking') return deltaError(`{ type: ${describeValue(type)} }`);
  return typeof text === 'string' ? { type, text } : deltaError(`{ text: ${describeValue(text)} }`);
}

function deltaError(got: string): ModelError {
  return new ModelError('model_protocol', `onDelta got ${got}; expected { type: 'text' | 'thinking', text: string }`, {
    retryable: false,
  });
}
