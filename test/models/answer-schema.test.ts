import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { strictSchemaFault } from '../../src/context/legality/strict-schema.ts';
import { ConfigError } from '../../src/index.ts';
import { grammarSchema, withSchemaLetters } from '../../src/models/answer-schema.ts';
import { objectSchemaOf } from '../../src/tools/input-schema.ts';

const sent = (schema: z.ZodType): ReturnType<typeof grammarSchema> =>
  grammarSchema(objectSchemaOf(schema, 'x', 'output'), 'x');

function refusal(schema: Parameters<typeof grammarSchema>[0]): ConfigError {
  try {
    grammarSchema(schema, 'send.output');
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('the schema was accepted');
}

describe('the schema of a structured answer', () => {
  test('keeps what the API compiles, and moves the rest into descriptions', () => {
    const schema = {
      type: 'object',
      description: 'A person.',
      properties: {
        name: { type: 'string', minLength: 1, pattern: '^[A-Z]' },
        age: { type: 'integer', minimum: 0, description: 'In years.' },
        mail: { type: 'string', format: 'email' },
        path: { type: 'string', format: 'json-pointer' },
        tags: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 3 },
      },
      required: ['name'],
    };
    expect(grammarSchema(schema, 'x')).toEqual({
      type: 'object',
      description: 'A person.',
      properties: {
        name: { type: 'string', pattern: '^[A-Z]', description: '{"minLength":1}' },
        age: { type: 'integer', description: 'In years.\n\n{"minimum":0}' },
        mail: { type: 'string', format: 'email' },
        path: { type: 'string', description: '{"format":"json-pointer"}' },
        tags: { type: 'array', items: { type: 'string' }, minItems: 1, description: '{"maxItems":3}' },
      },
      required: ['name'],
      additionalProperties: false,
    });
  });

  test('oneOf becomes anyOf, and every object is closed, at every depth', () => {
    const leaf = (kind: string) => ({ type: 'object', properties: { kind: { const: kind } }, required: ['kind'] });
    const schema = {
      type: 'object',
      properties: { shape: { oneOf: [leaf('a'), leaf('b')] } },
      required: ['shape'],
      $defs: { unused: leaf('c') },
    };
    const closed = (kind: string) => ({ ...leaf(kind), additionalProperties: false });
    expect(grammarSchema(schema, 'x')).toEqual({
      type: 'object',
      properties: { shape: { anyOf: [closed('a'), closed('b')] } },
      required: ['shape'],
      $defs: { unused: closed('c') },
      additionalProperties: false,
    });
  });

  test('patterns that the API does not compile are moved too', () => {
    for (const pattern of ['(a)\\1', '(?=b)c', '\\bword', 'a{2,300}']) {
      const { properties } = grammarSchema({ type: 'object', properties: { a: { type: 'string', pattern } } }, 'x');
      expect(properties).toEqual({ a: { type: 'string', description: JSON.stringify({ pattern }) } });
    }
  });

  test.each([
    [
      'an open map',
      { type: 'object', additionalProperties: { type: 'string' } },
      '$: an object with any property names',
    ],
    [
      'a nested open map',
      { type: 'object', properties: { a: { type: 'object', additionalProperties: true } } },
      '$.properties.a: an object with any property names',
    ],
    [
      'recursion',
      {
        type: 'object',
        properties: { a: { $ref: '#/$defs/n' } },
        $defs: { n: { type: 'object', properties: { next: { $ref: '#/$defs/n' } } } },
      },
      '$: a recursive schema',
    ],
    [
      'an external reference',
      { type: 'object', properties: { a: { $ref: 'https://example.com/a' } } },
      "'$ref' must name a definition",
    ],
    [
      'too many optional properties',
      { type: 'object', properties: Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`p${n}`, {}])) },
      '25 properties are optional, and at most 24 may be; make more properties required',
    ],
    [
      'too many unions',
      {
        type: 'object',
        required: Array.from({ length: 17 }, (_, n) => `p${n}`),
        properties: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`p${n}`, { type: ['string', 'null'] }])),
      },
      '17 parts have several types, and at most 16 may have; give more parts a single type',
    ],
  ])('%s is refused with its place and a remedy', (_name, schema, message) => {
    const error = refusal(schema);
    expect(error.message).toContain('option "send.output": ');
    expect(error.message).toContain(message);
    expect(error.data).toMatchObject({ key: 'send.output', rule: 'R57', remedy: expect.any(String) });
  });

  test('R57: what zod makes of many types is within the subset, and the same schema gives the same bytes', () => {
    const schema = z.object({
      text: z.string().min(1).max(5).regex(/^a+$/u),
      when: z.iso.datetime(),
      mail: z.email(),
      number: z.number().multipleOf(2).positive(),
      whole: z.int(),
      choice: z.enum(['A', 'B']),
      maybe: z.string().nullable(),
      left: z.string().optional(),
      list: z
        .array(z.object({ a: z.boolean() }))
        .min(2)
        .max(9),
      pair: z.tuple([z.string(), z.number()]),
      shape: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('a'), a: z.string() }),
        z.object({ kind: z.literal('b'), b: z.number() }),
      ]),
      defaulted: z.string().default('x'),
    });
    expect(strictSchemaFault(sent(schema), { optional: 0, unions: 0 })).toBeUndefined();
    expect(JSON.stringify(sent(schema))).toBe(JSON.stringify(sent(schema)));
  });
});

describe('words in other letters', () => {
  const schema = {
    type: 'object',
    properties: {
      kind: { enum: ['Capital', 'Town', 3] },
      list: { type: 'array', items: { $ref: '#/$defs/word' } },
      either: { anyOf: [{ properties: { is: { const: 'Yes' } } }, { type: 'string' }] },
      free: { type: 'string' },
    },
    $defs: { word: { enum: ['UP', 'Down'] } },
  };

  test('take the letters of the schema, wherever it has the word', () => {
    const value = { kind: 'capital', list: ['up', 'DOWN', 'UP'], either: { is: 'yes' }, free: 'Town' };
    const fitted = { kind: 'Capital', list: ['UP', 'Down', 'UP'], either: { is: 'Yes' }, free: 'Town' };
    expect(withSchemaLetters(schema, value)).toEqual(fitted);
  });

  test('anything else stays as it is', () => {
    const value = { kind: 'village', list: ['left', 1], either: 'yes', other: 'UP' };
    expect(withSchemaLetters(schema, value)).toEqual(value);
  });
});
