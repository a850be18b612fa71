/** Legal requests, each close to one of `rule-rows.ts`. The legality check and the strict fake accept them. */
import {
  ADD,
  ask,
  BETWEEN,
  CLEAR_AT,
  COMPACT,
  COMPACTED,
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
  type LegalRow,
  once,
  PAUSED,
  png,
  RESULT,
  SEARCH,
  talk,
  YES,
} from './rule-requests.ts';

/** Further requests: a check that refuses one of them refuses too much. */
export const LEGAL_ROWS: readonly LegalRow[] = [
  { what: 'a message for one turn', body: talk('claude-opus-5-5', once({})), betas: CLEAR_AT },
  {
    what: 'a system message at the end of a paused turn',
    body: ask('claude-opus-5-5', { tools: [SEARCH], messages: [HI, PAUSED, { role: 'system', content: 'Hurry.' }] }),
  },
  {
    what: 'an effort before the first message and between a call and its result',
    body: ask('claude-opus-5-5', {
      tools: [ADD],
      messages: [
        { role: 'system', content: [], ...effort('low') },
        HI,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: {} }] },
        { role: 'system', content: [], ...effort('high') },
        { role: 'user', content: [RESULT] },
      ],
    }),
    betas: EFFORTS,
  },
  { what: 'results alone while a server tool waits', body: deferred([{ role: 'user', content: [RESULT] }]) },
  {
    what: 'the result of a server tool that had waited',
    body: deferred([{ role: 'user', content: [RESULT] }, { role: 'assistant', content: [FOUND] }, HI]),
  },
  {
    what: 'a tool that comes and goes',
    body: {
      ...talk(
        'claude-opus-5-5',
        { role: 'system', content: [{ type: 'tool_addition', tool: { type: 'tool_definition', definition: ADD } }] },
        YES,
        HI,
        { role: 'system', content: [{ type: 'tool_removal', tool: { type: 'tool_reference', name: 'add' } }] },
      ),
    },
    betas: INLINE,
  },
  {
    what: 'a compaction first',
    body: ask('claude-opus-5-5', { messages: [COMPACTED, HI] }),
    betas: COMPACT,
  },
  { what: 'a compaction, last', body: ask('claude-opus-5-5', { messages: [COMPACTED] }), betas: COMPACT },
  {
    what: 'a refused answer that another model continues',
    body: ask('claude-opus-5-5', { messages: [HI, YES], fallback_credit_token: 'token' }),
    betas: FALLBACK,
  },
  {
    what: 'three fallbacks',
    body: ask('claude-opus-5-5', { fallbacks: [{ model: 'a' }, { model: 'b' }, { model: 'c' }] }),
    betas: FALLBACK,
  },
  {
    what: 'a schema with all that a grammar has',
    body: ask(
      'claude-opus-5',
      format({
        type: 'object',
        properties: {
          when: { type: 'string', format: 'date-time' },
          kind: { enum: ['a', 'b', null] },
          list: { type: 'array', items: { $ref: '#/$defs/item' }, minItems: 1 },
          code: { type: 'string', pattern: '^[A-Z]{2}$' },
        },
        required: ['when', 'kind'],
        additionalProperties: false,
        $defs: { item: { anyOf: [{ type: 'string' }, { type: 'null' }] } },
      }),
    ),
  },
  { what: 'thinking between tools', body: ask('claude-sonnet-5-5', { thinking: BETWEEN, ...effort('low') }) },
  { what: 'no thinking of Haiku 5.5', body: ask('claude-haiku-5-5', { thinking: DISABLED, ...effort('high') }) },
  {
    what: 'no thinking of Sonnet 5 at any effort',
    body: ask('claude-sonnet-5', { thinking: DISABLED, ...effort('max') }),
  },
  {
    what: 'a forced tool of a model that thinks by default',
    body: ask('claude-opus-5', { tools: [ADD], tool_choice: { type: 'any' } }),
  },
  { what: 'speed with the beta', body: ask('claude-opus-5', { speed: 'fast' }), betas: ['fast-mode-2026-02-01'] },
  { what: 'speed without a beta', body: ask('claude-opus-5-5', { speed: 'fast' }) },
  { what: 'a prompt that is only cached', body: ask('claude-opus-5-5', { max_tokens: 0 }) },
  { what: 'images of many sizes', body: ask('claude-opus-5', images(20, png(8_000, 8_000))) },
  {
    what: 'any option of an unknown model',
    body: ask('claude-opus-9', { thinking: DISABLED, ...effort('max') }),
  },
  {
    what: 'an advisor that the model listens to',
    body: ask('claude-sonnet-5-5', {
      tools: [{ type: 'advisor_20260301', name: 'advisor', model: 'claude-opus-5-5' }],
    }),
    betas: ['advisor-tool-2026-03-01'],
  },
];
