/**
 * Goal: at every prefix of every log, crashes and children included, the next request is legal. Within an epoch the
 * bytes of an answered request are the beginning of the next (A8, I3, I10). Method: random lives of one session; their
 * logs are folded transition by transition, and rendered after each. A failing life prints its seed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defined } from '../../src/base/defined.ts';
import { isThought } from '../../src/base/messages.ts';
import { checkRequest, fatalOf } from '../../src/context/legality/legality.ts';
import { modelTraits } from '../../src/context/model-traits.ts';
import { prefixOf, renderMessages } from '../../src/context/render.ts';
import type { RenderedMessage } from '../../src/context/request-draft.ts';
import { systemPrompt } from '../../src/context/system-prompt.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import { encodeRequest } from '../../src/models/request-body.ts';
import { applyAll } from '../../src/session/apply/apply.ts';
import type { LoggedMessage } from '../../src/session/state/messages.ts';
import { emptyState, type SessionState } from '../../src/session/state/state.ts';
import { type ModelSetting, settingOf } from '../support/model-settings.ts';
import { TOOLS } from '../support/session-kit.ts';
import { Life } from '../support/session-life.ts';
import { lifeOptions, steps, withoutSearch } from '../support/session-steps.ts';

const tools: NonNullable<ModelRequest['tools']> = [
  ...Object.keys(TOOLS).map((name) => ({ name, description: name, input_schema: { type: 'object' } })),
  { type: 'web_search_20250305', name: 'web_search' },
];

function messagesOf(
  state: SessionState,
  { model, thinking }: ModelSetting,
  logged: readonly LoggedMessage[] = state.messages,
): readonly RenderedMessage[] {
  // Manual thinking forbids phantom pairs (R22), so deliveries are text for the whole epoch.
  const isManual = thinking?.type === 'enabled';
  const { bindsThinking } = modelTraits(model);
  const options = { timestamps: false, deliveriesAsText: isManual, callsNeedThought: isManual, bindsThinking };
  return renderMessages(logged, options, true, state.thoughtFloor, prefixOf(state));
}

/** The request as the provider gets it, its messages last, in the form that the API reads. */
function requestOf(state: SessionState, setting: ModelSetting, logged?: readonly LoggedMessage[]): ModelRequest {
  const system = systemPrompt(state, 'You are an agent.');
  return {
    model: setting.model,
    max_tokens: 8_192,
    ...defined({ thinking: setting.thinking }),
    tools,
    ...(system === undefined ? {} : { system }),
    messages: messagesOf(state, setting, logged),
  };
}

function goOn({ nextMessageSeq }: SessionState): LoggedMessage {
  return { seq: nextMessageSeq, at: 0, type: 'user_message', content: 'go on', tokens: 1 };
}

describe('the request of any session', () => {
  it('I3, A8, T5: at every prefix of the log the request is legal in its wire form', () => {
    let checked = 0;
    fc.assert(
      fc.property(lifeOptions, steps(), fc.nat(10_000), (options, all, draw) => {
        const setting = settingOf(draw, options.thinks);
        const { machine } = new Life(options).live(all);
        const state = emptyState(machine.state.id);
        for (const turn of machine.turns) {
          applyAll(state, turn.records, turn.at);
          const messages = messagesOf(state, setting);
          // If a prefix ends with a message of the model, a user message is added.
          const isAsked = messages.at(-1)?.role === 'user';
          const request = requestOf(state, setting, isAsked ? state.messages : [...state.messages, goOn(state)]);
          const wire: unknown = JSON.parse(encodeRequest(request));
          expect(fatalOf(checkRequest(wire))).toEqual([]);
          checked += 1;
        }
      }),
      { numRuns: 150 },
    );
    expect(checked).toBeGreaterThan(1_000);
  });

  it('I10, A8, T5: within an epoch the next request begins with the bytes of the answered one', () => {
    let compared = 0;
    fc.assert(
      fc.property(lifeOptions, steps(), fc.nat(10_000), (options, all, draw) => {
        const setting = settingOf(draw, options.thinks);
        // With manual thinking a model always thinks (R22), so an answer without a thought has no search either.
        const isThoughtless = setting.thinking?.type === 'enabled' && !options.thinks;
        interface Sent {
          readonly turn: number;
          readonly epoch: number;
          readonly bytes: string;
        }
        let answered: Sent[] = [];
        let issued: string | undefined;
        new Life(options, {
          called: ({ state }) => {
            const bytes = JSON.stringify(requestOf(state, setting));
            issued = bytes;
            const before = answered.at(-1);
            if (before?.epoch !== state.epoch) return;
            compared += 1;
            // The text without its two closing brackets.
            expect(bytes.startsWith(before.bytes.slice(0, -2))).toBe(true);
          },
          answered: ({ state, machine }) => {
            if (issued === undefined) return;
            answered.push({ turn: machine.turns.length, epoch: state.epoch, bytes: issued });
          },
          reloaded: (_life, turnCount) => {
            answered = answered.filter(({ turn }) => turn < turnCount);
            issued = undefined;
          },
        }).live(isThoughtless ? all.map(withoutSearch) : all);
      }),
      { numRuns: 300 },
    );
    expect(compared).toBeGreaterThan(100);
  });

  it('R21, T5: an answer whose thoughts are sent again follows the same bytes as the first time', () => {
    let compared = 0;
    fc.assert(
      fc.property(lifeOptions, steps(), (drawn, all) => {
        const options = { ...drawn, thinks: true };
        // If a function provides the system prompt, the model gets the text of the epoch.
        const sent = (state: SessionState): string => {
          const system = systemPrompt(state, options.hasSystemFunction ? undefined : 'You are an agent.');
          const rendered = renderMessages(
            state.messages,
            { timestamps: false, deliveriesAsText: false, bindsThinking: true },
            true,
            state.thoughtFloor,
            prefixOf(state),
          );
          return JSON.stringify([system ?? null, ...rendered]).slice(0, -1);
        };
        let given: { readonly turn: number; readonly seq: number; readonly bytes: string }[] = [];
        let issued: string | undefined;
        new Life(options, {
          called: ({ state }) => {
            issued = sent(state);
            for (const { seq, blocks } of state.messages) {
              if (seq < state.thoughtFloor || blocks?.some(isThought) !== true) continue;
              const before = given.findLast((each) => each.seq === seq);
              if (before === undefined) continue;
              compared += 1;
              expect(issued.startsWith(before.bytes)).toBe(true);
            }
          },
          answered: ({ state, machine }) => {
            if (issued === undefined || state.current?.compaction !== undefined) return;
            given.push({ turn: machine.turns.length, seq: state.nextMessageSeq, bytes: issued });
          },
          reloaded: (_life, turnCount) => {
            given = given.filter(({ turn }) => turn < turnCount);
            issued = undefined;
          },
        }).live(all);
      }),
      { numRuns: 300 },
    );
    expect(compared).toBeGreaterThan(100);
  });
});
