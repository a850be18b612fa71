/**
 * Goal: a history may be changed in any way at any moment of a session's life. Its state stays the fold of its log
 * (A10). Its calls are answered or being answered (S4, I4), and no accepted message is lost (A7). Its requests are
 * legal and byte-stable within their epoch (A8, I3). Method: random operations between random half-steps, tool rounds,
 * interrupts and crashes of one session. A failing run prints its seed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HistoryDraft } from '../../../src/base/history-message.ts';
import { checkRequest, fatalOf } from '../../../src/context/legality/legality.ts';
import { renderMessages } from '../../../src/context/render.ts';
import { RequestWindow } from '../../../src/context/request-window.ts';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { toApi } from '../../../src/session/history/to-api.ts';
import type { EditRequest } from '../../../src/session/state/edit-request.ts';
import { decodeTransition, encodeTransition } from '../../../src/session/state/records.ts';
import { restoreState, snapshotState } from '../../../src/session/state/snapshot.ts';
import type { SessionState } from '../../../src/session/state/state.ts';
import { call, Machine, makeWorld, text } from '../../support/session-kit.ts';

const OPTIONS = { timestamps: false, deliveriesAsText: false };
const TOOLS = [{ name: 'bash', description: 'Runs.', input_schema: { type: 'object' } }];

type Step =
  | { readonly do: 'edit'; readonly edit: (state: SessionState) => EditRequest; readonly key?: string }
  | { readonly do: 'send' | 'finish' | 'interrupt' | 'crash' | 'pause' | 'resume' | 'reopen' }
  | { readonly do: 'answer'; readonly calls: number; readonly says: boolean };

/** A session, and an outside world that answers its effects. */
class Story {
  readonly world = makeWorld({ tokenBudget: 2_000 });
  machine: Machine;
  window = new RequestWindow(OPTIONS);
  /** The bytes of the last answered request, by epoch. */
  answered: { readonly epoch: number; readonly messages: readonly string[] } | undefined;
  asked: readonly string[] = [];
  running = new Set<string>();
  count = 0;

  constructor() {
    this.machine = new Machine(this.world);
    this.machine.input({ type: 'create', agent: 'main' });
  }

  step(step: Step): void {
    const { machine } = this;
    const { state } = machine;
    this.count += 1;
    this.world.now += 7;
    switch (step.do) {
      case 'edit': {
        const request = step.edit(state);
        const before = state.eventSeq;
        const outcome = machine.input({ type: 'edit', request, ...(step.key === undefined ? {} : { key: step.key }) });
        const told = outcome.effects.filter(({ type }) => type === 'result' || type === 'refused');
        expect(told, 'one outcome').toHaveLength(1);
        if (outcome.records.length === 0) expect(state.eventSeq, 'nothing told of nothing').toBe(before);
        break;
      }
      case 'send':
        machine.send(`<${this.count}>`);
        break;
      case 'answer': {
        if (state.state !== 'awaiting') return;
        const epoch = state.epoch;
        const calls = Array.from({ length: step.calls }, (_, index) => call(`c${this.count}_${index}`, 'bash'));
        machine.answer(step.says || calls.length === 0 ? [text(`said ${this.count}`), ...calls] : calls);
        this.answered = { epoch, messages: this.asked };
        break;
      }
      case 'finish': {
        const [open] = state.openCalls.keys();
        if (open !== undefined) machine.finish(open, `of ${open}`);
        break;
      }
      case 'interrupt':
        machine.input({ type: 'interrupt' });
        break;
      case 'pause':
      case 'resume':
        machine.input({ type: step.do });
        break;
      case 'crash':
      case 'reopen':
        this.reopen(step.do === 'crash');
        break;
    }
    this.follow();
    this.check();
  }

  reopen(isCrash: boolean): void {
    const turns = this.machine.turns.map((turn) => decodeTransition(encodeTransition(turn)));
    const before = snapshotState(this.machine.state);
    this.machine = Machine.replayed(this.world, 's', turns);
    expect(snapshotState(this.machine.state), 'A10').toBe(before);
    this.window = new RequestWindow(OPTIONS);
    if (!isCrash) return;
    this.running.clear();
    this.machine.input({ type: 'recover' });
  }

  /** Runs the effects of the last step on the outside. */
  follow(): void {
    for (const effect of this.machine.last) {
      if (effect.type === 'runTool') this.running.add(effect.callId);
      if (effect.type === 'cancelTool') this.running.delete(effect.callId);
      if (effect.type === 'callModel') this.asked = this.request();
    }
    for (const id of [...this.running]) if (!this.machine.state.openCalls.has(id)) this.running.delete(id);
  }

  /** Checks that the request of a call is legal and extends the answered request of its epoch. */
  request(): readonly string[] {
    const { state } = this.machine;
    const messages = this.window.next(state).all();
    expect(messages, 'W1').toEqual(renderMessages(state.messages, OPTIONS, true, state.thoughtFloor));
    const body = { model: 'claude-opus-4-6', max_tokens: 10, tools: TOOLS, messages };
    expect(fatalOf(checkRequest(JSON.parse(JSON.stringify(body)))), 'I3').toEqual([]);
    const texts = messages.map((message) => JSON.stringify(message));
    if (this.answered?.epoch === state.epoch) {
      expect(texts.slice(0, this.answered.messages.length), 'A8').toEqual(this.answered.messages);
    }
    return texts;
  }

  check(): void {
    const { state } = this.machine;
    expect(state.current !== undefined, 'S3').toBe(state.state === 'awaiting');
    expect(state.turn !== undefined, 'S3').toBe(state.state !== 'idle');
    expect(state.tokens, 'S6').toBe(state.messages.reduce((sum, message) => sum + message.tokens, 0));
    const calls = state.messages.flatMap(({ type, toolUseId }) => (type === 'tool_call' ? [toolUseId] : []));
    expect([...state.callIds].sort()).toEqual([...calls].sort());
    expect(new Set(calls).size, 'R05').toBe(calls.length);
    expect(state.promptCount).toBe(state.messages.filter((message) => message.prompt === true).length);
    for (const id of state.openCalls.keys()) {
      expect(calls.includes(id), 'S4: an open call is in the window').toBe(true);
      const isAnswered = [...state.messages, ...state.mailbox].some(
        (each) => each.type === 'tool_response' && each.toolUseId === id,
      );
      expect(isAnswered, 'S4: an open call has no result').toBe(false);
    }
    if (state.openCalls.size > 0) expect(state.state, 'S4').toBe('executing');
    expect([...this.running].sort(), 'I4: each open call runs').toEqual([...state.openCalls.keys()].sort());
    if (state.state === 'executing' && !state.paused)
      expect(state.openCalls.size, 'a round nobody ends').toBeGreaterThan(0);
    const seqs = [...state.messages, ...state.hidden].map((message) => message.seq);
    expect(new Set(seqs).size, 'H2: no seq twice').toBe(seqs.length);
    const ids = historyMessages(state).map((message) => message.id);
    expect(new Set(ids).size, 'ids').toBe(ids.length);
    expect(restoreState(snapshotState(state)), 'A10').toStrictEqual(state);
  }

  /** Answers every open call, until the session is idle. */
  settle(): void {
    this.step({ do: 'resume' });
    for (let count = 0; this.machine.state.state !== 'idle'; count += 1) {
      expect(count, 'never at rest').toBeLessThan(300);
      this.step(this.machine.state.state === 'awaiting' ? { do: 'answer', calls: 0, says: true } : { do: 'finish' });
    }
    expect(this.machine.state.mailbox.filter((entry) => entry.kind === 'active')).toEqual([]);
    this.reopen(false);
  }
}

function pickId(state: SessionState, at: number): string {
  const messages = historyMessages(state);
  return messages[at % Math.max(1, messages.length)]?.id ?? 'nobody';
}

/** The id of a call in some message, or an id that no call has. */
function pickCall(state: SessionState, at: number): string {
  const calls = historyMessages(state).flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );
  return calls[at % Math.max(1, calls.length)]?.callId ?? 'nobody';
}

function drafts(): fc.Arbitrary<HistoryDraft> {
  const callId = fc.constantFrom('x', 'y', 'z.1', '');
  return fc.oneof(
    fc.record({
      role: fc.constant('user' as const),
      content: fc.constantFrom('hello', '', 'a longer text of the user'),
    }),
    fc.constant<HistoryDraft>({ role: 'system', content: 'be kind' }),
    fc.array(callId, { maxLength: 2 }).map(
      (ids): HistoryDraft => ({
        role: 'assistant',
        content: ids.length === 0 ? 'words' : '',
        toolCalls: ids.map((id) => ({ callId: id, name: 'ba sh', arguments: '{"a":1}' })),
      }),
    ),
    callId.map((id): HistoryDraft => ({ role: 'tool', toolCallId: id, name: 'bash', content: 'given' })),
    fc.constant<HistoryDraft>({
      role: 'assistant',
      content: 'thought',
      reasoning: [{ type: 'text', format: 'anthropic', text: 'hm', signature: 'c2ln' }],
    }),
  );
}

function edits(): fc.Arbitrary<(state: SessionState) => EditRequest> {
  const at = fc.nat(12);
  const one = drafts();
  return fc.oneof(
    { weight: 4, arbitrary: one.map((message) => () => ({ operation: 'append', message, silent: false }) as const) },
    { weight: 3, arbitrary: one.map((message) => () => ({ operation: 'add', message, silent: true }) as const) },
    {
      weight: 3,
      arbitrary: at.map((n) => (state: SessionState) => ({ operation: 'remove', id: pickId(state, n) }) as const),
    },
    {
      weight: 2,
      arbitrary: at.map(
        (n) => (state: SessionState) =>
          ({
            operation: 'add',
            silent: false,
            message: { role: 'tool', toolCallId: pickCall(state, n), name: 'bash', content: 'by hand' },
          }) as const,
      ),
    },
    {
      weight: 2,
      arbitrary: fc
        .tuple(
          at,
          fc.constantFrom(
            { content: 'changed' },
            { toolCalls: [] },
            { toolCalls: [{ callId: 'x', name: 'bash', arguments: '{}' }] },
          ),
        )
        .map(
          ([n, attributes]) =>
            (state: SessionState) =>
              ({ operation: 'update', id: pickId(state, n), attributes }) as const,
        ),
    },
    {
      weight: 1,
      arbitrary: fc.array(one, { maxLength: 5 }).map((messages) => () => ({ operation: 'set', messages }) as const),
    },
    {
      weight: 1,
      arbitrary: fc.array(one, { maxLength: 5 }).map((messages) => () => ({ operation: 'seed', messages }) as const),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom('unset', 'popLast', 'discardPendingToolCalls')
        .map((operation) => () => ({ operation }) as const),
    },
    { weight: 1, arbitrary: at.map((index) => () => ({ operation: 'truncateFrom', index }) as const) },
    {
      weight: 1,
      arbitrary: at.map(
        (n) => (state: SessionState) => ({ operation: 'rollbackBefore', id: pickId(state, n) }) as const,
      ),
    },
    {
      weight: 1,
      arbitrary: fc.tuple(at, at).map(
        ([a, b]) =>
          (state: SessionState) =>
            ({ operation: 'deleteWhere', ids: [pickId(state, a), pickId(state, b)], epoch: state.epoch }) as const,
      ),
    },
    {
      weight: 1,
      arbitrary: fc.constant(() => ({ operation: 'replaceSystemPrompt', text: 'new words', extra: {} }) as const),
    },
    { weight: 1, arbitrary: fc.constant(() => ({ operation: 'settleInterrupted', trails: {} }) as const) },
    { weight: 1, arbitrary: fc.constant(() => ({ operation: 'addExtensionEvent', event: { e: 1 } }) as const) },
    {
      weight: 1,
      arbitrary: at.map(
        (n) => (state: SessionState) =>
          ({ operation: 'attachToToolResult', callId: pickCall(state, n), key: 'trail', value: 1 }) as const,
      ),
    },
  );
}

function steps(): fc.Arbitrary<readonly Step[]> {
  return fc.array(
    fc.oneof(
      { weight: 5, arbitrary: edits().map((edit): Step => ({ do: 'edit', edit })) },
      {
        weight: 1,
        arbitrary: fc
          .tuple(edits(), fc.constantFrom('k1', 'k2'))
          .map(([edit, key]): Step => ({ do: 'edit', edit, key })),
      },
      { weight: 3, arbitrary: fc.constant<Step>({ do: 'send' }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('answer' as const), calls: fc.nat(2), says: fc.boolean() }) },
      { weight: 2, arbitrary: fc.constant<Step>({ do: 'finish' }) },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom('interrupt', 'crash', 'reopen', 'pause', 'resume')
          .map((name): Step => ({ do: name })),
      },
    ),
    { maxLength: 40 },
  );
}

describe('any session whose history is edited', () => {
  it('A7, A8, A10, I3, I4, S1-S6, H20, H43: all invariants hold after every step', () => {
    fc.assert(
      fc.property(steps(), (all) => {
        const story = new Story();
        for (const step of all) story.step(step);
        story.settle();
      }),
      { numRuns: 300 },
    );
  });

  it('H2: text added before the calls of an answer without text: each part has its number, the call its key', () => {
    const story = new Story();
    const { machine } = story;
    machine.send('go');
    machine.answer([call('a', 'bash'), call('b', 'bash')]);
    const open = [...machine.state.openCalls.values()];
    const said = machine.state.messages.at(-2)?.seq ?? 0;
    machine.replay({
      type: 'edited',
      operation: 'update',
      updated: [
        {
          seq: said,
          message: {
            role: 'assistant',
            id: `m${said}`,
            createdAt: 1,
            content: 'I look.',
            toolCalls: [
              { callId: 'a', name: 'bash', arguments: '{}' },
              { callId: 'b', name: 'bash', arguments: '{}' },
            ],
          },
        },
      ],
    });
    const parts = machine.state.messages.slice(-3).map(({ type, seq, toolUseId }) => [type, seq, toolUseId]);
    expect(parts).toEqual([
      ['agent_message', said, undefined],
      ['tool_call', said + 2, 'a'],
      ['tool_call', said + 1, 'b'],
    ]);
    expect([...machine.state.openCalls.values()]).toEqual(open);
  });

  it('H41, H42, H43: in the request form of any history each call has one result directly after it, and no other', () => {
    fc.assert(
      fc.property(steps(), (all) => {
        const story = new Story();
        for (const step of all) story.step(step);
        const messages = historyMessages(story.machine.state);
        const sent = toApi(messages);
        expect(JSON.stringify(toApi(messages))).toBe(JSON.stringify(sent));
        let owed: string[] = [];
        for (const message of sent) {
          if (message.role === 'tool') {
            const place = owed.indexOf(message.toolCallId ?? '');
            expect(place, 'a stray result').not.toBe(-1);
            owed.splice(place, 1);
            continue;
          }
          expect(owed, 'a call without a result').toEqual([]);
          owed = [...new Set((message.toolCalls ?? []).map(({ callId }) => callId))].filter((id) => id !== '');
        }
        expect(owed).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
