/** The consequences of a model call: its answer (contract §5.1), its failure (§4.4, §4.5), its retry. Pure. */
import { PAUSE_CONTINUATIONS_MAX, RETRY_AFTER_MS_MAX, RETRY_JITTER, TOOL_TIMEOUT_MS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import type { ErrorShape } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import { isRecord } from '../../base/json.ts';
import { type ContentBlock, isThought, type Usage, usageOf } from '../../base/messages.ts';
import type { RetrySettings } from '../../base/settings.ts';
import { answerText, storableAnswer } from '../rules/answer.ts';
import { newEpoch } from '../rules/epoch.ts';
import { guardAnswer } from '../rules/guard-answer.ts';
import { mentionedNames } from '../rules/mentions.ts';
import { isRefusedRequest } from '../rules/run-loop.ts';
import { callsAnswerTool } from '../rules/structured-answer.ts';
import { type Decision, NO_EFFECTS, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { Continuation, DispatchedCall } from '../state/messages.ts';
import type { LostAnswer, RecordOf } from '../state/records.ts';
import { bouncedEntries, type SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { compactionFailure, decideOverflow, decideSummary } from './compression.ts';
import { callInNewEpoch, isModelGone, mayMoveOn, moveAtOnce, moveOn, REFUSAL } from './fallback.ts';
import { AT_BOUNDARY, exitOnIdle, isHeldAnswer } from './run-loop.ts';
import { failureToParent } from './supervision.ts';

const SECOND_MS = 1_000;
const BAD_REQUEST = 400;

/**
 * Stores an answer as one record, and sends its text to the parent and to addressed children (§7.6). Then the answer's
 * tools run, a paused answer continues, or the session becomes idle.
 */
export function decideAnswer(
  state: SessionState,
  input: Extract<Input, { type: 'answered' }>,
  environment: Environment,
): Decision {
  const { current } = state;
  if (current?.halfStep !== input.halfStep) return { records: [], effects: [{ type: 'stale', what: 'answer' }] };
  const { compaction } = current;
  if (compaction !== undefined) return decideSummary(state, { ...current, compaction }, input, environment);
  if (input.stop === 'refusal') {
    const moved = moveOn(state, REFUSAL, environment, { usage: usageIn(input.usage, environment) });
    if (moved !== undefined) return moved;
  }
  const guarded = guardAnswer(state, input, environment);
  if (guarded !== undefined) return guarded;
  const { content, calls, isAltered } = storableAnswer(input.content, {
    stop: input.stop,
    halfStep: input.halfStep,
    taken: state.callIds,
    awaited: state.awaitedUses,
    timeoutMsOf: (toolName, callInput) => requestedTimeoutMs(environment, toolName, callInput),
  });
  const then = continuationOf(state, input.stop, content, environment);
  const { halfStep, stop } = input;
  const usage = usageIn(input.usage, environment);
  const responded: Draft<RecordOf<'responded'>> = { type: 'responded', halfStep, content, calls, stop, usage, then };
  if (input.unbound === true || isAltered) responded.unbound = true;
  if (input.lacksThoughts === true) responded.lacksThoughts = true;
  if (input.stopDetails !== undefined) responded.stopDetails = input.stopDetails;
  if (input.container !== undefined) responded.container = input.container;
  if (input.inputTransformations !== undefined) responded.inputTransformations = input.inputTransformations;
  // A structured answer is sent to other sessions only once it fits its form.
  if (then === 'form') return { records: [{ ...responded, held: true }], effects: [AT_BOUNDARY] };
  const text = answerText(content);
  const replies = routeText(state, text);
  if (isHeldAnswer(environment, then === 'tools')) {
    return { records: [{ ...responded, held: true }], effects: followedBy(replies, AT_BOUNDARY) };
  }
  if (then === 'tools') {
    const dispatch: Effect = { type: 'again', input: { type: 'dispatch', refused: refusedCalls(calls) } };
    return { records: [responded], effects: followedBy(replies, dispatch) };
  }
  if (then === 'pause') {
    return {
      records: [responded],
      effects: followedBy(replies, { type: 'callModel', halfStep: halfStep + 1, attempt: 1 }),
    };
  }
  const exit = exitOnIdle(state, text);
  return {
    records: exit === NOTHING ? [responded] : [responded, ...exit.records],
    effects: exit === NOTHING ? followedBy(replies, WAKE) : [...replies, ...exit.effects, WAKE],
  };
}

/**
 * Records a lost answer: the beginning of an answer whose call ended before the answer was complete. The text is kept
 * for people and never becomes a message. The tokens that the provider reported count, because they are paid for. Other
 * inputs decide what happens to the half-step.
 */
export function decideLostAnswer(lost: LostAnswer, environment: Environment): Decision {
  const { halfStep, attempt, turn, reason, text, thinking, truncated, usage } = lost;
  if (text === '' && thinking === undefined && usage === undefined) return NOTHING;
  const counted = usage === undefined ? undefined : usageIn(usage, environment);
  return {
    records: [
      { type: 'lost', halfStep, attempt, turn, reason, text, ...defined({ thinking, truncated, usage: counted }) },
    ],
    effects: [],
  };
}

/** The usage of an answer. If the agent has several models, the usage names the model that gave the answer. */
function usageIn(usage: Usage, { agent: { models } }: Environment): Usage {
  return models === undefined ? usage : usageOf(models.name, usage);
}

function followedBy(effects: readonly Effect[], last: Effect): readonly Effect[] {
  return effects.length === 0 ? [last] : [...effects, last];
}

const NONE_REFUSED: Readonly<Record<string, string>> = Object.freeze({});

/** The reasons why calls are not run, by id. */
function refusedCalls(calls: readonly DispatchedCall[]): Readonly<Record<string, string>> {
  if (calls.every((call) => call.refused === undefined)) return NONE_REFUSED;
  return Object.fromEntries(calls.flatMap(({ id, refused }) => (refused === undefined ? [] : [[id, refused]])));
}

function continuationOf(
  state: SessionState,
  stop: string,
  content: readonly ContentBlock[],
  { agent: { answer } }: Environment,
): Continuation {
  if (answer !== undefined && callsAnswerTool(content, answer)) return 'form';
  if (content.some(({ type }) => type === 'tool_use')) return 'tools';
  if (stop === 'pause_turn' && (state.turn?.pauses ?? 0) < PAUSE_CONTINUATIONS_MAX) return 'pause';
  return answer === undefined ? 'end' : 'form';
}

/** The timeout in ms of a call, from the member `timeout` (seconds) of its input; undefined if the tool allows none. */
function requestedTimeoutMs(environment: Environment, toolName: string, input: unknown): number | undefined {
  const facts = environment.agent.tool(toolName);
  if (facts === undefined || !facts.adjustableTimeout || !isRecord(input)) return undefined;
  const seconds = input['timeout'];
  if (typeof seconds !== 'number' || !(seconds > 0)) return undefined;
  return Math.min(Math.ceil(seconds * SECOND_MS), TOOL_TIMEOUT_MS_MAX);
}

/**
 * The effects that send a text to other sessions (§7.6): to the parent, and to each child whose `@name` is in the text.
 */
function routeText(state: SessionState, text: string): readonly Effect[] {
  if (text.trim() === '') return NO_EFFECTS;
  if (state.parent === undefined && state.children.size === 0) return NO_EFFECTS;
  const effects: Effect[] = [];
  if (state.parent !== undefined) {
    effects.push({ type: 'sendToParent', input: { type: 'subagentSaid', child: state.id, content: text } });
  }
  if (state.children.size > 0 && text.includes('@')) {
    const names = mentionedNames(text);
    for (const child of state.children.values()) {
      if (!names.has(child.name)) continue;
      effects.push({ type: 'sendToChild', child: child.id, input: { type: 'parentSaid', content: text } });
    }
  }
  return effects;
}

/**
 * Handles a failed model call. The call is retried, made with another model, or repeated with a shorter or changed
 * request (after a compression, or without thoughts). Otherwise the half-step fails.
 */
export function decideModelFailure(
  state: SessionState,
  input: Extract<Input, { type: 'modelFailed' }>,
  environment: Environment,
): Decision {
  const current = state.current;
  if (current?.halfStep !== input.halfStep || current.attempt !== input.attempt) {
    return { records: [], effects: [{ type: 'stale', what: 'model failure' }] };
  }
  const { retry } = environment.settings.llm;
  const { error } = input;
  const tries = current.attempt - (current.attemptsBefore ?? 0);
  const moved = moveAtOnce(state, error, environment);
  if (moved !== undefined) return moved;
  if (error.retryable === true && tries < retry.attempts) {
    const waitMs = retryWaitMs(retry, tries, error, environment.random);
    const status = error.data?.['status'];
    return {
      records: [
        {
          type: 'retried',
          halfStep: input.halfStep,
          attempt: current.attempt,
          waitMs,
          code: error.code,
          detail: error.message,
          ...(typeof status === 'number' ? { status } : {}),
        },
      ],
      effects: [
        {
          type: 'retryLater',
          halfStep: input.halfStep,
          attempt: current.attempt + 1,
          delayMs: waitMs,
          ...(tries === 1 ? { firstError: error } : {}),
        },
      ],
    };
  }
  return (
    decideOverflow(state, error, environment) ??
    decideRepair(state, error, environment) ??
    (mayMoveOn(error) ? moveOn(state, error.code, environment) : undefined) ??
    failureDecision(state, error, environment)
  );
}

/** The API's rules about thoughts in a request. Only the model itself knows whether a thought breaks them. */
const THOUGHT_RULES: ReadonlySet<unknown> = new Set(['R20', 'R21']);

/**
 * Repeats a request that was refused for its thoughts, at once and without them, in a new epoch. Undefined if the
 * request was refused for another reason, or has no thoughts.
 */
function decideRepair(state: SessionState, error: ErrorShape, environment: Environment): Decision | undefined {
  const { current } = state;
  const rule = error.data?.['rule'];
  if (current === undefined || current.compaction !== undefined) return undefined;
  if (!isRefusedRequest(error) || !THOUGHT_RULES.has(rule) || !showsThoughts(state)) return undefined;
  const why = { code: error.code, detail: error.message, status: BAD_REQUEST, repaired: String(rule) };
  return callInNewEpoch(state, current, environment, newEpoch(environment.agent), why);
}

function showsThoughts({ messages, thoughtFloor }: SessionState): boolean {
  return messages.some(({ seq, blocks }) => seq >= thoughtFloor && blocks?.some(isThought) === true);
}

/**
 * The wait in ms after attempt k, as `settings.llm.retry` defines it (§4.4, Δ9). It is k⁴ times the base; with a
 * factor, the base times the factor to the power of k − 1. The maximum bounds it, and up to 15 % of random jitter is
 * added. A longer `retry-after` of the server is used instead, up to `RETRY_AFTER_MS_MAX`.
 */
export function retryWaitMs(retry: RetrySettings, attempt: number, error: ErrorShape, random: number): number {
  const { base: first, factor, maximum: longest } = retry;
  const seconds =
    factor === undefined ? Math.min(first * attempt ** 4, longest) : growingWait(attempt, { first, longest, factor });
  const base = seconds * SECOND_MS;
  const asked = error.data?.['retryAfterMs'];
  const askedMs = typeof asked === 'number' ? Math.min(asked, RETRY_AFTER_MS_MAX) : 0;
  return Math.ceil(Math.max(base * (1 + RETRY_JITTER * random), askedMs));
}

/** The retry timer fired. */
export function decideRetryDue(state: SessionState, input: Extract<Input, { type: 'retryDue' }>): Decision {
  const current = state.current;
  if (current?.halfStep !== input.halfStep || current.attempt !== input.attempt) {
    return { records: [], effects: [{ type: 'stale', what: 'retry' }] };
  }
  return { records: [], effects: [{ type: 'callModel', halfStep: input.halfStep, attempt: input.attempt }] };
}

/**
 * Fails the half-step (§4.5). Each promoted message with `bounceBack` bounces, and all other promoted messages stay. A
 * system message reports the failure to the user (Δ11); a mailbox entry reports it to the parent. Refused credentials
 * and a missing model block the session until someone acts (Δ12, F36, F37), because every waiting entry would fail in
 * the same way.
 */
export function failureDecision(state: SessionState, error: ErrorShape, environment: Environment): Decision {
  const current = state.current;
  if (current === undefined) return { records: [], effects: [{ type: 'stale', what: 'failure' }] };
  // The compression began no turn, so no failed turn is reported. The half-step continues without a summary.
  if (current.compaction !== undefined) return compactionFailure(state, error.message, environment);
  const bounced = (current.bouncing ?? []).map(({ entry }) => entry);
  // True if no message of the half-step stays. Otherwise a note in the log reports the failure, and a refused request
  // may block the session.
  const bounces = bounced.length > 0 && current.keeps !== true;
  const blocks =
    error.code === 'model_authentication' || isModelGone(error) || staysRefused(state, error, bounces, environment);
  const records: SessionRecord[] = [];
  const note = failureNote(error, current.attempt, bounces);
  if (note !== undefined) records.push({ type: 'noted', content: note });
  records.push({
    type: 'failed',
    halfStep: current.halfStep,
    error,
    ...bouncedEntries(bounced),
    ...(blocks ? { blocks: true } : {}),
  });
  const replies = failureToParent(state, error, environment);
  const effects: readonly Effect[] = [...replies.effects, { type: 'reportFailure', error, isBlocked: blocks }];
  return { records: [...records, ...replies.records], effects };
}

/**
 * True if the API would refuse every later turn in the same way, because every later request begins with the refused
 * request (F35). False if the messages leave the history: they bounced, or a rollback removes them before the next
 * turn. False for a child, because its parent decides what follows the failure.
 */
function staysRefused(state: SessionState, error: ErrorShape, bounces: boolean, { settings }: Environment): boolean {
  if (bounces || state.parent !== undefined || settings.recovery.rollbackFailed) return false;
  return isRefusedRequest(error);
}

function failureNote(error: ErrorShape, attempts: number, bounces: boolean): string | undefined {
  if (error.code === 'model_authentication') {
    const code = error.data?.['errorCode'];
    return typeof code === 'string'
      ? `The provider stops all calls (${code}): ${error.message}`
      : `Authentication failed: ${error.message}`;
  }
  if (error.retryable === true)
    return `The model call failed after multiple retries (${attempts} attempts): ${error.message}`;
  // A bounced message returns to its sender with the error, so a note in the log would report the error twice.
  return bounces ? undefined : `The turn failed: ${error.message}`;
}
