/**
 * Goal: a compressed conversation stays legal, keeps its tool rounds whole, and is the fold of its log. This holds for
 * any boundary, with or without a summary, and over a crash. Method: random lives of one session whose bounds are so
 * low that it is compressed all the time. A failing life prints its seed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compactionMessages } from '../../../src/context/compaction-request.ts';
import { checkRequest, fatalOf } from '../../../src/context/legality/legality.ts';
import { renderSession } from '../../../src/context/render.ts';
import type { RenderedMessage } from '../../../src/context/request-draft.ts';
import { RequestWindow } from '../../../src/context/request-window.ts';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../../src/session/state/state.ts';
import { TOOLS } from '../../support/session-kit.ts';
import { Life } from '../../support/session-life.ts';
import { type LifeOptions, lifeOptions, steps } from '../../support/session-steps.ts';

const own = Object.keys(TOOLS).map((name) => ({ name, description: name, input_schema: { type: 'object' } }));
const tools = [...own, { type: 'web_search_20250305', name: 'web_search' }];

const compressed: fc.Arbitrary<LifeOptions> = fc
  .tuple(
    lifeOptions,
    fc.record({
      messages: fc.constantFrom(3, 3, 6, 1_000),
      tokens: fc.constantFrom(40, 150_000),
      targetTokens: fc.constant(1),
      keepRecent: fc.constantFrom(1, 2, 4),
      idleMinMessages: fc.constant(2),
      isAutomatic: fc.constantFrom(true, true, true, false),
    }),
  )
  .map(([options, compression]) => ({ ...options, compression }));

function renderOptions(life: LifeOptions): { readonly timestamps: boolean; readonly deliveriesAsText: boolean } {
  return { timestamps: true, deliveriesAsText: life.thinks };
}

function expectLegal(messages: readonly RenderedMessage[], life: LifeOptions): void {
  const body = {
    model: 'claude-opus-4-6',
    max_tokens: 8_192,
    ...(life.thinks ? { thinking: { type: 'enabled', budget_tokens: 1_024 } } : {}),
    tools,
    messages,
  };
  // Whether the model's words at the end have paused is checked apart.
  expect(fatalOf(checkRequest(body, { isPausedTurn: () => true }))).toEqual([]);
}

/** Each call that is shown has its response in the log, and each call whose response is shown is shown as well. */
function expectWhole({ messages, hidden }: SessionState): void {
  const calls = new Map(
    messages.flatMap(({ type, toolUseId, seq }) => (type === 'tool_call' ? [[toolUseId, seq] as const] : [])),
  );
  const responses = messages.flatMap(({ type, toolUseId }) => (type === 'tool_response' ? [toolUseId] : []));
  const shown = new Set(responses);
  expect(responses.length).toBe(shown.size);
  for (const { type, toolUseId, seq } of hidden) {
    // The id of a call that is hidden with its response may be used again.
    const called = type === 'tool_response' ? (calls.get(toolUseId) ?? seq) : seq;
    if (called < seq) expect(shown.has(toolUseId)).toBe(true);
  }
  for (const id of shown) expect(calls.has(id)).toBe(true);
}

function expectSound(state: SessionState): void {
  expect(state.tokens, 'S6').toBe(state.messages.reduce((sum, message) => sum + message.tokens, 0));
  const every = [...state.messages, ...state.hidden];
  const calls = every.flatMap(({ type, toolUseId }) => (type === 'tool_call' ? [toolUseId] : []));
  expect([...state.callIds].sort(), 'ids of the calls').toEqual(calls.sort());
  expect(state.current !== undefined, 'S3').toBe(state.state === 'awaiting');
  const isForTurn = state.current?.compaction === undefined || state.current.compaction.returnsTo !== 'idle';
  expect(state.turn !== undefined, 'S3').toBe(state.state !== 'idle' && isForTurn);
  const chunks = state.compression?.notes.map(({ number }) => number) ?? [];
  expect(chunks, 'C3').toEqual(chunks.map((_chunk, index) => index + 1));
  expect(state.compression?.level ?? 0, 'C3').toBe(state.compactions.size);
}

describe('a session whose conversation is compressed again and again', () => {
  it('C1, S6: after every step it is sound and complete, and equals a second fold', () => {
    let compactions = 0;
    fc.assert(
      fc.property(compressed, steps(), (options, all) => {
        const { machine } = new Life(options, {
          stepped: ({ state }) => {
            expectSound(state);
            expectWhole(state);
          },
        }).live(all);
        const state = emptyState(machine.state.id);
        for (const turn of machine.turns) {
          applyAll(state, turn.records, turn.at);
          compactions += turn.records.filter((record) => record.type === 'compacted').length;
        }
        expect(state).toEqual(machine.state);
        expect(restoreState(snapshotState(state))).toEqual(state);
      }),
      { numRuns: 120 },
    );
    expect(compactions).toBeGreaterThan(20);
  });

  it('A8: every request, also for a summary, is legal and extends the answered request of its epoch', () => {
    let summaries = 0;
    fc.assert(
      fc.property(compressed, steps(), (options, all) => {
        let answered: { readonly turn: number; readonly epoch: number; readonly text: string }[] = [];
        let issued: string | undefined;
        new Life(options, {
          called: ({ state }) => {
            const compaction = state.current?.compaction;
            const rendering = renderOptions(options);
            const messages =
              compaction === undefined
                ? renderSession(state, rendering)
                : compactionMessages(state, compaction, rendering);
            expectLegal(messages, options);
            expect(messages.at(-1)?.role === 'user' || state.turn?.pauses !== 0).toBe(true);
            const text = JSON.stringify(messages);
            const before = answered.at(-1);
            if (before?.epoch === state.epoch && compaction?.tail === undefined) {
              expect(text.startsWith(before.text.slice(0, -1))).toBe(true);
            }
            if (compaction !== undefined) summaries += 1;
            issued = compaction === undefined ? text : undefined;
          },
          answered: ({ state, machine }) => {
            if (issued !== undefined) answered.push({ turn: machine.turns.length, epoch: state.epoch, text: issued });
          },
          reloaded: (_life, turnCount) => {
            answered = answered.filter(({ turn }) => turn < turnCount);
            issued = undefined;
          },
        }).live(all);
      }),
      { numRuns: 120 },
    );
    expect(summaries).toBeGreaterThan(60);
  });

  it('W1, W2: a mirror rebuilds each request, for a summary or not, from the difference', () => {
    fc.assert(
      fc.property(compressed, steps(), (options, all) => {
        const rendering = renderOptions(options);
        let window = new RequestWindow(rendering);
        let mirror: { epoch: number; messages: readonly RenderedMessage[] } = { epoch: 0, messages: [] };
        new Life(options, {
          called: ({ state }) => {
            const compaction = state.current?.compaction;
            const {
              epoch,
              keep,
              append,
              all: whole,
            } = compaction === undefined ? window.next(state) : window.forSummary(state, compaction);
            const expected =
              compaction === undefined
                ? renderSession(state, rendering)
                : compactionMessages(state, compaction, rendering);
            expect(whole()).toEqual(expected);
            const isHeld = keep > 0 && mirror.epoch === epoch && mirror.messages.length >= keep;
            mirror = { epoch, messages: isHeld ? [...mirror.messages.slice(0, keep), ...append] : whole() };
            expect(mirror.messages).toEqual(expected);
          },
          reloaded: () => {
            window = new RequestWindow(rendering);
          },
        }).live(all);
      }),
      { numRuns: 80 },
    );
  });

  it('I7, A10: reopened after any of its transitions it continues, and becomes idle', () => {
    fc.assert(
      fc.property(compressed, steps(), fc.nat(), (options, all, at) => {
        const life = new Life(options).live(all);
        const { turns } = life.machine;
        life.machine.turns.splice(1 + (at % turns.length));
        life.live([{ do: 'crash', loses: false }, { do: 'resume' }]);
        life.settle();
        expectSound(life.state);
        expectWhole(life.state);
      }),
      { numRuns: 80 },
    );
  });
});
