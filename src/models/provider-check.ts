/** Recognises providers and provider data. Pure. */
import { isRecord } from '../base/json.ts';
import type { ModelProvider, ProviderData } from './provider.ts';

/** True for a value that can be called as a provider. */
export function isModelProvider(value: unknown): value is ModelProvider {
  if (typeof value !== 'object' || value === null) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return typeof fields['name'] === 'string' && typeof fields['generate'] === 'function';
}

/** True for provider data, judged by its kind; its content is checked when the provider is built. */
export function isProviderData(value: unknown): value is ProviderData {
  if (!isRecord(value)) return false;
  if (value['kind'] === 'anthropic') return isRecord(value['options']);
  if (value['kind'] === 'scripted') return value['script'] !== undefined;
  return value['kind'] === 'module' && typeof value['url'] === 'string';
}
