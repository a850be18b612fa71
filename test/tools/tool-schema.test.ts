// Goal: a tool that the Messages API would refuse is refused here, by its name, the rule in words, and the rule's number as
// data. An accepted tool is passed on unchanged.
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ConfigError, type TroupeError } from '../../src/base/errors.ts';
import { tool } from '../../src/tools/tool.ts';
import { advertiseTool, describeTool } from '../../src/tools/tool-schema.ts';

const given = { name: 'probe_it', description: 'Probes.', input: { type: 'object' }, run: (): string => 'x' };
function refusal(change: Readonly<Record<string, unknown>>): TroupeError {
  try {
    describeTool({ ...given, ...change });
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return error as TroupeError;
  }
  throw new Error('not refused');
}

describe('refused tools', () => {
  test.each(['', 'has space', 'ümlaut', 'a'.repeat(129), 'dot.ted'])('R29: the name %j', (name) => {
    const error = refusal({ name });
    expect(error.data).toMatchObject({ rule: 'R29' });
    expect(error.message).toContain('a name is 1 to 128 letters, digits, underscores and hyphens');
    expect(error.message).toContain(JSON.stringify(name));
  });

  test.each([
    ['R31', { type: 'string' }],
    ['R31', {}],
    ['R31', { type: 'object', properties: { a: { type: 'no such type' } } }],
    ['R31', { type: 'object', properties: { a: { $ref: '#/$defs/missing' } } }],
    ['R31', { type: 'object', required: 'a' }],
    ['R31', 'not a schema'],
    ['R31', { type: 'object', default: () => 1 }],
    ['R31', z.string()],
    ['R31', z.object({ when: z.date() })],
    ['R32', { type: 'object', oneOf: [{ type: 'object' }] }],
    ['R32', { type: 'object', anyOf: [{ type: 'object' }] }],
    ['R32', { type: 'object', allOf: [{ type: 'object' }] }],
    ['R32', z.union([z.object({ a: z.string() }), z.object({ b: z.string() })])],
    ['R33', { type: 'object', properties: { 'has space': {} } }],
    ['R33', { type: 'object', properties: { ['x'.repeat(65)]: {} } }],
    ['R33', z.object({ ümlaut: z.string() })],
  ])('%s: the schema %j', (rule, input) => {
    const error = refusal({ input });
    expect(error.data).toMatchObject({ rule });
    expect(error.message).toContain('probe_it');
  });

  test.each([
    ['description', ' '],
    ['description', 5],
    ['run', 'no function'],
    ['timeoutMs', 0],
    ['timeoutMs', Number.NaN],
    ['timeoutMs', '5'],
    ['effect', 'sometimes'],
    ['isolation', 'thread'],
    ['maxResultChars', 0],
    ['maxResultBytes', '1 kB'],
    ['concurrency', 1.5],
    ['truncate', 'yes'],
    ['adjustableTimeout', 1],
  ])('the member %s as %j, named in the error', (key, value) => {
    const error = refusal({ [key]: value });
    expect(error.message).toContain(key);
    expect(error.message).toContain('probe_it');
  });

  test('a result that is kept whole and shortened', () => {
    const error = refusal({ truncate: false, maxResultChars: 100 });
    expect(error.message).toContain('leave one of them out');
  });

  test('effect probe without a probe function, and a value that is not an object', () => {
    expect(refusal({ effect: 'probe' }).message).toContain('probe');
    for (const value of [undefined, null, 'tool', 5, []]) expect(() => describeTool(value)).toThrow(ConfigError);
  });

  test('the error for a schema of another library without JSON Schema says what to do', () => {
    const input = { '~standard': { version: 1, vendor: 'other', validate: (value: unknown) => ({ value }) } };
    expect(refusal({ input }).message).toMatch(/other.*give a JSON Schema/);
  });
});

describe('the schema that the model receives', () => {
  test('a zod schema becomes its input side: defaults are optional, transforms are left out', () => {
    const input = z.object({ path: z.string().describe('where'), limit: z.number().int().default(5) });
    const { inputSchema } = describeTool({ ...given, input });
    expect(inputSchema).toMatchObject({
      type: 'object',
      properties: { path: { type: 'string', description: 'where' } },
      required: ['path'],
    });
    expect(inputSchema).not.toHaveProperty('$schema');
  });

  test('a JSON Schema is copied, another dialect is tolerated, and two tools may share one $id', () => {
    const input = { $schema: 'http://json-schema.org/draft-07/schema#', $id: 'x', type: 'object', properties: {} };
    for (const name of ['one', 'two']) {
      const { inputSchema } = describeTool({ ...given, name, input });
      expect(inputSchema).toEqual({ $id: 'x', type: 'object', properties: {} });
      expect(inputSchema).not.toBe(input);
    }
  });

  test('a schema of another library is sent as its JSON Schema', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } } };
    const input = Object.assign(() => undefined, {
      '~standard': {
        version: 1,
        vendor: 'other',
        validate: (value: unknown) => ({ value }),
        jsonSchema: { input: ({ target }: { target: string }) => ({ ...schema, $schema: target }) },
      },
    });
    expect(describeTool({ ...given, input }).inputSchema).toEqual(schema);
  });

  test('defaults are filled in', () => {
    const described = describeTool(given);
    expect(described).toMatchObject({ effect: 'once', truncate: true, adjustableTimeout: false });
    expect(described).not.toHaveProperty('timeoutMs');
  });

  test('tool() types run by the schema, and its result fits any list of tools', () => {
    const typed = tool({ ...given, input: z.object({ a: z.number() }), run: ({ a }) => a + 1 });
    expect(describeTool(typed).name).toBe('probe_it');
  });
});

describe('F145: the timeout property', () => {
  const patient = { ...given, adjustableTimeout: true, timeoutMs: 30_000 };

  test('is optional, states the real default (Δ40), and leaves the description unchanged', () => {
    const described = describeTool({ ...patient, input: { type: 'object', properties: { a: {} }, required: ['a'] } });
    const before = structuredClone(described);
    const { input_schema } = advertiseTool(described, 180_000);
    expect(input_schema).toMatchObject({
      properties: { a: {}, timeout: { type: 'integer', description: 'Seconds (default: 30)' } },
      required: ['a'],
    });
    expect(described).toEqual(before);
  });

  test('is not added to other tools, and replaces no property of the tool', () => {
    expect(advertiseTool(describeTool(given), 180_000).input_schema).toEqual({ type: 'object' });
    const own = { type: 'object', properties: { timeout: { type: 'string' } } };
    expect(advertiseTool(describeTool({ ...patient, input: own }), 1).input_schema).toEqual(own);
  });
});
