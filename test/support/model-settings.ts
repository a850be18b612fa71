/** Every model of the vendor's SDK with every `thinking` that an agent may set. */
import { modelTraits } from '../../src/context/model-traits.ts';
import type { Thinking } from '../../src/models/provider.ts';
import { sdkModels } from './type-reader.ts';

/** A model and the `thinking` of its requests. */
export interface ModelSetting {
  readonly model: string;
  readonly thinking: Thinking | undefined;
}

/** Each kind of `thinking` that an agent takes. */
export const THINKING: readonly (Thinking | undefined)[] = [
  undefined,
  { type: 'enabled', budget_tokens: 1_024 },
  { type: 'adaptive' },
  { type: 'between_tools' },
  { type: 'disabled' },
];

const SETTINGS: readonly ModelSetting[] = sdkModels().flatMap((model) =>
  THINKING.map((thinking) => ({ model, thinking })).filter(isAccepted),
);
/** The settings under which the model thinks. */
const THINKING_SETTINGS: readonly ModelSetting[] = SETTINGS.filter(({ model, thinking }) =>
  thinking === undefined ? modelTraits(model).thinksByDefault === true : thinking.type !== 'disabled',
);

/** The model accepts its `thinking`. */
export function isAccepted({ model, thinking }: ModelSetting): boolean {
  return thinking === undefined || modelTraits(model).thinkingTypes?.has(thinking.type) === true;
}

/**
 * Picks one of the accepted settings by a number. If the model's answers have thoughts, picks a setting under which the
 * model thinks.
 */
export function settingOf(draw: number, thinks: boolean): ModelSetting {
  const settings = thinks ? THINKING_SETTINGS : SETTINGS;
  const setting = settings[draw % settings.length];
  if (setting === undefined) throw new Error('the SDK names no model');
  return setting;
}
