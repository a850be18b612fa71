/**
 * Removes secrets from logged data. A secret is recognised by the name of its field, by its form, or by a list of known
 * secrets. Pure.
 */
import { LOGGED_DEPTH_MAX } from './bounds.ts';
import { isRecord } from './json.ts';

/** The text that replaces a secret. */
export const REDACTED = '[redacted]';

/** Fields whose value is always a secret; compared without case, hyphens and underscores. */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  ...['apikey', 'xapikey', 'authtoken', 'authorization', 'proxyauthorization', 'password', 'secret', 'cookie'],
  ...['setcookie', 'accesstoken', 'refreshtoken', 'clientsecret', 'privatekey'],
]);
/**
 * Paths of members that hold a secret, at the depths at which errors of HTTP libraries have them. The logger pino takes
 * these paths, and uses them to redact lines that other code logs.
 */
export const SECRET_PATHS: readonly string[] = [
  ...['apiKey', 'authToken', 'authorization', 'cookie', 'password', 'secret', 'accessToken', 'refreshToken'],
  ...['clientSecret', 'privateKey', '["x-api-key"]', '["proxy-authorization"]', '["set-cookie"]'],
].flatMap((name) => {
  const member = name.startsWith('[') ? name : `.${name}`;
  return [name, `*${member}`, `*.*${member}`, `*.*.*${member}`];
});
/**
 * Values that look like keys: vendors' prefixed keys, bearer and basic credentials, signed tokens, a key in an address.
 */
const SECRET_LOOKS: readonly RegExp[] = [
  /\b(?:sk|pk|rk)-[A-Za-z0-9_-]{12,}/g,
  /\b(?:gh[pousr]_|github_pat_|xox[abprs]-|AKIA|AIza)[A-Za-z0-9_-]{12,}/g,
  /\b(?<=(?:Bearer|Basic) )[A-Za-z0-9._~+/=-]{8,}/gi,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  /(?<=[?&](?:api[_-]?key|access[_-]?token|token|key)=)[^&\s"']+/gi,
];

/** Removes secrets from a text. `secrets`: known secrets, the longest first. */
export function redactText(text: string, secrets: readonly string[]): string {
  let redacted = text;
  for (const secret of secrets) if (secret !== '') redacted = redacted.replaceAll(secret, REDACTED);
  for (const look of SECRET_LOOKS) redacted = redacted.replace(look, REDACTED);
  return redacted;
}

/**
 * A copy of plain data without secrets, even in keys of objects. Values below `LOGGED_DEPTH_MAX` levels are replaced.
 */
export function redactData(value: unknown, secrets: readonly string[], depth = 0): unknown {
  if (typeof value === 'string') return redactText(value, secrets);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= LOGGED_DEPTH_MAX) return '[deeper]';
  if (Array.isArray(value)) return value.map((item) => redactData(item, secrets, depth + 1));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      redactText(name, secrets),
      isSecretField(name) && item !== undefined && item !== null ? REDACTED : redactData(item, secrets, depth + 1),
    ]),
  );
}

function isSecretField(name: string): boolean {
  return SECRET_FIELDS.has(name.replace(/[-_]/g, '').toLowerCase());
}
