/**
 * Random lives of one session, for property tests: what reaches it, in any order, and an outside that has been asked for
 * things and answers them, late, twice or never. A `Life` is the model those tests compare with: it knows which effects are
 * out, and nothing of how the core decides.
 */
import fc from 'fast-check';
import type { ContentBlock, Deliver } from '../../src/base/messages.ts';
import type { Effect } from '../../src/session/inputs.ts';
import type { Entry, RecordTurn } from '../../src/session/records.ts';
import type { SessionState } from '../../src/session/state.ts';
import { FATAL, Machine, makeWorld, transientError, UNAUTHORIZED, USAGE, type World } from './session-kit.ts';

/** Where an entry of a life comes from. */
export type EntryKind = 'user' | 'recall' | 'skill' | 'goal' | 'poison' | 'reply';

/** One thing that happens. Numbers choose among what there is, modulo its length. */
export type Step =
  | {
      readonly do: 'send';
      readonly kind: EntryKind;
      readonly deliver: Deliver;
      readonly bounceBack: boolean;
      readonly isBlocks: boolean;
      readonly pad: number;
    }
  | { readonly do: 'answer'; readonly blocks: readonly ContentBlock[]; readonly stop: string }
  | { readonly do: 'fail'; readonly how: 'transient' | 'fatal' | 'unauthorized' }
  | {
      readonly do:
        | 'retry'
        | 'interrupt'
        | 'pause'
        | 'resume'
        | 'wake'
        | 'heal'
        | 'reload'
        | 'mark'
        | 'childEnds'
        | 'newHeader'
        | 'stale';
    }
  | { readonly do: 'finish'; readonly which: number; readonly content: string; readonly success: boolean }
  | { readonly do: 'recall' | 'refine'; readonly which: number }
  | { readonly do: 'spawn'; readonly name: string; readonly byModel: boolean }
  | { readonly do: 'childSays'; readonly which: number }
  | { readonly do: 'system'; readonly isText: boolean }
  | { readonly do: 'crash'; readonly loses: boolean };

/** What a life is lived in. */
export interface LifeOptions {
  readonly isChild: boolean;
  readonly tokenBudget: number;
  readonly toolRounds: number;
  readonly hasSystemFunction: boolean;
  readonly resumeAwaiting: boolean;
  /** The model thinks: every answer starts with a thinking block. */
  readonly thinks: boolean;
}

const ENTRIES: Readonly<Record<EntryKind, Omit<Entry, 'content'>>> = {
  user: { type: 'user_message' },
  recall: { type: 'from_mneme', source: { type: 'recall', name: '12' } },
  skill: { type: 'from_melete_skill', source: { type: 'skill', name: 'git' } },
  goal: { type: 'from_melete_goal', source: { type: 'goal', name: '3' } },
  poison: { type: 'from_mneme', source: { type: 'recall', name: 'no number' } },
  reply: { type: 'subagent', source: { type: 'subagent', name: 'sleuth' } },
};

/** What every answer starts with under thinking, as the API's do. */
const THINKING: ContentBlock = { type: 'thinking', thinking: 'hm', signature: 'signed' };
const DELIVERS = ['ride', 'steer', 'turn', 'interrupt', 'merge', 'latest', 'reject'] as const;
const STOPS = ['end_turn', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence'] as const;

const textBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom('ok', 'fine \n', 'to @agent-1', ' ', '')
  .map((text) => [{ type: 'text', text }]);
const callBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .record({
    id: fc.constantFrom('a', 'b', 'toolu_1', 'from_sleuth_3', 'not legal', '', undefined),
    name: fc.constantFrom(
      'bash',
      'bash',
      'read_file',
      'charge',
      'deploy',
      'slow',
      'nope',
      'from_sleuth',
      'from_',
      'a b',
      '',
    ),
    input: fc.constantFrom({}, { timeout: 7 }, { a: [1] }, 'text', undefined),
  })
  .map((call) => [{ type: 'tool_use', ...call } as ContentBlock]);
const runtimeCall: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom('spawn_subagent', 'mark_goal_completed')
  .map((name) => [{ type: 'tool_use', id: 'r', name, input: {} }]);
const serverPair: fc.Arbitrary<readonly ContentBlock[]> = fc.constant([
  { type: 'server_tool_use', id: 'srv', name: 'web_search', input: {} },
  { type: 'web_search_tool_result', tool_use_id: 'srv', content: [] },
]);
/** Nothing a model says, or should: what the door must bear. */
const oddBlock: fc.Arbitrary<readonly ContentBlock[]> = fc
  .constantFrom<unknown>(null, 7, {}, { type: 'tool_result', tool_use_id: 'x' }, { type: 'thinking', thinking: 'cut' })
  .map((odd) => [odd as ContentBlock]);

function answers(): fc.Arbitrary<Step> {
  const any = fc.record({
    do: fc.constant('answer' as const),
    blocks: fc
      .array(
        fc.oneof(
          { arbitrary: textBlock, weight: 3 },
          { arbitrary: callBlock, weight: 5 },
          runtimeCall,
          serverPair,
          oddBlock,
        ),
        { maxLength: 4 },
      )
      .map((groups) => groups.flat()),
    stop: fc.constantFrom(...STOPS),
  });
  // What a paused turn holds goes back unchanged, so it holds nothing that could not be stored.
  const paused = fc.record({
    do: fc.constant('answer' as const),
    blocks: fc
      .array(fc.oneof(fc.constant<readonly ContentBlock[]>([{ type: 'text', text: 'so far ' }]), serverPair), {
        maxLength: 2,
      })
      .map((groups) => groups.flat()),
    stop: fc.constant('pause_turn'),
  });
  return fc.oneof({ arbitrary: any, weight: 5 }, { arbitrary: paused, weight: 1 });
}

const send: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('send' as const),
  kind: fc.oneof(
    { arbitrary: fc.constant('user' as const), weight: 6 },
    { arbitrary: fc.constantFrom<EntryKind>('recall', 'skill', 'goal', 'poison', 'reply'), weight: 3 },
  ),
  deliver: fc.oneof(fc.constant('ride' as const), fc.constantFrom(...DELIVERS)),
  bounceBack: fc.boolean(),
  isBlocks: fc.boolean(),
  pad: fc.constantFrom(0, 0, 40, 400),
});

/** The steps of a life. */
export function steps(): fc.Arbitrary<readonly Step[]> {
  const weighed = (
    weight: number,
    arbitrary: fc.Arbitrary<Step>,
  ): { weight: number; arbitrary: fc.Arbitrary<Step> } => ({
    weight,
    arbitrary,
  });
  const step = fc.oneof(
    weighed(10, send),
    weighed(18, answers()),
    weighed(
      18,
      fc.record({
        do: fc.constant('finish' as const),
        which: fc.nat(5),
        content: fc.constantFrom('result', '', ' ', '{"error":"no"}'),
        success: fc.boolean(),
      }),
    ),
    weighed(
      3,
      fc.record({
        do: fc.constant('fail' as const),
        how: fc.constantFrom('transient', 'transient', 'fatal', 'unauthorized'),
      }),
    ),
    weighed(4, fc.record({ do: fc.constantFrom('recall' as const, 'refine' as const), which: fc.nat(9) })),
    weighed(
      2,
      fc.record({
        do: fc.constant('spawn' as const),
        name: fc.constantFrom('', 'sleuth', 'Bad Name'),
        byModel: fc.boolean(),
      }),
    ),
    weighed(2, fc.record({ do: fc.constant('childSays' as const), which: fc.nat(3) })),
    weighed(2, fc.record({ do: fc.constant('system' as const), isText: fc.boolean() })),
    weighed(2, fc.record({ do: fc.constant('crash' as const), loses: fc.boolean() })),
    weighed(
      10,
      fc.record({
        do: fc.constantFrom(
          ...(['retry', 'retry', 'interrupt', 'pause', 'resume', 'resume', 'resume', 'wake', 'heal'] as const),
          ...(['reload', 'mark', 'mark', 'childEnds', 'newHeader', 'stale'] as const),
        ),
      }),
    ),
  );
  return fc.array(step, { minLength: 1, maxLength: 60, size: 'max' });
}

/** The circumstances of a life. */
export const lifeOptions: fc.Arbitrary<LifeOptions> = fc.record({
  isChild: fc.boolean(),
  tokenBudget: fc.constantFrom(60, 200, 120_000),
  toolRounds: fc.constantFrom(2, 250),
  hasSystemFunction: fc.boolean(),
  resumeAwaiting: fc.boolean(),
  thinks: fc.boolean(),
});

/** Effects the outside still owes an answer to. */
type Owed = Extract<Effect, { type: 'callModel' | 'evaluateSystem' | 'retryLater' | 'runTool' }>;

/** Who looks at a life while it is lived. */
export interface LifeWatcher {
  /** A model call was asked for; the state is the one the request is made from. */
  readonly called?: (life: Life, call: Extract<Effect, { type: 'callModel' }>) => void;
  /** The current half-step is being answered. */
  readonly answered?: (life: Life, halfStep: number, content: readonly ContentBlock[], stop: string) => void;
  /** The actor was dropped and read again; turns from `turnCount` on are lost. */
  readonly reloaded?: (life: Life, turnCount: number) => void;
  /** After each step. */
  readonly stepped?: (life: Life, step: Step) => void;
}

/** See the head of the file. */
export class Life {
  readonly world: World;
  machine: Machine;
  owed: Owed[] = [];
  readonly #watcher: LifeWatcher;
  readonly #thinks: boolean;
  #marker = 0;

  constructor(options: LifeOptions, watcher: LifeWatcher = {}) {
    this.world = makeWorld({
      tokenBudget: options.tokenBudget,
      toolRounds: options.toolRounds,
      hasSystemFunction: options.hasSystemFunction,
      settings: { recovery: { resumeAwaiting: options.resumeAwaiting } },
      limits: { depth: 3 },
      maxActiveChildren: 2,
    });
    this.#watcher = watcher;
    this.#thinks = options.thinks;
    this.machine = new Machine(this.world, options.isChild ? 'p:1' : 's');
    if (options.isChild) {
      const seed = {
        id: 'p:1',
        parent: 'p',
        agent: 'main',
        depth: 1,
        name: 'kid',
        prompt: 'You are kid.',
        replies: 'mailbox',
        task: 'dig',
      } as const;
      this.#input({ type: 'born', seed });
    } else {
      this.#input({ type: 'create', agent: 'main' });
    }
  }

  get state(): SessionState {
    return this.machine.state;
  }

  /** Lives through all steps. */
  live(all: readonly Step[]): this {
    for (const step of all) {
      this.world.now += 7;
      this.#step(step);
      this.#watcher.stepped?.(this, step);
    }
    return this;
  }

  /** The outside gives back what it owes, well, until it owes nothing. Throws when that takes more than `stepsMax`. */
  settle(stepsMax = 1_000): void {
    for (let count = 0; count < stepsMax; count += 1) {
      const owed = this.owed[0];
      if (owed === undefined) return;
      this.world.now += 7;
      if (owed.type === 'callModel') this.#answer([{ type: 'text', text: 'settled' }], 'end_turn');
      else if (owed.type === 'retryLater') this.#retry();
      else if (owed.type === 'evaluateSystem') this.#system(true);
      else this.#input({ type: 'toolFinished', callId: owed.callId, content: 'settled', success: true });
    }
    throw new Error(`not settled after ${stepsMax} answers: ${this.state.state}, ${JSON.stringify(this.owed)}`);
  }

  #step(step: Step): void {
    switch (step.do) {
      case 'send':
        return this.#send(step);
      case 'answer':
        this.#bringToCall();
        return this.#answer(step.blocks, step.stop);
      case 'fail':
        return this.#fail(step.how);
      case 'finish': {
        const calls = [...this.state.openCalls.keys()];
        const callId = calls[step.which % calls.length] ?? 'long-gone';
        return this.#input({ type: 'toolFinished', callId, content: step.content, success: step.success });
      }
      case 'recall':
        return this.#input({ type: 'recall', pendingId: this.state.mailbox[step.which]?.id ?? step.which });
      case 'refine':
        return this.#input({ type: 'refine', messageSeq: step.which, tokens: 3 });
      case 'spawn':
        return this.#spawn(step);
      case 'mark':
        this.#ask('mark_goal_completed');
        return this.#input({ type: 'markGoal', callId: this.#openCallOf('mark_goal_completed'), result: 'gold' });
      case 'childSays':
        return this.#input({
          type: 'subagentSaid',
          child: `${this.state.id}:${step.which}`,
          content: `<${++this.#marker}> said`,
        });
      case 'childEnds':
        return this.#input({ type: 'childExited', child: `${this.state.id}:1`, reason: 'completed' });
      case 'system':
        return this.#system(step.isText);
      case 'retry':
        return this.#retry();
      case 'heal':
        this.world.now += 100_000;
        return this.#input({ type: 'heal' });
      case 'newHeader':
        this.world.fingerprint = `header-${this.world.now}`;
        return;
      case 'stale':
        return this.#stale();
      case 'crash':
        return this.#reopen(this.machine.turns.length - (step.loses && this.machine.turns.length > 1 ? 1 : 0), true);
      case 'reload':
        return this.#reopen(this.machine.turns.length, false);
      case 'interrupt':
      case 'pause':
      case 'resume':
      case 'wake':
        return this.#input({ type: step.do });
    }
  }

  /** Does what stands before a model call, so that most answers of a life meet one. */
  #bringToCall(): void {
    if (this.state.state === 'idle' && !this.state.paused)
      this.#input({ type: 'send', entry: { type: 'user_message', content: `<${++this.#marker}>` }, bytes: 1 });
    this.#system(true);
    this.#retry();
  }

  /** The model asks for a tool of the runtime, if it can be asked now. */
  #ask(toolName: string): void {
    if (this.state.state !== 'awaiting') return;
    this.#bringToCall();
    this.#answer([{ type: 'tool_use', id: 'r', name: toolName, input: {} }], 'tool_use');
  }

  #send(step: Extract<Step, { do: 'send' }>): void {
    this.#marker += 1;
    const text = `<${this.#marker}>${'.'.repeat(step.pad)}`;
    const isUser = step.kind === 'user';
    const entry: Entry = {
      ...ENTRIES[step.kind],
      content: isUser && step.isBlocks ? [{ type: 'text', text }] : text,
      ...(isUser ? { deliver: step.deliver, bounceBack: step.bounceBack } : {}),
    };
    this.#input({ type: 'send', entry, bytes: text.length });
  }

  #answer(blocks: readonly ContentBlock[], stop: string): void {
    const call = this.owed.find((owed) => owed.type === 'callModel');
    const halfStep = call?.type === 'callModel' ? call.halfStep : 0;
    const content = this.#thinks ? [THINKING, ...blocks] : blocks;
    if (call !== undefined) this.#watcher.answered?.(this, halfStep, content, stop);
    this.owed = this.owed.filter((owed) => owed !== call);
    this.#input({ type: 'answered', halfStep, content, stop, usage: USAGE });
  }

  #fail(how: Extract<Step, { do: 'fail' }>['how']): void {
    const call = this.owed.find((owed) => owed.type === 'callModel');
    if (call?.type !== 'callModel') return;
    this.owed = this.owed.filter((owed) => owed !== call);
    const error = how === 'transient' ? transientError() : how === 'fatal' ? FATAL : UNAUTHORIZED;
    this.#input({ type: 'modelFailed', halfStep: call.halfStep, attempt: call.attempt, error });
  }

  #retry(): void {
    const retry = this.owed.find((owed) => owed.type === 'retryLater');
    if (retry?.type !== 'retryLater') return;
    this.owed = this.owed.filter((owed) => owed !== retry);
    this.world.now += retry.delayMs;
    this.#input({ type: 'retryDue', halfStep: retry.halfStep, attempt: retry.attempt });
  }

  #system(isText: boolean): void {
    const wish = this.owed.find((owed) => owed.type === 'evaluateSystem');
    if (wish?.type !== 'evaluateSystem') return;
    this.owed = this.owed.filter((owed) => owed !== wish);
    const { epoch } = wish;
    if (isText) this.#input({ type: 'systemEvaluated', epoch, text: `text of epoch ${epoch}` });
    else this.#input({ type: 'systemFailed', epoch, error: FATAL });
  }

  #spawn(step: Extract<Step, { do: 'spawn' }>): void {
    const name = step.name === '' ? {} : { name: step.name };
    if (step.byModel) this.#ask('spawn_subagent');
    const callId = step.byModel ? { callId: this.#openCallOf('spawn_subagent') } : {};
    this.#input({ type: 'spawn', request: { task: 'dig', replies: 'mailbox', ...name, ...callId } });
  }

  /** Completions of things that are over (A5): none of them may change anything. */
  #stale(): void {
    const before = this.machine.turns.length;
    const halfStep = this.state.current === undefined ? this.state.nextHalfStep - 1 : this.state.current.halfStep - 1;
    this.#input({
      type: 'answered',
      halfStep,
      content: [{ type: 'text', text: 'late' }],
      stop: 'end_turn',
      usage: USAGE,
    });
    this.#input({ type: 'modelFailed', halfStep, attempt: 1, error: FATAL });
    this.#input({ type: 'retryDue', halfStep, attempt: 2 });
    this.#input({ type: 'toolFinished', callId: 'long-gone', content: 'late', success: true });
    this.#input({ type: 'systemEvaluated', epoch: this.state.epoch - 1, text: 'late' });
    if (this.machine.turns.length !== before) throw new Error('A5: a late completion changed the session');
  }

  #openCallOf(toolName: string): string {
    for (const call of this.state.openCalls.values()) if (call.name === toolName) return call.id;
    return 'long-gone';
  }

  /** The process died, or only the actor was dropped: what is in memory is the fold of the first `turnCount` turns. */
  #reopen(turnCount: number, hasDied: boolean): void {
    const turns: readonly RecordTurn[] = this.machine.turns.slice(0, turnCount);
    this.machine = Machine.replayed(this.world, this.state.id, turns);
    this.#watcher.reloaded?.(this, turnCount);
    if (!hasDied) return;
    this.owed = [];
    this.#input({ type: 'recover' });
  }

  #input(input: Parameters<Machine['input']>[0]): void {
    this.machine.input(input);
    for (const effect of this.machine.last) {
      if (effect.type === 'cancelModel') {
        this.owed = this.owed.filter(
          (owed) => !((owed.type === 'callModel' || owed.type === 'retryLater') && owed.halfStep === effect.halfStep),
        );
      } else if (effect.type === 'cancelTool') {
        this.owed = this.owed.filter((owed) => !(owed.type === 'runTool' && owed.callId === effect.callId));
      } else if (effect.type === 'callModel') {
        this.owed.push(effect);
        this.#watcher.called?.(this, effect);
      } else if (effect.type === 'evaluateSystem' || effect.type === 'retryLater' || effect.type === 'runTool') {
        this.owed.push(effect);
      }
    }
    // A tool that was answered for, by its own result or by healing, is not waited for any more.
    this.owed = this.owed.filter((owed) => owed.type !== 'runTool' || this.state.openCalls.has(owed.callId));
  }
}
