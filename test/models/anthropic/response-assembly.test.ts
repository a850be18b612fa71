import { describe, expect, it } from 'vitest';
import { ResponseAssembly } from '../../../src/models/anthropic/response-assembly.ts';
import type { ModelDelta, ModelResponse } from '../../../src/models/provider.ts';

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

describe('ResponseAssembly', () => {
  it('F052: a call without an id is accepted; it receives an id when it is stored', () => {
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

  it('F30, B3: a call cut by the token limit, or by the window, has input {} in the last place only', () => {
    const cut = [START, ...text(0, 'a'), ...call(1, '{"a":"unfin')];
    for (const stop of ['max_tokens', 'model_context_window_exceeded']) {
      expect(assemble([...cut, end(stop), STOP]).content[1]).toMatchObject({ type: 'tool_use', input: {} });
      for (const later of [text(2, 'b'), call(2, '{}')]) {
        const { content } = assemble([...cut, ...later, end(stop), STOP]);
        expect(content[1]).toMatchObject({ type: 'tool_use', input: '{"a":"unfin' });
      }
    }
  });

  it('F27, B3: an input that is no JSON, or no object, comes as the model wrote it', () => {
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
  ] as const)('F25: a %s event is %s as its status %s', (type, code, status) => {
    const run = (): unknown => assemble([START, { type: 'error', error: { type, message: 'why' } }]);
    expect(run).toThrow(expect.objectContaining({ code, status, message: 'why' }));
  });

  it('F25: an error event whose data is no JSON is still an error', () => {
    const assembly = new ResponseAssembly(() => {});
    expect(() => assembly.accept('error', '<html>')).toThrow(expect.objectContaining({ code: 'model_overloaded' }));
  });
});
