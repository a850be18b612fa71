/**
 * A session that runs random steps, and an outside world that answers its effects late, twice or never. Property tests
 * compare the session with a `Life`, which knows which effects are in flight but not how the core decides.
 */
import type { ErrorShape } from '../../src/base/errors.ts';
import type { ContentBlock } from '../../src/base/messages.ts';
import type { Effect } from '../../src/session/state/inputs.ts';
import type { Entry, TransitionRecords } from '../../src/session/state/records.ts';
import type { SessionState } from '../../src/session/state/state.ts';
import { FATAL, Machine, makeWorld, OVERFLOW, transientError, UNAUTHORIZED, USAGE, type World } from './session-kit.ts';
import { ENTRIES, type LifeOptions, OPEN_USE, type Step, THINKING } from './session-steps.ts';

/** Effects that the outside world has not answered yet. */
type Owed = Extract<
  Effect,
  { type: 'callModel' | 'evaluateSystem' | 'retryLater' | 'runTool' | 'restartTimer' | 'startEnricher' }
>;

/** Callbacks of a test that watches a life. */
export interface LifeWatcher {
  /** A model call was requested; its request is made from this state. */
  readonly called?: (life: Life, call: Extract<Effect, { type: 'callModel' }>) => void;
  /** The current half-step is being answered. */
  readonly answered?: (life: Life, halfStep: number, content: readonly ContentBlock[], stop: string) => void;
  /** Whether the request in flight holds this call of the provider; missing: it holds every call that waits. */
  readonly holds?: (id: string) => boolean;
  /** The actor was dropped and read again; transitions from `turnCount` on are lost. */
  readonly reloaded?: (life: Life, turnCount: number) => void;
  /** After each step. */
  readonly stepped?: (life: Life, step: Step) => void;
}

const NO_SUMMARY: ReadonlySet<string> = new Set(['max_tokens', 'refusal', 'pause_turn']);

/** The result of a call of the provider. */
function resultOf(id: string): ContentBlock {
  return { type: 'web_search_tool_result', tool_use_id: id, content: [] };
}

/** See the head of the file. */
export class Life {
  readonly world: World;
  machine: Machine;
  owed: Owed[] = [];
  readonly #watcher: LifeWatcher;
  readonly #thinks: boolean;
  readonly #supervision: LifeOptions['supervision'];
  #marker = 0;

  constructor(options: LifeOptions, watcher: LifeWatcher = {}) {
    this.world = makeWorld({
      tokenBudget: options.tokenBudget,
      toolRounds: options.toolRounds,
      hasSystemFunction: options.hasSystemFunction,
      settings: { recovery: { resumeAwaiting: options.resumeAwaiting } },
      limits: { depth: 3 },
      maxActiveChildren: 2,
      isSupervised: options.supervision !== 'none',
      ...(options.compression === undefined ? {} : { compression: options.compression }),
    });
    // The conversation of a sub-agent is never compressed.
    if (options.remembers === true && !options.isChild && options.compression === undefined) {
      this.world.agent = { enrichers: { mneme: { model: 'claude-haiku-4-5' } } };
    }
    this.#watcher = watcher;
    this.#thinks = options.thinks;
    this.#supervision = options.supervision;
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
      this.input({ type: 'born', seed });
    } else {
      this.input({ type: 'create', agent: 'main' });
    }
  }

  get state(): SessionState {
    return this.machine.state;
  }

  /** Runs all steps. */
  live(all: readonly Step[]): this {
    for (const step of all) {
      this.world.now += 7;
      this.#step(step);
      this.#watcher.stepped?.(this, step);
    }
    return this;
  }

  /**
   * The outside world answers all pending effects successfully, until none is left. Throws when that takes more than
   * `stepsMax`.
   */
  settle(stepsMax = 1_000): void {
    for (let count = 0; count < stepsMax; count += 1) {
      const owed = this.owed[0];
      if (owed === undefined) return;
      this.world.now += 7;
      if (owed.type === 'callModel') this.#answer([{ type: 'text', text: 'settled' }], 'end_turn');
      else if (owed.type === 'retryLater') this.#retry();
      else if (owed.type === 'evaluateSystem') this.#system(true);
      else if (owed.type === 'restartTimer') this.#restart();
      else if (owed.type === 'startEnricher') this.#summarise('text');
      else this.input({ type: 'toolFinished', callId: owed.callId, content: 'settled', success: true });
    }
    throw new Error(`not settled after ${stepsMax} answers: ${this.state.state}, ${JSON.stringify(this.owed)}`);
  }

  #step(step: Step): void {
    switch (step.do) {
      case 'send':
        return this.#send(step);
      case 'answer':
        this.#bringToCall();
        return this.#answer(step.blocks, step.stop, step.serves);
      case 'fail':
        return this.#fail(step.how);
      case 'finish': {
        const calls = [...this.state.openCalls.keys()];
        const callId = calls[step.which % calls.length] ?? 'long-gone';
        return this.input({ type: 'toolFinished', callId, content: step.content, success: step.success });
      }
      case 'recall':
        return this.input({ type: 'recall', pendingId: this.state.mailbox[step.which]?.id ?? step.which });
      case 'spawn':
        return this.#spawn(step);
      case 'mark':
        this.#ask('mark_goal_completed');
        return this.input({ type: 'markGoal', callId: this.#openCallOf('mark_goal_completed'), result: 'gold' });
      case 'childSays':
        return this.input({
          type: 'subagentSaid',
          child: `${this.state.id}:${step.which}`,
          content: `<${++this.#marker}> said`,
        });
      case 'childEnds':
        return this.input({ type: 'childExited', child: `${this.state.id}:1`, reason: 'completed' });
      case 'restart':
        return this.#restart();
      case 'escalated':
        return this.input({ type: 'escalated', child: `${this.state.id}:1`, error: FATAL });
      case 'system':
        return this.#system(step.isText);
      case 'retry':
        return this.#retry();
      case 'summary':
        return this.#summarise(step.how);
      case 'heal':
        this.world.now += 100_000;
        return this.input({ type: 'heal', callIds: [...this.state.openCalls.keys(), 'long-gone'] });
      case 'newHeader':
        this.world.fingerprint = `header-${this.world.now}`;
        return;
      case 'stale':
        return this.#stale();
      case 'task':
        return this.input(step.move === 'switchTask' ? { type: 'switchTask', id: step.which } : { type: step.move });
      case 'crash':
        return this.#reopen(this.machine.turns.length - (step.loses && this.machine.turns.length > 1 ? 1 : 0), true);
      case 'reload':
        return this.#reopen(this.machine.turns.length, false);
      case 'interrupt':
      case 'pause':
      case 'resume':
      case 'wake':
        return this.input({ type: step.do });
    }
  }

  /** Does the steps needed before a model call, so that most answers of a life have a call to answer. */
  #bringToCall(): void {
    if (this.state.state === 'idle' && !this.state.paused)
      this.input({ type: 'send', entry: { type: 'user_message', content: `<${++this.#marker}>` }, bytes: 1 });
    this.#system(true);
    this.#retry();
  }

  /** The model calls a tool of the runtime, if a model call is in flight. */
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
      ...(step.isBlocks ? { key: `key ${this.#marker}`, fingerprint: 'same' } : {}),
    };
    this.input({ type: 'send', entry, bytes: text.length });
  }

  #answer(given: readonly ContentBlock[], givenStop: string, serves = true): void {
    // The model answers most requests for a summary with one. If the summary is cut off or refused, the model gives the
    // answer of the step.
    const isSummary = this.state.current?.compaction !== undefined && !NO_SUMMARY.has(givenStop);
    const blocks: readonly ContentBlock[] = isSummary ? [{ type: 'text', text: `sum ${++this.#marker}` }] : given;
    const stop = isSummary ? 'end_turn' : givenStop;
    const call = this.owed.find((owed) => owed.type === 'callModel');
    const halfStep = call?.type === 'callModel' ? call.halfStep : 0;
    const awaited = (this.state.awaitedUses ?? []).filter((id) => this.#watcher.holds?.(id) !== false);
    const served = isSummary || !serves ? [] : awaited.map(resultOf);
    const written = blocks.map((block) => (block === OPEN_USE ? { ...block, id: `srv_${++this.#marker}` } : block));
    // With manual thinking an answer with calls begins with a thought (R22).
    const content = [...(this.#thinks ? [THINKING] : []), ...served, ...written];
    if (call !== undefined) this.#watcher.answered?.(this, halfStep, content, stop);
    this.owed = this.owed.filter((owed) => owed !== call);
    this.input({ type: 'answered', halfStep, content, stop, usage: USAGE });
  }

  #fail(how: Extract<Step, { do: 'fail' }>['how']): void {
    const call = this.owed.find((owed) => owed.type === 'callModel');
    if (call?.type !== 'callModel') return;
    this.owed = this.owed.filter((owed) => owed !== call);
    const refusal = this.world.compression === undefined ? FATAL : OVERFLOW;
    const error = how === 'transient' ? transientError() : how === 'fatal' ? refusal : UNAUTHORIZED;
    this.input({ type: 'modelFailed', halfStep: call.halfStep, attempt: call.attempt, error });
  }

  #retry(): void {
    const retry = this.owed.find((owed) => owed.type === 'retryLater');
    if (retry?.type !== 'retryLater') return;
    this.owed = this.owed.filter((owed) => owed !== retry);
    this.world.now += retry.delayMs;
    this.input({ type: 'retryDue', halfStep: retry.halfStep, attempt: retry.attempt });
  }

  /** The requested summary has ended. */
  #summarise(how: Extract<Step, { do: 'summary' }>['how']): void {
    const enricher = this.owed.find((owed) => owed.type === 'startEnricher');
    if (enricher?.type !== 'startEnricher') return;
    this.owed = this.owed.filter((owed) => owed !== enricher);
    const { run } = enricher;
    if (how === 'failure') this.input({ type: 'summarised', run, error: FATAL });
    else if (how === 'nothing') this.input({ type: 'summarised', run, usage: USAGE });
    else this.input({ type: 'summarised', run, text: `<${++this.#marker}> summed up`, usage: USAGE });
  }

  /** The back-off of a restart has ended; the supervisor continues. */
  #restart(): void {
    const timer = this.owed.find((owed) => owed.type === 'restartTimer');
    if (timer?.type !== 'restartTimer') return;
    this.owed = this.owed.filter((owed) => owed !== timer);
    this.world.now += timer.delayMs;
    this.input({ type: 'restartDue' });
    if (this.machine.effect('restartDue') !== undefined)
      this.input({ type: 'restart', reason: 'its back-off is over' });
  }

  /** A supervisor's orders are part of the batch of the failure (A6): transitions from `first` on are one batch. */
  #joinTurns(first: number): void {
    const joined = this.machine.turns.splice(first);
    this.machine.turns.push({ at: this.world.now, records: joined.flatMap((turn) => turn.records) });
  }

  #supervise(error: ErrorShape): void {
    if (this.#supervision === 'restart') this.input({ type: 'restart', reason: error.message });
    else if (this.#supervision === 'later') this.input({ type: 'restartLater', delayMs: 500, error });
    else this.input({ type: 'fail', error, reports: true });
  }

  #system(isText: boolean): void {
    const wish = this.owed.find((owed) => owed.type === 'evaluateSystem');
    if (wish?.type !== 'evaluateSystem') return;
    this.owed = this.owed.filter((owed) => owed !== wish);
    const { epoch } = wish;
    if (isText) this.input({ type: 'systemEvaluated', epoch, text: `text of epoch ${epoch}` });
    else this.input({ type: 'systemFailed', epoch, error: FATAL });
  }

  #spawn(step: Extract<Step, { do: 'spawn' }>): void {
    const name = step.name === '' ? {} : { name: step.name };
    if (step.byModel) this.#ask('spawn_subagent');
    const key = step.name === 'sleuth' ? { key: 'one sleuth' } : {};
    const callId = step.byModel ? { callId: this.#openCallOf('spawn_subagent') } : {};
    this.input({ type: 'spawn', request: { task: 'dig', replies: 'mailbox', ...name, ...key, ...callId } });
  }

  /** Sends completions for obsolete calls (A5), which must change nothing. */
  #stale(): void {
    const before = this.machine.turns.length;
    const halfStep = this.state.current === undefined ? this.state.nextHalfStep - 1 : this.state.current.halfStep - 1;
    this.input({
      type: 'answered',
      halfStep,
      content: [{ type: 'text', text: 'late' }],
      stop: 'end_turn',
      usage: USAGE,
    });
    this.input({ type: 'modelFailed', halfStep, attempt: 1, error: FATAL });
    this.input({ type: 'retryDue', halfStep, attempt: 2 });
    this.input({ type: 'toolFinished', callId: 'long-gone', content: 'late', success: true });
    this.input({ type: 'systemEvaluated', epoch: this.state.epoch - 1, text: 'late' });
    this.input({ type: 'summarised', run: this.state.nextMuseRun, text: 'late' });
    if (this.machine.turns.length !== before) throw new Error('A5: a late completion changed the session');
  }

  #openCallOf(toolName: string): string {
    for (const call of this.state.openCalls.values()) if (call.name === toolName) return call.id;
    return 'long-gone';
  }

  /**
   * After the process died, or only the actor was dropped, the state in memory is the fold of the first `turnCount`
   * transitions.
   */
  #reopen(turnCount: number, hasDied: boolean): void {
    const turns: readonly TransitionRecords[] = this.machine.turns.slice(0, turnCount);
    this.machine = Machine.replayed(this.world, this.state.id, turns);
    this.#watcher.reloaded?.(this, turnCount);
    if (!hasDied) return;
    this.owed = [];
    this.input({ type: 'recover' });
  }

  /** One input from outside. A test may give further inputs between the steps. */
  input(input: Parameters<Machine['input']>[0]): void {
    this.machine.input(input);
    const failed: ErrorShape[] = [];
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
      } else if (effect.type === 'startEnricher') {
        this.owed.push(effect);
      } else if (effect.type === 'restartTimer') {
        this.owed = [...this.owed.filter((owed) => owed.type !== 'restartTimer'), effect];
      } else if (effect.type === 'childFailed') {
        failed.push(effect.error);
      }
    }
    // This effect runs after the others, as in a tree turn, since its transition may cancel them.
    for (const error of failed) {
      const before = this.machine.turns.length;
      this.#supervise(error);
      this.#joinTurns(before - 1);
    }
    // A tool that was answered, by its own result or by healing, is no longer waited for.
    this.owed = this.owed.filter((owed) => owed.type !== 'runTool' || this.state.openCalls.has(owed.callId));
    const run = this.state.memory?.summarising?.run;
    this.owed = this.owed.filter((owed) => owed.type !== 'startEnricher' || owed.run === run);
    if (this.state.restartAt === undefined) this.owed = this.owed.filter((owed) => owed.type !== 'restartTimer');
  }
}
