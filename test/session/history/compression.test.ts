/**
 * Compression in the pure core: when it begins, and how it changes a conversation. If it ends without a summary, the
 * conversation stays unchanged. There is no model here: the test answers with a summary.
 */
import { describe, expect, it } from 'vitest';
import { KEPT_RESULT_CHARACTERS_MAX } from '../../../src/base/bounds.ts';
import { isThought } from '../../../src/base/messages.ts';
import { checkRequest } from '../../../src/context/legality/legality.ts';
import { renderMessages } from '../../../src/context/render.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import {
  call,
  environmentOf,
  FATAL,
  Machine,
  OVERFLOW,
  startedSession,
  transientError,
  type WorldOptions,
} from '../../support/session-kit.ts';

const OPTIONS = { timestamps: false, deliveriesAsText: false };

/** A session with a number of finished turns: `ask n`, `answer n`. */
function talked(turns: number, options: WorldOptions = {}): Machine {
  const machine = startedSession({ compression: {}, ...options });
  for (let turn = 1; turn <= turns; turn += 1) {
    machine.send(`ask ${turn}`);
    machine.answer(`answer ${turn}`);
  }
  return machine;
}

/** The conversation in short form: role and text. */
function shown(machine: Machine): readonly string[] {
  return historyMessages(machine.state).map(({ role, content }) => `${role} ${String(content)}`);
}

function isCompacting(machine: Machine): boolean {
  return machine.state.current?.compaction !== undefined;
}

/** Fails unless the API would accept the conversation with another user message at the end. */
function expectLegal(machine: Machine): void {
  const messages = renderMessages(machine.state.messages, OPTIONS, true, machine.state.thoughtFloor);
  const body = {
    model: 'claude-opus-4-6',
    max_tokens: 1,
    messages: messages.at(-1)?.role === 'user' ? messages : [...messages, { role: 'user', content: 'go on' }],
    tools: [{ name: 'any', description: '', input_schema: { type: 'object' } }],
  };
  expect(checkRequest(body)).toEqual([]);
}

/** Fails unless a replay of the log and a restored snapshot give the same state. */
function expectReplayed(machine: Machine): void {
  expect(Machine.replayed(machine.world, machine.state.id, machine.turns).state).toEqual(machine.state);
  expect(restoreState(snapshotState(machine.state))).toEqual(machine.state);
}

describe('when a conversation is compressed', () => {
  it('H53: at the bound of messages, at the next claim and not earlier', () => {
    const machine = talked(5);
    machine.send('ask 6');
    expect(isCompacting(machine)).toBe(false);
    machine.answer('answer 6');
    machine.send('ask 7');
    expect(isCompacting(machine)).toBe(true);
    expect(machine.state.state).toBe('awaiting');
    expect(machine.waiting).toEqual(['ask 7']);
    expect(machine.effect('callModel')).toEqual({ type: 'callModel', halfStep: machine.halfStep, attempt: 1 });
    expect(machine.state.turn).toBeUndefined();
  });

  it('H53: at the bound of tokens, as counted by the API, unless less than a tenth would be saved', () => {
    const usage = { input_tokens: 700, output_tokens: 100, cache_read_input_tokens: 250 };
    for (const [targetTokens, expected] of [
      [900, true],
      [1_000, false],
    ] as const) {
      const machine = talked(4, { compression: { messages: 1_000, tokens: 1_050, targetTokens } });
      machine.send('ask 5');
      machine.answer('answer 5', { usage });
      machine.send('ask 6');
      expect(isCompacting(machine)).toBe(expected);
    }
  });

  it('H53: never if it is off, and in a child only when forced', () => {
    const off = startedSession({ settings: {} });
    for (let turn = 0; turn < 30; turn += 1) {
      off.send('ask');
      off.answer('answer');
    }
    expect(off.records.some((record) => record.type === 'compacting')).toBe(false);
    off.input({ type: 'compress', force: true });
    expect(off.effect('result')?.value).toEqual({ compressed: false, reason: 'disabled' });
    const child = talked(10, { compression: { isAutomatic: false } });
    expect(child.records.some((record) => record.type === 'compacting')).toBe(false);
    child.input({ type: 'compress', force: false });
    expect(child.effect('result')?.value).toEqual({ compressed: false, reason: 'not_needed' });
    child.input({ type: 'compress', force: true });
    expect(isCompacting(child)).toBe(true);
  });

  it('not on demand once the budget of the session is used up', () => {
    const machine = talked(10, { compression: { isAutomatic: false } });
    machine.input({ type: 'setBudget', tokens: 1 });
    machine.input({ type: 'compress', force: true });
    expect(machine.effect('refused')?.error).toMatchObject({ code: 'limit', data: { limit: 'budget', budget: 1 } });
    expect(isCompacting(machine)).toBe(false);
    machine.input({ type: 'setBudget', tokens: 1_000_000 });
    machine.input({ type: 'compress', force: true });
    expect(isCompacting(machine)).toBe(true);
  });

  it('H53: if forced, only above the lower bounds of messages and of tokens', () => {
    const bounds = { messages: 1_000, idleMinMessages: 6, idleMinTokens: 30 };
    const few = talked(3, { compression: bounds });
    few.input({ type: 'compress', force: true });
    expect(few.effect('result')?.value).toEqual({ compressed: false, reason: 'not_needed' });
    const light = talked(4, { compression: { ...bounds, idleMinTokens: 10_000 } });
    light.input({ type: 'compress', force: true });
    expect(light.effect('result')?.value).toEqual({ compressed: false, reason: 'not_needed' });
    const enough = talked(4, { compression: bounds });
    enough.input({ type: 'compress', force: true });
    expect(enough.effect('result')?.value).toEqual({ started: enough.halfStep });
    enough.input({ type: 'compress', force: true });
    expect(enough.effect('result')?.value).toEqual({ compressed: false, reason: 'busy' });
  });

  it('a session with working compression evicts nothing; after a failed compression it evicts', () => {
    const machine = talked(6, { tokenBudget: 20 });
    expect(machine.events('eviction')).toEqual([]);
    machine.send('ask 7');
    machine.fail(FATAL);
    expect(machine.events('compaction.failed')).toHaveLength(1);
    expect(machine.events('eviction')).toHaveLength(1);
    expect(machine.state.current).toMatchObject({ attempt: 1 });
    expect(machine.log.at(-1)).toBe('user_message ask 7');
  });
});

describe('effects of a compression', () => {
  it('H54: a summary replaces old messages, the newest stay unchanged, and then the waiting turn starts', () => {
    const machine = talked(6);
    machine.send('ask 7');
    machine.answer('what was said', { usage: { input_tokens: 7, output_tokens: 3 } });
    const recent = ['user ask 5', 'assistant answer 5', 'user ask 6', 'assistant answer 6'];
    expect(shown(machine).slice(0, 5)).toEqual(['assistant what was said', ...recent]);
    expect(historyMessages(machine.state)[0]).toMatchObject({ compressedSummary: true, chunkPath: 'CHUNK-1' });
    expect(machine.log.at(-1)).toBe('user_message ask 7');
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: 7, usage: { input_tokens: 0 } } });
    expect(machine.state.usage.input_tokens).toBe(6 * 10 + 7);
    expect(machine.state.hidden.map((message) => message.content)).toEqual([
      'ask 1',
      'answer 1',
      'ask 2',
      'answer 2',
      'ask 3',
      'answer 3',
      'ask 4',
      'answer 4',
    ]);
    const [applied] = machine.events('compaction.applied');
    expect(applied).toMatchObject({ number: 1, level: 1, chunk: 1, archived: [1, 2, 3, 4, 5, 6, 7, 8] });
    expect(machine.events('message.created').some(({ message }) => message.content === 'what was said')).toBe(false);
    expectLegal(machine);
    machine.answer('answer 7');
    expectReplayed(machine);
  });

  it('H54: system messages stay one at the head, whatever the kept messages hold', () => {
    const machine = talked(5);
    const message = { id: 'sys', createdAt: 1, role: 'system', content: 'Be brief.' } as const;
    machine.turns.push({
      at: machine.world.now,
      records: [{ type: 'edited', operation: 'set', added: [{ message, after: 0 }] }],
    });
    const again = Machine.replayed(machine.world, 's', machine.turns);
    again.send('ask 6');
    again.answer('answer 6');
    again.send('ask 7');
    again.answer('summary');
    const roles = historyMessages(again.state).map(({ role }) => role);
    expect(roles.filter((role) => role === 'system')).toHaveLength(1);
    expect(roles.slice(0, 2)).toEqual(['system', 'assistant']);
    expect(again.state.promptCount).toBe(1);
    expectLegal(again);
  });

  it('H54: kept tool rounds stay whole, and a compression between two rounds takes the results along', () => {
    const machine = startedSession({ compression: { messages: 8, keepRecent: 3 }, sent: 'go' });
    for (let round = 1; round <= 4; round += 1) {
      const ids = [`a${round}`, `b${round}`];
      machine.answer(ids.map((id) => call(id, 'bash')));
      for (const id of ids) machine.finish(id, `result ${id}`);
      if (isCompacting(machine)) break;
    }
    expect(machine.state.mailbox).toEqual([]);
    const round = machine.state.turn?.id;
    machine.answer('so far');
    expect(machine.state).toMatchObject({ state: 'awaiting', turn: { id: round } });
    expect(isCompacting(machine)).toBe(false);
    expect(shown(machine)).toEqual(['assistant so far', 'assistant ', 'tool result a3', 'tool result b3']);
    expectLegal(machine);
    machine.answer('done');
    expect(machine.events('turn.finished')).toHaveLength(1);
    expectReplayed(machine);
  });

  it('H54, R20: the parts of a paused answer stay together, with all of its thoughts', () => {
    const machine = startedSession({ compression: { messages: 5, keepRecent: 1 }, sent: 'go' });
    machine.answer('one');
    machine.send('two');
    const thought = (name: string): unknown => ({ type: 'thinking', thinking: name, signature: name });
    machine.answer([thought('first'), { type: 'text', text: 'part one' }], { stop: 'pause_turn' });
    machine.answer([thought('second'), call('a', 'bash'), call('b', 'bash')]);
    machine.finish('a', 'A');
    machine.finish('b', 'B');
    expect(isCompacting(machine)).toBe(true);
    machine.answer('so far');
    const blocks = machine.state.messages.flatMap((message) => message.blocks ?? []);
    expect(blocks.filter(isThought).map((block) => (block as { readonly signature?: unknown }).signature)).toEqual([
      'first',
      'second',
    ]);
    machine.answer('done');
    expectReplayed(machine);
  });

  it('H54: a long result that the model has answered is shortened on code points; an unread one stays whole', () => {
    const machine = startedSession({ compression: { messages: 6, keepRecent: 4 }, sent: 'go' });
    const long = '😀'.repeat(KEPT_RESULT_CHARACTERS_MAX + 500);
    machine.answer('one');
    machine.send('two');
    machine.answer([call('a', 'bash')]);
    machine.finish('a', long);
    machine.answer([call('b', 'bash')]);
    machine.finish('b', long);
    expect(isCompacting(machine)).toBe(true);
    machine.answer('so far');
    const [first, second] = machine.state.messages.filter((message) => message.type === 'tool_response');
    const kept = '😀'.repeat(KEPT_RESULT_CHARACTERS_MAX);
    expect(first?.content).toBe(`${kept}\n[Shortened: the first 2000 of 2500 characters.]`);
    expect(second?.content).toBe(long);
    expect(historyMessages(machine.state).filter(({ role }) => role === 'tool')).toHaveLength(2);
    expect(machine.state.hidden.some((message) => message.content === long)).toBe(true);
    expectLegal(machine);
    machine.answer('done');
    expectReplayed(machine);
  });

  it('H54: a new summary replaces an earlier one and names its chunk', () => {
    const machine = talked(6);
    machine.send('ask 7');
    machine.answer('first summary');
    machine.answer('answer 7');
    for (let turn = 8; !isCompacting(machine); turn += 1) {
      machine.send(`ask ${turn}`);
      if (!isCompacting(machine)) machine.answer(`answer ${turn}`);
    }
    machine.answer('second summary');
    const summaries = historyMessages(machine.state).filter((message) => message.compressedSummary === true);
    expect(summaries).toMatchObject([{ content: 'second summary', chunkPath: 'CHUNK-2', earlierChunks: ['CHUNK-1'] }]);
    expect(machine.state.compression).toMatchObject({ number: 2, level: 2, chunk: 2 });
  });

  it('H56: right after a success no compression is needed, and the token count is the estimate again', () => {
    const machine = talked(6);
    machine.send('ask 7');
    machine.answer('summary');
    machine.answer('answer 7');
    machine.input({ type: 'compress', force: false });
    expect(machine.effect('result')?.value).toEqual({ compressed: false, reason: 'not_needed' });
    machine.send('ask 8');
    expect(isCompacting(machine)).toBe(false);
  });

  it('H56: if the kept messages alone exceed the bound, the compression is not repeated at every half-step', () => {
    const machine = startedSession({ compression: { messages: 1_000, tokens: 10, targetTokens: 1, keepRecent: 4 } });
    const made: number[] = [];
    for (let turn = 1; turn <= 12; turn += 1) {
      machine.send(`ask ${turn}, at some length`);
      if (isCompacting(machine)) {
        made.push(turn);
        machine.answer('a summary that is no shorter than what it sums up');
      }
      machine.answer(`answer ${turn}, at some length`);
    }
    expect(made.length).toBeGreaterThan(2);
    for (const [index, turn] of made.entries()) {
      // Two turns of two messages, and the index card between them.
      if (index > 0) expect(turn - (made[index - 1] ?? 0)).toBeGreaterThanOrEqual(2);
    }
  });
});

describe('endings of a compression without a summary', () => {
  /** A session during a compression, and its conversation before it. */
  function underWay(options: WorldOptions = {}): { readonly machine: Machine; readonly before: readonly string[] } {
    const machine = talked(6, options);
    const before = shown(machine);
    machine.send('ask 7');
    expect(isCompacting(machine)).toBe(true);
    return { machine, before };
  }

  function expectAsBefore(machine: Machine, before: readonly string[]): void {
    expect(shown(machine)).toEqual([...before, 'user ask 7']);
    expect(machine.state.compression).toMatchObject({ level: 0, chunk: 0, number: 0, hasFailed: true });
    expect(machine.state.hidden).toEqual([]);
    expect(machine.state.turn?.id).toBe(7);
    expect(isCompacting(machine)).toBe(false);
    machine.answer('answer 7');
    machine.send('ask 8');
    expect(isCompacting(machine)).toBe(false);
    expectReplayed(machine);
  }

  it.each([
    ['an error', (machine: Machine) => machine.fail(FATAL)],
    ['a blank summary', (machine: Machine) => machine.answer('  ')],
    ['nothing but topics', (machine: Machine) => machine.answer('<topics>a</topics>\n ')],
    ['a call', (machine: Machine) => machine.answer([{ type: 'text', text: 'so' }, call('x', 'bash')])],
    ['the limit of tokens', (machine: Machine) => machine.answer('half a summ', { stop: 'max_tokens' })],
    ['a refusal', (machine: Machine) => machine.answer('no', { stop: 'refusal' })],
  ])('H55: after %s history and level are as before, and the turn that waited begins', (_what, end) => {
    const { machine, before } = underWay();
    end(machine);
    expectAsBefore(machine, before);
  });

  it('H55: a transient error is retried, as for any call', () => {
    const { machine } = underWay();
    const { halfStep } = machine;
    machine.fail(transientError());
    expect(machine.effect('retryLater')).toMatchObject({ halfStep, attempt: 2 });
    machine.input({ type: 'retryDue', halfStep, attempt: 2 });
    expect(machine.effect('callModel')).toEqual({ type: 'callModel', halfStep, attempt: 2 });
    machine.answer('summary');
    expect(machine.state.compression).toMatchObject({ level: 1 });
  });

  it('H55: an interrupt leaves history and level unchanged, and cancels the turn that was to begin', () => {
    const { machine, before } = underWay();
    machine.input({ type: 'interrupt' });
    expect(machine.effect('cancelModel')).toBeDefined();
    expect(machine.effect('callModel')).toBeUndefined();
    expect(shown(machine)).toEqual([...before, 'user ask 7']);
    expect(machine.state).toMatchObject({ state: 'idle', interruptRequested: false, compression: { level: 0 } });
    expect(machine.events('turn.finished').at(-1)).toMatchObject({ reason: 'cancelled' });
    expectReplayed(machine);
  });

  it('H55: an interrupt between two rounds ends the turn as cancelled, and its results stay', () => {
    const machine = startedSession({ compression: { messages: 6, keepRecent: 2 }, sent: 'go' });
    for (let round = 1; !isCompacting(machine); round += 1) {
      machine.answer([call(`a${round}`, 'bash')]);
      machine.finish(`a${round}`, `result ${round}`);
    }
    const before = shown(machine);
    machine.input({ type: 'interrupt' });
    expect(shown(machine)).toEqual(before);
    expect(machine.state).toMatchObject({ state: 'idle', turn: undefined, openCalls: new Map() });
    expectLegal(machine);
    expectReplayed(machine);
  });

  it('a message that interrupts ends the compression and has the next turn', () => {
    const { machine } = underWay();
    machine.send('now', { deliver: 'interrupt' });
    expect(machine.log.at(-1)).toBe('user_message now');
    expect(machine.waiting).toEqual(['ask 7']);
    expect(isCompacting(machine)).toBe(false);
  });

  it('a completion of an abandoned compression is dropped', () => {
    const { machine } = underWay();
    const { halfStep } = machine;
    machine.input({ type: 'interrupt' });
    machine.input({
      type: 'answered',
      halfStep,
      content: [{ type: 'text', text: 'late' }],
      stop: 'end_turn',
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    expect(machine.last).toEqual([{ type: 'stale', what: 'answer' }]);
  });

  it('recovery makes the call again, and nothing is promoted twice', () => {
    const { machine } = underWay();
    const again = Machine.replayed(machine.world, 's', machine.turns);
    again.input({ type: 'recover' });
    expect(again.effect('callModel')).toEqual({ type: 'callModel', halfStep: machine.halfStep, attempt: 1 });
    again.answer('summary');
    expect(again.state.compression).toMatchObject({ level: 1 });
    expect(again.log.at(-1)).toBe('user_message ask 7');
  });

  it('a system function is evaluated again for the epoch that a compression opens', () => {
    const { machine } = underWay();
    machine.world.hasSystemFunction = true;
    machine.answer('summary');
    expect(machine.effect('evaluateSystem')).toEqual({ type: 'evaluateSystem', epoch: machine.state.epoch });
  });

  it('no compression between rounds while a model that binds its thoughts still needs them', () => {
    const machine = startedSession({ compression: { messages: 4, keepRecent: 1, bindsThinking: true }, sent: 'go' });
    for (let round = 1; round <= 4; round += 1) {
      machine.answer([{ type: 'thinking', thinking: 'hm', signature: 's' }, call(`a${round}`, 'bash')]);
      machine.finish(`a${round}`);
    }
    expect(machine.records.some((record) => record.type === 'compacting')).toBe(false);
    machine.answer('done');
    machine.send('next');
    expect(isCompacting(machine)).toBe(true);
  });
});

describe('a prompt that is too long', () => {
  it('H57: the last messages are withheld, the rest is summarised, and the call is repeated with them in full', () => {
    const machine = talked(5, { compression: { messages: 1_000 } });
    machine.send('ask 6');
    const { halfStep } = machine;
    machine.fail(OVERFLOW);
    expect(isCompacting(machine)).toBe(true);
    expect(machine.state.messages.at(-1)?.seq).toBe(machine.state.current?.compaction?.tail);
    machine.answer('summary');
    expect(machine.effect('callModel')).toEqual({ type: 'callModel', halfStep, attempt: 1 });
    expect(shown(machine)[0]).toBe('assistant summary');
    expect(shown(machine).at(-1)).toBe('user ask 6');
    expect(machine.state.turn?.id).toBe(6);
    expectLegal(machine);
    machine.answer('answer 6');
    expect(machine.events('turn.finished')).toHaveLength(6);
    expectReplayed(machine);
  });

  it('H57: this happens once per call: a second refusal fails the turn', () => {
    const machine = talked(5, { compression: { messages: 1_000 } });
    machine.send('ask 6');
    machine.fail(OVERFLOW);
    machine.answer('summary');
    machine.fail(OVERFLOW);
    expect(machine.events('turn.failed')).toHaveLength(1);
    expect(machine.state.state).toBe('idle');
  });

  it('H57: if the first compression fails, more is withheld; if both fail, the call fails with its own error', () => {
    const machine = talked(5, { compression: { messages: 1_000, keepRecent: 2 } });
    const before = shown(machine);
    machine.send('ask 6', { bounceBack: true });
    machine.fail(OVERFLOW);
    const first = machine.state.current?.compaction?.tail ?? 0;
    machine.fail({ ...OVERFLOW, message: 'prompt is too long: still' });
    const second = machine.state.current?.compaction?.tail ?? 0;
    expect(second).toBeLessThan(first);
    machine.fail(FATAL);
    expect(machine.state.state).toBe('idle');
    expect(machine.events('turn.failed')[0]?.error).toMatchObject({ message: OVERFLOW.message });
    expect(machine.events('bounce_back')).toHaveLength(1);
    expect(shown(machine)).toEqual(before);
    expectReplayed(machine);
  });

  it('H57: the cut is never between a call and its result', () => {
    const machine = talked(5, { compression: { messages: 1_000 } });
    machine.send('ask 6');
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    machine.finish('a');
    machine.finish('b');
    machine.fail(OVERFLOW);
    const tail = machine.state.messages.findIndex(({ seq }) => seq === machine.state.current?.compaction?.tail);
    expect(machine.state.messages.slice(tail).map(({ type }) => type)).toEqual([
      'tool_call',
      'tool_call',
      'tool_response',
      'tool_response',
    ]);
    machine.answer('summary');
    expectLegal(machine);
  });

  it('H57: without compression the turn fails at once, and so does any other refusal', () => {
    const off = startedSession({ sent: 'hello' });
    off.fail(OVERFLOW);
    expect(off.events('turn.failed')).toHaveLength(1);
    const on = talked(5, { compression: { messages: 1_000 } });
    on.send('ask 6');
    on.fail(FATAL);
    expect(on.events('turn.failed')).toHaveLength(1);
  });

  it('an interrupt during the recovery of a call cancels the turn', () => {
    const machine = talked(5, { compression: { messages: 1_000 } });
    machine.send('ask 6');
    machine.fail(OVERFLOW);
    machine.input({ type: 'interrupt' });
    expect(machine.state).toMatchObject({ state: 'idle', turn: undefined });
    expect(machine.events('turn.finished').at(-1)).toMatchObject({ reason: 'cancelled' });
    expectReplayed(machine);
  });
});

describe('chunks and their index card', () => {
  it('H58: numbers rise by one; one card precedes a user turn, and is replaced only when the number changes', () => {
    const machine = talked(6);
    const cards = (): readonly string[] =>
      historyMessages(machine.state).flatMap((message) =>
        message.chunkIndex === true ? [String(message.content)] : [],
      );
    machine.send('ask 7');
    machine.answer('<topics>weather, ships</topics>\nfirst');
    expect(cards()).toEqual([
      '[Archived parts of this conversation; the summary above covers them.]\nCHUNK-1 (8 messages): weather, ships',
    ]);
    expect(shown(machine)[0]).toBe('assistant first');
    machine.answer('answer 7');
    const { epoch } = machine.state;
    machine.send('ask 8');
    expect(cards()).toHaveLength(1);
    expect(machine.state.epoch).toBe(epoch);
    machine.answer('answer 8');
    let number = 1;
    for (let turn = 9; number < 3; turn += 1) {
      machine.send(`ask ${turn}`);
      if (isCompacting(machine)) {
        machine.answer(`summary of ${turn}`);
        number += 1;
        expect(machine.state.compression?.chunk).toBe(number);
        expect(cards()).toHaveLength(1);
        expect(cards()[0]).toContain(`CHUNK-${number} (`);
      }
      machine.answer(`answer ${turn}`);
    }
    expect(machine.state.compression?.notes.map((note) => note.number)).toEqual([1, 2, 3]);
    expectLegal(machine);
    expectReplayed(machine);
  });

  it('H58: injected messages and earlier summaries are not archived into chunks', () => {
    const machine = startedSession({ compression: { messages: 4, keepRecent: 1 }, sent: 'go' });
    machine.fail(FATAL);
    machine.send('more');
    machine.answer('answer');
    machine.send('on');
    expect(isCompacting(machine)).toBe(true);
    machine.answer('summary');
    const record = machine.records.find((each) => each.type === 'compacted');
    // The note of the failure is between them.
    expect(record).toMatchObject({
      archived: [[1, 3]],
      chunk: {
        messages: [
          [1, 1],
          [3, 3],
        ],
        messageCount: 2,
      },
    });
  });
});

it('two sessions are compressed at once without mixing their messages', () => {
  const machines = ['a', 'b'].map((name) => {
    const machine = new Machine(talked(0).world, name);
    machine.input({ type: 'create', agent: 'main' });
    for (let turn = 1; turn <= 6; turn += 1) {
      machine.send(`${name} ${turn}`);
      machine.answer(`${name} answer`);
    }
    machine.send(`${name} 7`);
    return machine;
  });
  for (const machine of machines) expect(isCompacting(machine)).toBe(true);
  for (const machine of machines) machine.answer(`summary of ${machine.state.id}`);
  expect(machines.map((machine) => shown(machine)[0])).toEqual(['assistant summary of a', 'assistant summary of b']);
  expect(environmentOf(machines[0]?.world ?? talked(0).world).agent.compression).toBeDefined();
});
