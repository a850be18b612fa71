/** Interrupt, recall, pause and resume (contract §5.6 with Δ22, §3.6). Pure. */

import { waitsToBegin } from '../rules/mailbox.ts';
import { INTERRUPT_NOTICE } from '../rules/tool-texts.ts';
import { isOpenChild } from '../state/child-link.ts';
import { type Decision, NO_RECORDS, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { claimCutShort } from './compression.ts';
import { endRound } from './end-round.ts';
import { interruptPreparation, withPreparationGivenUp } from './enrichment.ts';
import { exitWithout, resumeSuspended } from './run-loop.ts';
import { exitDecision, neverBegun } from './supervision.ts';

/**
 * Cancels the model call, the running tools and the working children. The turn ends as cancelled, and the user's
 * message stays. An idle session with nothing to cancel records nothing, but its children are still interrupted
 * (Δ22 d). The result is then `true` only if a child works or is queued.
 */
export function decideInterrupt(state: SessionState, reason: string | undefined, environment: Environment): Decision {
  const children = interruptChildren(state, reason, environment);
  const exit = exitDecision(state, { reason: 'cancelled', reply: '' });
  if (state.enrichment !== undefined) return interruptPreparation(state, reason, children);
  const waiting = state.state === 'idle' ? claimCutShort(state) : NO_RECORDS;
  if (waiting.length > 0) {
    const records: SessionRecord[] = [interruptedRecord(reason), ...waiting, ...exit.records];
    return { records, effects: [...exit.effects, ...children, { type: 'result', value: true }, WAKE] };
  }
  if (state.state === 'idle') {
    // A child that waits for its restart, for a place or to be admitted counts as working, although nothing runs. The
    // entries that would start the child are cancelled. Otherwise these entries would make the child wait again.
    const isPending = state.restartAt !== undefined || waitsToBegin(state);
    if (!isPending) return { records: [], effects: [...children, { type: 'result', value: hasWorkingChild(state) }] };
    const records = [...neverBegun(state, 'all', 'cancelled'), ...exit.records];
    return { records, effects: [...exit.effects, ...children, { type: 'result', value: true }, WAKE] };
  }
  const interrupted = interruptRecords(state, reason, state.nextPendingId, environment);
  return {
    records: [...interrupted.records, ...claimCutShort(state), ...exit.records],
    effects: [...interrupted.effects, ...exit.effects, ...children, { type: 'result', value: true }, WAKE],
  };
}

function hasWorkingChild({ childrenAtWork, childQueue }: SessionState): boolean {
  return childrenAtWork > 0 || childQueue.size > 0;
}

/**
 * The effects that interrupt the children. Children that wait to begin are cancelled in this batch. Otherwise they
 * would start later, when the working children end and make room for them.
 */
function interruptChildren(
  state: SessionState,
  reason: string | undefined,
  { stateOf }: Environment,
): readonly Effect[] {
  if (state.children.size === 0) return [];
  const why = reason === undefined ? {} : { reason };
  const effects: Effect[] = [];
  const cancel = (child: string): void => {
    effects.push({ type: 'sendToChild', child, input: { type: 'interrupt', ...why } });
  };
  for (const child of state.childQueue) cancel(child);
  for (const child of state.childrenAtWork === 0 ? [] : state.children.values()) {
    if (child.queued === true || !isOpenChild(child)) continue;
    const working = stateOf?.(child.id);
    if (working !== undefined && waitsToBegin(working)) cancel(child.id);
  }
  return [...effects, { type: 'interruptChildren', ...why }];
}

/**
 * The records and effects that end a running turn as cancelled, without another model call. A model call in flight is
 * given up. An open round is closed with a failed response for each open tool call (I5). `firstId`: the next free
 * pending id.
 */
export function interruptRecords(
  state: SessionState,
  reason: string | undefined,
  firstId: number,
  environment: Environment,
): Decision {
  const ended = endRound(state, environment, { firstId, notice: INTERRUPT_NOTICE });
  return { records: [interruptedRecord(reason), ...ended.records], effects: ended.effects };
}

function interruptedRecord(reason: string | undefined): SessionRecord {
  return { type: 'interrupted', ...(reason === undefined ? {} : { reason }) };
}

/** Withdraws a user's entry that was not promoted yet. Entries of other types cannot be recalled (§3.6, Δ7). */
export function decideRecall(state: SessionState, pendingId: number): Decision {
  const entry = state.mailbox.find((waiting) => waiting.id === pendingId);
  if (entry === undefined || entry.type !== 'user_message' || entry.seed !== undefined) {
    return { records: [], effects: [{ type: 'result', value: false }] };
  }
  const exit = exitWithout(state, [pendingId]);
  const recalled: Decision = {
    records: [{ type: 'recalled', id: pendingId }, ...exit.records],
    effects: [...exit.effects, { type: 'result', value: true }],
  };
  return state.enrichment?.entry === pendingId ? withPreparationGivenUp(state, recalled) : recalled;
}

/** Pauses the session: no half-step starts until `resume`. Running work continues, and its results wait. */
export function decidePause(state: SessionState): Decision {
  if (state.paused) return NOTHING;
  return { records: [{ type: 'paused' }], effects: [] };
}

/**
 * Lifts a pause or a block (Δ12). A suspended run continues. A resumption of many sessions `keepsPause`: only the author
 * of a pause knows when it should end.
 */
export function decideResume(
  state: SessionState,
  input: Extract<Input, { type: 'resume' }>,
  environment: Environment,
): Decision {
  if (input.keepsPause === true && state.paused) {
    return state.blocked === undefined ? NOTHING : { records: [{ type: 'resumed', staysPaused: true }], effects: [] };
  }
  if (state.suspended !== undefined) return resumeSuspended(state, environment);
  if (!state.paused && state.blocked === undefined) return NOTHING;
  return { records: [{ type: 'resumed' }], effects: [WAKE] };
}
