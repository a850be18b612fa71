/**
 * The models that a runtime's agents and enrichers use, checked where both the agents and the settings are known: at
 * `open`, on the host thread.
 */
import { ConfigError } from '../../base/errors.ts';
import type { Settings } from '../../base/settings.ts';
import { modelTraits } from '../../context/model-traits.ts';
import { refusedOption } from '../../models/model-option-checks.ts';
import { modelOf } from '../../models/model-options.ts';
import type { Agent } from './agent.ts';
import type { CheckedOptions } from './options.ts';

/**
 * Throws `ConfigError` for an option that a model of its agent refuses. The error names the option, its value, the
 * model and the remedy.
 */
export function checkAgentModels(agents: readonly Agent<unknown>[], settings: Settings): void {
  for (const definition of agents) {
    for (const isChild of [false, true]) checkAgentModel(definition, settings, isChild);
  }
}

function checkAgentModel(definition: Agent<unknown>, settings: Settings, isChild: boolean): void {
  const model = modelOf(definition, settings, isChild);
  const maxTokens = definition.maxTokens ?? settings.llm.maxTokens;
  const refused = refusedOption({ ...definition, maxTokens }, model);
  if (refused === undefined) return;
  const { value, rule, remedy } = refused;
  const isSetting = refused.key === 'maxTokens' && definition.maxTokens === undefined;
  const key = isSetting ? 'settings.llm.maxTokens' : `agent ${definition.name}.${refused.key}`;
  const isSubagentModel = isChild && settings.llm.subagentModel !== undefined;
  const role = isSubagentModel ? `${model} (settings.llm.subagentModel)` : model;
  throw new ConfigError(
    `option ${JSON.stringify(key)}: ${role} refuses ${JSON.stringify(value)} (${rule}); ${remedy}`,
    { data: { key, agent: definition.name, value, model, rule, remedy } },
  );
}

/** Logs each model in use that is deprecated, or past the day until which the vendor keeps it. */
export function warnOfEndingModels({ agents, settings, enrichers, clock, logger }: CheckedOptions): void {
  const own = agents.flatMap((each) => [modelOf(each, settings, false), modelOf(each, settings, true)]);
  const models = new Set([...own, ...[enrichers?.melete, enrichers?.mneme].flatMap((each) => each?.model ?? [])]);
  const today = new Date(clock.now()).toISOString().slice(0, 'YYYY-MM-DD'.length);
  for (const model of models) {
    const { deprecated, retiresAfter } = modelTraits(model);
    const isPast = retiresAfter !== undefined && retiresAfter < today;
    if (deprecated !== true && !isPast) continue;
    const day = retiresAfter === undefined ? '' : `, and may be retired ${isPast ? 'since' : 'from'} ${retiresAfter}`;
    const what = deprecated === true ? `is deprecated${day}` : `may be retired since ${retiresAfter}`;
    logger?.warn({ model }, `the model ${model} ${what}: choose a newer one`);
  }
}
