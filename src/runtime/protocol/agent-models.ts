/**
 * Checks the models that a runtime's agents and enrichers use. The checks need both the agents and the settings, so
 * they run at `open`. Warnings are logged at `open`, and again when the vendor's list of models has been read. Host
 * thread.
 */

import { ConfigError, describeValue } from '../../base/errors.ts';
import { nearestName } from '../../base/near-names.ts';
import type { Settings } from '../../base/settings.ts';
import { findListed, type ListedModel, modelTraits, nearModel } from '../../context/model-traits.ts';
import { fittedOptions } from '../../models/fitted-options.ts';
import { readModelName } from '../../models/model-name.ts';
import { type CheckedModelOptions, refusedOption, refusedServerTool } from '../../models/model-option-checks.ts';
import { modelOf, modelsOf, requestFields } from '../../models/model-options.ts';
import type { RequestShape, ServerToolSchema } from '../../models/provider.ts';
import { isModelProvider } from '../../models/provider-check.ts';
import { isServerTool } from '../../tools/server-tool.ts';
import type { Agent } from './agent.ts';
import type { CheckedOptions } from './options.ts';

/** The options that determine which models are used, and by which agents and enrichers. */
type ModelUse = Pick<CheckedOptions, 'agents' | 'settings' | 'providers'>;

/**
 * Throws `ConfigError` for an option that a model of its agent refuses. The error names the option, its value, the
 * model and the remedy. `listed`: rows of the vendor's list. An option that the list accepts passes, even if the
 * built-in table of models refuses it. An option that only the list refuses is made to fit (`fittedOptions`), because
 * `open` must not depend on the list.
 */
export function checkAgentModels(use: ModelUse, listed: readonly ListedModel[]): void {
  for (const definition of use.agents) {
    for (const isChild of [false, true]) checkAgentModel(definition, use, isChild, listed);
  }
}

/** The model of an agent, under the name that its provider uses. */
function modelOfAgent(definition: Agent<unknown>, { settings, providers }: ModelUse, isChild: boolean): string {
  return bareName(modelOf(definition, settings, isChild), providers);
}

/** The name of a model without the prefix of its provider. */
function bareName(name: string, providers: CheckedOptions['providers']): string {
  return readModelName(
    name,
    providers.map(({ key }) => key),
  ).model;
}

function checkAgentModel(
  definition: Agent<unknown>,
  use: ModelUse,
  isChild: boolean,
  listed: readonly ListedModel[],
): void {
  const { settings } = use;
  const model = modelOfAgent(definition, use, isChild);
  const options = optionsOf(definition, settings);
  if (refusedOption(options, modelTraits(model)) === undefined) return;
  const refused = refusedOption(options, modelTraits(model, findListed(model, listed)));
  if (refused === undefined) return;
  const { value, rule, remedy } = refused;
  const isSetting = refused.key === 'maxTokens' && definition.maxTokens === undefined;
  const key = isSetting ? 'settings.llm.maxTokens' : `agent ${definition.name}.${refused.key}`;
  const isSubagentModel = isChild && settings.llm.subagentModel !== undefined;
  const role = isSubagentModel ? `${model} (settings.llm.subagentModel)` : model;
  throw new ConfigError(`option ${JSON.stringify(key)}: ${role} refuses ${JSON.stringify(value)}; ${remedy}`, {
    data: { key, agent: definition.name, value, model, rule, remedy },
  });
}

/**
 * Throws `ConfigError` for an option of an agent, or a model of an enricher, that its provider does not support. A
 * provider given as a module is not checked here: it is loaded only on the model threads, and refuses the call there.
 */
export function checkProviderOptions(checked: CheckedOptions): void {
  const { agents, settings, enrichers } = checked;
  for (const definition of agents) {
    for (const isChild of [false, true]) {
      const [first, ...others] = modelsOf(definition, settings, isChild);
      const owner = `agent ${definition.name}`;
      throwRefusal(checked, first, owner, (model) => shapeOf(definition, model, settings));
      // The options apply to the first model. Another model is sent only the options that it supports.
      for (const name of others) throwRefusal(checked, name, owner, bareShape);
    }
  }
  for (const [name, enricher] of Object.entries(enrichers ?? {})) {
    const model: string | undefined = enricher?.model;
    if (model !== undefined) throwRefusal(checked, model, `enrichers.${name}`, bareShape);
  }
}

function bareShape(model: string): RequestShape {
  return { model, max_tokens: 1 };
}

/** The parts of the agent's requests that its options decide. */
function shapeOf(definition: Agent<unknown>, model: string, settings: Settings): RequestShape {
  const { maxTokens, serverTools = [] } = optionsOf(definition, settings);
  const { toolChoice } = definition;
  // The agent's tools are not known yet, so options about tools are checked as if the agent had tools.
  const names = [typeof toolChoice === 'object' ? toolChoice.tool : 'any'];
  const fields = requestFields(definition, modelTraits(model), names, { threads: settings.llm.threads });
  const tools = serverTools.map((entry) => entry as ServerToolSchema);
  return { model, max_tokens: maxTokens, ...fields, ...(tools.length === 0 ? {} : { tools }) };
}

/** Throws if the provider of a model refuses the shape of a request. `name`: the model's name with its prefix. */
function throwRefusal(
  { providers }: CheckedOptions,
  name: string,
  owner: string,
  shape: (model: string) => RequestShape,
): void {
  const { provider: key, model } = readModelName(
    name,
    providers.map((each) => each.key),
  );
  const { provider } = providers.find((each) => each.key === key) ?? providers[0] ?? {};
  const refusal = isModelProvider(provider) ? provider.refuses?.(shape(model)) : undefined;
  if (refusal === undefined) return;
  const { value, remedy } = refusal;
  const option = refusal.key.startsWith('settings.') ? refusal.key : `${owner}.${refusal.key}`;
  const shown = JSON.stringify(value) ?? describeValue(value);
  throw new ConfigError(`option ${JSON.stringify(option)}: the provider refuses ${shown}; ${remedy}`, {
    data: { key: option, value, model, remedy },
  });
}

function optionsOf(definition: Agent<unknown>, settings: Settings): CheckedModelOptions {
  const serverTools = (definition.tools ?? []).filter(isServerTool).map(({ entry }) => entry);
  return { ...definition, maxTokens: definition.maxTokens ?? settings.llm.maxTokens, serverTools };
}

/** The models of the agents, of their sub-agents and of the enrichers, as they were given. */
function namesInUse({ agents, settings, enrichers }: CheckedOptions): ReadonlySet<string> {
  const own = agents.flatMap((each) => [false, true].flatMap((isChild) => modelsOf(each, settings, isChild)));
  return new Set([...own, ...[enrichers?.melete, enrichers?.mneme].flatMap((each) => each?.model ?? [])]);
}

/** The models in use, under the names that their providers use. */
function modelsInUse(checked: CheckedOptions): ReadonlySet<string> {
  return new Set([...namesInUse(checked)].map((name) => bareName(name, checked.providers)));
}

/** The rows of the models in use, for the session threads. */
export function listedInUse(checked: CheckedOptions, listed: readonly ListedModel[]): readonly ListedModel[] {
  return [...new Set([...modelsInUse(checked)].flatMap((model) => findListed(model, listed) ?? []))];
}

/** Logs warnings about the models in use, each line once. */
export class ModelWarnings {
  readonly #checked: CheckedOptions;
  readonly #logged = new Set<string>();

  constructor(checked: CheckedOptions) {
    this.#checked = checked;
  }

  /** Logs the warnings that were not logged before. `listed`: the known rows of the vendor's list. */
  log(listed: readonly ListedModel[]): void {
    this.#logEndings(listed);
    this.#logUnlisted(listed);
    this.#logPrefixes();
    for (const definition of this.#checked.agents) {
      for (const isChild of [false, true]) this.#logFitted(definition, isChild, listed);
    }
  }

  /** Logs each model in use that is deprecated, retired, or past the last day on which the vendor offers it. */
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

  /**
   * Logs each model that the vendor's list lacks, if the list has a model with a similar name. Without a list nothing
   * is logged, because the model may be newer than the built-in table.
   */
  #logUnlisted(listed: readonly ListedModel[]): void {
    if (listed.length === 0) return;
    for (const model of modelsInUse(this.#checked)) {
      const near = findListed(model, listed) === undefined ? nearModel(model, listed) : undefined;
      if (near === undefined) continue;
      this.#warn({ model }, `the model ${model} is not in the vendor's list of models: did you mean ${near}?`);
    }
  }

  /**
   * Logs each model whose prefix is close to the name of a provider but is not that name. Such a prefix counts as part
   * of the model's name.
   */
  #logPrefixes(): void {
    const names = this.#checked.providers.flatMap(({ key }) => (key === '' ? [] : [key]));
    for (const model of namesInUse(this.#checked)) {
      const prefix = model.slice(0, Math.max(model.indexOf('/'), 0));
      const near = prefix === '' || names.includes(prefix) ? undefined : nearestName(prefix, names);
      if (near === undefined) continue;
      const message = `the model ${model} goes to the first provider, since none has the name ${prefix}`;
      this.#warn({ model }, `${message}: did you mean ${near}/${model.slice(prefix.length + 1)}?`);
    }
  }

  /** Logs each option of an agent that only the vendor's list refuses, with the value that is sent in its place. */
  #logFitted(definition: Agent<unknown>, isChild: boolean, listed: readonly ListedModel[]): void {
    const { settings } = this.#checked;
    const model = modelOfAgent(definition, this.#checked, isChild);
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
