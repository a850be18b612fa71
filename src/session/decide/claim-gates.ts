/**
 * The gates of a claim (contract §4.1, §4.2). A gate is a reason why a wake-up does not claim a half-step, with the
 * decision that is made instead. Pure.
 *
 * The contract fixes the order of the gates. The first gate that returns a decision ends the wake-up. Gates that look
 * only at the session come first, because no entries need to be selected for them.
 */
import { type ErrorShape, errorShape, LimitError } from '../../base/errors.ts';
import { budgetErrorShape, refuseTurn } from '../rules/budget.ts';
import { hasActive, incomingTokens, mayBegin, mayStart, type Selection } from '../rules/mailbox.ts';
import { poisonedEntries } from '../rules/promotion.ts';
import { isRefusedRequest } from '../rules/run-loop.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { decideCompaction } from './compression.ts';
import { decideEarlyNaming, decidePreparation } from './enrichment.ts';
import { awaitSummary, decideMemory } from './memory.ts';
import { reviveEnded } from './revival.ts';
import { rollbackRecords } from './rollback.ts';
import { continueSuspended, exitWithout, gatherResults } from './run-loop.ts';
import { failureToParent } from './supervision.ts';
import { decideMove } from './versions/upgrade.ts';

/** The decision that replaces the claim; undefined if the gate is open. */
type Exit = Decision | undefined;

/** One gate: the rule it follows, and the reason for its position in the order. */
interface Gate<Subject extends readonly unknown[]> {
  readonly rule: string;
  readonly reason: string;
  readonly gate: (...subject: Subject) => Exit;
}

/** Gates that look only at the session. Neither list of gates is frozen, for the reason at `NO_RECORDS`. */
export const SESSION_GATES: readonly Gate<[state: SessionState, environment: Environment]>[] = [
  {
    rule: 'R14, Z1',
    reason: 'An ended summary takes effect at any message boundary, even if the session is paused or blocked.',
    gate: (state, environment) => (remembers(environment) ? decideMemory(state, environment) : undefined),
  },
  {
    rule: 'F35',
    reason: 'A refused request blocked the session before rollback was enabled. Its messages leave and the block ends.',
    gate: unblock,
  },
  {
    rule: 'T1, T2, S7',
    reason: 'The session is paused, blocked, held at a boundary, being prepared, or within a half-step or a round.',
    gate: (state) => (mayStart(state) ? undefined : NOTHING),
  },
  {
    rule: 'G35',
    reason: 'The child is queued, because its parent has as many working children as it may. Only its naming starts.',
    gate: (state, environment) => (state.queued ? nameEarly(state, environment) : undefined),
  },
  {
    rule: 'G35',
    reason: 'A child that has ended works again: it needs a place, and waits for it with the others.',
    gate: reviveEnded,
  },
  {
    rule: 'L1',
    reason: 'The session is not admitted. Only the naming of a child may begin, because its parent waits for the name.',
    gate: (state, environment) => (environment.admits ? undefined : nameEarly(state, environment)),
  },
  {
    rule: '§4.2 step 3',
    reason:
      'Background entries alone start no turn. This check is cheap, and most wake-ups of an idle session end here.',
    gate: (state) => (state.state === 'idle' && !mayBegin(state) ? NOTHING : undefined),
  },
  {
    rule: 'Δ13',
    reason: 'An entry that cannot be promoted is set aside before the selection, so that it does not stop the others.',
    gate: setAside,
  },
  {
    rule: 'history §4.2',
    reason: 'Only a user message makes a suspended run continue. Its pending calls run first.',
    gate: (state) => (state.suspended === undefined ? undefined : continueSuspended(state)),
  },
  {
    rule: 'history §10.1',
    reason: 'A failed turn leaves the history when the next turn starts. The claim must come after that edit.',
    gate: rollBack,
  },
  {
    rule: 'V2',
    reason: 'The next turn needs another version of the agent. The move comes last: it edits the history of that turn.',
    gate: decideMove,
  },
];

/** Gates that also look at the entries that the half-step would promote. */
export const SELECTION_GATES: readonly Gate<[state: SessionState, selection: Selection, environment: Environment]>[] = [
  {
    rule: 'history §4.2',
    reason: 'Listeners get the results of a round before the model does, and may stop the run.',
    gate: gather,
  },
  {
    rule: 'Δ32',
    reason: 'A child that marked its goal completed makes no further model call, so no later limit fails its turn.',
    gate: (state, selection, environment) =>
      state.turn?.marked === true ? closeRound(state, selection, environment, 'completed') : undefined,
  },
  {
    rule: 'Δ45, Δ3',
    reason: 'The turn has made as many model calls as the agent may.',
    gate: limitRounds,
  },
  {
    rule: 'budget',
    reason: 'The token budget of the session or of an ancestor is used up, so no enricher or summary may run either.',
    gate: limitTokens,
  },
  {
    rule: 'Δ5, E1',
    reason: "A user's turn is prepared before it is claimed, because its first request shows what the enrichers find.",
    gate: prepare,
  },
  {
    rule: 'Δ20, K1',
    reason: 'A compression that is due comes first, and the half-step follows it.',
    gate: (state, selection, environment) =>
      environment.agent.compression === undefined ? undefined : decideCompaction(state, selection, environment),
  },
  {
    rule: 'Z1',
    reason: 'The request would exceed the budget, so it waits for the summary of messages that leave the window.',
    gate: (state, selection, environment) =>
      remembers(environment) ? awaitSummary(state, incomingTokens(selection), environment) : undefined,
  },
];

function remembers({ agent }: Environment): boolean {
  return agent.enrichers?.mneme !== undefined;
}

function unblock(state: SessionState, environment: Environment): Exit {
  if (!environment.settings.recovery.rollbackFailed || !isRefusedRequest(state.blocked) || !hasActive(state)) {
    return undefined;
  }
  const rolledBack = rollbackRecords(state, environment);
  return rolledBack.length === 0 ? undefined : { records: [...rolledBack, { type: 'resumed' }], effects: [WAKE] };
}

function nameEarly(state: SessionState, environment: Environment): Decision {
  return state.unnamed ? decideEarlyNaming(state, environment) : NOTHING;
}

function setAside(state: SessionState): Exit {
  const poisoned = poisonedEntries(state);
  if (poisoned === undefined) return undefined;
  const exit = exitWithout(
    state,
    poisoned.map(({ id }) => id),
  );
  return { records: [...poisoned, ...exit.records], effects: [...exit.effects, WAKE] };
}

function rollBack(state: SessionState, environment: Environment): Exit {
  if (state.failure === undefined || state.state !== 'idle') return undefined;
  if (!environment.settings.recovery.rollbackFailed) return undefined;
  const rolledBack = rollbackRecords(state, environment);
  return rolledBack.length === 0 ? undefined : { records: rolledBack, effects: [WAKE] };
}

function gather(state: SessionState, selection: Selection, { isGated }: Environment): Exit {
  const isBoundary = isGated === true && state.state === 'executing' && selection.responses.length > 0;
  return isBoundary ? gatherResults(selection) : undefined;
}

function limitRounds(state: SessionState, selection: Selection, environment: Environment): Exit {
  const { turn } = state;
  const { toolRounds } = environment.agent;
  if (turn === undefined || turn.halfSteps < toolRounds) return undefined;
  const error = new LimitError(`the turn reached ${toolRounds} model calls (toolRounds)`, {
    data: { limit: 'toolRounds', value: turn.halfSteps },
  });
  return closeRound(state, selection, environment, 'limit', errorShape(error));
}

function limitTokens(state: SessionState, selection: Selection, environment: Environment): Exit {
  const spent = state.budget === undefined ? undefined : budgetErrorShape(state, environment);
  if (spent === undefined) return undefined;
  if (state.turn === undefined) return refuseTurn(state, selection, spent);
  return closeRound(state, selection, environment, 'limit', spent);
}

function prepare(state: SessionState, selection: Selection, { agent }: Environment): Exit {
  if (agent.enrichers === undefined || state.state !== 'idle') return undefined;
  return decidePreparation(state, selection, agent.enrichers);
}

/** Promotes the round's responses and ends the turn without a model call. Other entries wait for a later turn. */
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
