/** Decides which variables of an environment are secrets, and returns an environment without them. Pure. */
import { z } from 'zod';

/**
 * Names that look like a secret's: `GITHUB_TOKEN`, `OPENAI_API_KEY`, `client_secret`, `PGPASSWORD`, `DB_PASSWORD_FILE`.
 */
const SECRET_NAME = /(?:^|_)(?:TOKEN|KEY|SECRET)S?$|PASSWORD/i;
/** Secrets with other names: headers that the Anthropic provider reads from the environment. */
const SECRET_NAMES: ReadonlySet<string> = new Set(['ANTHROPIC_CUSTOM_HEADERS']);

/** Names of variables that are passed on although they look like secrets. */
export const secretNamesSchema: z.ZodType<readonly string[]> = z.array(
  z.string().regex(/^[^=\0]+$/, 'must be the name of an environment variable'),
);

/** The variables that are not secrets, and those whose exact name is in `allowed`. */
export function withoutSecrets(
  environment: Readonly<Record<string, string | undefined>>,
  allowed: readonly string[],
): Record<string, string> {
  const handedOn: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined) continue;
    const isSecret = SECRET_NAME.test(name) || SECRET_NAMES.has(name.toUpperCase());
    if (!isSecret || allowed.includes(name)) handedOn[name] = value;
  }
  return handedOn;
}
