/** Goal: a bad option of `postgres()` is refused with its key and a remedy, and no error shows a secret. */
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { TroupeError } from '../../src/base/errors.ts';
import { type PostgresOptions, postgres } from '../../src/postgres/index.ts';

const url = 'postgres://user:password@localhost/agents';
const listen = { host: '10.0.0.7', port: 4_100 };
const secret = 'a-secret-of-more-than-32-characters';

/** The error for options, of any type. */
function refusal(options: unknown): TroupeError {
  try {
    postgres(options as PostgresOptions);
  } catch (error) {
    if (error instanceof TroupeError) return error;
    throw error;
  }
  throw new Error('the options were accepted');
}

test.each([
  ['http://user:sesame@localhost/agents', 'got a string of 35 characters'],
  ['postgres://user:ses ame@localhost/agents', 'got a string of 40 characters'],
  [`postgres://user:sesame@localhost/${'a'.repeat(2_048)}`, 'of at most 2048 characters; got a string of 2081'],
  ['postgres://user:ses#ame@localhost:port/agents', 'must be percent-encoded'],
  [7_777_777, 'got number'],
  [undefined, 'got undefined'],
])('the address %j is refused, and not shown', (address, text) => {
  const error = refusal({ url: address });
  expect(error).toMatchObject({ code: 'config', data: { key: 'postgres.url' } });
  expect(error.message).toContain(text);
  expect(inspect(error, { depth: 9 })).not.toMatch(/sesame|ses ame|ses#ame|7777777/u);
});

describe('a line to the other nodes', () => {
  test('without `listen` a plan has no line, and the default wait', () => {
    expect(postgres({ url })).toMatchObject({ waitMs: 30_000 });
    expect(postgres({ url })).not.toHaveProperty('line');
  });

  test('with `listen` and `secret` a plan has a line, and no wait', () => {
    const plan = postgres({ url, listen, secret });
    expect(plan.line).toEqual({ listen, secret });
    expect(plan).not.toHaveProperty('waitMs');
    // The module of the database needs no secret of the nodes.
    expect(JSON.stringify(plan.data)).not.toContain(secret);
  });

  test.each([0, 65_535])('port %i is accepted', (port) => {
    expect(postgres({ url, listen: { host: 'a', port }, secret }).line?.listen).toEqual({ host: 'a', port });
  });

  test.each([32, 1_024])('a secret of %i characters is accepted', (length) => {
    expect(postgres({ url, listen, secret: 's'.repeat(length) }).line?.secret).toHaveLength(length);
  });

  test.each([
    ['secret', { listen }, 'is missing: "listen" needs it'],
    ['listen', { secret }, 'is missing: a "secret" needs it'],
    ['waitMs', { listen, secret, waitMs: 5 }, 'is not allowed with "listen"'],
    ['waitMs', { listen, secret, waitMs: 'forever' }, 'leave it out'],
    ['listen.port', { listen: { host: 'a', port: 65_536 }, secret }, '<=65535; got number 65536'],
    ['listen.port', { listen: { host: 'a', port: -1 }, secret }, '>=0; got number -1'],
    ['listen.port', { listen: { host: 'a', port: 1.5 }, secret }, 'expected int'],
    ['listen.port', { listen: { host: 'a', port: '80' }, secret }, 'expected number'],
    ['listen.port', { listen: { host: 'a' }, secret }, 'expected number; got undefined'],
    ['listen.host', { listen: { host: ' ', port: 1 }, secret }, 'expected string to have >=1 characters'],
    ['listen.host', { listen: { host: 'a'.repeat(254), port: 1 }, secret }, '<=253 characters'],
    ['listen.host', { listen: { host: '0.0.0.0', port: 1 }, secret }, 'at which the other nodes reach this machine'],
    ['listen.host', { listen: { host: '::', port: 1 }, secret }, 'at which the other nodes reach this machine'],
    ['listen.host', { listen: { port: 1 }, secret }, 'expected string; got undefined'],
    ['listen.path', { listen: { ...listen, path: '/' }, secret }, 'unknown option "postgres.listen.path"'],
    ['listen', { listen: 4_100, secret }, 'expected object; got number 4100'],
  ])('`%s` is refused: %j', (key, options, text) => {
    const error = refusal({ url, ...options });
    expect(error).toMatchObject({ code: 'config', data: { key: `postgres.${key}` } });
    expect(error.message).toContain(text);
    expect(inspect(error, { depth: 9 })).not.toContain(secret);
  });

  test.each([
    ['short', 'sesame', 'got a string of 6'],
    ['long', 'sesame'.repeat(200), 'got a string of 1200'],
    ['a number', 7_777_777, 'got number'],
    ['an object', { value: 'sesame' }, 'got object'],
    ['null', null, 'got object'],
  ])('a secret that is %s is refused, and not shown', (_what, value, found) => {
    const error = refusal({ url, listen, secret: value });
    expect(error).toMatchObject({ code: 'config', data: { key: 'postgres.secret' } });
    expect(error.message).toContain('must be a string of 32 to 1024 characters');
    expect(error.message).toContain(found);
    expect(inspect(error, { depth: 9 })).not.toMatch(/sesame|7777777/u);
  });
});
