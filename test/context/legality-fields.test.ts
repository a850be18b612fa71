/**
 * Goal: the tables of fields and blocks know all that the API takes. Method: they are compared with the types of the
 * vendor's SDK, which is pinned. A new version of the SDK with a new field fails here.
 */
import { describe, expect, it } from 'vitest';
import { BETA_FIELDS, BLOCK_FIELDS, BODY_FIELDS, MESSAGE_FIELDS } from '../../src/context/legality/fields.ts';
import { modelTraits } from '../../src/context/model-traits.ts';
import { sdkModels, sdkTypes } from '../support/type-reader.ts';

const GENERAL = sdkTypes('messages/messages.d.ts');
const BETA = sdkTypes('beta/messages/messages.d.ts');

/** Fields that the SDK sends as headers are no part of the body. */
function bodyFields(types: typeof GENERAL): readonly string[] {
  return types
    .fields('MessageCreateParamsBase')
    .filter(({ comment }) => !comment.includes('Header param'))
    .map(({ name }) => name);
}

function messageFields(types: typeof GENERAL, union: string): readonly string[] {
  return types.union(union).flatMap((name) => types.fields(name).map((field) => field.name));
}

/** The blocks that a message takes, by type, with their fields. */
function blocksOf(types: typeof GENERAL, union: string): ReadonlyMap<string, readonly string[]> {
  const blocks = new Map<string, readonly string[]>();
  for (const name of types.union(union)) {
    const fields = types.fields(name);
    const type = /^'(\w+)';$/.exec(fields.find((field) => field.name === 'type')?.type ?? '')?.[1];
    if (type === undefined) throw new Error(`${name} has no type`);
    blocks.set(
      type,
      fields.map((field) => field.name).filter((field) => field !== 'type'),
    );
  }
  return blocks;
}

describe('the tables of R39', () => {
  it('R39: have every field of a request, and no other but those that R49 refuses', () => {
    const fields = new Set([...bodyFields(GENERAL), ...bodyFields(BETA), 'temperature', 'top_p', 'top_k']);
    expect([...BODY_FIELDS].sort()).toEqual([...fields].sort());
    expect(Object.keys(BETA_FIELDS).filter((field) => !fields.has(field))).toEqual([]);
  });

  it('R39: have every field of a message', () => {
    const system = BETA.fields('BetaSystemMessageParam').map(({ name }) => name);
    const fields = new Set([...messageFields(GENERAL, 'MessageParam'), ...messageFields(BETA, 'BetaMessageParam')]);
    expect([...MESSAGE_FIELDS].sort()).toEqual([...new Set([...fields, ...system])].sort());
  });

  it('R39: have every block with every field', () => {
    const known = new Map<string, Set<string>>();
    for (const blocks of [blocksOf(GENERAL, 'ContentBlockParam'), blocksOf(BETA, 'BetaContentBlockParam')]) {
      for (const [type, fields] of blocks) known.set(type, new Set([...(known.get(type) ?? []), ...fields]));
    }
    expect(known.size).toBeGreaterThan(20);
    // The mark that R43 reports belongs to no thought.
    for (const type of ['thinking', 'redacted_thinking']) known.get(type)?.add('cache_control');
    const table = Object.entries(BLOCK_FIELDS).map(([type, fields]) => [type, [...fields].sort()]);
    expect(Object.fromEntries(table)).toEqual(
      Object.fromEntries([...known].map(([type, fields]) => [type, [...fields].sort()])),
    );
  });

  it('R25, R45 to R47: the table of models has every model that the SDK names', () => {
    const names = sdkModels();
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => modelTraits(name).thinkingTypes === undefined)).toEqual([]);
  });
});

describe('the reader of types', () => {
  it('throws for a name that the file does not have', () => {
    expect(() => GENERAL.fields('NoSuchParam')).toThrow('no interface is named NoSuchParam');
    expect(() => GENERAL.union('NoSuchParam')).toThrow('no union is named NoSuchParam');
  });

  it('reads fields with their comments, and leaves out nested ones', () => {
    const fields = GENERAL.fields('MessageCreateParamsBase');
    expect(fields.find(({ name }) => name === 'model')).toMatchObject({ type: 'Model;' });
    expect(fields.find(({ name }) => name === 'workspace_id')?.comment).toContain('Header param');
    expect(GENERAL.fields('Tool').map(({ name }) => name)).toContain('input_schema');
  });
});
