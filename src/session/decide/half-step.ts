/** The claim of a half-step (contract §4.1, §4.2): selection, eviction, promotion, the model call. Pure. */
import { BYTES_PER_TOKEN, PHANTOM_CALL_TOKENS } from '../../base/bounds.ts';
import { type ErrorShape, errorShape, LimitError } from '../../base/errors.ts';
import { isBlank } from '../../base/messages.ts';
import { chunkCard } from '../history/chunk-card.ts';
import { budgetErrorShape, refuseTurn } from '../rules/budget.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { evictionRecord, planEviction } from '../rules/eviction.ts';
import { hasActive, mayStart, promotionOrder, type Selection, selectEntries } from '../rules/mailbox.ts';
import { promote } from '../rules/promotion.ts';
import { isRefusedRequest } from '../rules/run-loop.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from '../state/decision.ts';
import type { CompressionFacts, Environment, Input } from '../state/inputs.ts';
import type { MailboxEntry } from '../state/messages.ts';
import type { RecordOf, SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { failureDecision } from './answer.ts';
import { decideCompaction } from './compression.ts';
import { decideEarlyNaming, decidePreparation } from './enrichment.ts';
import { awaitSummary, decideMemory } from './memory.ts';
import { rollbackRecords } from './rollback.ts';
import { continueForUser, exitWithout, gatherResults } from './run-loop.ts';
import { failureToParent } from './supervision.ts';

/**
 * Effect C and every wake-up: claims the next half-step if the guards allow it and an active entry waits. An
 * unnecessary wake-up returns `NOTHING`, so no caller has to know whether there is work.
 */
export function decideClaim(state: SessionState, environment: Environment): Decision {
  const remembers = environment.agent.enrichers?.mneme !== undefined;
  if (remembers) {
    const settled = decideMemory(state, environment);
    if (settled !== undefined) return settled;
  }
  if (environment.settings.recovery.rollbackFailed && isRefusedRequest(state.blocked) && hasActive(state)) {
    // The session was blocked before the setting was on: the refused messages leave, and the block ends.
    const rolledBack = rollbackRecords(state, environment);
    if (rolledBack.length > 0) return { records: [...rolledBack, { type: 'resumed' }], effects: [WAKE] };
  }
  if (!mayStart(state)) return NOTHING;
  if (!environment.admits) return state.unnamed ? decideEarlyNaming(state, environment) : NOTHING;
  if (state.state === 'idle' && !hasActive(state)) return NOTHING;
  const poisoned = poisonedEntries(state);
  if (poisoned.length > 0) {
    // Set entries aside first, then look again: an entry that cannot be promoted must not stop those behind it (Δ13).
    const exit = exitWithout(
      state,
      poisoned.map(({ id }) => id),
    );
    return { records: [...poisoned, ...exit.records], effects: [...exit.effects, WAKE] };
  }
  if (state.suspended !== undefined) return continueForUser(state);
  if (state.failure !== undefined && state.state === 'idle' && environment.settings.recovery.rollbackFailed) {
    const rolledBack = rollbackRecords(state, environment);
    // First the edit, then the claim over the remaining history.
    if (rolledBack.length > 0) return { records: rolledBack, effects: [WAKE] };
  }
  const selection = selectEntries(state, environment.limits.messageBytes) ?? emptySelection(state);
  if (selection === undefined) return NOTHING;
  if (environment.isGated === true && state.state === 'executing' && selection.responses.length > 0) {
    return gatherResults(selection);
  }
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
  const spent = state.budget === undefined ? undefined : budgetErrorShape(state, environment);
  if (spent !== undefined) {
    return turn === undefined
      ? refuseTurn(state, selection, spent)
      : closeRound(state, selection, environment, 'limit', spent);
  }
  const { enrichers } = environment.agent;
  if (enrichers !== undefined && state.state === 'idle') {
    const preparation = decidePreparation(state, selection, enrichers);
    if (preparation !== undefined) return preparation;
  }
  const compaction =
    environment.agent.compression === undefined ? undefined : decideCompaction(state, selection, environment);
  if (compaction !== undefined) return compaction;
  const waiting = remembers ? awaitSummary(state, incomingTokens(selection), environment) : undefined;
  return waiting ?? claim(state, selection, environment);
}

/**
 * A complete round without an active entry to promote: an edit put its responses into the log. The model is still owed
 * the results of its calls, so the half-step has no rider. In idle there is nothing to do.
 */
function emptySelection(state: SessionState): Selection | undefined {
  if (state.state !== 'executing') return undefined;
  const background = state.mailbox.filter((entry) => entry.kind === 'background');
  return { responses: [], background, steers: [], riders: [] };
}

/** Promotes the round's responses and goes idle without a model call. Other waiting entries get a separate turn. */
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
  const failure = failureToParent(state, error, environment);
  return { records: [...records, ...failure.records], effects: failure.effects };
}

function claim(state: SessionState, selection: Selection, environment: Environment): Decision {
  const halfStep = state.nextHalfStep;
  const entries = promotionOrder(selection);
  const claimed: SessionRecord =
    state.turn === undefined
      ? { type: 'claimed', halfStep, entries, turn: state.nextTurn }
      : { type: 'claimed', halfStep, entries };
  const opening = openingRecords(state, selection, environment);
  const goOn = needsWord(state, selection) ? GO_ON : NO_RECORDS;
  const records = opening.length === 0 && goOn.length === 0 ? [claimed] : [...opening, ...goOn, claimed];
  if (environment.agent.guards?.before === true) return { records, effects: [{ type: 'guardBefore', halfStep }] };
  const epoch = state.epoch + epochsOpened(opening);
  return { records, effects: [callOrEvaluate(state, environment, halfStep, epoch)] };
}

/**
 * The end of a request that would otherwise end with assistant text added by an embedder: a request must end with a
 * user message.
 */
const GO_ON: readonly SessionRecord[] = [{ type: 'noted', content: 'Go on.' }];

/** The selection contains no user's text, and the history ends with assistant text that an embedder added. */
function needsWord(state: SessionState, { background, steers, riders }: Selection): boolean {
  if (background.length > 0 || steers.length > 0 || riders.some((entry) => entry.seed === undefined)) return false;
  let index = state.messages.length - 1;
  for (let message = state.messages[index]; message !== undefined; message = state.messages[index]) {
    // A request cannot end with a message that is sent in another place, or not at all.
    const isSilent = message.type === 'tool_response' || message.prompt === true;
    if (!isSilent && (message.type !== 'user_message' || !isBlank(message.content))) break;
    index -= 1;
  }
  const last = state.messages[index];
  return last?.type === 'agent_message' && last.history !== undefined;
}

/** The guardrails have passed the request: make the call, or evaluate the system text it needs first. */
export function decideGuardedCall(state: SessionState, halfStep: number, environment: Environment): Decision {
  if (state.current?.halfStep !== halfStep) return { records: [], effects: [{ type: 'stale', what: 'guardrail' }] };
  return { records: [], effects: [callOrEvaluate(state, environment, halfStep, state.epoch)] };
}

/**
 * The records before the claim of a half-step, for a changed agent, an eviction or an index card. All but an index card
 * that replaces none open an epoch.
 */
function openingRecords(state: SessionState, selection: Selection, environment: Environment): readonly SessionRecord[] {
  const { fingerprint, compression } = environment.agent;
  const below = mayEvict(state, compression) ? planEviction(state, environment, incomingTokens(selection)) : undefined;
  const card = compression === undefined ? undefined : chunkCard(state, selection, compression, environment.now);
  if (state.fingerprint === fingerprint && below === undefined && card === undefined) return NO_RECORDS;
  const records: SessionRecord[] = [];
  if (state.fingerprint !== fingerprint) records.push({ type: 'epoch', fingerprint });
  if (below !== undefined) records.push(evictionRecord(state, environment, below));
  if (card !== undefined) records.push(card);
  return records;
}

/** A compressed conversation is not cut, unless compressing it failed. */
function mayEvict(state: SessionState, compression: CompressionFacts | undefined): boolean {
  return compression?.isAutomatic !== true || state.compression?.hasFailed === true;
}

/** The number of epochs these records open: one each, except for an index card that replaces none. */
function epochsOpened(records: readonly SessionRecord[]): number {
  let epochs = 0;
  for (const record of records) if (record.type !== 'edited' || record.removed !== undefined) epochs += 1;
  return epochs;
}

/** Tokens that a selection is about to add to the log. */
function incomingTokens({ responses, background, steers, riders }: Selection): number {
  return tokensOf(responses) + tokensOf(background) + tokensOf(steers) + tokensOf(riders);
}

function tokensOf(entries: readonly MailboxEntry[]): number {
  let tokens = 0;
  for (const { seed, type, bytes } of entries) {
    if (seed !== undefined) continue;
    tokens += Math.ceil(bytes / BYTES_PER_TOKEN);
    // A delivery becomes a pair.
    if (type !== 'user_message' && type !== 'tool_response') tokens += PHANTOM_CALL_TOKENS;
  }
  return tokens;
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
 * A half-step waits for the system text of this epoch. A second evaluation, requested by a claim that was interrupted
 * since, is late once the text is there. It would change the epoch's text and call the model twice.
 */
function awaitsSystem(state: SessionState, epoch: number): boolean {
  return state.current !== undefined && state.epoch === epoch && state.system?.epoch !== epoch;
}

const NO_POISON: readonly RecordOf<'poisoned'>[] = Object.freeze([]);

function poisonedEntries(state: SessionState): readonly RecordOf<'poisoned'>[] {
  let records: RecordOf<'poisoned'>[] | undefined;
  for (const entry of state.mailbox) {
    const error = promotionError(entry);
    if (error === undefined) continue;
    records ??= [];
    records.push({ type: 'poisoned', id: entry.id, error });
  }
  return records ?? NO_POISON;
}

function promotionError(entry: MailboxEntry): ErrorShape | undefined {
  // Only provenance can make a promotion fail. Users' messages and tool results were checked when they were accepted.
  if (entry.type === 'user_message' || (entry.type === 'tool_response' && entry.toolUseId !== undefined))
    return undefined;
  try {
    // The content does not affect whether a promotion fails, and may be only in the log.
    promote([{ ...entry, content: '' }]);
    return undefined;
  } catch (error) {
    return errorShape(error);
  }
}
