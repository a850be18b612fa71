import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ContentBlock } from '../../src/base/messages.ts';
import { historyMessages } from '../../src/session/history/history-form.ts';
import { planEviction, viewport, windowBudget } from '../../src/session/rules/eviction.ts';
import type { LoggedMessage } from '../../src/session/state/messages.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import { estimateCall, estimateContent, estimateTokens } from '../../src/session/state/tokens.ts';
import { call, environmentOf, makeWorld, startedSession, text } from '../support/session-kit.ts';
import { Life } from '../support/session-life.ts';
import { lifeOptions, steps } from '../support/session-steps.ts';
import { Tree } from '../support/session-tree.ts';

function sized(...sizes: readonly number[]): readonly LoggedMessage[] {
  return sizes.map((tokens, index) => ({ seq: index + 1, at: 0, type: 'user_message', content: `${tokens}`, tokens }));
}

function sizes(messages: readonly LoggedMessage[]): readonly number[] {
  return messages.map((message) => message.tokens);
}

describe('the viewport', () => {
  it('F074: messages that fit the budget are in the window, oldest first', () => {
    expect(sizes(viewport(sized(10, 20, 30), 100))).toEqual([10, 20, 30]);
  });

  it('F075: the oldest messages are left out', () => {
    expect(sizes(viewport(sized(80, 60, 30), 100))).toEqual([60, 30]);
  });

  it('F075: the window is contiguous: nothing older than the first message that does not fit is included', () => {
    expect(sizes(viewport(sized(5, 90, 20), 100))).toEqual([20]);
  });

  it('F076: a sum equal to the budget fits', () => {
    expect(sizes(viewport(sized(30, 70), 100))).toEqual([30, 70]);
  });

  it('F077: the newest message is always in the window', () => {
    expect(sizes(viewport(sized(50, 200), 100))).toEqual([200]);
    expect(viewport([], 100)).toEqual([]);
  });

  it('F078: messages below the floor are removed from the state', () => {
    const machine = startedSession({ tokenBudget: 100 });
    for (let turn = 0; turn < 12; turn += 1) {
      machine.send('x'.repeat(80));
      machine.answer('ok');
    }
    expect(machine.state.floor).toBeGreaterThan(1);
    expect(machine.state.messages[0]?.seq).toBe(machine.state.floor);
    expect(machine.events('eviction').at(-1)).toEqual({ type: 'eviction', below: machine.state.floor });
  });

  it('F079: a child has only its own messages', () => {
    const tree = new Tree();
    tree.root.send('of the parent');
    expect(tree.spawn('dig').log).toEqual(['user_message dig']);
  });

  it('F087: the window may use the budget minus the part reserved for pins', () => {
    expect(windowBudget(120_000, 0.05)).toBe(114_000);
    expect(windowBudget(99, 0.05)).toBe(95);
    expect(windowBudget(100, 0)).toBe(100);
  });
});

describe('token estimates', () => {
  it('F080: four bytes are one token, rounded up; an empty text has none', () => {
    expect(estimateTokens('hello world')).toBe(3);
    expect(estimateTokens('a'.repeat(100))).toBe(25);
    expect(estimateTokens('')).toBe(0);
    expect(estimateTokens('ü')).toBe(1);
    expect(estimateTokens('üüü')).toBe(2);
  });

  it('F080: a call counts with the JSON of its whole payload, blocks with their JSON', () => {
    const payload =
      '{"type":"tool_call","tool_name":"bash","tool_use_id":"a","tool_input":{"x":1},"content":"Calling bash"}';
    expect(estimateCall({ id: 'a', name: 'bash', input: { x: 1 } })).toBe(Math.ceil(payload.length / 4));
    expect(estimateContent([text('hello')])).toBe(Math.ceil('[{"type":"text","text":"hello"}]'.length / 4));
  });

  it('F081: an edited message is counted again, and its update is published', () => {
    const machine = startedSession({ sent: 'hello' });
    machine.answer('ok');
    const [message] = historyMessages(machine.state);
    if (message === undefined) throw new Error('no message');
    const before = machine.state.tokens;
    machine.input({
      type: 'edit',
      request: { operation: 'update', id: message.id, attributes: { content: 'h'.repeat(36) } },
    });
    expect(machine.state.messages[0]?.tokens).toBe(9);
    expect(machine.state.tokens).toBe(before + 9 - estimateTokens('hello'));
    expect(machine.events('message.updated')[0]?.message).toMatchObject({ seq: 1, tokens: 9 });
  });
});

describe('eviction', () => {
  /** A session of `count` messages of a user and as many answers, 25 tokens each, under `tokenBudget`. */
  function conversation(count: number, tokenBudget: number): ReturnType<typeof startedSession> {
    const machine = startedSession();
    for (let turn = 0; turn < count; turn += 1) {
      machine.send('q'.repeat(100));
      machine.answer('a'.repeat(100));
    }
    machine.world.tokenBudget = tokenBudget;
    return machine;
  }

  it('decision 9: nothing is evicted while everything fits, the incoming message included', () => {
    const machine = conversation(4, 220);
    const environment = environmentOf(machine.world);
    expect(planEviction(machine.state, environment, 9)).toBeUndefined();
    expect(planEviction(machine.state, environment, 10)).toBe(3);
  });

  it('decision 9: a whole batch is evicted and opens an epoch; afterwards nothing is evicted for a while', () => {
    const machine = conversation(1, 1_000);
    const evictions = (): number => machine.events('eviction').length;
    const quiet: number[] = [];
    let last = machine.state.epoch;
    for (let turn = 1; turn < 60; turn += 1) {
      machine.send('q'.repeat(100));
      machine.answer('a'.repeat(100));
      expect(machine.state.messages[0]?.type).toBe('user_message');
      if (machine.state.epoch === last) continue;
      last = machine.state.epoch;
      quiet.push(turn);
    }
    expect(evictions()).toBe(quiet.length);
    // A batch of 330 tokens is 13 messages of 25, and the next message of a user is the 15th.
    expect(quiet.map((turn, index) => turn - (quiet[index - 1] ?? 0)).slice(1)).toEqual(quiet.slice(1).map(() => 7));
    expect(quiet.length).toBeGreaterThan(4);
  });

  it('Δ24: a call is not separated from its response, nor an answer from its calls', () => {
    const machine = startedSession();
    machine.send('q'.repeat(400));
    machine.answer([text('a'.repeat(400)), call('a', 'bash'), call('b', 'bash')]);
    machine.finish('b', 'r'.repeat(400));
    machine.finish('a', 'r'.repeat(400));
    machine.answer('done');
    for (let tokenBudget = 1; tokenBudget < 600; tokenBudget += 7) {
      machine.world.tokenBudget = tokenBudget;
      const below = planEviction(machine.state, environmentOf(machine.world), 1);
      // The window may be cut before the question, before the whole round, before the closing text, and behind
      // everything.
      expect([undefined, 2, 7, 8]).toContain(below);
    }
  });

  it('Δ24, R20: the parts of a paused answer are not separated', () => {
    const machine = startedSession();
    machine.send('q'.repeat(400));
    machine.answer([text('a'.repeat(400))], { stop: 'pause_turn' });
    machine.answer([text('b'.repeat(400)), call('a', 'bash')]);
    machine.finish('a', 'r'.repeat(400));
    machine.answer('done');
    const starts = machine.state.messages.filter(({ blocks }) => blocks !== undefined).map(({ seq }) => seq);
    expect(starts).toHaveLength(3);
    for (let tokenBudget = 1; tokenBudget < 600; tokenBudget += 7) {
      machine.world.tokenBudget = tokenBudget;
      // The second start continues the first.
      expect(planEviction(machine.state, environmentOf(machine.world), 1)).not.toBe(starts[1]);
    }
  });

  it('Δ24: a round whose results are still missing stays', () => {
    const machine = startedSession();
    machine.send('q'.repeat(400));
    machine.answer([call('a', 'bash')]);
    machine.world.tokenBudget = 10;
    expect(planEviction(machine.state, environmentOf(machine.world), 500)).toBe(2);
  });

  it('a user message far behind the cut does not evict the work before it', () => {
    const machine = startedSession({ sent: 'q'.repeat(40) });
    for (let round = 0; round < 20; round += 1) {
      machine.answer([call(`c${round}`, 'bash')]);
      if (round === 19) machine.send('late rider');
      machine.finish(`c${round}`, 'r'.repeat(400));
    }
    const total = machine.state.messages.reduce((sum, message) => sum + message.tokens, 0);
    machine.world.tokenBudget = Math.ceil(total / 0.95) - 10;
    const below = planEviction(machine.state, environmentOf(machine.world), 0) ?? 0;
    const kept = machine.state.messages.filter((message) => message.seq >= below);
    expect(kept.reduce((sum, message) => sum + message.tokens, 0)).toBeGreaterThan(total / 2);
  });

  it('a single message over the budget stays and opens no epoch by itself', () => {
    const machine = startedSession({ tokenBudget: 20 });
    machine.send('q'.repeat(4_000));
    expect(machine.log).toHaveLength(1);
    expect(machine.events('eviction')).toEqual([]);
    machine.answer([call('a', 'bash')]);
    const { epoch } = machine.state;
    machine.finish('a', 'r'.repeat(4_000));
    expect(machine.events('eviction')).toEqual([{ type: 'eviction', below: 2 }]);
    machine.answer([call('b', 'bash')]);
    expect(machine.state.epoch).toBe(epoch + 1);
  });

  it('F093: exactly at the budget nothing is evicted', () => {
    const machine = conversation(2, 100);
    const { mneme } = machine.world.settings;
    machine.world.settings = { ...machine.world.settings, mneme: { ...mneme, pinnedBudgetFraction: 0 } };
    expect(planEviction(machine.state, environmentOf(machine.world), 0)).toBeUndefined();
    expect(planEviction(machine.state, environmentOf(machine.world), 1)).toBeDefined();
  });

  /**
   * Indexes at which a window may begin, since no call is open there and no answer is divided. `length` means that
   * everything may leave.
   */
  /** True for the result of a provider's call that is in another answer. */
  function hasOthersResult(blocks: readonly ContentBlock[]): boolean {
    const uses = blocks.flatMap((block) => (block.type === 'server_tool_use' ? [block['id']] : []));
    return blocks.some((block) => block.type === 'web_search_tool_result' && !uses.includes(block['tool_use_id']));
  }

  function safeCuts(state: SessionState, mayEvictAll: boolean): readonly number[] {
    const cuts: number[] = [];
    const open = new Set<string | undefined>();
    for (const [index, message] of state.messages.entries()) {
      const before = state.messages[index - 1];
      const continues =
        message.blocks !== undefined &&
        ((before?.blocks ?? before?.inAnswer) !== undefined || hasOthersResult(message.blocks));
      if (open.size === 0 && message.inAnswer === undefined && !continues) cuts.push(index);
      if (message.type === 'tool_call') open.add(message.toolUseId);
      else if (message.type === 'tool_response') open.delete(message.toolUseId);
    }
    if (open.size === 0 && mayEvictAll) cuts.push(state.messages.length);
    return cuts;
  }

  it('after any events only whole rounds leave, the newest stays, and the window fits the budget if a cut allows it', () => {
    let evictions = 0;
    fc.assert(
      fc.property(
        lifeOptions,
        steps(),
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 0, max: 60 }),
        (options, all, tokenBudget, incoming) => {
          const { state } = new Life({ ...options, tokenBudget: 120_000 }).live(all);
          const below = planEviction(state, environmentOf(makeWorld({ tokenBudget })), incoming);
          const budget = windowBudget(tokenBudget, 0.05);
          const tokensFrom = (index: number): number =>
            state.messages.slice(index).reduce((sum, message) => sum + message.tokens, incoming);
          const cuts = safeCuts(state, incoming > 0).filter((index) => index > 0);
          if (below === undefined) {
            if (tokensFrom(0) <= budget) return;
            expect(
              cuts.filter((index) => tokensFrom(index) <= budget),
              'a cut was possible',
            ).toEqual([]);
            return;
          }
          evictions += 1;
          expect(tokensFrom(0)).toBeGreaterThan(budget);
          const index = state.messages.filter((message) => message.seq < below).length;
          expect(cuts, 'a safe place').toContain(index);
          if (incoming === 0) expect(state.messages.at(-1)?.seq).toBeGreaterThanOrEqual(below);
          if (cuts.some((cut) => tokensFrom(cut) <= budget)) expect(tokensFrom(index)).toBeLessThanOrEqual(budget);
        },
      ),
      { numRuns: 200 },
    );
    expect(evictions).toBeGreaterThan(50);
  });
});
