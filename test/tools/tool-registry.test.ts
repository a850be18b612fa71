// Goal: the tools of an agent are unique and ordered. Grants narrow them and never widen them.
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/base/errors.ts';
import { type RegisteredTool, ToolRegistry } from '../../src/tools/tool-registry.ts';
import { describeTool } from '../../src/tools/tool-schema.ts';

function entry(name: string): RegisteredTool {
  const description = describeTool({ name, description: name, input: { type: 'object' }, run: () => name });
  return { description, place: { kind: 'host', agent: 'writer' } };
}
const registry = new ToolRegistry('writer', ['bash', 'read_file', 'think', 'MixedCase'].map(entry));

describe('G1: names', () => {
  test('R30: a duplicate is refused, and the error names agent and tool', () => {
    expect(() => new ToolRegistry('writer', [entry('a'), entry('a')])).toThrow(ConfigError);
    expect(() => new ToolRegistry('writer', [entry('a'), entry('a')])).toThrow(/"writer".*"a"/);
  });
  test.each(['from_', 'from_sleuth', 'FROM_x'])('Δ18: %s is reserved', (name) => {
    expect(() => new ToolRegistry('writer', [entry(name)])).toThrow(ConfigError);
  });
});

describe('G2: grants', () => {
  test('null grants every tool in order', () => {
    expect(registry.narrow(null).names()).toEqual(['bash', 'read_file', 'think', 'MixedCase']);
  });
  test('F144: think comes first, then the granted tools in the given order; unknown names are ignored', () => {
    expect(registry.narrow(['bash']).names()).toEqual(['think', 'bash']);
    expect(registry.narrow(['read_file', 'nothing', 'bash', 'think']).names()).toEqual(['think', 'read_file', 'bash']);
    expect(registry.narrow([]).names()).toEqual(['think']);
  });
  test('F77: a child of a narrowed registry never gets more', () => {
    expect(registry.narrow(['bash']).narrow(['read_file', 'bash']).names()).toEqual(['think', 'bash']);
    expect(new ToolRegistry('x', [entry('bash')]).narrow(['think', 'bash']).names()).toEqual(['bash']);
    expect(registry.narrow(['bash']).get('read_file')).toBeUndefined();
  });
});

test('schemas are those of the tools, in their order', () => {
  expect(registry.schemas(1_000).map(({ name }) => name)).toEqual(registry.names());
});
