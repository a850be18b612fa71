/**
 * Makes the model calls of a shard's sessions. The caller renders the new messages, sends them to the pool, and submits
 * each outcome as an input. It does not retry: `decide` asks for each attempt.
 *
 * Owns: which calls are in flight. Does not own: the states, the threads.
 *  C1 at most one call is in flight for a session; a completion of any other call is dropped (A5);
 *  C2 a call that ends without an answer, after its answer had begun, is reported as lost once. A failed call is
 *     reported with its failure, and a call that was given up is reported when it has ended. If the session of a call
 *     has left memory, the call is not reported here: its stored draft is later recorded as lost.
 */
import type { LossReason } from '../src/base/answer-draft.ts';
import { defined } from '../src/base/defined.ts';
import { errorShape } from '../src/base/errors.ts';
import type { Settings } from '../src/base/settings.ts';
import { wholeWindow } from '../src/context/request-window.ts';
import type { SessionKey } from '../src/journal/position.ts';
import { summaryHeader } from '../src/models/model-options.ts';
import type {
  CallWait,
  ContextDelta,
  ModelCall,
  ModelCompletion,
  ModelPool,
  StreamDraft,
  StreamedDelta,
} from '../src/models/pool.ts';
import type { ModelDelta, SentRequest } from '../src/models/provider.ts';
import { readContainer } from '../src/session/state/container.ts';
import type { Input } from '../src/session/state/inputs.ts';
import type { SessionAgent } from './agent-catalog.ts';
import { CallDraft, type DraftText, lostWith } from './call-draft.ts';
import type { SessionActor } from './session-actor.ts';

/** The services that the caller needs from its host. */
export interface ModelCallerHost {
  submit(sessionId: string, ...inputs: readonly Input[]): void;
  /** True once the host takes no more inputs. From then on only stored drafts keep the text that calls had streamed. */
  isOver(): boolean;
  /** Called when a call has streamed more. `draft`: the whole text of the call so far. */
  drafted(call: DraftedCall, draft: DraftText): void;
  /** Called when a call has ended. The next inputs say how the call ended, and their records replace its draft. */
  ended(call: DraftedCall): void;
  /** Called when the session has left memory, so that its call is not awaited any more. */
  abandoned(call: DraftedCall): void;
  /** Called when a call that was given up has ended. `lost`: the input with the text that it had streamed. */
  givenUp(call: DraftedCall, lost: Input): void;
  /** True if a subscriber follows the deltas of this session. */
  wantsDeltas(sessionId: string): boolean;
  delta(sessionId: string, turn: number, delta: ModelDelta): void;
  /** `pieces`: the whole text of the call before its next delta, for readers that do not have this text. */
  streamed(sessionId: string, turn: number, pieces: readonly ModelDelta[]): void;
  /** Called for each answered call that used a message thread of the API, before the answer is submitted. */
  threaded(sessionId: string, turn: number, sent: SentRequest): void;
  /** Called with the stack of the error that a faulty provider threw. */
  threw(sessionId: string, stack: string): void;
  readonly settings: Settings;
}

/** A call whose draft is kept. */
export interface DraftedCall {
  readonly id: number;
  readonly key: SessionKey;
  readonly session: string;
  readonly halfStep: number;
  readonly attempt: number;
  readonly turn: number;
}

interface CallOut extends DraftedCall {
  /** Undefined until the pool has reported a draft. */
  draft: CallDraft | undefined;
  /** True if readers are not shown the answer, so that no deltas are published. */
  readonly isSilent: boolean;
  /** True if the request contains messages that the log does not have. */
  readonly isUnbound: boolean;
}

const SECOND_MS = 1_000;

/** Makes the model calls of a shard's sessions (see the file header). */
export class ModelCaller {
  readonly #pool: ModelPool;
  readonly #host: ModelCallerHost;
  readonly #byId = new Map<number, CallOut>();
  readonly #bySession = new Map<string, CallOut>();
  readonly #givenUp = new Set<CallOut>();
  #nextId = 1;

  constructor(pool: ModelPool, host: ModelCallerHost) {
    this.#pool = pool;
    this.#host = host;
  }

  /** Number of calls in flight. */
  get running(): number {
    return this.#byId.size - this.#givenUp.size;
  }

  /** True if a call is in flight for this session. */
  isOut(sessionId: string): boolean {
    return this.#bySession.has(sessionId);
  }

  /**
   * Why the session's call has not been sent to the provider yet. Undefined if it has been sent, or if there is no
   * call.
   */
  waitOf(sessionId: string): CallWait | undefined {
    const out = this.#bySession.get(sessionId);
    return out === undefined ? undefined : this.#pool.waitOf?.(out.id);
  }

  /** Returns a number that no other call of the pool has. */
  takeId(): number {
    const id = this.#nextId;
    this.#nextId += 1;
    return id;
  }

  /** Makes the call of a half-step. First cancels the session's call if one is still in flight. */
  call(actor: SessionActor, agent: SessionAgent, halfStep: number, attempt: number): void {
    this.cancel(actor.id);
    const id = this.takeId();
    const compaction = actor.state.current?.compaction;
    const isSilent = compaction !== undefined;
    const { transients } = actor;
    const isUnbound = transients !== undefined && transients.length > 0;
    const turn = actor.state.turn?.id ?? 0;
    const called = { id, key: actor.key, session: actor.id, halfStep, attempt, turn };
    const out: CallOut = { ...called, isSilent, isUnbound, draft: undefined };
    this.#byId.set(id, out);
    this.#bySession.set(actor.id, out);
    const window =
      compaction !== undefined
        ? actor.window(agent).forSummary(actor.state, compaction)
        : transients === undefined
          ? actor.window(agent).next(actor.state)
          : wholeWindow(actor.state, transients, agent.renderOptions);
    const summary = compaction === undefined ? undefined : summaryHeader(agent.header(actor.state));
    // No later request continues a summary request, because its header differs. So the summary request gets a separate
    // epoch, as in `forSummary`.
    const epoch = summary === undefined ? window.epoch : -Math.abs(window.epoch);
    const isHeld = summary === undefined && window.keep > 0 && this.#pool.holds(actor.id, epoch, window.keep);
    const container = isSilent ? undefined : actor.state.container;
    const named = container === undefined ? {} : { container: container.id };
    // The header is built only for a request that is sent whole.
    const whole = (): ContextDelta => {
      return { epoch, keep: 0, append: window.all(), header: summary ?? agent.header(actor.state), ...named };
    };
    this.#pool.call(
      {
        id,
        session: actor.id,
        context: isHeld ? { epoch, keep: window.keep, append: window.append, ...named } : whole(),
        wantsDeltas: !isSilent && this.#host.wantsDeltas(actor.id),
        timeoutMs: this.#host.settings.timeouts.api * SECOND_MS,
        waitsForResume: true,
        ...(isSilent ? {} : fallbackOf(agent)),
      },
      isHeld ? whole : undefined,
    );
  }

  /**
   * Starts or stops the deltas of a session's call, because subscribers of the session came or went. Without an id,
   * subscribers of all sessions came or went. `isNew`: a reader of this session begins, so the text so far is also
   * published.
   */
  watched(sessionId: string | undefined, isNew: boolean): void {
    const calls = sessionId === undefined ? this.#bySession.values() : [this.#bySession.get(sessionId)];
    for (const out of calls) {
      if (out === undefined || out.isSilent) continue;
      this.#pool.wantsDeltas(out.id, this.#host.wantsDeltas(out.session), isNew);
    }
  }

  /** Gives up the session's call in flight, if any. If its completion has an answer, that answer is dropped. */
  cancel(sessionId: string): void {
    const out = this.#bySession.get(sessionId);
    if (out === undefined) return;
    this.#bySession.delete(sessionId);
    this.#givenUp.add(out);
    this.#pool.cancel(out.id);
  }

  /** Gives up the call of a session that has left memory, and the session's mirror. */
  forget(sessionId: string): void {
    const out = this.#bySession.get(sessionId);
    if (out !== undefined) {
      this.#forget(out);
      this.#host.abandoned(out);
      this.#pool.cancel(out.id);
    }
    this.#pool.forget(sessionId);
  }

  /**
   * Forgets the calls that were given up: their stored drafts keep the text that they had streamed. Called when the
   * store takes writes again.
   */
  forgetGivenUp(): void {
    for (const { id } of this.#givenUp) this.#byId.delete(id);
    this.#givenUp.clear();
  }

  /** Takes the pool's completions. */
  completed(completions: readonly ModelCompletion[]): void {
    for (const completion of completions) {
      const out = this.#byId.get(completion.id);
      if (out === undefined) continue;
      this.#forget(out);
      if (this.#givenUp.delete(out)) {
        this.#lose(out, lostWith(completion), 'cancelled');
        continue;
      }
      const sent = 'response' in completion ? completion.response.sent : undefined;
      if (sent?.thread !== undefined) this.#host.threaded(out.session, out.turn, sent);
      if ('stack' in completion && completion.stack !== undefined) this.#host.threw(out.session, completion.stack);
      const lost = 'error' in completion ? lostInput(out, completion.lost, 'failed') : undefined;
      if (this.#host.isOver()) {
        if (lost !== undefined) this.#host.drafted(out, lost);
        continue;
      }
      this.#host.ended(out);
      const input = inputOf(out, completion);
      if (lost === undefined) this.#host.submit(out.session, input);
      else this.#host.submit(out.session, lost, input);
    }
  }

  #lose(out: CallOut, rest: StreamDraft | undefined, reason: LossReason): void {
    const lost = lostInput(out, rest, reason);
    if (lost === undefined) return;
    if (this.#host.isOver()) {
      this.#host.drafted(out, lost);
      return;
    }
    this.#host.ended(out);
    this.#host.givenUp(out, lost);
  }

  /** Takes the pool's deltas. */
  delta(id: number, delta: StreamedDelta): void {
    const out = this.#byId.get(id);
    if (out === undefined) return;
    const isGivenUp = this.#givenUp.has(out);
    if (delta.draft !== undefined) {
      out.draft ??= new CallDraft();
      out.draft.add(delta.draft);
      if (!isGivenUp) this.#host.drafted(out, out.draft.value(out.isSilent));
      return;
    }
    if (isGivenUp) return;
    if (delta.before !== undefined) this.#host.streamed(out.session, out.turn, delta.before);
    if (delta.text !== '') this.#host.delta(out.session, out.turn, delta);
  }

  #forget(out: CallOut): void {
    this.#byId.delete(out.id);
    if (this.#bySession.get(out.session) === out) this.#bySession.delete(out.session);
  }
}

/** The longest wait of a call whose session can move to a model of another provider. */
function fallbackOf({ facts: { models } }: SessionAgent): Pick<ModelCall, 'fallbackAfterMs'> {
  return models?.hasOtherProvider === true ? { fallbackAfterMs: models.fallbackAfterMs } : {};
}

/**
 * The input with the text that a call had streamed; undefined if it had streamed nothing. `rest`: the part that no
 * draft has yet.
 */
function lostInput(
  out: CallOut,
  rest: StreamDraft | undefined,
  reason: LossReason,
): Extract<Input, { type: 'answerLost' }> | undefined {
  const { halfStep, attempt, turn, isSilent } = out;
  if (rest !== undefined) {
    out.draft ??= new CallDraft();
    out.draft.add(rest);
  }
  if (out.draft === undefined) return undefined;
  return { type: 'answerLost', halfStep, attempt, turn, reason, ...out.draft.value(isSilent) };
}

function inputOf(out: CallOut, completion: ModelCompletion): Input {
  if ('error' in completion) {
    return { type: 'modelFailed', halfStep: out.halfStep, attempt: out.attempt, error: completion.error };
  }
  const { response, changes } = completion;
  try {
    return {
      type: 'answered',
      halfStep: out.halfStep,
      content: response.content,
      stop: response.stop_reason ?? 'end_turn',
      usage: response.usage,
      ...defined({
        stopDetails: response.stop_details,
        container: readContainer(response.container),
        inputTransformations: response.input_transformations,
      }),
      ...(out.isUnbound || changes?.isUnbound === true ? { unbound: true } : {}),
      ...defined({ lacksThoughts: changes?.lacksThoughts }),
    };
  } catch (error) {
    return { type: 'modelFailed', halfStep: out.halfStep, attempt: out.attempt, error: errorShape(error) };
  }
}
