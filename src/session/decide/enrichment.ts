/**
 * The preparation of a user's turn by enrichers (contract §8 with Δ5, Δ35): when it begins, what follows its end, and
 * how it is given up. Changes that enrichers make meanwhile (goals, skills, memories, a name) reach the session like
 * any other input. Pure.
 *
 *  E1 a session has at most one preparation in progress, and claims no turn meanwhile (R12): arriving entries wait;
 *  E2 the turn continues no matter how the preparation ends, with one exception: if the provider refuses the
 *     credentials, the turn fails, as it would without a preparation;
 *  E3 a turn is prepared once: a prepared entry that still waits, because of a pause or for admission, is not prepared
 *     again.
 */
import type { ErrorShape } from '../../base/errors.ts';
import { turnStart } from '../rules/epoch.ts';
import { promotionOrder, type Selection, selectEntries } from '../rules/mailbox.ts';
import { poisonedEntries } from '../rules/promotion.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Enrichment } from '../state/enrichment.ts';
import type { Effect, EnricherFacts, Environment, Input } from '../state/inputs.ts';
import type { MailboxEntry } from '../state/messages.ts';
import { bouncedEntries, type SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { exitDecision } from './supervision.ts';

/**
 * Begins a preparation instead of the claim, if the turn of a user's message must be prepared; `undefined`: the turn
 * needs no preparation.
 */
export function decidePreparation(
  state: SessionState,
  { steers, riders }: Selection,
  enrichers: EnricherFacts,
): Decision | undefined {
  if (enrichers.namer !== undefined) return state.unnamed ? beginNaming(state, riders) : undefined;
  if (enrichers.melete === undefined) return undefined;
  let entry: MailboxEntry | undefined;
  for (const each of [...steers, ...riders]) {
    if (state.prepared?.includes(each.id) === true) return undefined;
    if (each.type === 'user_message' && each.seed === undefined) entry ??= each;
  }
  if (entry === undefined) return undefined;
  const run = state.nextMuseRun;
  return {
    records: [{ type: 'preparing', run, entry: entry.id }],
    effects: [{ type: 'startEnricher', enricher: 'melete', run }],
  };
}

/**
 * Names a sub-agent that is not admitted yet, if a model spawned it. Its parent waits for the name, and may itself hold
 * the admission that the sub-agent waits for. Other sub-agents are named when their first turn is admitted.
 */
export function decideEarlyNaming(state: SessionState, { agent }: Environment): Decision {
  if (state.spawnCallId === undefined || agent.enrichers?.namer === undefined) return NOTHING;
  const selection = selectEntries(state);
  return (selection === undefined ? undefined : beginNaming(state, selection.riders)) ?? NOTHING;
}

function beginNaming(state: SessionState, riders: readonly MailboxEntry[]): Decision | undefined {
  const task = riders.find((entry) => entry.seed !== undefined);
  if (task === undefined) return undefined;
  const run = state.nextMuseRun;
  return {
    records: [{ type: 'preparing', run, entry: task.id, naming: true }],
    effects: [{ type: 'startEnricher', enricher: 'namer', run }],
  };
}

/** The effect that notifies the parent of the end of the naming, with or without a new name. */
function readyChild(state: SessionState): Effect {
  return { type: 'sendToParent', input: { type: 'childReady', child: state.id } };
}

/** Handles the end of a run. The next stage begins; after the last stage, the turn begins. */
export function decideEnriched(
  state: SessionState,
  input: Extract<Input, { type: 'enriched' }>,
  environment: Environment,
): Decision {
  const { enrichment } = state;
  if (enrichment?.run !== input.run) return { records: [], effects: [{ type: 'stale', what: 'enrichment' }] };
  const { usage, error } = input;
  const { run, entry, stage, goalsChanged } = enrichment;
  const prepared: SessionRecord = {
    type: 'prepared',
    run,
    entry,
    usage,
    ...(error === undefined ? {} : { error }),
  };
  if (stage === 'naming') {
    // A sub-agent that a model spawned may have been named before its admission. So it gets no wake-up here: it must
    // not overtake sessions that have waited longer for their admission.
    const isPlaced = state.spawnCallId === undefined;
    return { records: [prepared], effects: isPlaced ? [readyChild(state), WAKE] : [readyChild(state)] };
  }
  // A failed search does not fail the turn: the turn continues as if there had been nothing to recall.
  if (stage === 'recalling') return { records: [prepared], effects: [WAKE] };
  if (error !== undefined) return failed(state, prepared, error);
  if (goalsChanged && environment.agent.enrichers?.mneme !== undefined) {
    const next = state.nextMuseRun;
    return {
      records: [{ type: 'recalling', run: next, usage }],
      effects: [{ type: 'startEnricher', enricher: 'recall', run: next }],
    };
  }
  return { records: [prepared], effects: [WAKE] };
}

function failed(state: SessionState, prepared: SessionRecord, error: ErrorShape): Decision {
  if (error.code === 'model_authentication') {
    const turn = usersTurn(state);
    const bounced = bouncedEntries(turn?.bounced ?? []);
    const note: SessionRecord = { type: 'noted', content: `Authentication failed: ${error.message}` };
    const end: SessionRecord = { type: 'failed', halfStep: state.nextHalfStep, error, ...bounced, blocks: true };
    if (turn === undefined) return { records: [prepared], effects: [WAKE] };
    return {
      records: [prepared, turn.claimed, note, end],
      effects: [WAKE, { type: 'reportFailure', error, isBlocked: true }],
    };
  }
  const note: SessionRecord = { type: 'noted', content: `The turn was not prepared: ${error.message}` };
  return { records: [note, prepared], effects: [WAKE] };
}

/**
 * The claim of the turn that was being prepared, without a model call, because the caller adds the record that ends the
 * turn. Replies of sub-agents are left out: they wait for a later turn, which the model answers.
 */
function usersTurn(
  state: SessionState,
): { readonly claimed: SessionRecord; readonly bounced: readonly number[] } | undefined {
  const selection = selectEntries(state);
  if (selection === undefined) return undefined;
  const riders = selection.riders.filter((entry) => entry.type === 'user_message');
  // An entry that cannot be promoted is set aside by the next claim.
  const unfit = new Set(poisonedEntries(state)?.map(({ id }) => id));
  const entries = promotionOrder({ ...selection, riders }).filter((id) => !unfit.has(id));
  const asking = [...selection.steers, ...riders].filter(({ bounceBack }) => bounceBack === true);
  return {
    claimed: { type: 'claimed', halfStep: state.nextHalfStep, entries, ...turnStart(state) },
    bounced: asking.map(({ id }) => id),
  };
}

/** Gives up the preparation in progress. Its results so far stay, and its entry counts as unprepared. */
export function withPreparationGivenUp(state: SessionState, decision: Decision): Decision {
  const { enrichment } = state;
  // A sub-agent's task comes before any other message, so its naming is not given up for a message.
  if (enrichment === undefined || enrichment.stage === 'naming') return decision;
  const { run } = enrichment;
  return {
    records: [...decision.records, { type: 'prepared', run }],
    effects: [{ type: 'cancelEnricher', run }, ...decision.effects.filter((effect) => effect !== WAKE), WAKE],
  };
}

/** Handles an interrupt during a preparation: the run is cancelled, and the turn ends as cancelled at once. */
export function interruptPreparation(
  state: SessionState,
  reason: string | undefined,
  children: readonly Effect[],
): Decision {
  const turn = usersTurn(state);
  const released: readonly SessionRecord[] = turn === undefined ? [] : [turn.claimed, { type: 'released' }];
  const interrupted: SessionRecord = { type: 'interrupted', ...(reason === undefined ? {} : { reason }) };
  const { run } = state.enrichment ?? { run: 0 };
  const ready = state.enrichment?.stage === 'naming' ? [readyChild(state)] : [];
  const exit = exitDecision(state, { reason: 'cancelled', reply: '' });
  return {
    records: [interrupted, { type: 'prepared', run }, ...released, ...exit.records],
    effects: [
      { type: 'cancelEnricher', run },
      ...ready,
      ...exit.effects,
      ...children,
      { type: 'result', value: true },
      WAKE,
    ],
  };
}

/**
 * Continues a preparation that a crash interrupted: its stage begins again with the next run number. A sub-agent that
 * was being named keeps its current name.
 */
export function recoverPreparation(state: SessionState, enrichment: Enrichment, { agent }: Environment): Decision {
  const run = state.nextMuseRun;
  const { stage, entry } = enrichment;
  if (stage === 'naming') {
    // The crash may have lost a later claim whose model call was already made. If the name changed now, the repeated
    // call would not have the same bytes.
    return { records: [{ type: 'prepared', run: enrichment.run, entry }], effects: [readyChild(state), WAKE] };
  }
  const isOff = stage === 'preparing' ? agent.enrichers?.melete === undefined : agent.enrichers?.mneme === undefined;
  if (isOff) return { records: [{ type: 'prepared', run: enrichment.run, entry }], effects: [WAKE] };
  if (stage === 'recalling') {
    return { records: [{ type: 'recalling', run }], effects: [{ type: 'startEnricher', enricher: 'recall', run }] };
  }
  return {
    records: [{ type: 'preparing', run, entry, again: true }],
    effects: [{ type: 'startEnricher', enricher: 'melete', run }],
  };
}
