import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { prefixOf, type RenderOptions, renderMessages } from '../../src/context/render.ts';
import type { RenderedMessage } from '../../src/context/request-draft.ts';
import { RequestWindow } from '../../src/context/request-window.ts';
import { call, executingSession, FATAL, startedSession, text, transientError } from '../support/session-kit.ts';
import { Life } from '../support/session-life.ts';
import { lifeOptions, steps } from '../support/session-steps.ts';

const PLAIN: RenderOptions = { timestamps: false, deliveriesAsText: false };

/** A model thread's mirror of the messages, built from `keep` and `append` alone. */
class Mirror {
  messages: readonly RenderedMessage[] = [];

  take(window: { readonly keep: number; readonly append: readonly RenderedMessage[] }): void {
    expect(window.keep).toBeLessThanOrEqual(this.messages.length);
    this.messages = [...this.messages.slice(0, window.keep), ...window.append];
  }
}

const renderOptions: fc.Arbitrary<RenderOptions> = fc.record({
  timestamps: fc.boolean(),
  deliveriesAsText: fc.boolean(),
});

describe('the request window', () => {
  it('W2: a half-step renders only its new messages; answered messages are kept', () => {
    const machine = startedSession({ sent: 'one' });
    const window = new RequestWindow(PLAIN);
    expect(window.next(machine.state)).toMatchObject({ epoch: 2, keep: 0, append: [{ role: 'user', content: 'one' }] });
    machine.answer('two');
    machine.send('three');
    expect(window.next(machine.state)).toMatchObject({
      keep: 1,
      append: [
        { role: 'assistant', content: [text('two')] },
        { role: 'user', content: 'three' },
      ],
    });
    machine.answer([call('a', 'bash')]);
    machine.finish('a', 'result');
    const third = window.next(machine.state);
    expect(third.keep).toBe(3);
    expect(third.append).toHaveLength(2);
    expect(third.all()).toHaveLength(5);
  });

  it('a retry asks for the same messages', () => {
    const machine = startedSession({ sent: 'one' });
    const window = new RequestWindow(PLAIN);
    const first = JSON.stringify(window.next(machine.state).all());
    machine.fail(transientError());
    machine.input({ type: 'retryDue', halfStep: 1, attempt: 2 });
    const second = window.next(machine.state);
    expect(JSON.stringify(second.all())).toBe(first);
    expect(second.keep).toBe(0);
  });

  it('a bounced message is gone from the next request', () => {
    const machine = startedSession({ sent: 'one' });
    const window = new RequestWindow(PLAIN);
    const mirror = new Mirror();
    mirror.take(window.next(machine.state));
    machine.answer([]);
    machine.send('bounces', { bounceBack: true });
    mirror.take(window.next(machine.state));
    machine.fail(FATAL);
    machine.send('two');
    mirror.take(window.next(machine.state));
    expect(mirror.messages).toEqual([
      { role: 'user', content: 'one' },
      { role: 'user', content: 'two' },
    ]);
  });

  it('a new epoch keeps nothing', () => {
    const machine = startedSession({ sent: 'one' });
    const window = new RequestWindow(PLAIN);
    window.next(machine.state);
    machine.answer('two');
    machine.world.fingerprint = 'other';
    machine.send('three');
    expect(window.next(machine.state)).toMatchObject({ epoch: 3, keep: 0 });
    expect(window.next(machine.state).append).toHaveLength(3);
  });

  it('the list of all messages stays unchanged when later requests are made', () => {
    const machine = startedSession({ sent: 'one' });
    const window = new RequestWindow(PLAIN);
    const first = window.next(machine.state);
    machine.answer('two');
    machine.send('three');
    window.next(machine.state);
    machine.answer('four');
    expect(first.all()).toEqual([{ role: 'user', content: 'one' }]);
  });

  it('the cost does not grow with the history: the sealed part is never rendered again', () => {
    const machine = executingSession({ a0: 'bash' });
    const window = new RequestWindow(PLAIN);
    let appended = 0;
    const rounds = 300;
    for (let round = 0; round < rounds; round += 1) {
      machine.finish(`a${round}`);
      appended += window.next(machine.state).append.length;
      machine.answer([call(`a${round + 1}`, 'bash')]);
    }
    // Two messages for each round, and the three opening messages once.
    expect(appended).toBe(2 * rounds + 1);
  });

  it('W1: a mirror fed by keep and append always equals a full rendering, across epochs, bounces and evictions', () => {
    fc.assert(
      fc.property(lifeOptions, steps(), renderOptions, (options, all, rendering) => {
        let window = new RequestWindow(rendering);
        let mirror = new Mirror();
        new Life(options, {
          called: ({ state }) => {
            const next = window.next(state);
            mirror.take(next);
            const whole = renderMessages(state.messages, rendering, true, state.thoughtFloor, prefixOf(state));
            expect(mirror.messages).toEqual(whole);
            expect(next.all()).toEqual(whole);
            expect(next.epoch).toBe(state.epoch);
          },
          reloaded: () => {
            window = new RequestWindow(rendering);
            mirror = new Mirror();
          },
        }).live(all);
      }),
      { numRuns: 120 },
    );
  });

  it('W1: requests made after any step also equal a full rendering', () => {
    fc.assert(
      fc.property(lifeOptions, steps(), renderOptions, (options, all, rendering) => {
        let window = new RequestWindow(rendering);
        new Life(options, {
          stepped: ({ state }) => {
            expect(window.next(state).all()).toEqual(
              renderMessages(state.messages, rendering, true, state.thoughtFloor, prefixOf(state)),
            );
          },
          reloaded: () => {
            window = new RequestWindow(rendering);
          },
        }).live(all);
      }),
      { numRuns: 200 },
    );
  });

  it('I10, A8, T5: within an epoch the next request begins with the answered one, message by message and byte for byte', () => {
    let compared = 0;
    fc.assert(
      fc.property(lifeOptions, steps(), renderOptions, (options, all, rendering) => {
        /** Answered requests, the oldest first; `turn`: the number of transitions journalled before the answer. */
        let answered: { readonly turn: number; readonly epoch: number; readonly messages: readonly string[] }[] = [];
        let issued: {
          readonly turn: number;
          readonly epoch: number;
          readonly halfStep: number;
          readonly messages: readonly string[];
        }[] = [];
        const request = (life: Life): readonly string[] =>
          renderMessages(life.state.messages, rendering, true, life.state.thoughtFloor, prefixOf(life.state)).map(
            (message) => JSON.stringify(message),
          );
        new Life(options, {
          called: (life, { halfStep }) => {
            const messages = request(life);
            const before = answered.at(-1);
            if (before?.epoch === life.state.epoch) {
              compared += 1;
              expect(messages.slice(0, before.messages.length)).toEqual(before.messages);
            }
            // A request issued again, after a failure or a restart, is the same, unless an epoch opened between.
            const { epoch } = life.state;
            const same = issued.find((earlier) => earlier.halfStep === halfStep && earlier.epoch === epoch);
            if (same !== undefined) expect(messages).toEqual(same.messages);
            issued.push({ turn: life.machine.turns.length - 1, epoch, halfStep, messages });
          },
          answered: (life) => {
            answered.push({ turn: life.machine.turns.length, epoch: life.state.epoch, messages: request(life) });
          },
          reloaded: (_life, turnCount) => {
            answered = answered.filter(({ turn }) => turn < turnCount);
            issued = issued.filter(({ turn }) => turn < turnCount);
          },
        }).live(all);
      }),
      { numRuns: 120 },
    );
    expect(compared).toBeGreaterThan(100);
  });
});
