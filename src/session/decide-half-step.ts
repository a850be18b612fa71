/** The claim of a half-step (contract §4.1, §4.2): selection, eviction, promotion, the model call. Pure. */
import { type ErrorShape, errorShape, LimitError } from '../base/errors.ts';
import { failureDecision } from './decide-answer.ts';
import { tellFailure } from './decide-supervision.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from './decision.ts';
import { planEviction, windowBudget } from './eviction.ts';
import type { Effect, Environment, Input } from './inputs.ts';
import { hasActive, mayStart, promotionOrder, type Selection, selectEntries } from './mailbox.ts';
import { promote } from './promotion.ts';
import type { SessionRecord } from './records.ts';
import type { MailboxEntry, SessionState } from './state.ts';
import { estimateContent } from './tokens.ts';

/**
 * Effect C and every kick: claims the next half-step if the guards allow it and something active waits. A spurious kick is
 * `NOTHING`: nobody needs to know beforehand whether there is work.
 */
export function decideClaim(state: SessionState, environment: Environment): Decision {
  if (!mayStart(state)) return NOTHING;
  if (!environment.admits) return NOTHING;
  if (state.state === 'idle' && !hasActive(state)) return NOTHING;
  const poisoned = poisonedEntries(state);
  if (poisoned.length > 0) {
    // Set aside first, then look again: one entry that cannot be promoted must not stop those behind it (Δ13).
    return { records: poisoned, effects: [WAKE] };
  }
  const selection = selectEntries(state) ?? emptySelection(state);
  if (selection === undefined) return NOTHING;
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
  if (error === undefined) return { records, effects: [WAKE] };
  const told = tellFailure(state, error, environment);
  return { records: [...records, ...told.records], effects: told.effects };
}

function claim(state: SessionState, selection: Selection, environment: Environment): Decision {
  const halfStep = state.nextHalfStep;
  const entries = promotionOrder(selection);
  const claimed: SessionRecord =
    state.turn === undefined
      ? { type: 'claimed', halfStep, entries, turn: state.nextTurn }
      : { type: 'claimed', halfStep, entries };
  const opening = openingRecords(state, selection, environment);
  const epoch = state.epoch + opening.length;
  return {
    records: opening.length === 0 ? [claimed] : [...opening, claimed],
    effects: [callOrEvaluate(state, environment, halfStep, epoch)],
  };
}

/** What a half-step writes before its claim, each of which opens an epoch: a changed agent, an eviction. */
function openingRecords(state: SessionState, selection: Selection, environment: Environment): readonly SessionRecord[] {
  const { fingerprint } = environment.agent;
  const below = planEviction(state, environment, incomingTokens(selection));
  if (state.fingerprint === fingerprint && below === undefined) return NO_RECORDS;
  const records: SessionRecord[] = [];
  if (state.fingerprint !== fingerprint) records.push({ type: 'epoch', fingerprint });
  if (below !== undefined) records.push(eviction(state, environment, below));
  return records;
}

function eviction(state: SessionState, { agent, settings }: Environment, below: number): SessionRecord {
  if (state.goals === undefined && (state.goal === undefined || state.goal.completed))
    return { type: 'evicted', below };
  const pinTokens = agent.tokenBudget - windowBudget(agent.tokenBudget, settings.mneme.pinnedBudgetFraction);
  return { type: 'evicted', below, pinTokens };
}

/** Tokens of what a selection is about to put into the log. */
function incomingTokens({ responses, background, steers, riders }: Selection): number {
  return tokensOf(responses) + tokensOf(background) + tokensOf(steers) + tokensOf(riders);
}

function tokensOf(entries: readonly MailboxEntry[]): number {
  let tokens = 0;
  for (const entry of entries) if (entry.seed === undefined) tokens += estimateContent(entry.content);
  return tokens;
}

/** The model call, or first the evaluation of a system function where this epoch has no text yet. */
function callOrEvaluate(state: SessionState, environment: Environment, halfStep: number, epoch: number): Effect {
  const isNew = epoch !== state.epoch || state.system?.epoch !== epoch;
  if (environment.agent.hasSystemFunction && isNew) return { type: 'evaluateSystem', epoch };
  return { type: 'callModel', halfStep, attempt: 1 };
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
  let records: SessionRecord[] | undefined;
  for (const entry of state.mailbox) {
    const error = promotionError(entry);
    if (error === undefined) continue;
    records ??= [];
    records.push({ type: 'poisoned', id: entry.id, error });
  }
  return records ?? NO_RECORDS;
}

function promotionError(entry: MailboxEntry): ErrorShape | undefined {
  // Only provenance can make a promotion fail; a user's message and a tool's answer were checked when accepted.
  if (entry.type === 'user_message' || (entry.type === 'tool_response' && entry.toolUseId !== undefined))
    return undefined;
  try {
    promote([entry]);
    return undefined;
  } catch (error) {
    return errorShape(error);
  }
}
