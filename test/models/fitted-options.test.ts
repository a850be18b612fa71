/**
 * Goal: an option that only the vendor's list refuses is sent with the nearest value that the model accepts. Method:
 * the pure function, and the check of `open` on what it returns, for every mix of traits and options.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EFFORTS, modelTraits, THINKING_TYPES, type ThinkingType } from '../../src/context/model-traits.ts';
import type { RequestTraits } from '../../src/context/request-traits.ts';
import { fittedOptions } from '../../src/models/fitted-options.ts';
import { refusedOption } from '../../src/models/model-option-checks.ts';
import type { Thinking } from '../../src/models/provider.ts';

const NOTHING: RequestTraits = modelTraits('gpt-9');
const thinkings: readonly Thinking[] = [
  { type: 'adaptive', display: 'omitted' },
  { type: 'between_tools' },
  { type: 'disabled' },
  { type: 'enabled', budget_tokens: 1_024 },
];
const typesOf = (...types: ThinkingType[]): ReadonlySet<ThinkingType> => new Set(types);

test.each([
  ['xhigh', ['low', 'medium', 'high', 'max'], 'high'],
  ['low', ['medium', 'high'], 'medium'],
  ['max', [], undefined],
  ['high', ['low', 'high'], 'high'],
  ['high', undefined, 'high'],
] as const)('R59: effort %s of %j becomes %s', (effort, efforts, sent) => {
  expect(fittedOptions({ effort, maxTokens: 10 }, { ...NOTHING, efforts }).effort).toBe(sent);
});

test.each([
  ['disabled', typesOf('adaptive', 'between_tools'), { type: 'between_tools' }],
  ['disabled', typesOf('adaptive'), undefined],
  ['enabled', typesOf('adaptive'), { type: 'adaptive' }],
  ['between_tools', typesOf('disabled'), { type: 'disabled' }],
  ['adaptive', typesOf('enabled', 'disabled'), undefined],
  ['adaptive', typesOf('adaptive'), { type: 'adaptive', display: 'omitted' }],
] as const)('R45 to R47: thinking %s where %o are accepted becomes %o', (type, thinkingTypes, sent) => {
  const thinking = thinkings.find((each) => each.type === type) as Thinking;
  expect(fittedOptions({ thinking, maxTokens: 10 }, { ...NOTHING, thinkingTypes }).thinking).toEqual(sent);
});

test('R39: maxTokens is at most what the model writes', () => {
  expect(fittedOptions({ maxTokens: 9_000 }, { ...NOTHING, outputTokensMax: 8_000 }).maxTokens).toBe(8_000);
  expect(fittedOptions({ maxTokens: 9_000 }, NOTHING).maxTokens).toBe(9_000);
});

test('R27, R39, R45 to R47, R59: whatever the traits, what is sent is accepted, and what was accepted is sent', () => {
  const traits = fc.record({
    thinkingTypes: fc.option(
      fc.subarray([...THINKING_TYPES]).map((all) => new Set(all)),
      { nil: undefined },
    ),
    efforts: fc.option(fc.subarray([...EFFORTS]), { nil: undefined }),
    effortsWithoutThinking: fc.option(fc.subarray([...EFFORTS]), { nil: undefined }),
    outputTokensMax: fc.option(fc.integer({ min: 2_000, max: 9_000 }), { nil: undefined }),
  });
  const options = fc.record({
    thinking: fc.option(fc.constantFrom(...thinkings), { nil: undefined }),
    effort: fc.option(fc.constantFrom(...EFFORTS), { nil: undefined }),
    maxTokens: fc.integer({ min: 1_100, max: 9_000 }),
  });
  fc.assert(
    fc.property(traits, options, (some, { thinking, effort, maxTokens }) => {
      const all = { ...NOTHING, ...some };
      const given = {
        maxTokens,
        ...(thinking === undefined ? {} : { thinking }),
        ...(effort === undefined ? {} : { effort }),
      };
      const sent = fittedOptions(given, all);
      expect(refusedOption(sent, all)).toBeUndefined();
      if (refusedOption(given, all) === undefined) expect(sent).toEqual(given);
    }),
  );
});
