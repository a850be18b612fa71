/**
 * The options of an agent as its model accepts them. `open` refuses options that the model refuses according to the
 * dated table of this library (`model-traits.ts`). A model may refuse more according to the vendor's list, and that
 * list may arrive after the start. Then the request has the nearest value that the model accepts. Pure.
 */
import { EFFORTS, type Effort } from '../context/model-traits.ts';
import type { RequestTraits } from '../context/request-traits.ts';
import { BETWEEN_TOOLS_EFFORTS, type CheckedModelOptions, refusedOption } from './model-option-checks.ts';
import type { Thinking } from './provider.ts';

/** The members that are made to fit. A missing member is not sent. */
export type FittedOptions = Pick<CheckedModelOptions, 'effort' | 'maxTokens' | 'thinking'>;

/** These options with the values that a model with these traits accepts. */
export function fittedOptions<T extends FittedOptions>(options: T, traits: RequestTraits): T {
  const { thinking: wanted, effort: asked, maxTokens: given, ...others } = options;
  const thinking = fittedThinking(wanted, traits);
  const effort = fittedEffort(asked, thinking, traits);
  const maxTokens = Math.min(given, traits.outputTokensMax ?? given);
  return {
    ...others,
    maxTokens,
    ...(thinking === undefined ? {} : { thinking }),
    ...(effort === undefined ? {} : { effort }),
  } as T;
}

/** The options, made to fit the traits. An option that a model with these traits refuses even then is left out. */
export function withoutRefused<T extends CheckedModelOptions>(options: T, traits: RequestTraits): T {
  let kept: T = options;
  for (;;) {
    const fitting = fittedOptions(kept, traits);
    const refused = refusedOption(fitting, traits);
    const [key = ''] = refused?.key.split('.') ?? [];
    if (!(key in kept)) return fitting;
    const { [key as keyof T]: _refused, ...rest } = kept;
    kept = rest as T;
  }
}

/** The replacement of each thinking type, for a model that refuses the type: the type that does nearly the same. */
const IN_PLACE: Readonly<Record<Thinking['type'], Thinking | undefined>> = {
  adaptive: undefined,
  enabled: { type: 'adaptive' },
  disabled: { type: 'between_tools' },
  between_tools: { type: 'disabled' },
};

function fittedThinking(thinking: Thinking | undefined, { thinkingTypes }: RequestTraits): Thinking | undefined {
  if (thinking === undefined || thinkingTypes === undefined || thinkingTypes.has(thinking.type)) return thinking;
  const other = IN_PLACE[thinking.type];
  return other !== undefined && thinkingTypes.has(other.type) ? other : undefined;
}

function fittedEffort(
  effort: Effort | undefined,
  thinking: Thinking | undefined,
  { efforts, effortsWithoutThinking }: RequestTraits,
): Effort | undefined {
  const limits = { disabled: effortsWithoutThinking, between_tools: BETWEEN_TOOLS_EFFORTS };
  const own = thinking?.type === 'disabled' || thinking?.type === 'between_tools' ? limits[thinking.type] : undefined;
  return nearest(effort, own === undefined ? efforts : own.filter((each) => efforts?.includes(each) !== false));
}

/**
 * The highest accepted effort that is not above `effort`. If all accepted efforts are above it, the lowest of them.
 * Undefined if no effort is accepted.
 */
function nearest(effort: Effort | undefined, accepted: readonly Effort[] | undefined): Effort | undefined {
  if (effort === undefined || accepted === undefined || accepted.includes(effort)) return effort;
  const highest = EFFORTS.indexOf(effort);
  return accepted.filter((each) => EFFORTS.indexOf(each) <= highest).at(-1) ?? accepted[0];
}
