/** The sources of the Anthropic provider's key, token and address: options, including headers, then the environment. */
import { ModelAuthenticationError } from '../../base/errors.ts';
import { API_VERSION } from '../../context/legality/shape.ts';
import type { AnthropicData } from '../provider.ts';

const PUBLIC_BASE_URL = 'https://api.anthropic.com';
/** The key given to the SDK when the headers hold the credentials. It is never sent. */
const UNSENT_KEY = 'in-headers';
/** The characters of a key that a header can carry. */
const HEADER_SAFE = /^[\x21-\x7e]+$/;

/** The credentials and address of one call. */
export interface Credentials {
  readonly apiKey?: string;
  readonly authToken?: string;
  readonly baseURL: string;
  /** Headers that replace those the SDK would send. */
  readonly headers: Readonly<Record<string, string | null>>;
  /** Every secret text, to be kept out of messages. */
  readonly secrets: readonly string[];
  /** A text that is equal for calls that may share a client. It contains secrets. */
  readonly identity: string;
}

/**
 * The credentials of a call; undefined when there are none. The credentials are read at every call, so a key that is
 * set after a failure is found. The host thread finds a new key at once. A model thread has a copy of the environment,
 * so it finds the key only after a restart. Throws `ModelAuthenticationError` for a key that no header can carry.
 */
export function credentialsOf(data: AnthropicData): Credentials | undefined {
  const baseURL = data.baseURL ?? environment('ANTHROPIC_BASE_URL') ?? PUBLIC_BASE_URL;
  if (holdsCredentials(baseURL)) throw new ModelAuthenticationError(`ANTHROPIC_BASE_URL ${CREDENTIALS_IN_ADDRESS}`);
  const inHeaders = credentialHeaders(data.headers);
  const isGiven = data.apiKey !== undefined || data.authToken !== undefined;
  const useEnvironment = !isGiven && inHeaders.length === 0;
  const apiKey = useEnvironment ? environment('ANTHROPIC_API_KEY') : data.apiKey;
  const authToken = useEnvironment ? environment('ANTHROPIC_AUTH_TOKEN') : data.authToken;
  const alsoSecret = headerSecrets(data.headers);
  // The SDK takes exactly one of key and token.
  if (apiKey !== undefined) return build({ apiKey }, apiKey, baseURL, alsoSecret, {});
  if (authToken !== undefined) return build({ authToken }, authToken, baseURL, alsoSecret, {});
  if (inHeaders.length === 0) return undefined;
  // Without a key, the SDK would look for one on disk, so it gets a key that it does not send.
  const names = Object.keys(data.headers ?? {}).map((name) => name.toLowerCase());
  const replaced = names.includes('authorization') ? {} : { authorization: null };
  return build({ apiKey: UNSENT_KEY }, UNSENT_KEY, baseURL, alsoSecret, replaced);
}

/**
 * The error text for an address that holds a user name or a password. No `fetch` accepts such an address, and the
 * errors of `fetch` show the whole address.
 */
export const CREDENTIALS_IN_ADDRESS = 'holds a user name or password; give them in headers instead';

/** True for an address that contains a user name or a password. */
export function holdsCredentials(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { username, password } = new URL(address);
  return username !== '' || password !== '';
}

/** The error when there is no key, no token and no header with credentials. */
export function authenticationMissing(): ModelAuthenticationError {
  return new ModelAuthenticationError(
    'no credentials: give apiKey or authToken to anthropic(), or set ANTHROPIC_API_KEY',
  );
}

function build(
  key: { readonly apiKey?: string; readonly authToken?: string },
  secret: string,
  baseURL: string,
  alsoSecret: readonly string[],
  headers: Credentials['headers'],
): Credentials {
  if (!HEADER_SAFE.test(secret)) {
    throw new ModelAuthenticationError('the API key has characters that no header can carry');
  }
  return {
    ...key,
    baseURL,
    headers,
    // The longest secret comes first, because a secret may be part of another.
    secrets: [...new Set([secret, ...alsoSecret])].sort((a, b) => b.length - a.length),
    identity: JSON.stringify([key, baseURL]),
  };
}

const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set(['x-api-key', 'authorization']);
/** Headers whose values are not secrets; any other header may hold the key of a gateway. */
const OPEN_HEADERS: ReadonlySet<string> = new Set([
  ...['anthropic-version', 'anthropic-beta', 'content-type', 'accept', 'accept-language', 'user-agent'],
]);
/**
 * Header values of this length or more are redacted. Shorter values may be common words, and redacting those would make
 * every message unreadable.
 */
const SECRET_CHARACTERS_MIN = 6;

function credentialHeaders(headers: AnthropicData['headers']): readonly string[] {
  return Object.keys(headers ?? {}).filter((name) => CREDENTIAL_HEADERS.has(name.toLowerCase()));
}

/**
 * The header values that no message may show, including the headers that the SDK reads from the environment. Each value
 * is listed twice: whole, and without its scheme (such as `Bearer`).
 */
function headerSecrets(headers: AnthropicData['headers']): readonly string[] {
  return [...Object.entries(headers ?? {}), ...environmentHeaders()]
    .filter(([name]) => !OPEN_HEADERS.has(name.toLowerCase()))
    .flatMap(([, value]) => [value, value.slice(value.indexOf(' ') + 1).trim()])
    .filter((value) => value.length >= SECRET_CHARACTERS_MIN);
}

/** The headers that the SDK adds to every request from the environment. */
function environmentHeaders(): readonly (readonly [string, string])[] {
  const lines = (environment('ANTHROPIC_CUSTOM_HEADERS') ?? '').split('\n').filter((line) => line.includes(':'));
  return lines.map((line) => [line.slice(0, line.indexOf(':')).trim(), line.slice(line.indexOf(':') + 1).trim()]);
}

/**
 * The headers of a request that is made without the SDK. `given`: the headers of the provider's options.
 */
export function headersOf(given: AnthropicData['headers'], credentials: Credentials): Headers {
  const { apiKey, authToken, headers: replaced } = credentials;
  const headers = new Headers({ 'anthropic-version': API_VERSION, accept: 'application/json' });
  if (apiKey !== undefined && apiKey !== UNSENT_KEY) headers.set('x-api-key', apiKey);
  if (authToken !== undefined) headers.set('authorization', `Bearer ${authToken}`);
  for (const [name, value] of [...environmentHeaders(), ...Object.entries(given ?? {}), ...Object.entries(replaced)]) {
    if (value === null) headers.delete(name);
    else headers.set(name, value);
  }
  return headers;
}

function environment(name: string): string | undefined {
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}
