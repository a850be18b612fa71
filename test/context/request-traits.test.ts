/**
 * Goal: a model's traits come from the vendor's list, then from the dated table, then they are the safest; and the form
 * in which an epoch records them loses none that shapes a request. Method: the pure functions, on every row of the
 * table.
 */
import { describe, expect, test } from 'vitest';
import { EFFORTS, findListed, type ListedModel, modelTraits, THINKING_TYPES } from '../../src/context/model-traits.ts';
import { type RequestTraits, readTraits, writeTraits } from '../../src/context/request-traits.ts';

const TABLE = [
  ...['claude-fable-5-2', 'claude-mythos-5-2', 'claude-opus-5-5', 'claude-sonnet-5-5', 'claude-haiku-5-5'],
  ...['claude-fable-5-1', 'claude-mythos-5-1', 'claude-fable-5', 'claude-mythos-5', 'claude-mythos-preview'],
  ...['claude-opus-5', 'claude-sonnet-5', 'claude-opus-4-8', 'claude-opus-4-7', 'claude-opus-4-6'],
  ...['claude-sonnet-4-6', 'claude-opus-4-5-20251101', 'claude-sonnet-4-5', 'claude-haiku-4-5', 'claude-opus-4-1'],
  ...['claude-3-7-sonnet-20250219', 'claude-opus-6', 'gpt-9'],
];

/** The members that are recorded, of the whole traits. */
function recorded(traits: RequestTraits): RequestTraits {
  const { bindsThinking, thinkingTypes, efforts, effortsWithoutThinking, forcedTool, forcedToolWithThinking } = traits;
  const { fast, fastBeta, inferenceGeo, structuredOutputs, outputTokensMax } = traits;
  const { webSearch, codeExecution, codeCallsTools } = traits;
  return {
    ...{ bindsThinking, thinkingTypes, efforts, effortsWithoutThinking, forcedTool, forcedToolWithThinking },
    ...{ fast, inferenceGeo, structuredOutputs, outputTokensMax, webSearch, codeExecution, codeCallsTools },
    ...(fastBeta === undefined ? {} : { fastBeta }),
  };
}

describe('the recorded form', () => {
  test.each(TABLE)('A8: %s is read as it was written', (model) => {
    const traits = modelTraits(model);
    expect(readTraits(writeTraits(traits))).toEqual(recorded(traits));
  });

  test('A8: it is short, and an epoch without a special beta takes 12 characters at most', () => {
    const lengths = TABLE.map((model) => writeTraits({ ...modelTraits(model), fastBeta: '' })).map(
      (text) => text.length - 1,
    );
    expect(Math.max(...lengths)).toBeLessThanOrEqual(12);
  });

  test('A8: its bits never change their meaning', () => {
    expect(writeTraits(modelTraits('claude-opus-5-5'))).toBe('4e3vev.2qrk');
    expect(writeTraits(modelTraits('claude-opus-4-8'))).toBe('4ekjx2.2qrk.fast-mode-2026-02-01');
    const listed = { id: 'claude-opus-5-5', webSearch: true, codeExecution: false };
    expect(writeTraits({ ...modelTraits('claude-opus-5-5', listed), codeCallsTools: true })).toBe('6wk6k7b.2qrk');
  });

  test('a text of an earlier version has fewer bits: what it lacks is not known', () => {
    expect(readTraits('1.')).toEqual({
      ...recorded(modelTraits('gpt-9')),
      bindsThinking: true,
    });
  });
});

const LISTED: ListedModel = {
  id: 'claude-opus-5',
  thinkingTypes: ['adaptive'],
  efforts: ['low', 'medium'],
  structuredOutputs: false,
  contextTokensMax: 2_000_000,
  outputTokensMax: 64_000,
};

describe('the sources of traits', () => {
  test('the list replaces the members that it has, and the table keeps the others', () => {
    const table = modelTraits('claude-opus-5');
    expect(modelTraits('claude-opus-5', LISTED)).toEqual({
      ...table,
      thinkingTypes: new Set(['adaptive']),
      efforts: ['low', 'medium'],
      effortsWithoutThinking: ['low', 'medium'],
      structuredOutputs: false,
      contextTokensMax: 2_000_000,
      outputTokensMax: 64_000,
    });
    expect(modelTraits('claude-opus-5', { id: 'claude-opus-5' })).toEqual(table);
  });

  test('a model that only the list has gets the safest traits for the rest, whatever its name', () => {
    for (const id of ['claude-quill-1', 'prism-large']) {
      const traits = modelTraits(id, { ...LISTED, id });
      expect(traits).toMatchObject({ bindsThinking: true, forcedTool: undefined, prefill: undefined });
      expect(traits.efforts).toEqual(['low', 'medium']);
    }
    // Without the list nothing is known of such a name.
    expect(modelTraits('prism-large').bindsThinking).toBe(false);
  });

  test("the list's stage of life counts, and a day that is only possible does not", () => {
    const { retiresAfter: floor } = modelTraits('claude-haiku-4-5');
    expect(floor).toBe('2026-10-15');
    const active = modelTraits('claude-haiku-4-5', { id: 'claude-haiku-4-5', lifecycle: 'active' });
    expect(active).not.toHaveProperty('retiresAfter');
    expect(active).not.toHaveProperty('deprecated');
    const ending = { id: 'claude-opus-5', lifecycle: 'deprecated', retiresAfter: '2027-01-02' } as const;
    expect(modelTraits('claude-opus-5', ending)).toMatchObject({ deprecated: true, retiresAfter: '2027-01-02' });
  });

  test('a name without a date finds the row with one, and a name with more words does not', () => {
    const rows = [{ id: 'claude-opus-6-mini' }, { id: 'claude-opus-6-20270101' }, { id: 'claude-opus-7' }];
    expect(findListed('claude-opus-6', rows)?.id).toBe('claude-opus-6-20270101');
    expect(findListed('claude-opus-7', rows)?.id).toBe('claude-opus-7');
    expect(findListed('claude-opus-6-large', rows)).toBeUndefined();
  });

  test('the names that the form has bits for are those of the API, in this order', () => {
    expect(THINKING_TYPES).toEqual(['adaptive', 'between_tools', 'disabled', 'enabled']);
    expect(EFFORTS).toEqual(['low', 'medium', 'high', 'xhigh', 'max']);
  });
});
