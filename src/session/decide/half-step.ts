/** The claim of a half-step (contract §4.1, §4.2): selection, eviction, promotion, the model call. Pure. */
import { isBlank } from '../../base/messages.ts';
import { chunkCard } from '../history/chunk-card.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { changedEpoch, newEpoch, turnStart } from '../rules/epoch.ts';
import { evictionRecord, planEviction } from '../rules/eviction.ts';
import { incomingTokens, promotionOrder, type Selection, selectEntries } from '../rules/mailbox.ts';
import { asksProvider } from '../rules/server-uses.ts';
import { formInForce } from '../rules/structured-answer.ts';
import { type Decision, NO_RECORDS, NOTHING } from '../state/decision.ts';
import type { CompressionFacts, Environment, EpochFacts, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { failureDecision } from './answer.ts';
import { SELECTION_GATES, SESSION_GATES } from './claim-gates.ts';
import { returning } from './fallback.ts';

/**
 * Claims the next half-step, if every gate is open and an active entry waits. Every wake-up of a session calls this
 * function (effect C of the contract). An unnecessary wake-up returns `NOTHING`, so no caller has to know whether there
 * is work.
 */
export function decideClaim(state: SessionState, environment: Environment): Decision {
  for (const { gate } of SESSION_GATES) {
    const exit = gate(state, environment);
    if (exit !== undefined) return exit;
  }
  const selection = selectEntries(state, environment.limits.messageBytes) ?? emptySelection(state);
  // No active entry is left that may start or join this half-step (§4.2 step 3).
  if (selection === undefined) return NOTHING;
  for (const { gate } of SELECTION_GATES) {
    const exit = gate(state, selection, environment);
    if (exit !== undefined) return exit;
  }
  return claim(state, selection, environment);
}

/**
 * The selection for a complete round without an active entry to promote. An edit put the round's responses into the
 * log, and the model must still get them. Undefined in idle, where there is nothing to do.
 */
function emptySelection(state: SessionState): Selection | undefined {
  if (state.state !== 'executing') return undefined;
  if (asksProvider(state)) return { responses: [], background: [], steers: [], riders: [] };
  const background = state.mailbox.filter((entry) => entry.kind === 'background');
  return { responses: [], background, steers: [], riders: [] };
}

function claim(state: SessionState, selection: Selection, environment: Environment): Decision {
  const halfStep = state.nextHalfStep;
  const entries = promotionOrder(selection);
  const opening = openingRecords(state, selection, environment);
  const claimed: SessionRecord =
    state.turn === undefined
      ? { type: 'claimed', halfStep, entries, ...turnStart(state, hashOf(opening)) }
      : { type: 'claimed', halfStep, entries };
  const goOn = needsWord(state, selection) ? GO_ON : NO_RECORDS;
  const records = opening.length === 0 && goOn.length === 0 ? [claimed] : [...opening, ...goOn, claimed];
  if (environment.agent.guards?.before === true)
    return { records, effects: [{ type: 'consult', on: 'request', halfStep }] };
  const epoch = state.epoch + epochsOpened(opening);
  return { records, effects: [callOrEvaluate(state, environment, halfStep, epoch)] };
}

/** The fingerprint of the epoch that these records open; undefined: none of them is an `epoch` record. */
function hashOf(opening: readonly SessionRecord[]): string | undefined {
  return opening.find((record) => record.type === 'epoch')?.fingerprint;
}

/**
 * The message that is added if a request would otherwise end with assistant text: text that an embedder added, or an
 * answer that must be corrected. A request must end with a user message.
 */
const GO_ON: readonly SessionRecord[] = [{ type: 'noted', content: 'Go on.' }];

/**
 * True if the selection adds no user message, and the history ends with one of two assistant texts: a text that an
 * embedder added, or an answer that must be corrected.
 */
function needsWord(state: SessionState, { background, steers, riders }: Selection): boolean {
  if (asksProvider(state)) return false;
  if (background.length > 0 || steers.length > 0 || riders.some((entry) => entry.seed === undefined)) return false;
  let index = state.messages.length - 1;
  for (let message = state.messages[index]; message !== undefined; message = state.messages[index]) {
    // These messages are skipped, because a request sends them at another position or not at all.
    const isSilent = message.type === 'tool_response' || message.prompt === true;
    if (!isSilent && (message.type !== 'user_message' || !isBlank(message.content))) break;
    index -= 1;
  }
  const last = state.messages[index];
  if (last?.type !== 'agent_message') return false;
  // During a correction, an edit may have removed the message that asks for the correction.
  return last.history !== undefined || state.turn?.corrections !== undefined;
}

/**
 * The records before the claim of a half-step, for a changed agent, an eviction or an index card. Each opens an epoch,
 * except an index card that replaces no earlier card.
 */
function openingRecords(state: SessionState, selection: Selection, environment: Environment): readonly SessionRecord[] {
  const { compression } = environment.agent;
  const facts = factsOf(state, selection, environment);
  const below = mayEvict(state, compression) ? planEviction(state, environment, incomingTokens(selection)) : undefined;
  const card = compression === undefined ? undefined : chunkCard(state, selection, compression, environment.now);
  const first = returning(state, facts, environment);
  const changed =
    first === undefined
      ? changedEpoch(state, facts, below !== undefined || card?.removed !== undefined)
      : newEpoch(first, 'return');
  if (changed === undefined && below === undefined && card === undefined) return NO_RECORDS;
  const records: SessionRecord[] = [];
  if (changed !== undefined) records.push(changed);
  if (below !== undefined) records.push(evictionRecord(state, environment, below));
  if (card !== undefined) records.push(card);
  return records;
}

/** The facts for the half-step's request. A new turn may ask for another form of answer than the turn before. */
function factsOf(state: SessionState, { riders }: Selection, { agent }: Environment): EpochFacts {
  const isNew = state.turn === undefined && riders[0]?.output !== undefined;
  const form = isNew ? riders[0]?.output : formInForce(state);
  // `agent` may have the facts of a turn that has ended in this batch.
  return agent.factsFor?.(form) ?? agent;
}

/**
 * True if messages may leave the window without a summary. A conversation that is compressed automatically is cut only
 * if the last compression failed. While the provider still has to run calls, no conversation is cut, because the new
 * epoch would leave these calls out.
 */
function mayEvict(state: SessionState, compression: CompressionFacts | undefined): boolean {
  if (asksProvider(state)) return false;
  return compression?.isAutomatic !== true || state.compression?.hasFailed === true;
}

/** The number of epochs these records open: one each, except for an index card that replaces no earlier card. */
function epochsOpened(records: readonly SessionRecord[]): number {
  let epochs = 0;
  for (const record of records) if (record.type !== 'edited' || record.removed !== undefined) epochs += 1;
  return epochs;
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

/** The system prompt's function threw: the half-step fails as after a failed model call. */
export function decideSystemFailure(
  state: SessionState,
  input: Extract<Input, { type: 'systemFailed' }>,
  environment: Environment,
): Decision {
  if (!awaitsSystem(state, input.epoch)) return { records: [], effects: [{ type: 'stale', what: 'system' }] };
  return failureDecision(state, input.error, environment);
}

/**
 * True if a half-step waits for the system text of this epoch. If a half-step was interrupted, both its claim and the
 * next claim may have requested an evaluation. The result that comes second is dropped: it would change the text of the
 * epoch and call the model twice.
 */
function awaitsSystem(state: SessionState, epoch: number): boolean {
  return state.current !== undefined && state.epoch === epoch && state.system?.epoch !== epoch;
}
