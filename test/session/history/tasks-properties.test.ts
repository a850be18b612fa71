/**
 * Goal: tasks may be begun, undone and returned to in any order, at rest or during a turn. The messages shown are those
 * of the active branch, the request is legal, and the state is the fold of its log. Method: random moves, compared with
 * a simple model. The model keeps only a list of the messages with their tasks and a map of parents. The seed of a
 * failing run is printed.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkRequest, fatalOf } from '../../../src/context/legality/legality.ts';
import { renderMessages } from '../../../src/context/render.ts';
import { applyAll } from '../../../src/session/apply/apply.ts';
import { snapshotState } from '../../../src/session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../../src/session/state/state.ts';
import { foldedAcrossSnapshot } from '../../support/reopen.ts';
import { brief, call, type Machine, startedSession } from '../../support/session-kit.ts';

type Move =
  | { readonly do: 'turn' | 'say' | 'answer' | 'call' | 'start' | 'undo' | 'fail' }
  | { readonly do: 'switch'; readonly which: number };

const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom<Move>({ do: 'turn' }, { do: 'turn' }, { do: 'say' }, { do: 'answer' }, { do: 'call' }),
    },
    { weight: 3, arbitrary: fc.constantFrom<Move>({ do: 'start' }, { do: 'undo' }, { do: 'fail' }) },
    { weight: 2, arbitrary: fc.nat(12).map((which): Move => ({ do: 'switch', which })) },
  ),
  { minLength: 1, maxLength: 60, size: 'max' },
);

/** The branches as specified: see the head of the file. */
class Model {
  readonly said: { readonly line: string; readonly task: number }[] = [];
  readonly parents = new Map<number, number>();
  current = 0;
  active = 0;
  isFresh = false;
  isRunning = false;
  wish: { readonly task: number; readonly isFresh: boolean } | undefined;

  begin(): void {
    this.isRunning = true;
    if (!this.isFresh) {
      this.current += 1;
      this.parents.set(this.current, this.active);
      this.active = this.current;
    }
    this.isFresh = false;
  }

  end(): void {
    this.isRunning = false;
    const { wish } = this;
    this.wish = undefined;
    if (wish !== undefined) this.go(wish.task, wish.isFresh);
  }

  say(line: string): void {
    this.said.push({ line, task: this.active });
  }

  get next(): number {
    return this.wish?.task ?? this.active;
  }

  go(task: number, isFresh: boolean): void {
    if (this.isRunning) this.wish = { task, isFresh };
    else {
      this.active = task;
      this.isFresh = isFresh;
    }
  }

  start(): void {
    const task = this.current + 1;
    this.parents.set(task, this.next);
    this.current = task;
    this.go(task, true);
  }

  get shown(): readonly string[] {
    const chain: number[] = [0];
    for (let task = this.active; task > 0; task = this.parents.get(task) ?? 0) chain.push(task);
    return this.said.filter(({ task }) => chain.includes(task)).map(({ line }) => line);
  }
}

/** Makes a move with the session and with the model. */
function move(machine: Machine, model: Model, step: Move, number: number): void {
  const { state } = machine;
  switch (step.do) {
    case 'turn':
      move(machine, model, { do: 'say' }, number);
      return move(machine, model, { do: 'answer' }, number);
    case 'say':
      if (state.state !== 'idle') return;
      machine.send(`say ${number}`);
      model.begin();
      return model.say(`user_message say ${number}`);
    case 'answer':
      if (state.state !== 'awaiting') return;
      machine.answer(`answer ${number}`);
      model.say(`agent_message answer ${number}`);
      return model.end();
    case 'call':
      if (state.state !== 'awaiting') return;
      // The id is the same each time: it must be unique within a branch, but another branch may have it as well.
      machine.answer([call('again', 'read_file')]);
      model.say('tool_call Calling read_file');
      machine.finish([...state.openCalls.keys()][0] ?? '', `result ${number}`);
      return model.say(`tool_response result ${number}`);
    case 'fail':
      if (state.state !== 'awaiting') return;
      machine.input({ type: 'interrupt' });
      return model.end();
    case 'start':
      machine.input({ type: 'startTask' });
      return model.start();
    case 'undo': {
      machine.input({ type: 'undo' });
      const from = model.next;
      if (from > 0) model.go(model.parents.get(from) ?? 0, false);
      return;
    }
    case 'switch':
      machine.input({ type: 'switchTask', id: step.which });
      if (step.which >= 1 && step.which <= model.current && step.which !== model.next) model.go(step.which, false);
      return;
  }
}

function checkState(state: SessionState): void {
  expect(state.tokens, 'S6').toBe(state.messages.reduce((sum, message) => sum + message.tokens, 0));
  const every = [...state.messages, ...state.hidden];
  const calls = every.flatMap((message) => (message.type === 'tool_call' ? [message.toolUseId] : []));
  expect(new Set(calls).size, 'R05').toBe(calls.length);
  expect([...state.callIds].sort(), 'V4').toEqual(calls.sort());
  const shown = new Set(state.messages.map(({ seq }) => seq));
  expect(
    state.hidden.some(({ seq }) => shown.has(seq)),
    'V1',
  ).toBe(false);
  const messages = renderMessages(state.messages, { timestamps: false, deliveriesAsText: false });
  const asked = messages.at(-1)?.role === 'user' ? messages : [...messages, { role: 'user', content: 'go on' }];
  const tools = [{ name: 'read_file', description: 'Reads.', input_schema: { type: 'object' } }];
  const body = { model: 'claude-opus-4-6', max_tokens: 1_024, tools, messages: asked };
  expect(fatalOf(checkRequest(JSON.parse(JSON.stringify(body)))), 'A8').toEqual([]);
}

it('H49: the shown branch matches an independent model after every move, and each request is legal', () => {
  let moved = 0;
  fc.assert(
    fc.property(moves, (all) => {
      const machine = startedSession();
      const model = new Model();
      for (const [number, step] of all.entries()) {
        move(machine, model, step, number);
        expect(machine.state.messages.map(brief)).toEqual(model.shown);
        expect(machine.state.tasks).toMatchObject({ current: model.current, active: model.active });
        checkState(machine.state);
        moved += machine.state.hidden.length > 0 ? 1 : 0;
      }
    }),
    { numRuns: 120 },
  );
  expect(moved, 'moves with something hidden').toBeGreaterThan(300);
});

it('A10: with tasks the state is the fold of its records, through their text and from any snapshot', () => {
  fc.assert(
    fc.property(moves, fc.nat(), (all, place) => {
      const machine = startedSession();
      const model = new Model();
      for (const [number, step] of all.entries()) move(machine, model, step, number);
      const folded = foldedAcrossSnapshot(machine, place);
      expect(folded).toStrictEqual(machine.state);
      expect(snapshotState(folded)).toBe(snapshotState(machine.state));
    }),
    { numRuns: 200 },
  );
});

it('A10: folded with the whole history, a log shows every message of every branch in the order it came', () => {
  fc.assert(
    fc.property(moves, (all) => {
      const machine = startedSession();
      const model = new Model();
      for (const [number, step] of all.entries()) move(machine, model, step, number);
      const folded = emptyState(machine.state.id);
      folded.keepsAll = true;
      for (const turn of machine.turns) applyAll(folded, turn.records, turn.at);
      expect(folded.messages.map(brief)).toEqual(model.said.map(({ line }) => line));
      expect(folded.hidden).toEqual([]);
    }),
    { numRuns: 100 },
  );
});
