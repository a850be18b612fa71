/**
 * Calls a provider that an embedder wrote: checks its answer, and describes the errors it throws. The providers of this
 * library are called directly. Owns nothing.
 */
import { ERROR_CAUSES_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import {
  asError,
  describeValue,
  ModelError,
  ModelInvalidRequestError,
  systemCodeOf,
  TroupeError,
} from '../base/errors.ts';
import { boundedText } from '../base/json.ts';
import { checkOwnResponse, checkResponse } from './anthropic/response-check.ts';
import { withData } from './model-error.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from './provider.ts';

/**
 * Marks a provider that imitates the Messages API. Its answers may have types of blocks, stop reasons and members of
 * `usage` that this library does not know (F38). The symbol is in the global registry, because `troupe` and
 * `troupe/testing` may be loaded as separate copies.
 */
export const API_ANSWERS: unique symbol = Symbol.for('troupe.apiAnswers');

/**
 * The provider's checked answer. Rejects with `model_protocol` for a value that is not an answer. If the provider
 * throws an error that is not of this library, rejects with `internal`. The error `internal` has the thrown error as
 * its cause, and names the provider.
 */
export async function callOwnProvider(
  provider: ModelProvider,
  request: ModelRequest,
  context: GenerateContext,
): Promise<ModelResponse> {
  let answer: unknown;
  try {
    answer = await provider.generate(request, context);
  } catch (thrown) {
    throw describeThrown(provider.name, thrown, context.signal);
  }
  return API_ANSWERS in provider ? checkResponse(answer) : checkOwnResponse(answer);
}

/** A provider given as a value, for the thread that calls it. `open` has already called its `refuses`. */
export function valueProvider(provider: ModelProvider): ModelProvider {
  return { name: provider.name, generate: (request, context) => callOwnProvider(provider, request, context) };
}

/** A provider from a module. `open` does not have the provider itself, so each call asks its `refuses`. */
export function moduleProvider(provider: ModelProvider): ModelProvider {
  return {
    name: provider.name,
    ...defined({ models: provider.models }),
    async generate(request, context) {
      const refusal = request.transport?.fits === true ? undefined : provider.refuses?.(request);
      if (refusal !== undefined) {
        const { key, value, remedy } = refusal;
        throw new ModelInvalidRequestError(`the provider refuses ${key} ${describeValue(value)}; ${remedy}`, {
          data: { key, remedy },
        });
      }
      return callOwnProvider(provider, request, context);
    },
  };
}

function describeThrown(name: string, thrown: unknown, signal: AbortSignal): unknown {
  // The call has already ended, so nothing reads the error that its provider throws now.
  if (signal.aborted) return thrown;
  if (!(thrown instanceof TroupeError)) {
    const { name: kind, message } = asError(thrown);
    const text = `the provider ${JSON.stringify(name)} threw ${kind}: ${message}`;
    return new TroupeError('internal', text, { cause: thrown, data: { causes: causesOf(thrown) } });
  }
  const causes = causesOf(thrown.cause);
  return thrown instanceof ModelError && causes.length > 0 ? withData(thrown, { causes }) : thrown;
}

/** The chain of causes for the log, which keeps no stack: outermost first, at most `ERROR_CAUSES_MAX`. */
function causesOf(cause: unknown): readonly { readonly code?: string; readonly message: string }[] {
  const causes: { readonly code?: string; readonly message: string }[] = [];
  for (let each = cause; each !== undefined && each !== null && causes.length < ERROR_CAUSES_MAX; ) {
    const error = asError(each);
    causes.push({ ...defined({ code: systemCodeOf(error) }), message: boundedText(error.message) });
    each = error.cause;
  }
  return causes;
}
