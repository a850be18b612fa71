/**
 * Decides when messages that are about to leave the window are summed up, and what follows (contract §6.4, §6.5,
 * §6.5b). A run of the enricher Mneme writes the summary while the session continues. The result waits for a message
 * boundary. Pure.
 *
 *  Z1 messages leave the window only after their summary succeeded; a half-step whose request would exceed the budget
 *     waits for the run. Messages leave without a summary (`rules/eviction.ts`) only if the run failed, or if no
 *     complete part can be removed;
 *  Z2 one run at a time (M1): the session checks whether another run is due only after a run has ended;
 *  Z3 the result of a run is dropped if its messages have changed since the run began.
 */
import { SUMMARY_ATTEMPTS_MAX } from '../../base/bounds.ts';
import type { ErrorShape } from '../../base/errors.ts';
import { evictionRecord, windowBudget, windowStart } from '../rules/eviction.ts';
import { isSummarising, uncovered } from '../rules/memory.ts';
import { firstBoundary, memoryZone } from '../rules/memory-zone.ts';
import { type Decision, NO_EFFECTS, NOTHING, WAKE } from '../state/decision.ts';
import type { Environment, Input } from '../state/inputs.ts';
import type { Leaving, SummaryRun } from '../state/memory.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/** A run in the form of its record. */
type Begun = Omit<SummaryRun, 'isAwaited' | 'ended' | 'run'>;

/** Applies the result of an ended run, or begins a run that is due; `undefined`: there is nothing to do now. */
export function decideMemory(state: SessionState, environment: Environment): Decision | undefined {
  const run = state.memory?.summarising;
  if (run !== undefined) {
    if (run.ended === undefined || state.state === 'awaiting' || state.held !== undefined) return undefined;
    return settle(state, run, environment);
  }
  if (!mayBegin(state, environment)) return undefined;
  const due = state.tokens > budgetOf(environment) ? messagesDue(state, environment, undefined) : undefined;
  const begun = due ?? snapshotsDue(state, environment);
  if (begun === undefined) return undefined;
  const { records, effects } = begin(state, begun);
  return { records, effects: [...effects, WAKE] };
}

/**
 * Makes a half-step wait for a summary if its request would exceed the budget. The summary is that of the run in
 * progress, or of a run that begins here. `undefined`: the request is within the budget, or no summary can make it fit.
 * `incomingTokens`: the tokens that the half-step is about to promote.
 */
export function awaitSummary(
  state: SessionState,
  incomingTokens: number,
  environment: Environment,
): Decision | undefined {
  if (state.tokens + incomingTokens <= budgetOf(environment)) return undefined;
  const run = state.memory?.summarising;
  if (run !== undefined) {
    if (run.ended !== undefined) return undefined;
    return run.isAwaited === true ? NOTHING : { records: [{ type: 'summaryAwaited' }], effects: NO_EFFECTS };
  }
  const begun = messagesDue(state, environment, incomingTokens > 0 ? state.nextMessageSeq : undefined);
  if (begun === undefined) return undefined;
  const { records, effects } = begin(state, begun);
  return { records: [...records, { type: 'summaryAwaited' }], effects };
}

/** Token limit of the window. */
function budgetOf({ agent, settings }: Environment): number {
  return windowBudget(agent.tokenBudget, settings.mneme.pinnedBudgetFraction);
}

function mayBegin(state: SessionState, { admits }: Environment): boolean {
  return admits && !state.paused && state.blocked === undefined && state.agent !== undefined;
}

/** A run for the oldest messages; undefined if no message may leave, or none was added since the last run failed. */
function messagesDue(state: SessionState, environment: Environment, next: number | undefined): Begun | undefined {
  const { messages, memory } = state;
  if (memory?.failedAt === state.nextMessageSeq) return undefined;
  const boundary = firstBoundary(messages);
  if (boundary === undefined) return undefined;
  const budget = Math.floor(environment.agent.tokenBudget * environment.settings.mneme.evictionFraction);
  const zone = memoryZone(messages, boundary, budget, next);
  if (zone === undefined) return undefined;
  const { from, to } = zone;
  return { level: 1, from, to, attempt: 1, leaving: leavingBelow(state, zone.boundary) };
}

/** A run that sums up snapshots of messages, once there are enough of them; otherwise undefined. */
function snapshotsDue({ memory }: SessionState, { settings }: Environment): Begun | undefined {
  if (memory === undefined) return undefined;
  const snapshots = uncovered(memory.snapshots);
  if (snapshots.length < settings.mneme.l2SnapshotThreshold || memory.restsAt === snapshots.length) return undefined;
  const last = snapshots.at(-1);
  if (last === undefined) return undefined;
  // After an edit, a later snapshot may begin with an older message.
  return { level: 2, from: Math.min(...snapshots.map(({ from }) => from)), to: last.to, attempt: 1 };
}

function begin(state: SessionState, begun: Begun): Decision {
  const run = state.nextMuseRun;
  return {
    records: [{ type: 'summaryBegun', run, ...begun }],
    effects: [{ type: 'startEnricher', enricher: 'mneme', run }],
  };
}

/** The number and tokens of the messages that leave the window if it begins at `boundary`. */
function leavingBelow({ messages }: SessionState, boundary: number): Leaving {
  const gone = messages.slice(0, windowStart(messages, boundary)).filter((message) => message.prompt !== true);
  return { boundary, count: gone.length, tokens: gone.reduce((sum, message) => sum + message.tokens, 0) };
}

/**
 * Handles the end of a run. A failed run is tried again, if another attempt is worth making. Any other result waits for
 * a message boundary.
 */
export function decideSummarised(state: SessionState, input: Extract<Input, { type: 'summarised' }>): Decision {
  const current = state.memory?.summarising;
  if (current?.run !== input.run || current.ended !== undefined) {
    return { records: [], effects: [{ type: 'stale', what: 'summary' }] };
  }
  const { type: _type, error, ...rest } = input;
  const ended: SessionRecord = { type: 'summaryEnded', ...rest, ...(error === undefined ? {} : { error }) };
  if (error === undefined || !isWorthRepeating(error, current.attempt)) return { records: [ended], effects: [WAKE] };
  const again = repeated(current, state.nextMuseRun, current.attempt + 1);
  return { records: [ended, ...again.records], effects: again.effects };
}

/**
 * True if another attempt is worth making. Refused credentials would be refused again, and after a timeout a half-step
 * may already have waited the whole time.
 */
function isWorthRepeating({ code }: ErrorShape, attempt: number): boolean {
  return attempt < SUMMARY_ATTEMPTS_MAX && code !== 'model_authentication' && code !== 'timeout';
}

/** The same run, begun again with another number. */
function repeated(current: SummaryRun, run: number, attempt: number): Decision {
  const { isAwaited, ended: _ended, ...same } = current;
  const records: SessionRecord[] = [{ type: 'summaryBegun', ...same, run, attempt }];
  if (isAwaited === true) records.push({ type: 'summaryAwaited' });
  return { records, effects: [{ type: 'startEnricher', enricher: 'mneme', run }] };
}

/** Applies an ended run. Its result becomes a snapshot; messages that it summed up (level 1) leave the window. */
function settle(state: SessionState, run: SummaryRun, environment: Environment): Decision {
  const { ended, leaving, level } = run;
  if (ended === undefined) return NOTHING;
  if (!isUnchanged(state, run)) return { records: [{ type: 'summaryDropped' }], effects: [WAKE] };
  if ('error' in ended) {
    const failed: SessionRecord = { type: 'summaryFailed' };
    if (level === 2) return { records: [failed], effects: [WAKE] };
    const content = `The oldest part of this conversation could not be summed up: ${ended.error.message}`;
    return { records: [{ type: 'noted', content }, failed], effects: [WAKE] };
  }
  const { tokenBudget } = environment.agent;
  const { l1BudgetFraction, l2BudgetFraction } = environment.settings.mneme;
  const budgets = { 1: Math.floor(tokenBudget * l1BudgetFraction), 2: Math.floor(tokenBudget * l2BudgetFraction) };
  const records: SessionRecord[] = [{ type: 'remembered', budgets }];
  if (leaving !== undefined) records.push(evictionRecord(state, environment, leaving.boundary));
  return { records, effects: [WAKE] };
}

/** True if the messages about to leave, or the snapshots about to be covered, are those that were summed up (Z3). */
function isUnchanged(state: SessionState, { leaving, from, to }: SummaryRun): boolean {
  if (leaving === undefined) {
    const snapshots = uncovered(state.memory?.snapshots ?? []);
    return snapshots.some((each) => each.from === from) && snapshots.some((each) => each.to === to);
  }
  const now = leavingBelow(state, leaving.boundary);
  return now.count === leaving.count && now.tokens === leaving.tokens;
}

/** After a restart, a run that was in progress begins again. If the enricher is now off, the run is dropped. */
export function recoverMemory(state: SessionState, environment: Environment): Decision {
  const current = state.memory?.summarising;
  if (current === undefined || !isSummarising(state.memory)) return NOTHING;
  if (environment.agent.enrichers?.mneme === undefined)
    return { records: [{ type: 'summaryDropped' }], effects: NO_EFFECTS };
  // A preparation that begins again takes the next run number, so this run takes the number after that.
  const run = state.enrichment === undefined ? state.nextMuseRun : state.nextMuseRun + 1;
  return repeated(current, run, current.attempt);
}
