/**
 * Plain schemas: an input accepted by the quick check is valid for the validator too. All other inputs are left to the
 * validator.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { schemaIssue, schemaProblem } from '../../src/tools/json-schema.ts';
import { isPlainSchema } from '../../src/tools/plain-schema.ts';

const PLAIN: readonly object[] = [
  {},
  { type: 'object' },
  { type: ['string', 'null'], enum: ['a', null], default: 'a', const: 'a', examples: ['a'] },
  {
    type: 'object',
    title: 'A',
    description: 'b',
    properties: {
      list: {
        type: 'array',
        items: { type: 'integer', minimum: 0, maximum: 5 },
        minItems: 1,
        maxItems: 2,
        uniqueItems: true,
      },
      text: { type: 'string', minLength: 1, maxLength: 9, deprecated: false },
      any: true,
      number: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
      __proto__value: { type: 'null' },
    },
    required: ['list', 'text'],
    additionalProperties: { type: 'boolean' },
  },
];

/** Changes that make a plain schema a schema that is not plain. */
const BROKEN: readonly object[] = [
  { type: 'text' },
  { type: [] },
  { type: ['string', 'string'] },
  { type: 'object', properties: [] },
  { type: 'object', properties: { a: 1 } },
  { type: 'object', required: ['a', 'a'] },
  { type: 'object', required: 'a' },
  { type: 'object', required: [1] },
  { type: 'array', items: [{ type: 'string' }] },
  { type: 'string', minLength: -1 },
  { type: 'string', maxLength: 1.5 },
  { type: 'number', minimum: '0' },
  { type: 'array', uniqueItems: 1 },
  { enum: 'a' },
  { description: 1 },
  { additionalProperties: 'no' },
];

/** The validator decides whether the input is valid. */
const LEFT: readonly object[] = [
  { enum: [] },
  { $ref: '#/nowhere' },
  { pattern: '(' },
  { anyOf: [{ type: 'string' }] },
  { patternProperties: { '^a': {} } },
  { $id: 'x' },
  { 'x-note': 1 },
];

test('a plain schema is valid by the standard, and the quick check judges values as the validator does', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  for (const schema of PLAIN) {
    expect(isPlainSchema(schema), JSON.stringify(schema)).toBe(true);
    expect(ajv.validateSchema(schema), JSON.stringify(schema)).toBe(true);
    expect(schemaProblem(schema)).toBeUndefined();
    for (const value of [
      {},
      1,
      'a',
      null,
      { list: [1], text: 'x' },
      { list: [], text: '' },
      { other: true, list: 3 },
    ]) {
      expect(schemaIssue(schema, value) === undefined).toBe(ajv.validate(schema, value));
    }
  }
});

test('an invalid schema is never plain, and is reported as before', () => {
  for (const schema of BROKEN) {
    expect(isPlainSchema(schema), JSON.stringify(schema)).toBe(false);
    expect(schemaProblem(schema), JSON.stringify(schema)).toMatch(/schema is invalid/);
  }
});

test('a schema that is neither plain nor known is left to the validator', () => {
  for (const schema of LEFT) expect(isPlainSchema(schema), JSON.stringify(schema)).toBe(false);
  expect(schemaProblem({ $ref: '#/nowhere' })).toBeDefined();
  expect(schemaProblem({ pattern: '(' })).toBeDefined();
  expect(schemaProblem({ enum: [] })).toBeDefined();
});

test('a schema nested without end is left to the validator', () => {
  let schema: object = { type: 'string' };
  for (let depth = 0; depth < 40; depth += 1) schema = { items: schema };
  expect(isPlainSchema(schema)).toBe(false);
  const circular: { items?: object } = {};
  circular.items = circular;
  expect(isPlainSchema(circular)).toBe(false);
});
