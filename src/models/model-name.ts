/**
 * The name of a model in the options of an agent, a setting or an enricher. `gpt/gpt-5.5` is the model `gpt-5.5` of the
 * provider that `open` knows as `gpt`. A prefix counts only if it is the name of a provider, because models of some
 * vendors have slashes in their names. Pure.
 */

/** A model of a provider. */
export interface ModelName {
  /** The name under which `open` knows the provider; missing: the first one. */
  readonly provider?: string;
  /** The name that the provider gets. */
  readonly model: string;
}

/** Reads the name of a model. `providers`: the names of the providers. */
export function readModelName(name: string, providers: readonly string[]): ModelName {
  const slash = name.indexOf('/');
  const prefix = name.slice(0, Math.max(slash, 0));
  if (slash < 1 || slash === name.length - 1 || !providers.includes(prefix)) return { model: name };
  return { provider: prefix, model: name.slice(slash + 1) };
}
