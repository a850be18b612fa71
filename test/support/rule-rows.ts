/**
 * Requests that break one rule of the Messages API each, for the rules R45 to R69. The legality check and the strict
 * fake are tested with the same rows.
 */
import {
  ADAPTIVE,
  ADD,
  ask,
  BETWEEN,
  CLEAR_AT,
  COMPACT,
  COMPACTED,
  COMPACTION,
  change,
  DISABLED,
  deferred,
  EFFORTS,
  effort,
  FALLBACK,
  FOUND,
  format,
  HI,
  INLINE,
  images,
  OLDER,
  once,
  PAUSED,
  png,
  REMOVED,
  RESULT,
  type RuleRow,
  SEARCH,
  strict,
  THREADS,
  talk,
  YES,
} from './rule-requests.ts';

const ALWAYS_ON = [
  ...['claude-opus-5-5', 'claude-fable-5', 'claude-fable-5-1', 'claude-fable-5-2', 'claude-mythos-5'],
  ...['claude-mythos-5-1', 'claude-mythos-5-2', 'claude-mythos-preview'],
];
const NOT_FORCED = [
  ...['claude-opus-5-5', 'claude-sonnet-5-5', 'claude-fable-5-1', 'claude-fable-5-2'],
  ...['claude-mythos-5-1', 'claude-mythos-5-2'],
];

const THINKING: readonly RuleRow[] = [
  ...ALWAYS_ON.map((model) => ({
    rule: 'R45',
    what: `no thinking of ${model}`,
    body: ask(model, { thinking: DISABLED }),
    says: /^"thinking\.type\.disabled" is not supported for this model\. Use "thinking\.type\.adaptive" and "output_config\.effort" to control thinking behavior\.$/,
  })),
  {
    rule: 'R45',
    what: 'no thinking of a model that thinks between its tools',
    body: ask('claude-sonnet-5-5', { thinking: DISABLED }),
    says: /^"thinking\.type\.disabled" is not supported for this model\. Use "thinking\.type\.between_tools" for the lowest thinking setting, or "thinking\.type\.adaptive" to control thinking behavior\.$/,
  },
  ...['claude-opus-4-5', OLDER, 'claude-haiku-4-5-20251001'].map((model) => ({
    rule: 'R46',
    what: `adaptive thinking of ${model}`,
    body: ask(model, { thinking: ADAPTIVE }),
    says: /^adaptive thinking is not supported on this model$/,
  })),
  ...['claude-opus-5-5', 'claude-opus-4-6', OLDER].map((model) => ({
    rule: 'R47',
    what: `thinking between tools of ${model}`,
    body: ask(model, { thinking: BETWEEN }),
    says: /^"thinking\.type\.between_tools" is not supported for this model\.$/,
  })),
  {
    rule: 'R47',
    what: 'thinking between tools at a high effort',
    body: ask('claude-sonnet-5-5', { thinking: BETWEEN, ...effort('max') }),
    says: /^output_config\.effort: 'max' is not supported with "thinking\.type\.between_tools"\.$/,
  },
  {
    rule: 'R47',
    what: 'thinking between tools with a setting',
    body: ask('claude-sonnet-5-5', { thinking: { ...BETWEEN, display: 'omitted' } }),
    says: /^thinking\.between_tools\.display: Extra inputs are not permitted$/,
  },
  {
    rule: 'R47',
    what: 'thinking between tools and another effort later',
    body: {
      ...talk('claude-sonnet-5-5', { role: 'system', content: [], ...effort('low') }),
      thinking: BETWEEN,
      ...effort('high'),
    },
    betas: EFFORTS,
    says: /^messages\.3\.output_config\.effort: must not differ/,
  },
  ...NOT_FORCED.map((model) => ({
    rule: 'R48',
    what: `a forced tool of ${model}`,
    body: ask(model, { tools: [ADD], tool_choice: { type: 'tool', name: 'add' } }),
    says: /^tool_choice: type "tool" and "any" are not supported for this model\.$/,
  })),
  {
    rule: 'R59',
    what: 'an effort that the model lacks',
    body: ask('claude-opus-4-6', effort('xhigh')),
    says: /^output_config\.effort: 'xhigh' is not supported for this model\.$/,
  },
  {
    rule: 'R59',
    what: 'an effort of a model that has none',
    body: ask(OLDER, effort('low')),
    says: /^output_config\.effort: 'low' is not supported/,
  },
];

const CONTENT: readonly RuleRow[] = [
  ...['temperature', 'top_p', 'top_k'].map((key) => ({
    rule: 'R49',
    what: `${key}, on an old model too`,
    body: ask(OLDER, { [key]: 1 }),
    says: new RegExp(`^\`${key}\` is deprecated for this model\\.$`),
  })),
  {
    rule: 'R50',
    what: 'a document of the model',
    body: ask('claude-opus-5', {
      messages: [
        HI,
        { role: 'assistant', content: [{ type: 'document', source: { type: 'file', file_id: 'f' } }] },
        HI,
      ],
    }),
    says: /^messages\.1\.content\.0: `document` blocks can only be in `user` messages$/,
  },
  {
    rule: 'R51',
    what: 'citations of a user',
    body: ask('claude-opus-5', {
      messages: [{ role: 'user', content: [{ type: 'text', text: 'As you said.', citations: [] }] }],
    }),
    says: /^messages\.0\.content\.0\.text\.citations: /,
  },
  {
    rule: 'R52',
    what: 'text beside the results while a server tool waits',
    body: deferred([{ role: 'user', content: [RESULT, { type: 'image', source: { type: 'file', file_id: 'f' } }] }]),
    says: /^messages\.1\.content\.0: `web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block$/,
  },
  {
    rule: 'R52',
    what: 'another turn while a server tool waits',
    body: deferred([{ role: 'user', content: [RESULT] }, YES, HI]),
    says: /was found without a corresponding `web_search_tool_result` block$/,
  },
  {
    rule: 'R52',
    what: 'a server tool that waits and is gone',
    body: deferred([{ role: 'user', content: [RESULT] }], [ADD]),
    says: /without a corresponding `web_search_tool_result` block, but no `web_search` tool was provided$/,
  },
  {
    rule: 'R52',
    what: 'the result of a server tool a turn too late',
    body: deferred([{ role: 'user', content: [RESULT] }, YES, HI, { role: 'assistant', content: [FOUND] }, HI]),
    says: /was found without a corresponding `web_search_tool_result` block$/,
  },
  {
    rule: 'R60',
    what: 'a web tool that code may call, for a model whose code calls none',
    body: ask('claude-haiku-4-5', { tools: [{ type: 'web_search_20260318', name: 'web_search' }] }),
    says: /^tools\.0: 'claude-haiku-4-5' does not support programmatic tool calling\./,
  },
  {
    rule: 'R61',
    what: 'more images than a small window takes',
    body: ask(OLDER, images(101, png(10, 10))),
    says: /^Too much media: 0 document pages \+ 101 images > 100$/,
  },
  {
    rule: 'R61',
    what: 'more images than a large window takes',
    body: ask('claude-opus-5', images(601, png(10, 10))),
    says: /^Too much media: 0 document pages \+ 601 images > 600$/,
  },
  {
    rule: 'R61',
    what: 'an image that is too wide',
    body: ask('claude-opus-5', images(1, png(8_001, 10))),
    says: /^messages\.0\.content\.0: At least one of the image dimensions exceed max allowed size: 8000 pixels$/,
    code: 'image_dimensions_too_large',
  },
  {
    rule: 'R61',
    what: 'an image that is too high among many',
    body: ask('claude-opus-5', images(21, png(10, 2_001))),
    says: /max allowed size for many-image requests: 2000 pixels$/,
    code: 'image_dimensions_too_large',
  },
  {
    rule: 'R69',
    what: 'text after the results',
    warns: true,
    body: ask('claude-opus-5', {
      tools: [ADD],
      messages: [
        HI,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: {} }] },
        { role: 'user', content: [RESULT, { type: 'text', text: 'And hurry.' }] },
      ],
    }),
    says: /^messages\.2\.content\.1: text after `tool_result` blocks/,
  },
];

const SYSTEM: readonly RuleRow[] = [
  {
    rule: 'R53',
    what: 'a field of a beta without the beta',
    body: talk('claude-opus-5-5', once({})),
    says: /^messages\.3\.clear_at: Extra inputs are not permitted$/,
  },
  {
    rule: 'R53',
    what: 'a user message that is cleared',
    body: ask('claude-opus-5-5', { messages: [{ ...HI, clear_at: 'never' }] }),
    betas: CLEAR_AT,
    says: /clear_at is only permitted on role 'system' messages$/,
  },
  {
    rule: 'R53',
    what: 'a message that is cleared at an unknown time',
    body: talk('claude-opus-5-5', once({ clear_at: 'tomorrow' })),
    betas: CLEAR_AT,
    says: /Input should be 'next_user_message' or 'never'$/,
  },
  {
    rule: 'R53',
    what: 'a tool that leaves for one turn',
    body: { ...talk('claude-opus-5-5', once({ content: [REMOVED] })), tools: [{ ...ADD, name: 'gone' }] },
    betas: [...CLEAR_AT, ...INLINE],
    says: /a turn-scoped system message supports text blocks only \(clear_at: 'next_user_message'\)$/,
  },
  {
    rule: 'R53',
    what: 'an effort for one turn',
    body: talk('claude-opus-5-5', once(effort('low'))),
    betas: [...CLEAR_AT, ...EFFORTS],
    says: /output_config is not permitted on a turn-scoped system message$/,
  },
  {
    rule: 'R53',
    what: 'a cache mark on a message for one turn',
    body: talk(
      'claude-opus-5-5',
      once({ content: [{ type: 'text', text: 'Now.', cache_control: { type: 'ephemeral' } }] }),
    ),
    betas: CLEAR_AT,
    says: /cache_control is not permitted on a turn-scoped system message$/,
  },
  {
    rule: 'R54',
    what: 'a tool that a user takes away',
    body: { ...ask('claude-opus-5-5', { messages: [{ role: 'user', content: [REMOVED] }] }), tools: [ADD] },
    betas: INLINE,
    says: /^messages\.0\.content\.0: `tool_removal` blocks can only be in `system` messages$/,
  },
  {
    rule: 'R54',
    what: 'a change of tools without the beta',
    body: change({ type: 'tool_removal', tool: { type: 'tool_reference', name: 'add' } }),
    says: /^messages\.3\.content\.0: Extra inputs are not permitted$/,
  },
  {
    rule: 'R54',
    what: 'a tool that is not there',
    body: change(REMOVED),
    betas: INLINE,
    says: /tool 'gone' is not defined at this position$/,
    code: 'tool_reference_unresolved',
  },
  {
    rule: 'R54',
    what: 'a tool of another kind with a taken name',
    body: change({
      type: 'tool_addition',
      tool: { type: 'tool_definition', definition: { type: 'memory_20250818', name: 'add' } },
    }),
    betas: INLINE,
    says: /takes the name of an available tool of another kind$/,
    code: 'tool_name_conflict',
  },
  {
    rule: 'R54',
    what: 'a change of tools after a paused turn',
    body: {
      ...ask('claude-opus-5-5', { tools: [{ ...ADD, name: 'gone' }, SEARCH] }),
      messages: [HI, PAUSED, { role: 'system', content: [REMOVED] }],
    },
    betas: INLINE,
    says: /^messages\.2\.content\.0: tools cannot change directly after a paused turn$/,
  },
];

const BETAS: readonly RuleRow[] = [
  {
    rule: 'R55',
    what: 'a compaction block without the beta',
    body: ask('claude-opus-5-5', { messages: [COMPACTED, HI] }),
    says: /^messages\.0\.content\.0: Extra inputs are not permitted$/,
  },
  {
    rule: 'R55',
    what: 'a compaction block with a foreign field',
    body: ask('claude-opus-5-5', {
      messages: [{ role: 'assistant', content: [{ ...COMPACTION, citations: [] }] }, HI],
    }),
    betas: COMPACT,
    says: /^messages\.0\.content\.0\.compaction\.citations: Extra inputs are not permitted$/,
  },
  {
    rule: 'R55',
    what: 'a compaction block that is not the first',
    body: ask('claude-opus-5-5', { messages: [HI, COMPACTED, HI] }),
    betas: COMPACT,
    says: /is not the first block of the conversation$/,
    code: 'compaction_block_misplaced',
  },
  {
    rule: 'R55',
    what: 'two compaction blocks',
    body: ask('claude-opus-5-5', {
      messages: [{ role: 'assistant', content: [COMPACTION, COMPACTION] }, HI],
    }),
    betas: COMPACT,
    says: /more than one `compaction` block with content$/,
    code: 'compaction_block_ambiguous',
  },
  {
    rule: 'R55',
    what: 'a compaction with stop sequences',
    body: ask('claude-opus-5-5', { compaction: { type: 'summarize' }, stop_sequences: ['x'] }),
    betas: COMPACT,
    says: /^stop_sequences: is not supported with `compaction`$/,
  },
  {
    rule: 'R56',
    what: 'fallbacks without the beta',
    body: ask('claude-opus-5-5', { fallbacks: 'default' }),
    betas: ['server-side-fallback-2026-06-01'],
    says: /^fallbacks: Extra inputs are not permitted$/,
  },
  {
    rule: 'R56',
    what: 'four fallbacks',
    body: ask('claude-opus-5-5', { fallbacks: ['a', 'b', 'c', 'd'].map((model) => ({ model })) }),
    betas: FALLBACK,
    says: /^fallbacks: List should have at most 3 items$/,
  },
  {
    rule: 'R56',
    what: 'one fallback twice',
    body: ask('claude-opus-5-5', { fallbacks: [{ model: 'a' }, { model: 'a' }] }),
    betas: FALLBACK,
    says: /^fallbacks: models must be distinct$/,
  },
  {
    rule: 'R56',
    what: 'a fallback of a model that has none',
    body: ask('claude-haiku-5-5', { fallbacks: 'default' }),
    betas: FALLBACK,
    says: /^fallbacks: is not supported for this model\.$/,
  },
  {
    rule: 'R62',
    what: 'a thread without the beta',
    body: ask('claude-opus-5-5', { thread: { type: 'create' } }),
    says: /^thread: Extra inputs are not permitted$/,
  },
  {
    rule: 'R62',
    what: 'a thread that is given its system prompt again',
    body: ask('claude-opus-5-5', { system: 'Be brief.', thread: { type: 'continue', previous_message_id: 'msg_1' } }),
    betas: THREADS,
    says: /^thread: differing field\(s\): system$/,
    code: 'thread_fingerprint_mismatch',
  },
  {
    rule: 'R62',
    what: 'a thread with fallbacks',
    body: ask('claude-opus-5-5', { fallbacks: 'default', thread: { type: 'create' } }),
    betas: [...THREADS, ...FALLBACK],
    says: /^thread: fallbacks is not supported with threads$/,
    code: 'thread_unsupported_request',
  },
];

const OUTPUT: readonly RuleRow[] = [
  {
    rule: 'R57',
    what: 'a bound that no grammar has',
    body: ask('claude-opus-5', strict({ age: { type: 'integer', minimum: 0 } })),
    says: /^tools\.0\.custom\.input_schema: \$\.properties\.age: 'minimum' is not supported$/,
  },
  {
    rule: 'R57',
    what: 'an object that is open',
    body: ask('claude-opus-5', format({ type: 'object', properties: {} })),
    says: /^output_config\.format\.schema: \$: for 'object' type, 'additionalProperties' must be explicitly set to false$/,
  },
  {
    rule: 'R57',
    what: 'a schema that leads back to itself',
    body: ask('claude-opus-5', {
      ...format({ $ref: '#/$defs/node', $defs: { node: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] } } }),
    }),
    says: /a recursive schema is not supported$/,
  },
  {
    rule: 'R57',
    what: 'a definition of another document',
    body: ask('claude-opus-5', strict({ a: { $ref: 'https://example.com/a.json' } })),
    says: /'\$ref' must name a definition of this schema$/,
  },
  {
    rule: 'R57',
    what: 'a pattern that looks ahead',
    body: ask('claude-opus-5', strict({ a: { type: 'string', pattern: '^(?!x)' } })),
    says: /this 'pattern' is not supported$/,
  },
  {
    rule: 'R57',
    what: 'more optional properties than a grammar takes',
    body: ask(
      'claude-opus-5',
      strict(Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`p${n}`, { type: 'string' }])), []),
    ),
    says: /^Schema is too complex for compilation\.$/,
  },
  {
    rule: 'R57',
    what: 'more unions than a grammar takes',
    body: ask(
      'claude-opus-5',
      strict(Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`p${n}`, { type: ['string', 'null'] }]))),
    ),
    says: /^Schema is too complex for compilation\.$/,
  },
  {
    rule: 'R58',
    what: 'an output format and a source to be cited',
    body: ask('claude-opus-5', {
      ...format({ type: 'object', additionalProperties: false }),
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', source: { type: 'file', file_id: 'f' }, citations: { enabled: true } }],
        },
      ],
    }),
    says: /^messages\.0\.content\.0: citations are not supported with output_config\.format$/,
  },
  {
    rule: 'R58',
    what: 'an output format and the beginning of an answer',
    body: ask(OLDER, { ...format({ type: 'object', additionalProperties: false }), messages: [HI, YES] }),
    says: /^output_config\.format is not supported with assistant message prefill$/,
  },
];

const TOOLS_AND_SETTINGS: readonly RuleRow[] = [
  {
    rule: 'R60',
    what: 'a tool type that the model lacks',
    body: ask('claude-opus-5-5', { tools: [{ type: 'computer_20251124', name: 'computer' }] }),
    says: /^'claude-opus-5-5' does not support tool types: computer_20251124\.$/,
  },
  {
    rule: 'R60',
    what: 'a toolset with a name',
    body: ask('claude-opus-5-5', { tools: [{ type: 'computer_toolset_20260801', name: 'computer' }] }),
    says: /^tools\.0\.computer_toolset_20260801\.name: Extra inputs are not permitted$/,
  },
  {
    rule: 'R60',
    what: 'a toolset that code may call',
    body: ask('claude-opus-5-5', {
      tools: [{ type: 'browser_toolset_20260801', allowed_callers: ['code_execution_20260120'] }],
    }),
    says: /allowed_callers: only \["direct"\] is supported$/,
  },
  {
    rule: 'R60',
    what: 'a member of a toolset that is chosen',
    body: ask('claude-opus-5', {
      tools: [{ type: 'computer_toolset_20260801' }],
      tool_choice: { type: 'tool', name: 'left_click' },
    }),
    says: /^tool_choice: 'left_click' is a member of a toolset and cannot be chosen$/,
  },
  {
    rule: 'R60',
    what: 'a tool with the name of a toolset',
    body: ask('claude-opus-5-5', { tools: [{ type: 'computer_toolset_20260801' }, { ...ADD, name: 'computer' }] }),
    says: /no other tool can be named 'computer'$/,
  },
  {
    rule: 'R63',
    what: 'a region for a model that has none',
    body: ask(OLDER, { inference_geo: 'us' }),
    says: /^inference_geo is not supported for this model\.$/,
  },
  {
    rule: 'R64',
    what: 'speed of a model that has none',
    body: ask('claude-opus-4-7', { speed: 'fast' }),
    says: /^speed: 'fast' is not supported for this model\.$/,
  },
  {
    rule: 'R64',
    what: 'speed without the beta',
    body: ask('claude-opus-5', { speed: 'fast' }),
    says: /^speed: Extra inputs are not permitted$/,
  },
  ...(['max_tokens', 'stream', 'speed'] as const).map((key) => ({
    rule: 'R65',
    what: `${key} in a batch`,
    batch: true as const,
    body: ask('claude-opus-5-5', { [key]: { max_tokens: 0, stream: false, speed: 'fast' }[key] }),
    says: new RegExp(`^${key}: .*in a batch$`),
  })),
  {
    rule: 'R66',
    what: 'an advisor that the model does not listen to',
    body: ask('claude-fable-5-2', {
      tools: [{ type: 'advisor_20260301', name: 'advisor', model: 'claude-opus-5-5' }],
    }),
    betas: ['advisor-tool-2026-03-01'],
    says: /^tools\.0\.model: 'claude-opus-5-5' cannot advise 'claude-fable-5-2'$/,
  },
];

/** All rows. */
export const RULE_ROWS: readonly RuleRow[] = [
  ...THINKING,
  ...CONTENT,
  ...SYSTEM,
  ...BETAS,
  ...OUTPUT,
  ...TOOLS_AND_SETTINGS,
];
