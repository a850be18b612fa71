import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addUsage, NO_USAGE } from '../../../src/base/messages.ts';
import { ResponseAssembly } from '../../../src/models/anthropic/response-assembly.ts';
import type { ModelDelta, ModelResponse } from '../../../src/models/provider.ts';
import { readUsage } from '../../../src/models/usage.ts';

type Event = Record<string, unknown> & { readonly type: string };

const START: Event = {
  type: 'message_start',
  message: { id: 'm', model: 'x', usage: { input_tokens: 3, output_tokens: 1, cache_read_input_tokens: null } },
};
const STOP: Event = { type: 'message_stop' };

function end(stop_reason: string | null, usage: unknown = { output_tokens: 9 }): Event {
  return { type: 'message_delta', delta: { stop_reason }, usage };
}

function block(index: number, content_block: unknown, ...deltas: unknown[]): Event[] {
  return [
    { type: 'content_block_start', index, content_block },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];
}

function call(index: number, ...json: string[]): Event[] {
  const start = { type: 'tool_use', id: `t${index}`, name: 'add', input: {} };
  return block(index, start, ...json.map((partial_json) => ({ type: 'input_json_delta', partial_json })));
}

function assemble(events: readonly Event[], deltas: ModelDelta[] = []): ModelResponse {
  const assembly = new ResponseAssembly((delta) => deltas.push(delta));
  for (const event of events) assembly.accept(event.type, JSON.stringify(event));
  return assembly.response();
}

function text(index: number, value: string): Event[] {
  return block(index, { type: 'text', text: '' }, { type: 'text_delta', text: value });
}

/** The result of a text block whose only delta has this data, or the message of its error. */
function fromDelta(data: string, index = 0): unknown {
  const deltas: ModelDelta[] = [];
  const assembly = new ResponseAssembly((delta) => deltas.push(delta));
  const accept = (event: Event): void => assembly.accept(event.type, JSON.stringify(event));
  const blocks = Array.from({ length: index }, (_, before) => text(before, 'x')).flat();
  for (const event of [START, ...blocks]) accept(event);
  accept({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } });
  try {
    assembly.accept('content_block_delta', data);
  } catch (error) {
    return (error as Error).message;
  }
  for (const event of [{ type: 'content_block_stop', index }, end('end_turn'), STOP]) accept(event);
  return { content: assembly.response().content, deltas };
}

describe('ResponseAssembly', () => {
  it('B1: a piece of text in the form of the API gives what its parsed form gives', () => {
    const character = fc.oneof(
      fc.constantFrom('"', '\\', '}', ' ', '\n', '\u0000', '\u2028', '\uD800', 'a'),
      fc.string(),
    );
    const written = fc.array(character, { maxLength: 8 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(written, fc.nat(3), fc.nat(5), (piece, index, blanks) => {
        const quoted = JSON.stringify(piece);
        const inOrder = `{"type":"content_block_delta","index":${index},"delta":{"type":"text_delta","text":${quoted}}${' '.repeat(blanks)}}`;
        const otherwise = `{"delta":{"text":${quoted},"type":"text_delta"},"index":${index},"type":"content_block_delta"}`;
        expect(fromDelta(inOrder, index)).toEqual(fromDelta(otherwise, index));
      }),
      { numRuns: 1_000 },
    );
  });

  it('B1: data that only resembles a piece of text is parsed, and refused where it is no JSON', () => {
    const begin = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a';
    expect(fromDelta(`${begin}","more":"b"}}`)).toMatchObject({ content: [{ text: 'a' }] });
    expect(fromDelta(`${begin}"},"more":{}}`)).toMatchObject({ content: [{ text: 'a' }] });
    for (const rest of ['', '"', '"}', '"}}}', '"} }x', '\n"}}', '\t"}}', '\\x"}}']) {
      expect(fromDelta(`${begin}${rest}`)).toMatch(/not JSON/);
    }
    expect(fromDelta(`${begin.replace('"index":0', '"index":1')}"}}`)).toMatch(/not open/);
  });

  it('F052: a call without an id is accepted and receives one when it is stored', () => {
    const start = { type: 'tool_use', name: 'add', input: {} };
    const json = { type: 'input_json_delta', partial_json: '{"a":1}' };
    const { content } = assemble([START, ...block(0, start, json), end('tool_use'), STOP]);
    expect(content).toEqual([{ type: 'tool_use', id: '', name: 'add', input: { a: 1 } }]);
    expect(() => assemble([START, ...block(0, { type: 'tool_use', id: 't' })])).toThrow('without a name');
  });

  it('F26: joins pieces and merges usage; null counters change nothing', () => {
    const events = [
      START,
      ...text(0, 'a'),
      ...call(1, '{"a":', '1}'),
      end('tool_use', { output_tokens: 9, input_tokens: null }),
      STOP,
    ];
    expect(assemble(events)).toEqual({
      id: 'm',
      model: 'x',
      content: [
        { type: 'text', text: 'a' },
        { type: 'tool_use', id: 't1', name: 'add', input: { a: 1 } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 9 },
    });
  });

  it('F38: usage that is missing or absurd counts as zero', () => {
    const start = { type: 'message_start', message: { usage: { input_tokens: -4 } } };
    expect(assemble([start, end('end_turn', { output_tokens: 1e300 }), STOP]).usage).toEqual({
      input_tokens: 0,
      output_tokens: 0,
    });
  });

  it('F30, B3: a call cut by the token limit or the context window has input {}, and only as the last call', () => {
    const cut = [START, ...text(0, 'a'), ...call(1, '{"a":"unfin')];
    for (const stop of ['max_tokens', 'model_context_window_exceeded']) {
      expect(assemble([...cut, end(stop), STOP]).content[1]).toMatchObject({ type: 'tool_use', input: {} });
      for (const later of [text(2, 'b'), call(2, '{}')]) {
        const { content } = assemble([...cut, ...later, end(stop), STOP]);
        expect(content[1]).toMatchObject({ type: 'tool_use', input: '{"a":"unfin' });
      }
    }
  });

  it('F27, B3: an input that is not JSON, or not an object, is returned as the model wrote it', () => {
    for (const [json, input] of [
      ['{"a":', '{"a":'],
      ['not json', 'not json'],
      ['[1]', [1]],
      ['"x"', 'x'],
      ['3', 3],
    ] as const) {
      const { content } = assemble([START, ...call(0, json), ...call(1, '{"b":1}'), end('tool_use'), STOP]);
      expect(content).toMatchObject([
        { id: 't0', input },
        { id: 't1', input: { b: 1 } },
      ]);
    }
  });

  it('F26, B2: unknown events, deltas and blocks are ignored', () => {
    const deltas: ModelDelta[] = [];
    const events = [
      START,
      { type: 'sky_event', clear: true },
      ...block(0, { type: 'hologram', depth: 3 }),
      ...block(1, { type: 'hologram' }, { type: 'hologram_delta', part: 1 }),
      ...block(
        2,
        { type: 'text', text: '' },
        { type: 'text_delta', text: 'a' },
        { type: 'glow_delta' },
        { type: 'citations_delta', citation: { at: 1 } },
      ),
      end('end_turn'),
      STOP,
      STOP,
      { type: 'error', error: { type: 'api_error', message: 'after the end' } },
    ];
    expect(assemble(events, deltas).content).toEqual([
      { type: 'hologram', depth: 3 },
      { type: 'text', text: 'a', citations: [{ at: 1 }] },
    ]);
    expect(deltas).toEqual([{ type: 'text', text: 'a' }]);
    const assembly = new ResponseAssembly(() => {});
    assembly.accept('sky_event', 'not json');
    assembly.accept('ping', '');
  });

  it('R20: a call keeps caller, toolset_name and every other member of its start; citations come back whole', () => {
    const caller = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' };
    const start = { type: 'tool_use', id: 't0', name: 'add', input: {}, caller, toolset_name: 'browser', later: [1] };
    const cited = { type: 'text', text: '', citations: [] };
    const citation = { type: 'char_location', cited_text: 'x', document_index: 0 };
    const { content } = assemble([
      START,
      ...block(0, start, { type: 'input_json_delta', partial_json: '{"a":1}' }),
      ...block(1, cited, { type: 'text_delta', text: 'b' }, { type: 'citations_delta', citation }),
      end('tool_use'),
      STOP,
    ]);
    expect(content).toEqual([
      { type: 'tool_use', id: 't0', name: 'add', input: { a: 1 }, caller, toolset_name: 'browser', later: [1] },
      { type: 'text', text: 'b', citations: [citation] },
    ]);
  });

  it('R20: server blocks, fallback and compaction come back in order; a compaction delta holds final values', () => {
    const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} };
    const result = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [{ encrypted_content: 'e' }] };
    const fallback = { type: 'fallback', from: { model: 'a' }, to: { model: 'b' } };
    const compaction = { type: 'compaction', content: null, encrypted_content: null, signature: 's', tool_changes: [] };
    const delta = { type: 'compaction_delta', content: 'summary', encrypted_content: 'enc' };
    const { content } = assemble([
      START,
      ...block(0, compaction, delta),
      ...block(1, use, { type: 'input_json_delta', partial_json: '{"query":"q"}' }),
      ...block(2, result),
      ...block(3, fallback),
      ...block(4, compaction, { type: 'unknown_delta' }),
      end('pause_turn'),
      STOP,
    ]);
    expect(content).toEqual([
      { ...compaction, content: 'summary', encrypted_content: 'enc' },
      { ...use, input: { query: 'q' } },
      result,
      fallback,
    ]);
    expect(() => assemble([START, ...block(0, { type: 'text', text: '' }, delta)])).toThrow('compaction_delta');
  });

  it('B5: members of the message and of its end are kept; a later value replaces an earlier one', () => {
    const stop_details = { type: 'refusal', category: 'cyber', explanation: 'no' };
    const container = { id: 'container_2', expires_at: '2026-11-23T06:00:00Z' };
    const dropped = [{ type: 'thinking_dropped', path: 'messages.1.content.0' }];
    const message = {
      usage: {},
      container: { id: 'container_1' },
      input_transformations: dropped,
      stop_sequence: null,
    };
    const last = {
      type: 'message_delta',
      delta: { stop_reason: 'refusal', stop_sequence: 'END', stop_details, container },
      context_management: { applied_edits: [] },
      usage: {},
    };
    expect(assemble([{ type: 'message_start', message }, last, STOP])).toMatchObject({
      stop_reason: 'refusal',
      stop_sequence: 'END',
      stop_details,
      container,
      context_management: { applied_edits: [] },
      input_transformations: dropped,
    });
    const long = { ...last, delta: { stop_reason: 'refusal', stop_details: { explanation: 'x'.repeat(70_000) } } };
    expect(assemble([START, long, STOP])).not.toHaveProperty('stop_details');
  });

  it('F38: usage keeps every member; what only the iterations count is added to the counters', () => {
    const part = { input_tokens: 10, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 1 };
    const iterations = [
      { type: 'compaction', ...part, cache_creation: null },
      { type: 'message', model: 'x', ...part, input_tokens: 3, output_tokens: 9 },
    ];
    const first = {
      input_tokens: 3,
      output_tokens: 1,
      cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 5 },
      service_tier: 'standard',
      speed: 'fast',
      inference_geo: 'eu',
    };
    const last = {
      output_tokens: 9,
      output_tokens_details: { thinking_tokens: 6 },
      server_tool_use: { web_search_requests: 2, web_fetch_requests: -1 },
      iterations,
    };
    const { usage } = assemble([{ type: 'message_start', message: { usage: first } }, end('end_turn', last), STOP]);
    expect(usage).toEqual({
      ...first,
      input_tokens: 13,
      output_tokens: 11,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 2,
      output_tokens_details: { thinking_tokens: 6 },
      server_tool_use: { web_search_requests: 2 },
      iterations: [
        { type: 'compaction', ...part },
        { type: 'message', model: 'x', ...part, input_tokens: 3, output_tokens: 9 },
      ],
    });
    expect(readUsage(usage)).toEqual(usage);
    const many = Array.from({ length: 100 }, () => ({ type: 'message', input_tokens: 1, output_tokens: 1 }));
    const bounded = readUsage({ iterations: many });
    expect([bounded.input_tokens, bounded.iterations?.length]).toEqual([100, 64]);
    expect(readUsage(bounded)).toEqual(bounded);
  });

  it('addUsage adds every counter, and leaves out what describes one answer', () => {
    const one = readUsage({
      input_tokens: 1,
      output_tokens: 2,
      cache_creation: { ephemeral_1h_input_tokens: 3 },
      output_tokens_details: { thinking_tokens: 1 },
      server_tool_use: { web_search_requests: 1 },
      speed: 'fast',
      iterations: [{ type: 'message', input_tokens: 1, output_tokens: 2 }],
    });
    const other = readUsage({ server_tool_use: { web_fetch_requests: 2, web_search_requests: 1 } });
    expect(addUsage(addUsage(NO_USAGE, one), addUsage(one, other))).toEqual({
      input_tokens: 2,
      output_tokens: 4,
      cache_creation: { ephemeral_1h_input_tokens: 6 },
      output_tokens_details: { thinking_tokens: 2 },
      server_tool_use: { web_search_requests: 3, web_fetch_requests: 2 },
    });
  });

  const [open] = text(0, 'a') as [Event];
  const BROKEN: readonly (readonly [string, readonly Event[]])[] = [
    ['nothing', []],
    ['no message_start', [...text(0, 'a'), end('end_turn'), STOP]],
    ['two message_start', [START, START]],
    ['no stop reason', [START, end(null), STOP]],
    ['no message_delta', [START, ...text(0, 'a'), STOP]],
    ['no message_stop', [START, ...text(0, 'a'), end('end_turn')]],
    ['a block that stays open', [START, open, end('end_turn'), STOP]],
    ['a block inside a block', [START, open, open]],
    ['a block that starts twice', [START, ...text(0, 'a'), open]],
    ['a block that stops twice', [START, ...text(0, 'a'), { type: 'content_block_stop', index: 0 }]],
    ['a block that stops before it starts', [START, { type: 'content_block_stop', index: 0 }]],
    ['a block left out', [START, ...text(0, 'a'), ...text(2, 'b')]],
    ['a message_start in the middle', [START, ...text(0, 'a'), START]],
    ['a message_delta first', [end('end_turn'), STOP]],
    ['an index left out', [START, ...text(1, 'a')]],
    ['a delta of no block', [START, ...text(0, 'a').slice(1)]],
    [
      'a delta of another block',
      [START, open, { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'a' } }],
    ],
    ['a block after the end', [START, end('end_turn'), open]],
    [
      'text in a call',
      [START, ...block(0, { type: 'tool_use', id: 'a', name: 'b' }, { type: 'text_delta', text: 'a' })],
    ],
    ['a delta without its text', [START, ...block(0, { type: 'text', text: '' }, { type: 'text_delta' })]],
    ['a call without a name', [START, ...block(0, { type: 'tool_use', id: 'a' })]],
    ['a block without a type', [START, ...block(0, {})]],
  ];
  it.each(BROKEN)('F26, B1, B4: %s is a protocol error', (_what, events) => {
    expect(() => assemble(events)).toThrow(expect.objectContaining({ code: 'model_protocol', retryable: true }));
  });

  it.each([
    ['overloaded_error', 'model_overloaded', 529],
    ['rate_limit_error', 'model_rate_limited', 429],
    ['authentication_error', 'model_authentication', 401],
    ['invalid_request_error', 'model_invalid_request', 400],
    ['api_error', 'model_overloaded', 500],
    ['timeout_error', 'model_overloaded', 504],
    ['brand_new_error', 'model_overloaded', undefined],
  ] as const)('F25: a %s event has error %s and its status %s', (type, code, status) => {
    const run = (): unknown => assemble([START, { type: 'error', error: { type, message: 'why' } }]);
    expect(run).toThrow(expect.objectContaining({ code, status, message: 'why' }));
  });

  it('F25: an error event whose data is not JSON is still an error', () => {
    const assembly = new ResponseAssembly(() => {});
    expect(() => assembly.accept('error', '<html>')).toThrow(expect.objectContaining({ code: 'model_overloaded' }));
  });
});
