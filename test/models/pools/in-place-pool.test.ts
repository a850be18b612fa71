import { describe, expect, it } from 'vitest';
import {
  CALLS_STARTED_MAX,
  DELTA_CHARACTERS_MAX,
  DELTA_COALESCE_MS,
  DRAFT_CHARACTERS_MAX,
  DRAFT_INTERVAL_MS,
} from '../../../src/base/bounds.ts';
import { ModelError } from '../../../src/base/errors.ts';
import type { ModelCall, ModelCompletion, ModelPool, StreamDraft } from '../../../src/models/pool.ts';
import { createInPlacePool } from '../../../src/models/pools/in-place-pool.ts';
import type { GenerateContext, ModelProvider, ModelRequest, ModelResponse } from '../../../src/models/provider.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';

const RESPONSE: ModelResponse = {
  content: [{ type: 'text', text: 'ok' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
};

/** One call controlled by the test. */
interface Held {
  readonly request: ModelRequest;
  readonly context: GenerateContext;
  answer(response: unknown): void;
  fail(error: unknown): void;
}

interface Stage {
  readonly pool: ModelPool;
  readonly clock: ManualClock;
  readonly held: Held[];
  readonly completions: ModelCompletion[];
  readonly batches: number[];
  /** Everything the listener received, in order. */
  readonly told: string[];
}

function stage(): Stage {
  const clock = manualClock();
  const held: Held[] = [];
  const completions: ModelCompletion[] = [];
  const batches: number[] = [];
  const told: string[] = [];
  const provider: ModelProvider = {
    name: 'held',
    generate: (request, context) =>
      new Promise((resolve, reject) => {
        held.push({ request, context, answer: (response) => resolve(response as ModelResponse), fail: reject });
      }),
  };
  const listener = {
    completed: (list: readonly ModelCompletion[]): void => {
      batches.push(list.length);
      completions.push(...list);
      told.push(...list.map((completion) => `done ${completion.id}`));
    },
    delta: (id: number, session: string, delta: { type: string; text: string }): void => {
      told.push(`${delta.type} ${id} ${session} ${delta.text}`);
    },
  };
  return { pool: createInPlacePool(provider, listener, clock), clock, held, completions, batches, told };
}

function call(id: number, changes: Partial<ModelCall> = {}): ModelCall {
  const header = { model: 'm', max_tokens: 1 };
  const append = [{ role: 'user' as const, content: `call ${id}` }];
  return {
    id,
    session: `s${id}`,
    context: { epoch: 1, keep: 0, append, header },
    wantsDeltas: true,
    waitsForResume: true,
    timeoutMs: 60_000,
    ...changes,
  };
}

function code(completion: ModelCompletion | undefined): string | undefined {
  return completion !== undefined && 'error' in completion ? completion.error.code : undefined;
}

describe('in-place pool', () => {
  it('P1, P2: completions arrive once, together, and never from within the calling method', async () => {
    const { pool, clock, held, completions, batches } = stage();
    pool.call(call(1));
    pool.call(call(2));
    expect(held).toHaveLength(0);
    await clock.advance(5);
    held[0]?.answer(RESPONSE);
    held[1]?.fail(new ModelError('model_overloaded', 'busy', { status: 529, retryable: true }));
    expect(completions).toEqual([]);
    await clock.advance(0);
    expect(batches).toEqual([2]);
    expect(completions[0]).toEqual({ id: 1, response: RESPONSE, ms: 5 });
    expect(completions[1]).toMatchObject({
      id: 2,
      error: { name: 'ModelError', code: 'model_overloaded', retryable: true, data: { status: 529 } },
    });
    expect(clock.pending).toBe(0);
  });

  it('P4, P1: a cancelled call completes as cancelled while its provider still runs; its late answer is dropped', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    await clock.advance(0);
    pool.cancel(1);
    pool.cancel(1);
    pool.cancel(99);
    expect(completions).toEqual([]);
    expect(held[0]?.context.signal.aborted).toBe(true);
    await clock.advance(0);
    held[0]?.context.onDelta({ type: 'text', text: 'late' });
    held[0]?.answer(RESPONSE);
    await clock.runAll();
    expect(completions.map(code)).toEqual(['cancelled']);
    expect(clock.pending).toBe(0);
  });

  it('P8: many calls made at once are passed to the provider some a tick, in order, cancelled ones not', async () => {
    const waiting: (() => void)[] = [];
    const started: string[] = [];
    const provider: ModelProvider = {
      name: 'noting',
      generate: (_request, { session }) => {
        started.push(session);
        return new Promise(() => undefined);
      },
    };
    const listener = { completed: () => undefined, delta: () => undefined };
    const pool = createInPlacePool(provider, listener, manualClock(), (run) => void waiting.push(run));
    const ids = Array.from({ length: 2 * CALLS_STARTED_MAX + 1 }, (_, index) => index + 1);
    for (const id of ids) pool.call(call(id));
    await Promise.resolve();
    const named = ids.map((id) => `s${id}`);
    expect(started).toEqual(named.slice(0, CALLS_STARTED_MAX));
    pool.cancel(CALLS_STARTED_MAX + 1);
    while (waiting.length > 0) {
      const before = started.length;
      waiting.shift()?.();
      expect(started.length - before).toBeLessThanOrEqual(CALLS_STARTED_MAX);
    }
    expect(started).toEqual(named.filter((name) => name !== `s${CALLS_STARTED_MAX + 1}`));
  });

  it('P4: a call cancelled in the tick it was made never reaches the provider', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    pool.cancel(1);
    await clock.advance(0);
    expect(held).toEqual([]);
    expect(completions.map(code)).toEqual(['cancelled']);
  });

  it('P4, F23: a call ends when the clock reaches its timeout', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1, { timeoutMs: 5_000 }));
    await clock.advance(4_999);
    expect(completions).toEqual([]);
    await clock.advance(1);
    expect(completions).toMatchObject([{ id: 1, ms: 5_000, error: { code: 'model_timeout', retryable: true } }]);
    expect(held[0]?.context.signal.aborted).toBe(true);
    expect(clock.pending).toBe(0);
  });

  it('P3: deltas are gathered by type and time, in order, and are published before the completion', async () => {
    const { pool, clock, held, told } = stage();
    pool.call(call(1));
    await clock.advance(0);
    const say = (type: 'text' | 'thinking', text: string): void => held[0]?.context.onDelta({ type, text });
    say('thinking', 'hm');
    say('thinking', 'm');
    say('text', 'a');
    say('text', '');
    await clock.advance(DELTA_COALESCE_MS - 1);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(['thinking 1 s1 hmm', 'text 1 s1 a']);
    say('text', 'b');
    say('text', 'c');
    held[0]?.answer(RESPONSE);
    await clock.advance(0);
    expect(told.slice(2)).toEqual(['text 1 s1 bc', 'done 1']);
    expect(clock.pending).toBe(0);
  });

  it('P3: a large amount of text is published early; without a reader no text is published', async () => {
    const { pool, clock, held, told } = stage();
    pool.call(call(1));
    pool.call(call(2, { wantsDeltas: false }));
    await clock.advance(0);
    for (const each of held) each.context.onDelta({ type: 'text', text: 'x'.repeat(DELTA_CHARACTERS_MAX + 1) });
    expect(told.map((line) => line.length)).toEqual([DELTA_CHARACTERS_MAX + 1 + 'text 1 s1 '.length]);
  });

  it('a reader that joins during a call receives the text from then on; after it leaves, none is published', async () => {
    const { pool, clock, held, told } = stage();
    pool.call(call(1, { wantsDeltas: false }));
    await clock.advance(0);
    const say = (text: string): void => held[0]?.context.onDelta({ type: 'text', text });
    say('missed');
    pool.wantsDeltas(1, true);
    pool.wantsDeltas(999, true);
    say('heard');
    pool.wantsDeltas(1, false);
    say('missed');
    await clock.advance(DELTA_COALESCE_MS);
    expect(told).toEqual(['text 1 s1 heard']);
  });

  it('P2: a synchronous throw, answer or delta of a provider is reported a tick later', async () => {
    const clock = manualClock();
    const told: string[] = [];
    const listener = {
      completed: (list: readonly ModelCompletion[]): void => {
        told.push(...list.map((completion) => `${completion.id} ${code(completion) ?? 'ok'}`));
      },
      delta: (): void => {
        told.push('delta');
      },
    };
    const provider: ModelProvider = {
      name: 'eager',
      generate: (request, { onDelta }) => {
        onDelta({ type: 'text', text: 'x'.repeat(DELTA_CHARACTERS_MAX + 1) });
        if (request.messages[0]?.content === 'call 1') throw new Error('at once');
        return Promise.resolve(RESPONSE);
      },
    };
    const pool = createInPlacePool(provider, listener, clock);
    pool.call(call(1));
    pool.call(call(2));
    expect(told).toEqual([]);
    await clock.advance(0);
    expect(told).toEqual(['delta', 'delta', '1 internal', '2 ok']);
  });

  it('a delta extends the previous request; if it cannot, the call fails as a lost connection and the next is sent whole', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    await clock.advance(0);
    held[0]?.answer(RESPONSE);
    await clock.advance(0);
    expect(pool.holds('s1', 1, 1)).toBe(true);
    expect(pool.holds('s1', 1, 2)).toBe(false);
    expect(pool.holds('s1', 2, 0)).toBe(false);
    const more = [
      { role: 'assistant' as const, content: 'ok' },
      { role: 'user' as const, content: 'more' },
    ];
    pool.call(call(2, { session: 's1', context: { epoch: 1, keep: 1, append: more } }));
    await clock.advance(0);
    expect(held[1]?.request).toEqual({
      model: 'm',
      max_tokens: 1,
      messages: [{ role: 'user', content: 'call 1' }, ...more],
    });
    pool.forget('s1');
    pool.call(call(3, { session: 's1', context: { epoch: 1, keep: 1, append: more } }));
    await clock.advance(0);
    expect(held).toHaveLength(2);
    expect(completions.at(-1)).toMatchObject({ id: 3, error: { code: 'model_connection', retryable: true } });
  });

  it.each([
    ['nothing', undefined],
    ['no content', { stop_reason: 'end_turn' }],
    ['a block without a type', { content: [{}] }],
    ['a text without its text', { content: [{ type: 'text' }] }],
    ['a function', { content: [{ type: 'text', text: 'a', more: () => 1 }] }],
  ])('a provider that answers with %s fails as a broken protocol', async (_what, answer) => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    await clock.advance(0);
    held[0]?.answer(answer);
    await clock.advance(0);
    expect(completions.map(code)).toEqual(['model_protocol']);
  });

  it('F27: a call whose input is no object is passed on: the session refuses it and informs the model', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    await clock.advance(0);
    held[0]?.answer({ content: [{ type: 'tool_use', id: 'a', name: 'b', input: [1] }] });
    await clock.advance(0);
    expect(completions).toMatchObject([{ response: { content: [{ input: [1] }] } }]);
  });

  it('F57: a lone surrogate does not leave the pool', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    await clock.advance(0);
    held[0]?.answer({ content: [{ type: 'text', text: 'a\ud83d' }] });
    await clock.advance(0);
    expect(completions).toMatchObject([
      { response: { content: [{ text: 'a\ufffd' }], stop_reason: null, usage: { input_tokens: 0, output_tokens: 0 } } },
    ]);
  });

  it('close cancels and reports running calls, and later calls are refused', async () => {
    const { pool, clock, held, completions } = stage();
    pool.call(call(1));
    pool.call(call(2));
    await clock.advance(0);
    await pool.close();
    expect(completions.map(code)).toEqual(['cancelled', 'cancelled']);
    expect(held.every((each) => each.context.signal.aborted)).toBe(true);
    pool.call(call(3));
    await clock.advance(0);
    expect(completions.map((completion) => completion.id)).toEqual([1, 2, 3]);
    expect(code(completions[2])).toBe('cancelled');
    await pool.close();
    expect(clock.pending).toBe(0);
  });
});

describe('drafts (P9)', () => {
  function drafted() {
    const clock = manualClock();
    const held: Held[] = [];
    const drafts: StreamDraft[] = [];
    const completions: ModelCompletion[] = [];
    const provider: ModelProvider = {
      name: 'held',
      generate: (request, context) =>
        new Promise((resolve, reject) => {
          held.push({ request, context, answer: (response) => resolve(response as ModelResponse), fail: reject });
        }),
    };
    const pool = createInPlacePool(
      provider,
      {
        completed: (list) => completions.push(...list),
        delta: (_id, _session, { draft }) => {
          if (draft !== undefined) drafts.push(draft);
        },
      },
      clock,
    );
    return { pool, clock, held, drafts, completions };
  }

  it('a call reports what is new once a second, wanted or not, and the rest with its failure', async () => {
    for (const wantsDeltas of [false, true]) {
      const { pool, clock, held, drafts, completions } = drafted();
      pool.call(call(1, { wantsDeltas }));
      await clock.advance(0);
      const { context, fail } = held[0] as Held;
      context.onUsage?.({ input_tokens: 9, output_tokens: 1 });
      context.onDelta({ type: 'thinking', text: 'hm ' });
      context.onDelta({ type: 'text', text: 'one ' });
      await clock.advance(DRAFT_INTERVAL_MS);
      expect(drafts).toEqual([
        {
          pieces: [
            { type: 'thinking', text: 'hm ' },
            { type: 'text', text: 'one ' },
          ],
          usage: { input_tokens: 9, output_tokens: 1 },
        },
      ]);
      await clock.advance(3 * DRAFT_INTERVAL_MS);
      expect(drafts).toHaveLength(1);
      context.onDelta({ type: 'text', text: 'tw\u{1F600}' });
      await clock.advance(DRAFT_INTERVAL_MS);
      expect(drafts[1]).toEqual({ pieces: [{ type: 'text', text: 'tw\u{1F600}' }] });
      context.onDelta({ type: 'text', text: 'three' });
      context.onUsage?.({ input_tokens: 9, output_tokens: 5 });
      fail(new Error('broken'));
      await clock.advance(0);
      expect(completions).toMatchObject([
        {
          id: 1,
          lost: { pieces: [{ type: 'text', text: 'three' }], usage: { input_tokens: 9, output_tokens: 5 } },
        },
      ]);
      expect(clock.pending).toBe(0);
    }
  });

  it('an answer has no draft left, and a short call reports none', async () => {
    const { pool, clock, held, drafts, completions } = drafted();
    pool.call(call(1));
    await clock.advance(0);
    held[0]?.context.onDelta({ type: 'text', text: 'x' });
    await clock.advance(DRAFT_INTERVAL_MS - 1);
    held[0]?.answer(RESPONSE);
    await clock.advance(DRAFT_INTERVAL_MS);
    expect(drafts).toEqual([]);
    expect(completions[0]).not.toHaveProperty('lost');
    expect(clock.pending).toBe(0);
  });

  it('all drafts together keep the beginning, and say once that there was more', async () => {
    const { pool, clock, held, drafts, completions } = drafted();
    pool.call(call(1));
    await clock.advance(0);
    const { context, fail } = held[0] as Held;
    for (let piece = 0; piece < 3; piece += 1) {
      context.onDelta({ type: 'text', text: String(piece).repeat(DRAFT_CHARACTERS_MAX - 10) });
      await clock.advance(DRAFT_INTERVAL_MS);
    }
    fail(new Error('broken'));
    await clock.advance(0);
    const texts = drafts.flatMap(({ pieces }) => pieces.map(({ text }) => text));
    expect(texts).toEqual(['0'.repeat(DRAFT_CHARACTERS_MAX - 10), '1'.repeat(10)]);
    expect(drafts.map(({ isCut }) => isCut)).toEqual([undefined, true]);
    expect(completions[0]).not.toHaveProperty('lost');
  });
});
