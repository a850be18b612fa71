/** Goal: no logged text holds a known secret, or text that looks like one; other text stays readable. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REDACTED, redactData, redactText } from '../../src/base/redaction.ts';

describe('texts', () => {
  test.each([
    ['an Anthropic key', 'key sk-ant-api03-abcDEF123456_-xyz is bad', 'key [redacted] is bad'],
    ['a bearer token', 'Authorization: Bearer abcdef123456', 'Authorization: Bearer [redacted]'],
    ['a token of GitHub', 'with ghp_abcdefghijkl123456', 'with [redacted]'],
    ['a signed token', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', '[redacted]'],
    ['a key in an address', 'GET http://x/v1?api_key=abc123&a=1', 'GET http://x/v1?api_key=[redacted]&a=1'],
  ])('%s is removed', (_name, text, expected) => {
    expect(redactText(text, [])).toBe(expected);
  });

  test.each([
    'the task-force asked for more',
    'risk-assessment of the desk-bound',
    'a bearer of bad news',
    'token limit reached',
  ])('%j stays', (text) => {
    expect(redactText(text, [])).toBe(text);
  });

  test('a known secret is removed wherever it stands in a text', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 6 }), fc.string(), fc.string(), (secret, before, after) => {
        fc.pre(!REDACTED.includes(secret) && !(before + REDACTED + after).includes(secret));
        expect(redactText(`${before}${secret}${after}`, [secret])).not.toContain(secret);
      }),
    );
  });
});

describe('data', () => {
  test('fields named like a secret are removed whatever they hold and however they are spelled', () => {
    const data = {
      apiKey: 'a',
      api_key: 'b',
      'X-Api-Key': 'c',
      headers: { Authorization: 'd' },
      list: [{ authToken: 5 }],
    };
    expect(redactData(data, [])).toEqual({
      apiKey: REDACTED,
      api_key: REDACTED,
      'X-Api-Key': REDACTED,
      headers: { Authorization: REDACTED },
      list: [{ authToken: REDACTED }],
    });
  });

  test('other values stay, the given data is unchanged, and endless nesting is cut', () => {
    const data = { ms: 5, ok: true, none: null, tokens: 7, error: { name: 'E', code: 'internal' } };
    const copy = structuredClone(data);
    expect(redactData(data, ['secret'])).toEqual(copy);
    expect(data).toEqual(copy);
    let deep: unknown = 'bottom secret';
    for (let level = 0; level < 1_000; level += 1) deep = { deep };
    expect(JSON.stringify(redactData(deep, ['secret']))).toContain('[deeper]');
  });

  test('a secret in a name is removed too', () => {
    expect(JSON.stringify(redactData({ 'my-secret-value': 1 }, ['my-secret-value']))).not.toContain('my-secret-value');
  });
});
