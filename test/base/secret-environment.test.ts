/** Goal: a variable that looks like a secret is left out, an explicitly named one stays, and no other is touched. */
import { expect, test } from 'vitest';
import { withoutSecrets } from '../../src/base/secret-environment.ts';

const SECRETS = [
  ...['TROUPE_TOKEN', 'GITHUB_TOKEN', 'OPENAI_API_KEY', 'AWS_SECRET_ACCESS_KEY', 'CLIENT_SECRET', 'PGPASSWORD'],
  ...['DB_PASSWORD_FILE', 'my_token', 'Api_Key', 'db_password', 'TOKEN', 'SECRET', 'APP_SECRETS', 'API_KEYS'],
  ...['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_CUSTOM_HEADERS', '_TOKEN'],
];
const PLAIN = ['PATH', 'HOME', 'KEYBOARD', 'TOKENIZERS_PARALLELISM', 'SECRETARY', 'MONKEY', 'ANTHROPIC_BASE_URL'];

test('F70: variables named like a secret are left out in any case, others stay', () => {
  const environment = Object.fromEntries([...SECRETS, ...PLAIN].map((name) => [name, 'x']));
  expect(Object.keys(withoutSecrets(environment, []))).toEqual(PLAIN);
});

test('F70: an exception counts for its exact name', () => {
  const environment = { GITHUB_TOKEN: 'a', GITLAB_TOKEN: 'b', MISSING: undefined };
  expect(withoutSecrets(environment, ['GITHUB_TOKEN', 'gitlab_token'])).toEqual({ GITHUB_TOKEN: 'a' });
});
