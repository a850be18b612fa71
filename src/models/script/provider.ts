/**
 * A model that answers from a script: for tests, demos and benchmarks of agents, without a network.
 * Owns: only its script's player and the answers that paused. Does not own: the content of the script.
 *
 * - Q4 A request that the Messages API would refuse is refused with the API's message and consumes no reply, unless
 *   `strict` is false.
 * - Q5 An aborted call rejects with `CancelledError` at once, even while it waits.
 */
import { z } from 'zod';
import { SCRIPT_PIECE_MS_MAX } from '../../base/bounds.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { CancelledError, ModelInvalidRequestError } from '../../base/errors.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { parseOption } from '../../base/parse-option.ts';
import { type BlockView, checkRequest, fatalOf } from '../../context/legality/legality.ts';
import { modelErrorOf } from '../model-error.ts';
import { API_ANSWERS } from '../own-provider.ts';
import type { GenerateContext, ModelDelta, ModelProvider, ModelRequest, ModelResponse } from '../provider.ts';
import { bodyOf } from '../request-body.ts';
import { PauseTurnAnswers } from './pause-turn-answers.ts';
import { createScriptPlayer, isReplyError, responseOf, type ScriptPlayer } from './player.ts';
import { checkScript, type ReplyError, type Script } from './script.ts';

/** Options of a scripted model. */
export interface ScriptedOptions {
  /** False: requests are not checked against the rules of the Messages API. Default true. */
  readonly strict?: boolean;
  /**
   * Milliseconds between the words of an answer, as a model streams them; 0 to 60,000. Default 0: all words at once, at
   * the end of the call.
   */
  readonly pieceMs?: number;
  /** The clock that times `delayMs` and `pieceMs`. Default: the machine's. */
  readonly clock?: Clock;
}

/** Milliseconds between two pieces of an answer. */
export const pieceSchema: z.ZodDefault<z.ZodNumber> = z.number().min(0).max(SCRIPT_PIECE_MS_MAX).default(0);

/**
 * A provider that plays `script`. Throws `ConfigError` for a value that is not a script, or a bad option. Runs on any
 * thread.
 */
export function createScriptedProvider(script: Script, options: ScriptedOptions = {}): ModelProvider {
  const stage: Stage = {
    player: createScriptPlayer(checkScript(script)),
    clock: options.clock ?? systemClock,
    strict: options.strict ?? true,
    pieceMs: parseOption(pieceSchema, 'scripted.pieceMs', options.pieceMs),
    paused: new PauseTurnAnswers(),
  };
  const provider: ModelProvider & { readonly [API_ANSWERS]: true } = {
    name: 'scripted',
    generate: (request, context) => generate(stage, request, context),
    [API_ANSWERS]: true,
  };
  return provider;
}

interface Stage {
  readonly player: ScriptPlayer;
  readonly clock: Clock;
  readonly strict: boolean;
  readonly pieceMs: number;
  readonly paused: PauseTurnAnswers;
}

async function generate(
  { player, clock, strict, pieceMs, paused }: Stage,
  request: ModelRequest,
  context: GenerateContext,
): Promise<ModelResponse> {
  if (context.signal.aborted) throw cancelled();
  if (strict) refuseIllegal(request, paused);
  // A request for no output only fills the cache, and takes no reply of the script.
  if (request.max_tokens === 0) {
    return { content: [], stop_reason: 'max_tokens', usage: { input_tokens: 0, output_tokens: 0 } };
  }
  const { reply, call } = await player.next(request, context.session);
  const delayMs = typeof reply === 'string' ? undefined : reply.delayMs;
  if (typeof delayMs === 'number' && delayMs > 0) await wait(clock, delayMs, context.signal);
  if (context.signal.aborted) throw cancelled();
  if (isReplyError(reply)) throw errorOf(reply);
  const response = responseOf(reply, request, { session: context.session, call }, signature);
  paused.note(request, response);
  // The API reports the input tokens when an answer begins, and so does this model. The response has the output tokens.
  context.onUsage?.({ ...response.usage, output_tokens: 0 });
  for (const { type, text } of response.content.flatMap(wordsOf)) {
    if (pieceMs > 0) await wait(clock, pieceMs, context.signal);
    context.onDelta({ type, text });
  }
  return response;
}

function refuseIllegal(request: ModelRequest, paused: PauseTurnAnswers): void {
  // Answers from before a restart are not remembered. So an answer with calls of the provider's own tools also counts
  // as paused.
  const isPausedTurn = (blocks: readonly BlockView[]): boolean =>
    paused.has(blocks) || blocks.some((block) => block.type === 'server_tool_use');
  const violations = fatalOf(checkRequest(bodyOf(request), { isPausedTurn }));
  const first = violations[0];
  if (first === undefined) return;
  throw new ModelInvalidRequestError(first.message, {
    status: 400,
    data: { rule: first.rule, path: first.path, violations },
  });
}

function errorOf(reply: ReplyError): Error {
  const { error } = reply;
  const named = error.status !== undefined || error.type !== undefined || error.code !== undefined;
  return modelErrorOf({
    ...error,
    ...(named ? {} : { status: 500 }),
    message: error.message ?? `scripted failure (${error.code ?? error.type ?? error.status ?? 500})`,
  });
}

/** The pieces in which a block's text is streamed: its words. */
function wordsOf(block: ContentBlock): readonly ModelDelta[] {
  if (block.type !== 'text' && block.type !== 'thinking') return [];
  const { type } = block;
  const whole = block.type === 'text' ? block.text : block.thinking;
  return (whole.match(/\s*\S+\s*/g) ?? []).map((text) => ({ type, text }));
}

/** The signature of a scripted thought is its length: a signature only has to exist and to be the same every time. */
function signature(thinking: string): string {
  return `scripted-${thinking.length}`;
}

function wait(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clock.clearTimer(timer);
      reject(cancelled());
    };
    const timer = clock.setTimer(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, delayMs);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

function cancelled(): CancelledError {
  return new CancelledError('the model call was cancelled');
}
