/** Where the Anthropic provider takes its key, token and address from: options, headers among them, then the environment. */
import { ModelAuthenticationError } from '../base/errors.ts';
import type { AnthropicData } from './provider.ts';

const PUBLIC_BASE_URL = 'https://api.anthropic.com';
/** Stands for a key where the headers hold the credentials. */
const UNSENT_KEY = 'in-headers';
/** What a header can carry of a key. */
const HEADER_SAFE = /^[\x21-\x7e]+$/;

/** What one call is made with. */
export interface Credentials {
  readonly apiKey?: string;
  readonly authToken?: string;
  readonly baseURL: string;
  /** Headers that replace what the SDK would send. */
  readonly headers: Readonly<Record<string, string | null>>;
  /** Every secret text, to be kept out of messages. */
  readonly secrets: readonly string[];
  /** Equal for calls that may share a client. Holds secrets. */
  readonly identity: string;
}

/**
 * The credentials of a call; undefined when there are none. Read at every call, so that a key set after a failure is found:
 * on the host thread at once, on a model thread when the thread is started anew, as it has a copy of the environment.
 * Throws `ModelAuthenticationError` for a key that no header can carry.
 */
export function credentialsOf(data: AnthropicData): Credentials | undefined {
  const baseURL = data.baseURL ?? environment('ANTHROPIC_BASE_URL') ?? PUBLIC_BASE_URL;
  const inHeaders = secretHeaders(data.headers);
  const isGiven = data.apiKey !== undefined || data.authToken !== undefined;
  const useEnvironment = !isGiven && inHeaders.length === 0;
  const apiKey = useEnvironment ? environment('ANTHROPIC_API_KEY') : data.apiKey;
  const authToken = useEnvironment ? environment('ANTHROPIC_AUTH_TOKEN') : data.authToken;
  // The SDK takes exactly one of the two.
  if (apiKey !== undefined) return build({ apiKey }, apiKey, baseURL, inHeaders, {});
  if (authToken !== undefined) return build({ authToken }, authToken, baseURL, inHeaders, {});
  if (inHeaders.length === 0) return undefined;
  // Without a key of its own the SDK would look for one on disk, so it gets one that it does not send.
  const names = Object.keys(data.headers ?? {}).map((name) => name.toLowerCase());
  const replaced = names.includes('authorization') ? {} : { authorization: null };
  return build({ apiKey: UNSENT_KEY }, UNSENT_KEY, baseURL, inHeaders, replaced);
}

/** No key, no token, no header with one. */
export function authenticationMissing(): ModelAuthenticationError {
  return new ModelAuthenticationError(
    'no credentials: give apiKey or authToken to anthropic(), or set ANTHROPIC_API_KEY',
  );
}

function build(
  key: { readonly apiKey?: string; readonly authToken?: string },
  secret: string,
  baseURL: string,
  headerSecrets: readonly string[],
  headers: Credentials['headers'],
): Credentials {
  if (!HEADER_SAFE.test(secret)) {
    throw new ModelAuthenticationError('the API key has characters that no header can carry');
  }
  return {
    ...key,
    baseURL,
    headers,
    secrets: [secret, ...headerSecrets],
    identity: JSON.stringify([key, baseURL]),
  };
}

function secretHeaders(headers: AnthropicData['headers']): readonly string[] {
  return Object.entries(headers ?? {})
    .filter(([name]) => ['x-api-key', 'authorization'].includes(name.toLowerCase()))
    .map(([, value]) => value.replace(/^bearer\s+/i, ''));
}

function environment(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}
