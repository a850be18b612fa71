/** The claim of a half-step (contract §4.1, §4.2): selection, eviction, promotion, the model call. Pure. */
import { type ErrorShape, errorShape, LimitError } from '../base/errors.ts';
import type { Decision } from './decide.ts';
import { failureDecision } from './decide-answer.ts';
import { tellFailure } from './decide-supervision.ts';
import { planEviction } from './eviction.ts';
import type { Effect, Environment, Input } from './inputs.ts';
import { mayStart, promotionOrder, type Selection, selectEntries } from './mailbox.ts';
import { promote } from './promotion.ts';
import type { SessionRecord } from './records.ts';
import type { MailboxEntry, SessionState } from './state.ts';
import { estimateContent } from './tokens.ts';

/**
 * Effect C and every kick: claims the next half-step if the guards allow it and something active waits. A spurious kick is
 * `NOTHING`: nobody needs to know beforehand whether there is work.
 */
export function decideClaim(state: SessionState, environment: Environment): Decision {
  if (!mayStart(state)) return { records: [], effects: [] };
  if (!environment.admits) return { records: [], effects: [] };
  if (state.state === 'idle' && !state.mailbox.some((entry) => entry.kind === 'active'))
    return { records: [], effects: [] };
  const poisoned = poisonedEntries(state);
  if (poisoned.length > 0) {
    // Set aside first, then look again: one entry that cannot be promoted must not stop those behind it (Δ13).
    return { records: poisoned, effects: [{ type: 'again', input: { type: 'wake' } }] };
  }
  const selection = selectEntries(state) ?? emptySelection(state);
  if (selection === undefined) return { records: [], effects: [] };
  if (state.turn?.marked === true) return closeRound(state, selection, environment, 'completed');
  const turn = state.turn;
  if (turn !== undefined && turn.halfSteps >= environment.agent.toolRounds) {
    const error = errorShape(
      new LimitError(`the turn reached ${environment.agent.toolRounds} model calls (toolRounds)`, {
        data: { limit: 'toolRounds', value: turn.halfSteps },
      }),
    );
    return closeRound(state, selection, environment, 'limit', error);
  }
  return claim(state, selection, environment);
}

/**
 * A complete round with nothing active to promote: its responses were healed straight into the log. The model is still owed
 * the results of its calls, so the half-step is made without a rider. Out of idle there is nothing to do.
 */
function emptySelection(state: SessionState): Selection | undefined {
  if (state.state !== 'executing') return undefined;
  const background = state.mailbox.filter((entry) => entry.kind === 'background');
  return { responses: [], background, steers: [], riders: [] };
}

/** Promotes the round's responses and goes idle without a model call; what else waits gets its own turn. */
function closeRound(
  state: SessionState,
  selection: Selection,
  environment: Environment,
  reason: 'completed' | 'limit',
  error?: ErrorShape,
): Decision {
  const records: SessionRecord[] = [];
  if (error !== undefined) records.push({ type: 'noted', content: `The turn was stopped: ${error.message}` });
  records.push({
    type: 'closed',
    entries: selection.responses.map((entry) => entry.id),
    reason,
    ...(error === undefined ? {} : { error }),
  });
  if (error === undefined) return { records, effects: [{ type: 'again', input: { type: 'wake' } }] };
  const told = tellFailure(state, error, environment);
  return { records: [...records, ...told.records], effects: told.effects };
}

function claim(state: SessionState, selection: Selection, environment: Environment): Decision {
  const halfStep = state.nextHalfStep;
  const records: SessionRecord[] = [];
  if (state.fingerprint !== environment.agent.fingerprint) {
    records.push({ type: 'epoch', fingerprint: environment.agent.fingerprint });
  }
  const below = planEviction(state, environment, incomingTokens(selection));
  if (below !== undefined) records.push({ type: 'evicted', below });
  records.push({
    type: 'claimed',
    halfStep,
    entries: promotionOrder(selection),
    ...(state.turn === undefined ? { turn: state.nextTurn } : {}),
  });
  const opensEpoch = records.length > 1;
  const epoch = state.epoch + (records.length - 1);
  return { records, effects: [callOrEvaluate(state, environment, { halfStep, epoch, opensEpoch })] };
}

/** Tokens of what a selection is about to put into the log. */
function incomingTokens(selection: Selection): number {
  let tokens = 0;
  for (const group of [selection.responses, selection.background, selection.steers, selection.riders]) {
    for (const entry of group) if (entry.seed === undefined) tokens += estimateContent(entry.content);
  }
  return tokens;
}

/** The model call, or first the evaluation of a system function where this epoch has no text yet. */
function callOrEvaluate(
  state: SessionState,
  environment: Environment,
  next: { readonly halfStep: number; readonly epoch: number; readonly opensEpoch: boolean },
): Effect {
  if (environment.agent.hasSystemFunction && (next.opensEpoch || state.system?.epoch !== next.epoch)) {
    return { type: 'evaluateSystem', epoch: next.epoch };
  }
  return { type: 'callModel', halfStep: next.halfStep, attempt: 1 };
}

/** Remembers the system text of an epoch and makes the call that waited for it. */
export function decideSystem(state: SessionState, input: Extract<Input, { type: 'systemEvaluated' }>): Decision {
  const { current } = state;
  if (current === undefined || !awaitsSystem(state, input.epoch))
    return { records: [], effects: [{ type: 'stale', what: 'system' }] };
  return {
    records: [{ type: 'system', epoch: input.epoch, text: input.text }],
    effects: [{ type: 'callModel', halfStep: current.halfStep, attempt: current.attempt }],
  };
}

/** The system function threw: the half-step fails as a model call would. */
export function decideSystemFailure(
  state: SessionState,
  input: Extract<Input, { type: 'systemFailed' }>,
  environment: Environment,
): Decision {
  if (!awaitsSystem(state, input.epoch)) return { records: [], effects: [{ type: 'stale', what: 'system' }] };
  return failureDecision(state, input.error, environment);
}

/**
 * A half-step waits for the system text of this epoch. Once the text is there a second evaluation, asked for by a claim
 * that was interrupted since, is late: it would change the epoch's text and call the model twice.
 */
function awaitsSystem(state: SessionState, epoch: number): boolean {
  return state.current !== undefined && state.epoch === epoch && state.system?.epoch !== epoch;
}

function poisonedEntries(state: SessionState): readonly SessionRecord[] {
  const records: SessionRecord[] = [];
  for (const entry of state.mailbox) {
    const error = promotionError(entry);
    if (error !== undefined) records.push({ type: 'poisoned', id: entry.id, error });
  }
  return records;
}

function promotionError(entry: MailboxEntry): ErrorShape | undefined {
  // Only provenance can make a promotion fail; a user's message and a tool's answer were checked when accepted.
  if (entry.type === 'user_message') return undefined;
  try {
    promote([entry]);
    return undefined;
  } catch (error) {
    return errorShape(error);
  }
}
