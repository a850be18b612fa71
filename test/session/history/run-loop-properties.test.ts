/**
 * Goal: a run can end after any verdicts at any time. A `once` call starts at most once, and continues at most once after
 * each answer to its server, a call runs only with its approval, and the state is the fold of the log. Method: random lives of one session with listeners, limits, approvals,
 * questions and guardrails, crashes included. A failing life prints its seed.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { historyMessages } from '../../../src/session/history/history-form.ts';
import { questionOf } from '../../../src/session/rules/waiting-calls.ts';
import type { EditRequest } from '../../../src/session/state/edit-request.ts';
import type { AgentFacts, Effect, ToolFacts } from '../../../src/session/state/inputs.ts';
import type { GuardVerdict, Unjudged } from '../../../src/session/state/verdicts.ts';
import { refolded, reopened, throughSnapshot } from '../../support/reopen.ts';
import { call, FATAL, type Machine, startedSession, TOOLS, text } from '../../support/session-kit.ts';

type Step =
  | { readonly do: 'send' | 'resume' | 'interrupt' | 'crash' | 'gate' }
  | { readonly do: 'next'; readonly which: number; readonly calls: number; readonly word: number }
  | { readonly do: 'approve'; readonly which: number; readonly allow: boolean }
  | { readonly do: 'edit'; readonly edit: Edit; readonly which: number };

type Edit = 'remove' | 'answer' | 'change' | 'uncall' | 'unset' | 'discard' | 'say';

interface Options {
  readonly isGated: boolean;
  readonly onInterrupt: 'keep' | 'fill';
  readonly maxSteps: number | undefined;
  readonly approval: 'none' | 'names' | 'function';
  readonly before: boolean;
  readonly after: boolean;
}

const options: fc.Arbitrary<Options> = fc.record({
  isGated: fc.boolean(),
  onInterrupt: fc.constantFrom('keep', 'fill'),
  maxSteps: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  approval: fc.constantFrom('none', 'names', 'function'),
  before: fc.boolean(),
  after: fc.boolean(),
});

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('send', 'resume', 'interrupt', 'crash', 'gate') }) },
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('next' as const),
        which: fc.nat(3),
        calls: fc.nat(3),
        word: fc.nat(5),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('approve' as const), which: fc.nat(3), allow: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('edit' as const),
        edit: fc.constantFrom<Edit>('remove', 'answer', 'change', 'uncall', 'unset', 'discard', 'say'),
        which: fc.nat(5),
      }),
    },
  ) as fc.Arbitrary<Step>,
  { maxLength: 30 },
);

const ASKING: ToolFacts = {
  effect: 'keyed',
  timeoutMs: 1_000,
  adjustableTimeout: false,
  isRuntimeTool: true,
  asks: { asked: 'human' },
};

function factsOf({ maxSteps, approval, before, after }: Options): Partial<AgentFacts> {
  return {
    guards: { before, after },
    tool: (name) => (name === 'ask_human' ? ASKING : TOOLS[name]),
    ...(maxSteps === undefined && approval === 'none' ? {} : { holdsCalls: true }),
    ...(maxSteps === undefined ? {} : { maxSteps }),
    ...(approval === 'none' ? {} : { approval: approval === 'names' ? new Set(['bash', 'ask_human']) : approval }),
  };
}

/** A session, and an outside world that answers its effects. */
class RunLife {
  machine: Machine;
  readonly #options: Options;
  /** The started calls by id, and the calls that an approval allowed. */
  readonly started = new Map<string, number>();
  readonly allowed = new Set<string>();
  /** Calls that were published as waiting for an approval. */
  readonly asked = new Set<string>();
  readonly #answered = new Set<Effect>();
  #seen = 0;
  #calls = 0;

  constructor(chosen: Options) {
    this.#options = chosen;
    const settings = { repair: { onInterrupt: chosen.onInterrupt } };
    this.machine = startedSession({ agent: factsOf(chosen), isGated: chosen.isGated, settings, sent: 'go' });
    this.#note();
  }

  get owed(): readonly Effect[] {
    return this.machine.effects.filter((effect) => isQuestion(effect) && !this.#answered.has(effect));
  }

  step(step: Step): void {
    switch (step.do) {
      case 'send':
        this.machine.send('more');
        break;
      case 'resume':
      case 'interrupt':
        this.machine.input({ type: step.do });
        break;
      case 'gate':
        this.machine.world.isGated = !this.machine.world.isGated;
        break;
      case 'crash':
        this.machine = reopened(this.machine);
        this.#seen = 0;
        break;
      case 'approve':
        this.#approve(step.which, step.allow);
        break;
      case 'edit': {
        const request = this.#editOf(step.edit, step.which);
        if (request !== undefined) this.machine.input({ type: 'edit', request });
        break;
      }
      case 'next': {
        const { owed } = this;
        const effect = owed[step.which % Math.max(1, owed.length)];
        if (effect !== undefined) this.#reply(effect, step.calls, step.word);
      }
    }
    this.#note();
  }

  /** Answers every open call, allows every call and resumes suspended runs, until nothing is left to do. */
  settle(): void {
    for (let count = 0; count < 500; count += 1) {
      const [effect] = this.owed;
      const { state } = this.machine;
      if (effect !== undefined) this.#reply(effect, 0, 0);
      else if ((state.approvals?.waiting.length ?? 0) > 0) this.#approve(0, true);
      else if (state.suspended !== undefined) this.machine.input({ type: 'resume' });
      else return;
      this.#note();
    }
    throw new Error(`not settled: ${this.machine.state.state}`);
  }

  /** An edit of one of the existing messages or calls, counted from the newest. */
  #editOf(edit: Edit, which: number): EditRequest | undefined {
    const messages = historyMessages(this.machine.state).toReversed();
    const message = messages[which % Math.max(1, messages.length)];
    const asking = messages.find((each) => each.role === 'assistant' && (each.toolCalls ?? []).length > 0);
    const calls = asking?.role === 'assistant' ? (asking.toolCalls ?? []) : [];
    const chosen = calls[which % Math.max(1, calls.length)];
    switch (edit) {
      case 'remove':
        return message === undefined ? undefined : { operation: 'remove', id: message.id };
      case 'unset':
        return { operation: 'unset' };
      case 'discard':
        return { operation: 'discardPendingToolCalls' };
      case 'say':
        return { operation: 'append', message: { role: 'user', content: 'by hand' }, silent: true };
      case 'answer': {
        if (chosen === undefined) return undefined;
        const { callId: toolCallId, name } = chosen;
        return { operation: 'add', message: { role: 'tool', toolCallId, name, content: 'by hand' }, silent: true };
      }
      case 'change':
      case 'uncall': {
        if (asking === undefined || chosen === undefined) return undefined;
        const changed = { ...chosen, arguments: `{"changed":${which}}` };
        const toolCalls = calls.flatMap((each) => (each !== chosen ? [each] : edit === 'change' ? [changed] : []));
        return {
          operation: 'update',
          id: asking.id,
          attributes: {
            toolCalls: toolCalls.map(({ callId, name, arguments: given }) => ({ callId, name, arguments: given })),
          },
        };
      }
    }
  }

  #approve(which: number, allow: boolean): void {
    const waiting = this.machine.state.approvals?.waiting ?? [];
    const callId = waiting[which % Math.max(1, waiting.length)] ?? 'nobody';
    const question = questionOf(this.machine.state, callId);
    if (question !== undefined) {
      const { id = callId } = question;
      const reply = allow ? { value: 'yes', fingerprint: 'yes' } : ({ declined: true } as const);
      this.machine.input({ type: 'answer', callId: id, reply });
      return;
    }
    if (allow && waiting.includes(callId)) this.allowed.add(callId);
    this.machine.input({ type: 'approve', callId, allow });
  }

  #reply(effect: Effect, calls: number, word: number): void {
    const { machine } = this;
    this.#answered.add(effect);
    if (effect.type === 'callModel') {
      if (machine.halfStep !== effect.halfStep) return;
      if (word === 5) machine.fail(FATAL);
      else machine.answer(this.#content(calls), word === 4 && calls === 0 ? { stop: 'pause_turn' } : {});
    } else if (effect.type === 'runTool') {
      const { callId } = effect;
      const elicitation = { server: 's', key: 'sure', state: 'x' };
      if (word !== 3) machine.finish(callId);
      else machine.input({ type: 'ask', callId, asked: 'human', question: 'Sure?', elicitation });
    } else if (effect.type === 'consult' && effect.on === 'boundary') {
      const { on, at, halfStep } = effect;
      const approve = effect.asksApproval ? [...machine.state.openCalls.keys()].slice(0, word) : [];
      const interrupt = effect.notifiesListeners && word === 3 ? { interrupt: { reason: 'stop' } } : {};
      if (word === 5) machine.input({ type: 'verdict', on, at, halfStep, verdict: { error: FATAL } });
      else machine.input({ type: 'verdict', on, at, halfStep, verdict: { approve, ...interrupt } });
    } else if (effect.type === 'consult') {
      const verdict = guardVerdict(word);
      if (effect.on === 'request')
        machine.input({ type: 'verdict', on: 'request', halfStep: effect.halfStep, verdict });
      else machine.input({ ...effect, type: 'verdict', verdict });
    }
  }

  #content(calls: number): readonly unknown[] {
    const uses = Array.from({ length: calls }, () => {
      this.#calls += 1;
      const name = ['bash', 'read_file', 'ask_human'][this.#calls % 3] ?? '';
      return call(`c${this.#calls}`, name, name === 'ask_human' ? { question: 'Really?' } : undefined);
    });
    return [text('words'), ...uses];
  }

  #note(): void {
    const { effects } = this.machine;
    const { state } = this.machine;
    for (const id of state.approvals?.waiting ?? []) if (questionOf(state, id) === undefined) this.asked.add(id);
    for (; this.#seen < effects.length; this.#seen += 1) {
      const effect = effects[this.#seen];
      if (effect?.type !== 'runTool') continue;
      expect(effect.name, 'a question runs').not.toBe('ask_human');
      const run = `${effect.callId}#${effect.elicited?.round ?? 0}`;
      if (effect.name === 'bash') this.started.set(run, (this.started.get(run) ?? 0) + 1);
      if (this.asked.has(effect.callId)) expect(this.allowed, 'ran without its person').toContain(effect.callId);
      if (this.#options.approval === 'names' && effect.name === 'bash') {
        expect(this.allowed, 'ran without its person').toContain(effect.callId);
      }
    }
  }
}

function isQuestion(effect: Effect): boolean {
  return ['callModel', 'runTool', 'consult'].includes(effect.type);
}

function guardVerdict(word: number): GuardVerdict<never> | Unjudged {
  if (word === 5) return { error: FATAL };
  return word === 4 ? { type: 'block', reason: 'no' } : { type: 'pass' };
}

function checkRunLoop(life: RunLife): void {
  const { state } = life.machine;
  expect(state.current !== undefined, 'S3').toBe(state.state === 'awaiting');
  expect(state.turn !== undefined, 'S3').toBe(state.state !== 'idle');
  if (state.openCalls.size > 0) expect(state.state === 'executing' || state.suspended !== undefined, 'S4').toBe(true);
  if (state.held !== undefined) expect(state.state).toBe('executing');
  if (state.suspended !== undefined) expect(state.state).toBe('idle');
  const calls = new Map(state.messages.flatMap((each) => (each.type === 'tool_call' ? [[each.toolUseId, each]] : [])));
  for (const { id, input } of state.openCalls.values()) {
    expect(calls.has(id), 'S4: an open call is in the window').toBe(true);
    const isAnswered = [...state.messages, ...state.mailbox].some(
      (each) => each.type === 'tool_response' && each.toolUseId === id,
    );
    expect(isAnswered, 'S4: an open call has no result').toBe(false);
    const isUnstarted = state.held !== undefined || state.suspended !== undefined;
    if (isUnstarted) expect(calls.get(id)?.input, 'E3').toEqual(input);
  }
  const isFilled = state.suspended !== undefined && life.machine.world.settings.repair.onInterrupt === 'fill';
  if (isFilled) expect(state.openCalls.size, 'nothing is pending').toBe(0);
  const isStuck = state.state === 'executing' && state.openCalls.size === 0 && state.held === undefined;
  expect(isStuck, 'a round nobody ends').toBe(false);
  const waiting = state.approvals?.waiting ?? [];
  for (const id of waiting) {
    expect(state.openCalls.has(id), 'waits and is not open').toBe(true);
    // A call whose server asks has begun, with an input that the history may no longer have.
    if (questionOf(state, id)?.elicitation === undefined)
      expect(calls.get(id)?.input, 'E2').toEqual(state.openCalls.get(id)?.input);
  }
  for (const { callId } of state.approvals?.questions ?? [])
    expect(waiting, 'asks and does not wait').toContain(callId);
  for (const [id, count] of life.started) expect(count, `${id} may happen once`).toBe(1);
  expect(refolded(life.machine).state).toEqual(state);
  expect(throughSnapshot(life.machine)).toEqual(state);
}

describe('any run with verdicts', () => {
  it('S3, S4, A7, I7: any run keeps its invariants after every step, and ends', { timeout: 120_000 }, () => {
    fc.assert(
      fc.property(options, steps, (chosen, all) => {
        const life = new RunLife(chosen);
        for (const step of all) {
          life.step(step);
          checkRunLoop(life);
        }
        life.settle();
        checkRunLoop(life);
        const { state, seen } = life.machine;
        expect(state.state).toBe('idle');
        expect(state.openCalls.size).toBe(0);
        expect(state.mailbox).toEqual([]);
        const accepted = seen.events.filter(
          ({ body }) => body.type === 'pending.created' && body.pending.type === 'user_message',
        );
        const settled = seen.settled.map(({ id }) => id);
        expect(new Set(settled).size, 'settled twice').toBe(settled.length);
        expect(settled.length, 'a receipt hangs').toBe(accepted.length);
      }),
      { numRuns: 300 },
    );
  });
});
