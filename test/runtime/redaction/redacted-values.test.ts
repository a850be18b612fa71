/** The texts of a schema that are redacted, and those that make it the schema that it is. */
import { expect, test } from 'vitest';
import { redactForm } from '../../../src/runtime/redaction/redacted-values.ts';
import { formOfSchema } from '../../../src/tools/input-schema.ts';
import redact from '../fixtures/redact-canary.ts';

const hide = (text: string): string => redact(text, { kind: 'message' });

test('texts and data of a schema are redacted; keywords, names and references stay', () => {
  const schema = {
    type: 'object',
    title: 'canary-1x',
    required: ['type', 'default'],
    additionalProperties: false,
    $defs: { item: { type: 'string', description: 'canary-2x', pattern: '^canary-3x$' } },
    properties: {
      type: { type: 'string', enum: ['canary-4x', 'b'], default: 'canary-4x' },
      default: { type: 'array', items: { $ref: '#/$defs/item' }, prefixItems: [{ const: { type: 'canary-5x' } }] },
      pattern: { anyOf: [{ type: 'null' }, { type: 'string', examples: ['canary-6x'], 'x-note': 'canary-7x' }] },
    },
  };
  const form = formOfSchema(schema);
  const redacted = redactForm(form, hide);
  expect(redacted.schema).toEqual({
    type: 'object',
    title: '[hidden]',
    required: ['type', 'default'],
    additionalProperties: false,
    $defs: { item: { type: 'string', description: '[hidden]', pattern: '^canary-3x$' } },
    properties: {
      type: { type: 'string', enum: ['[hidden]', 'b'], default: '[hidden]' },
      default: { type: 'array', items: { $ref: '#/$defs/item' }, prefixItems: [{ const: { type: '[hidden]' } }] },
      pattern: { anyOf: [{ type: 'null' }, { type: 'string', examples: ['[hidden]'], 'x-note': '[hidden]' }] },
    },
  });
  expect(redacted).toEqual(formOfSchema(redacted.schema));
  expect(redacted.key).not.toBe(form.key);
});

test('a form without anything to redact is the same form', () => {
  const form = formOfSchema({ type: 'object', properties: { a: { type: 'string', title: 'A' } } });
  expect(redactForm(form, hide)).toBe(form);
});
