/** Builds a provider from provider data, on the thread where the provider will run. */
import { defined } from '../base/defined.ts';
import { ConfigError, describeValue } from '../base/errors.ts';
import { importModule } from '../threads/user-modules.ts';
import { moduleProvider } from './own-provider.ts';
import type { ModelProvider, ProviderData } from './provider.ts';
import { isModelProvider, isProviderData } from './provider-check.ts';
import { importScript } from './script/player.ts';
import { checkScript } from './script/script.ts';

/**
 * The provider of this data. A module is imported here: its default export is a provider, or provider data that names
 * no further module. Rejects with `ConfigError` that names the module or the option. A script's module is also imported
 * here, so that a bad script is found before the first call.
 */
export async function resolveProvider(data: ProviderData): Promise<ModelProvider> {
  if (data.kind === 'module') return resolveModule(data.url);
  return build(data);
}

async function build(data: Exclude<ProviderData, { readonly kind: 'module' }>): Promise<ModelProvider> {
  // Imported on demand: a thread that runs scripted models need not load the Anthropic provider, and vice versa.
  if (data.kind === 'anthropic') {
    const { createAnthropicProvider, parseAnthropicData } = await import('./anthropic/anthropic.ts');
    return createAnthropicProvider(parseAnthropicData(data.options));
  }
  if (data.kind === 'scripted') {
    const { createScriptedProvider } = await import('./script/provider.ts');
    const named = checkScript(data.script);
    const script = 'module' in named ? await importScript(String(named.module), named.export ?? 'default') : named;
    return createScriptedProvider(script, defined({ strict: data.strict, pieceMs: data.pieceMs }));
  }
  throw new ConfigError(`provider: unknown kind ${describeValue((data as { kind?: unknown }).kind)}`);
}

async function resolveModule(url: string): Promise<ModelProvider> {
  const { default: value } = await importModule(url, `provider: ${url}`);
  if (isModelProvider(value)) return moduleProvider(value);
  if (isProviderData(value) && value.kind !== 'module') return build(value);
  const remedy =
    typeof value === 'function'
      ? '; call it in the module'
      : value instanceof Promise
        ? '; await it in the module'
        : '';
  throw new ConfigError(
    `provider: the default export of ${url} must be a provider (name, generate); got ${describeValue(value)}${remedy}`,
  );
}
