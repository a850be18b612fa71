/**
 * The models that a runtime's agents and enrichers use, checked where both the agents and the settings are known: at
 * `open`, and again when the vendor's list of models was read. Host thread.
 */
import { ConfigError } from '../../base/errors.ts';
import type { Settings } from '../../base/settings.ts';
import { findListed, type ListedModel, modelTraits } from '../../context/model-traits.ts';
import { fittedOptions } from '../../models/fitted-options.ts';
import { type CheckedModelOptions, refusedOption, refusedServerTool } from '../../models/model-option-checks.ts';
import { modelOf } from '../../models/model-options.ts';
import { isServerTool } from '../../tools/server-tool.ts';
import type { Agent } from './agent.ts';
import type { CheckedOptions } from './options.ts';

/**
 * Throws `ConfigError` for an option that a model of its agent refuses. The error names the option, its value, the
 * model and the remedy. `listed`: rows of the vendor's list. An option that the list accepts passes, whatever the dated
 * table says; what only the list refuses is made to fit (`fittedOptions`), since a start must not depend on it.
 */
export function checkAgentModels(
  agents: readonly Agent<unknown>[],
  settings: Settings,
  listed: readonly ListedModel[],
): void {
  for (const definition of agents) {
    for (const isChild of [false, true]) checkAgentModel(definition, settings, isChild, listed);
  }
}

function checkAgentModel(
  definition: Agent<unknown>,
  settings: Settings,
  isChild: boolean,
  listed: readonly ListedModel[],
): void {
  const model = modelOf(definition, settings, isChild);
  const options = optionsOf(definition, settings);
  if (refusedOption(options, modelTraits(model)) === undefined) return;
  const refused = refusedOption(options, modelTraits(model, findListed(model, listed)));
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

function optionsOf(definition: Agent<unknown>, settings: Settings): CheckedModelOptions {
  const serverTools = (definition.tools ?? []).filter(isServerTool).map(({ entry }) => entry);
  return { ...definition, maxTokens: definition.maxTokens ?? settings.llm.maxTokens, serverTools };
}

/** The models of the agents, of their sub-agents and of the enrichers. */
function modelsInUse({ agents, settings, enrichers }: CheckedOptions): ReadonlySet<string> {
  const own = agents.flatMap((each) => [modelOf(each, settings, false), modelOf(each, settings, true)]);
  return new Set([...own, ...[enrichers?.melete, enrichers?.mneme].flatMap((each) => each?.model ?? [])]);
}

/** The rows of the models in use, for the session threads. */
export function listedInUse(checked: CheckedOptions, listed: readonly ListedModel[]): readonly ListedModel[] {
  return [...new Set([...modelsInUse(checked)].flatMap((model) => findListed(model, listed) ?? []))];
}

/** Logs what an embedder should know of the models in use; each line once. */
export class ModelWarnings {
  readonly #checked: CheckedOptions;
  readonly #logged = new Set<string>();

  constructor(checked: CheckedOptions) {
    this.#checked = checked;
  }

  /** `listed`: rows of the vendor's list, as far as they are known. */
  log(listed: readonly ListedModel[]): void {
    this.#logEndings(listed);
    for (const definition of this.#checked.agents) {
      for (const isChild of [false, true]) this.#logFitted(definition, isChild, listed);
    }
  }

  /** Each model in use that is deprecated or retired, or past the day until which the vendor keeps it. */
  #logEndings(listed: readonly ListedModel[]): void {
    const today = new Date(this.#checked.clock.now()).toISOString().slice(0, 'YYYY-MM-DD'.length);
    for (const model of modelsInUse(this.#checked)) {
      const row = findListed(model, listed);
      const { deprecated, retiresAfter } = modelTraits(model, row);
      const isPast = retiresAfter !== undefined && retiresAfter < today;
      const isRetired = row?.lifecycle === 'retired';
      if (deprecated !== true && !isPast) continue;
      const day = retiresAfter === undefined ? '' : `, and may be retired ${isPast ? 'since' : 'from'} ${retiresAfter}`;
      const until = deprecated === true ? `is deprecated${day}` : `may be retired since ${retiresAfter}`;
      this.#warn({ model }, `the model ${model} ${isRetired ? 'is retired' : until}: choose a newer one`);
    }
  }

  /** Each option of an agent that only the vendor's list refuses, with the value that is sent in its place. */
  #logFitted(definition: Agent<unknown>, isChild: boolean, listed: readonly ListedModel[]): void {
    const { settings } = this.#checked;
    const model = modelOf(definition, settings, isChild);
    const given = optionsOf(definition, settings);
    const traits = modelTraits(model, findListed(model, listed));
    const fitted = fittedOptions(given, traits);
    for (const tool of given.serverTools ?? []) {
      if (refusedServerTool(tool, traits) === undefined) continue;
      const message = `agent ${definition.name}: ${model} has no ${tool.type}, as the vendor's list of models says`;
      this.#warn({ model, agent: definition.name }, `${message}; from a session's next epoch on it is not sent`);
    }
    for (const key of ['thinking', 'effort', 'maxTokens'] as const) {
      const [before, after] = [given[key], fitted[key]].map((value) => JSON.stringify(value));
      if (before === after) continue;
      const sent = after === undefined ? 'it is not sent' : `${after} is sent`;
      const option = `agent ${definition.name}.${key}`;
      const message = `option ${JSON.stringify(option)}: ${model} refuses ${before}, as the vendor's list of models says`;
      this.#warn({ model, agent: definition.name }, `${message}; from a session's next epoch on ${sent}`);
    }
  }

  #warn(fields: object, message: string): void {
    if (this.#logged.has(message)) return;
    this.#logged.add(message);
    this.#checked.logger?.warn(fields, message);
  }
}
