/** The pool of model calls with redaction (M1 to M5 of `redacted-models.ts`), over a pool that the test answers for. */
import { expect, test } from 'vitest';
import type { ModelCompletion, ModelPool, ModelPoolListener, StreamedDelta } from '../../../src/models/pool.ts';
import { redactedModels } from '../../../src/runtime/redaction/redacted-models.ts';
import { Redactor } from '../../../src/runtime/redaction/redactor.ts';
import redact from '../fixtures/redact-canary.ts';

function stage() {
  const deltas: (readonly [number, StreamedDelta])[] = [];
  const completed: ModelCompletion[] = [];
  const cancelled: number[] = [];
  let listener: ModelPoolListener | undefined;
  const inner: ModelPool = {
    call: () => undefined,
    holds: () => false,
    wantsDeltas: () => undefined,
    cancel: (id) => void cancelled.push(id),
    forget: () => undefined,
    close: () => Promise.resolve(),
  };
  const make = redactedModels(
    (given) => {
      listener = given;
      return inner;
    },
    new Redactor(redact, () => undefined),
  );
  const pool = make({
    completed: (list) => void completed.push(...list),
    delta: (id, _session, delta) => void deltas.push([id, delta]),
  });
  const call = (id: number, wantsDeltas = false): void =>
    pool.call({
      id,
      session: 's',
      context: { epoch: 1, keep: 0, append: [] },
      wantsDeltas,
      timeoutMs: 1_000,
      waitsForResume: false,
    });
  return {
    pool,
    deltas,
    completed,
    cancelled,
    call,
    draft: (id: number, pieces: readonly { readonly type: 'text' | 'thinking'; readonly text: string }[]) =>
      listener?.delta(id, 's', { type: 'text', text: '', draft: { pieces } }),
    complete: (completion: ModelCompletion) => listener?.completed([completion]),
  };
}

const CANCELLED = { name: 'CancelledError', code: 'cancelled', message: 'stopped at canary-4x' } as const;

test('M5: nothing of a cancelled call is held after its completion, and nothing of it is reported any more', () => {
  const { pool, deltas, completed, cancelled, call, draft, complete } = stage();
  call(1, true);
  draft(1, [
    { type: 'thinking', text: 'about canary-1x' },
    { type: 'text', text: 'it is cana' },
  ]);
  const reported = deltas.length;
  expect(reported).toBeGreaterThan(0);
  pool.cancel(1);
  expect(cancelled).toEqual([1]);
  complete({ id: 1, error: CANCELLED, ms: 1 });
  expect(completed).toEqual([
    { id: 1, error: { ...CANCELLED, message: 'stopped at [hidden]' }, ms: 1, lost: { pieces: [], isCut: true } },
  ]);
  draft(1, [{ type: 'thinking', text: 'ry-2x' }]);
  pool.wantsDeltas(1, true, true);
  expect(deltas).toHaveLength(reported);
});

test('M1: a reader that begins in the middle of a call gets the whole texts so far, redacted, and the rest once', () => {
  const { pool, deltas, call, draft, complete } = stage();
  call(1);
  draft(1, [{ type: 'thinking', text: 'about cana' }]);
  draft(1, [
    { type: 'thinking', text: 'ry-1x' },
    { type: 'text', text: 'it is canar' },
  ]);
  const before = deltas.length;
  pool.wantsDeltas(1, true, true);
  expect(deltas.slice(before)).toEqual([
    [1, { type: 'text', text: '', before: [{ type: 'thinking', text: 'about [hidden]' }] }],
  ]);
  const content = [
    { type: 'thinking', thinking: 'about canary-1x', signature: 's' },
    { type: 'text', text: 'it is canary-3x' },
  ] as const;
  const usage = { input_tokens: 1, output_tokens: 1 };
  complete({ id: 1, response: { content: [...content], stop_reason: 'end_turn', usage }, ms: 1 });
  expect(deltas.slice(before + 1)).toEqual([[1, { type: 'text', text: 'it is [hidden]' }]]);
  expect(JSON.stringify(deltas)).not.toContain('cana');
});

test('M4: a paused answer that changed ends its turn; an unchanged one, and one that has not paused, keep their stop', () => {
  const { completed, call, complete } = stage();
  const usage = { input_tokens: 1, output_tokens: 1 };
  const answer = (id: number, text: string, stop: string): void => {
    call(id);
    complete({ id, response: { content: [{ type: 'text', text }], stop_reason: stop, usage } as never, ms: 1 });
  };
  answer(1, 'looking for canary-1x', 'pause_turn');
  answer(2, 'looking', 'pause_turn');
  answer(3, 'canary-2x', 'max_tokens');
  expect(completed.map((each) => ('response' in each ? each.response.stop_reason : each.error.code))).toEqual([
    'end_turn',
    'pause_turn',
    'max_tokens',
  ]);
});

test('notes of the provider about an answer are redacted, except their paths', () => {
  const { completed, call, complete } = stage();
  call(1);
  const notes = [{ type: 'thinking_dropped', path: 'messages.1', why: 'of canary-1x' }];
  const response = { content: [], stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 1 } };
  complete({ id: 1, response: { ...response, input_transformations: notes } as never, ms: 1 });
  expect(completed).toMatchObject([
    { response: { input_transformations: [{ path: 'messages.1', why: 'of [hidden]' }] } },
  ]);
});
