import { describe, expect, it } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import type { ModelRequest, RequestMessage } from '../../src/models/provider.ts';
import type { Script } from '../../src/models/script/script.ts';
import { FAULT_KINDS, faultOf } from '../../src/testing/fake-faults.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { type StrictFake, type StrictFakeOptions, strictFake } from '../../src/testing/strict-fake.ts';
import { ask } from '../models/calls.ts';

const HEADERS = { 'x-api-key': 'k', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' };
const TOOLS = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object' } }];

interface Answer {
  readonly status: number;
  readonly body: {
    readonly content: ContentBlock[];
    readonly error: { type: string; message: string };
    readonly [key: string]: unknown;
  };
}

async function post(
  fake: StrictFake,
  body: unknown,
  headers: Record<string, string> = HEADERS,
  path = '/v1/messages',
): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(fake.url + path, { method: 'POST', headers, body: text });
  return { status: response.status, body: (await response.json()) as Answer['body'] };
}

async function withFake(options: StrictFakeOptions, run: (fake: StrictFake) => Promise<void>): Promise<void> {
  const fake = await strictFake(options);
  try {
    await run(fake);
  } finally {
    await fake.close();
  }
}

/** The request that follows an answer: with its calls answered, or with a message of the user. */
function next(request: ModelRequest, content: readonly ContentBlock[]): ModelRequest {
  const calls = content.filter((block) => block.type === 'tool_use');
  const results = calls.map((call) => ({ type: 'tool_result' as const, tool_use_id: call.id, content: 'x' }));
  const answer: RequestMessage = { role: 'user', content: calls.length > 0 ? results : 'And?' };
  return { ...request, messages: [...request.messages, { role: 'assistant', content }, answer] };
}

/** A copy of a request with one thing changed by hand. */
function changed(request: ModelRequest, change: (copy: Record<string, never>) => void): ModelRequest {
  const copy = structuredClone(request);
  change(copy as unknown as Record<string, never>);
  return copy;
}

describe('strictFake', () => {
  it('with `pieceMs` each event of a stream comes so many milliseconds after the one before', async () => {
    const clock = manualClock();
    await withFake({ script: ['x'.repeat(70)], clock, pieceMs: 50 }, async (fake) => {
      const body = JSON.stringify({ ...ask('Hi'), stream: true });
      const response = await fetch(`${fake.url}/v1/messages`, { method: 'POST', headers: HEADERS, body });
      const reader = response.body?.getReader();
      const types: (string | undefined)[] = [];
      for (;;) {
        // The fake writes the next event only when its clock says so, so each read has one event.
        const piece = await reader?.read();
        if (piece?.value === undefined) break;
        const text = Buffer.from(piece.value).toString();
        expect(text.match(/^event: /gm)).toHaveLength(1);
        types.push(/^event: (\w+)/.exec(text)?.[1]);
        await clock.advance(50);
      }
      expect(types).toEqual([
        'message_start',
        'content_block_start',
        ...Array.from({ length: 3 }, () => 'content_block_delta'),
        'content_block_stop',
        'message_delta',
        'message_stop',
      ]);
    });
    for (const pieceMs of [-1, Number.NaN, 60_001]) {
      await expect(strictFake({ script: ['one'], pieceMs })).rejects.toThrow('strictFake.pieceMs');
    }
  });

  it('answers with a message in the shape of the API, and keeps the bodies', async () => {
    await withFake({ script: ['Hello.'] }, async (fake) => {
      const { status, body } = await post(fake, ask('Hi'));
      expect(status).toBe(200);
      expect(body).toMatchObject({
        type: 'message',
        role: 'assistant',
        model: 'claude-opus-4-6',
        content: [{ type: 'text', text: 'Hello.' }],
        stop_reason: 'end_turn',
        stop_sequence: null,
      });
      expect(fake.requests).toEqual([ask('Hi')]);
      expect(fake.violations).toEqual([]);
    });
  });

  it('I3, T6, W5: an illegal request gets 400 with the text of the API, is recorded, and consumes no reply', async () => {
    await withFake({ script: ['kept'] }, async (fake) => {
      const bad = ask('x', {
        messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'x' }] }],
      });
      const { status, body } = await post(fake, bad);
      expect(status).toBe(400);
      expect(body).toMatchObject({
        type: 'error',
        error: { type: 'invalid_request_error', message: expect.stringContaining('unexpected `tool_use_id`') },
      });
      expect(fake.violations).toMatchObject([{ rule: 'R04', path: 'messages.0.content.0', fatal: true, request: 0 }]);
      expect((await post(fake, ask())).body.content).toEqual([{ type: 'text', text: 'kept' }]);
      expect(fake.requests).toHaveLength(2);
    });
  });

  it('T6, W5: every request that another fake wrongly accepted is refused', async () => {
    await withFake({ script: () => 'taken' }, async (fake) => {
      const { max_tokens: _left, ...without } = ask();
      const calls = [{ type: 'tool_use', id: 'a', name: 'add', input: {} }];
      const bodies = [
        {
          ...ask(),
          messages: [
            { role: 'user', content: 'a' },
            { role: 'assistant', content: calls },
            { role: 'user', content: 'b' },
          ],
        },
        { ...ask(), messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] }] },
        { ...ask(), messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] },
        {
          ...ask(),
          messages: [
            { role: 'user', content: 'a' },
            { role: 'assistant', content: [...calls, ...calls] },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a' }] },
          ],
        },
        {
          ...ask(),
          messages: [
            { role: 'user', content: 'a' },
            { role: 'assistant', content: 'b ' },
          ],
        },
        { ...ask(), tools: [{ name: 'a b', input_schema: { type: 'object' } }] },
        without,
        { ...ask(), messages: [] },
        '{"model":"\\ud800"',
      ];
      for (const body of bodies) expect((await post(fake, body)).status, JSON.stringify(body)).toBe(400);
    });
  });

  it('R35, R44, F36: checks credentials, version, path and size', async () => {
    await withFake({ script: ['a', 'b'] }, async (fake) => {
      const { 'x-api-key': _key, ...anonymous } = HEADERS;
      expect(await post(fake, ask(), anonymous)).toMatchObject({
        status: 401,
        body: { error: { type: 'authentication_error' } },
      });
      expect((await post(fake, ask(), { ...anonymous, authorization: 'Bearer t' })).status).toBe(200);
      const { 'anthropic-version': _version, ...undated } = HEADERS;
      expect(await post(fake, ask(), undated)).toMatchObject({
        status: 400,
        body: { error: { message: /anthropic-version/ } },
      });
      expect(await post(fake, ask(), HEADERS, '/v2/messages')).toMatchObject({
        status: 404,
        body: { error: { type: 'not_found_error' } },
      });
      const huge = await post(fake, ask('x'.repeat(33 * 1024 * 1024)));
      expect(huge).toMatchObject({ status: 413, body: { error: { type: 'request_too_large' } } });
    });
  });

  it('R39: counts tokens, by the same rules, without max_tokens and without taking a reply', async () => {
    await withFake({ script: [] }, async (fake) => {
      const path = '/v1/messages/count_tokens';
      const { max_tokens: _left, ...body } = ask('Hello there.');
      expect(await post(fake, body, HEADERS, path)).toEqual({
        status: 200,
        body: { input_tokens: expect.any(Number) },
      });
      expect((await post(fake, { ...body, messages: [] }, HEADERS, path)).status).toBe(400);
      expect(fake.requests).toEqual([]);
    });
  });

  it('W6: a list is consumed in order of arrival; an exhausted list answers that it is exhausted', async () => {
    await withFake({ script: ['1', { error: { status: 503, message: 'later' } }, '3'] }, async (fake) => {
      const statuses = [];
      for (let n = 0; n < 4; n += 1) statuses.push((await post(fake, ask(`${n}`))).status);
      expect(statuses).toEqual([200, 503, 200, 400]);
      expect((await post(fake, ask())).body.error.message).toMatch(/exhausted after 3 replies/);
    });
  });

  it('a function receives the request as a provider does; its error becomes a 500', async () => {
    const seen: unknown[] = [];
    const script: Script = (request, at) => {
      seen.push(request, at);
      if (at.call === 1) throw new Error('from the script');
      return 'ok';
    };
    await withFake({ script }, async (fake) => {
      const mark = { type: 'ephemeral' };
      const wire = {
        ...ask(),
        stream: false,
        system: [{ type: 'text', text: 'Be brief.', cache_control: mark }],
        tools: [{ ...TOOLS[0], cache_control: mark }],
        messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache_control: mark }] }],
      };
      await post(fake, wire);
      const plain = {
        ...ask(),
        system: 'Be brief.',
        tools: TOOLS,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }],
      };
      expect(seen).toEqual([plain, { session: '', call: 0 }]);
      expect(await post(fake, wire)).toMatchObject({ status: 500, body: { error: { message: 'from the script' } } });
    });
  });

  it('W7: the same seed and requests give the same bytes, chunked or not', async () => {
    const options: StrictFakeOptions = {
      script: () => ({ thinking: 'hm', text: 'yes', toolUse: { name: 'add' } }),
      seed: 7,
      faults: { rate: 0.5, kinds: ['overloaded', 'unknown_event', 'bad_json', 'slow_bytes'] },
    };
    const record = async (): Promise<string[]> => {
      const texts: string[] = [];
      await withFake(options, async (fake) => {
        for (let n = 0; n < 12; n += 1) {
          const body = JSON.stringify({ ...ask(`${n}`, { tools: TOOLS }), stream: true });
          const response = await fetch(`${fake.url}/v1/messages`, { method: 'POST', headers: HEADERS, body });
          texts.push(`${response.status} ${await response.text()}`);
        }
      });
      return texts;
    };
    const first = await record();
    expect(await record()).toEqual(first);
    expect(new Set(first.map((text) => text.slice(0, 3)))).toEqual(new Set(['200', '529']));
  });

  it('faults depend on seed and number only, and all kinds of them occur', () => {
    const draw = (seed: number): unknown[] => Array.from({ length: 400 }, (_, n) => faultOf({ rate: 0.5 }, seed, n));
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
    const drawn = draw(3).filter((fault) => fault !== undefined);
    expect(new Set(drawn)).toEqual(new Set(FAULT_KINDS));
    expect(drawn.length).toBeGreaterThan(150);
    expect(drawn.length).toBeLessThan(250);
    expect(faultOf({ at: { 3: 'reset' } }, 1, 3)).toBe('reset');
    expect(faultOf({ at: { 3: 'reset' } }, 1, 4)).toBeUndefined();
  });

  it('F20: a 429 fault says when to retry', async () => {
    await withFake({ script: ['ok'], faults: { at: { 0: 'rate_limited' }, retryAfterMs: 1_500 } }, async (fake) => {
      const response = await fetch(`${fake.url}/v1/messages`, {
        method: 'POST',
        headers: HEADERS,
        body: JSON.stringify(ask()),
      });
      expect(response.status).toBe(429);
      expect([response.headers.get('retry-after'), response.headers.get('retry-after-ms')]).toEqual(['2', '1500']);
      await response.text();
    });
  });
});

describe('thinking', () => {
  const script: Script = [
    { thinking: 'First.', text: 'Adding.', toolUse: { name: 'add' } },
    { thinking: 'Second.', text: 'Done.' },
    'End.',
  ];
  const begin = ask('Add', { model: 'claude-opus-5-5', tools: TOOLS, thinking: { type: 'adaptive' } });

  /** Plays two calls and returns the request of the third, which is legal. */
  async function play(fake: StrictFake, first: ModelRequest = begin): Promise<readonly [ModelRequest, ModelRequest]> {
    const second = next(first, (await post(fake, first)).body.content);
    const third = next(second, (await post(fake, second)).body.content);
    return [second, third];
  }

  it('R20, R21, W1, W3: thoughts sent back unchanged are accepted, with texts as strings or as blocks', async () => {
    await withFake({ script }, async (fake) => {
      const [, third] = await play(fake);
      const marked = changed(third, (copy: { messages?: { content: unknown }[]; system?: unknown }) => {
        for (const message of copy.messages ?? []) {
          if (typeof message.content === 'string') message.content = [{ type: 'text', text: message.content }];
        }
      });
      expect((await post(fake, marked)).status).toBe(200);
      expect(fake.violations).toEqual([]);
    });
  });

  const ALTERED: readonly (readonly [string, string, (json: string) => string])[] = [
    ['R20', 'a changed latest thought', (json) => json.replace('Second.', 'Another.')],
    ['R21', 'a changed earlier thought', (json) => json.replace('First.', 'Another.')],
    ['R21', 'a changed first message', (json) => json.replace('"content":"Add"', '"content":"Subtract"')],
    ['R21', 'a changed text between', (json) => json.replace('Adding.', 'Subtracting.')],
    ['R21', 'another system prompt', (json) => json.replace('"messages"', '"system":"New.","messages"')],
    ['R21', 'another tool', (json) => json.replace('Adds.', 'Adds up.')],
    [
      'R20',
      'a signature of nobody',
      (json) =>
        json
          .replaceAll(/"signature":"[^"]*"/g, '"signature":"made up"')
          .replace('"signature":"made up"', '"signature":"made up first"'),
    ],
  ];
  it.each(ALTERED)('%s: %s is refused', async (rule, _what, alter) => {
    await withFake({ script }, async (fake) => {
      const [, third] = await play(fake);
      const { status, body } = await post(fake, alter(JSON.stringify(third)));
      expect(status).toBe(400);
      const rules = fake.violations.map((violation) => violation.rule);
      expect(rules).toContain(rule);
      expect(body.error.message).toMatch(/^messages\.\d+\.content\.\d+: /);
    });
  });

  it('R20: dropping or reordering thoughts is refused in the answer whose calls are answered', async () => {
    const two: Script = [
      {
        content: [
          { type: 'thinking', thinking: 'a' },
          { type: 'thinking', thinking: 'b' },
          { type: 'tool_use', name: 'add', input: {} },
        ],
      },
      'End.',
    ];
    const alterations: readonly ((content: ContentBlock[]) => void)[] = [
      (content) => content.shift(),
      (content) => content.splice(1, 1),
      (content) => content.splice(0, 2, ...content.slice(0, 2).reverse()),
    ];
    for (const alter of alterations) {
      // A model without bound signatures: only the record of the answer itself shows the change.
      await withFake({ script: two }, async (fake) => {
        const first = { ...begin, model: 'claude-opus-4-6' };
        const content = (await post(fake, first)).body.content;
        alter(content);
        expect((await post(fake, next(first, content))).status).toBe(400);
        expect(fake.violations.map((violation) => violation.rule)).toEqual(['R20']);
      });
    }
  });

  it('R20, R21, W4: an answer without any of its thoughts is accepted, which is the remedy the API itself names', async () => {
    for (const model of ['claude-opus-4-6', 'claude-opus-5-5']) {
      await withFake({ script }, async (fake) => {
        const first = { ...begin, model };
        const { content } = (await post(fake, first)).body;
        expect((await post(fake, next(first, content.slice(1)))).status).toBe(200);
        expect(fake.violations).toEqual([]);
      });
    }
  });

  it('R21, W3: older models accept thoughts after another prefix', async () => {
    await withFake({ script }, async (fake) => {
      const [, third] = await play(fake, { ...begin, model: 'claude-opus-4-6' });
      const { status } = await post(fake, JSON.stringify(third).replace('"content":"Add"', '"content":"Subtract"'));
      expect(status).toBe(200);
    });
  });

  it('R21, W1: a restarted fake of the same seed knows its signatures, one of another seed does not', async () => {
    let third = begin;
    await withFake({ script, seed: 5 }, async (fake) => {
      [, third] = await play(fake);
    });
    await withFake({ script: ['again'], seed: 5 }, async (fake) => {
      expect((await post(fake, third)).status).toBe(200);
    });
    await withFake({ script: ['again'], seed: 6 }, async (fake) => {
      expect((await post(fake, third)).status).toBe(400);
    });
  });

  it("a script's own signatures and redacted data are remembered", async () => {
    const own: Script = [
      {
        content: [
          { type: 'thinking', thinking: 'a', signature: 'mine' },
          { type: 'redacted_thinking', data: 'opaque' },
          { type: 'text', text: 'b' },
        ],
      },
      'End.',
      'End.',
    ];
    await withFake({ script: own }, async (fake) => {
      const second = next(begin, (await post(fake, begin)).body.content);
      expect((await post(fake, second)).status).toBe(200);
      expect((await post(fake, JSON.stringify(second).replace('opaque', 'clear'))).status).toBe(400);
      expect((await post(fake, JSON.stringify(second).replace('"thinking":"a"', '"thinking":"z"'))).status).toBe(400);
      // A changed thought also precedes the redacted one, which is bound to it.
      expect(fake.violations.map((violation) => violation.rule)).toEqual(['R20', 'R20', 'R21']);
    });
  });

  it('R38: a paused turn is resumed unchanged or refused', async () => {
    const content = [{ type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }];
    const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
    await withFake({ script: [{ content, stop_reason: 'pause_turn' }, 'End.'] }, async (fake) => {
      const paused = (await post(fake, ask())).body.content;
      const resumed = (last: unknown): unknown => ({
        ...ask(),
        tools,
        messages: [...ask().messages, { role: 'assistant', content: last }],
      });
      const altered = JSON.parse(JSON.stringify(paused).replace('"x"', '"y"'));
      expect((await post(fake, resumed(altered))).status).toBe(400);
      expect(fake.violations.map((violation) => violation.rule)).toEqual(['R38']);
      expect((await post(fake, resumed(paused))).body.content).toEqual([{ type: 'text', text: 'End.' }]);
    });
  });
});
