/**
 * Decides when the compression of a conversation begins, and what follows its answer or failure. A compression is a
 * half-step whose request asks for a summary; its answer is one record. A compression also recovers a call whose prompt
 * was too long. Pure.
 *
 *  K1 a compression begins only where every call has its result: in idle, between rounds, or in place of a call that
 *     was refused;
 *  K2 a compression that ends without a summary leaves the conversation as it was, except that the results of the round
 *     were promoted;
 *  K3 after a compression comes the half-step that was about to begin, or the call whose prompt was too long.
 */
import { PULLED_BACK_MAX } from '../../base/bounds.ts';
import { CONTEXT_OVERFLOW, describeValue, type ErrorShape } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { isThought, type Usage } from '../../base/messages.ts';
import {
  INTERRUPTED,
  isDue,
  isWorthForcing,
  mayRewrite,
  planCompaction,
  reachesBounds,
  readSummary,
} from '../history/compression-plan.ts';
import { historySize, MessageGroups } from '../history/recents.ts';
import { answerText, storableAnswer } from '../rules/answer.ts';
import { budgetError } from '../rules/budget.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { changedEpoch, turnStart } from '../rules/epoch.ts';
import { isRemovedBefore } from '../rules/eviction.ts';
import { mayStart, promotionOrder, type Selection, selectEntries } from '../rules/mailbox.ts';
import { isPreparing } from '../rules/memory.ts';
import { asksProvider } from '../rules/server-uses.ts';
import { type Decision, NO_RECORDS, NOTHING, refuse, WAKE } from '../state/decision.ts';
import type { CompressionFacts, Effect, Environment, Input } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { CompactionCall, CurrentCall, OverflowRecovery, SessionState } from '../state/state.ts';

/** Stop reasons of a complete summary. */
const WHOLE_STOPS: ReadonlySet<string> = new Set(['end_turn', 'stop_sequence']);

/** The immediate reply of `compress`. `started`: the half-step of the compression. The outcome is reported later. */
export type CompressAnswer =
  | { readonly started: number }
  | { readonly compressed: false; readonly reason: 'disabled' | 'busy' | 'not_needed' };

/** Begins a compression instead of the claim, if a compression is due; `undefined`: the claim continues unchanged. */
export function decideCompaction(
  state: SessionState,
  selection: Selection,
  environment: Environment,
): Decision | undefined {
  const facts = environment.agent.compression;
  // The instruction for a summary may not follow a call that the provider has not run (R52).
  if (facts?.isAutomatic !== true || asksProvider(state) || !isDue(state, facts)) return undefined;
  return begin(state, facts, environment, { entries: selection.responses.map((entry) => entry.id) });
}

/**
 * Compresses an idle session on demand, if its conversation reaches the thresholds of the settings. A forced
 * compression has lower thresholds.
 */
export function decideCompress(
  state: SessionState,
  input: Extract<Input, { type: 'compress' }>,
  environment: Environment,
): Decision {
  const facts = environment.agent.compression;
  if (facts === undefined) return answered({ compressed: false, reason: 'disabled' });
  if (state.state !== 'idle' || !mayStart(state) || !environment.admits) {
    return answered({ compressed: false, reason: 'busy' });
  }
  const spent = budgetError(state, environment);
  if (spent !== undefined) return refuse(spent);
  const isWanted = input.force ? isWorthForcing(state, facts) : facts.isAutomatic && reachesBounds(state, facts);
  const begun = isWanted ? begin(state, facts, environment, { entries: [] }) : undefined;
  if (begun === undefined) return answered({ compressed: false, reason: 'not_needed' });
  const result = { type: 'result', value: { started: state.nextHalfStep } satisfies CompressAnswer } as const;
  return { records: begun.records, effects: [...begun.effects, result] };
}

function answered(value: CompressAnswer): Decision {
  return { records: NO_RECORDS, effects: [{ type: 'result', value }] };
}

/**
 * The records and the call of a compression; `undefined` if nothing can be summed up now.
 */
function begin(
  state: SessionState,
  facts: CompressionFacts,
  environment: Environment,
  how: { readonly entries: readonly number[]; readonly tail?: number; readonly overflow?: OverflowRecovery },
): Decision | undefined {
  if (!mayRewrite(state, facts)) return undefined;
  const { entries, tail, overflow } = how;
  if (planCompaction(state, facts, { through: state.nextMessageSeq, tail }) === undefined) return undefined;
  const halfStep = state.nextHalfStep;
  const records: SessionRecord[] = [];
  const changed = overflow === undefined ? changedEpoch(state, environment.agent, false) : undefined;
  if (changed !== undefined) records.push(changed);
  const epoch = state.epoch + records.length;
  records.push({
    type: 'compacting',
    halfStep,
    entries,
    ...(tail === undefined ? {} : { tail }),
    ...(overflow === undefined ? {} : { overflow }),
  });
  return { records, effects: [callOrEvaluate(state, environment, halfStep, epoch)] };
}

/** Handles the answer of a compression. If the answer is not a usable summary, the compression fails. */
export function decideSummary(
  state: SessionState,
  current: CurrentCall & { readonly compaction: CompactionCall },
  input: Extract<Input, { type: 'answered' }>,
  environment: Environment,
): Decision {
  const { usage, halfStep } = input;
  const facts = environment.agent.compression;
  const problem = problemOf(input.content, input.stop);
  if (problem !== undefined) return compactionFailure(state, problem, environment, usage);
  const { content } = storableAnswer(input.content, {
    stop: input.stop,
    halfStep,
    taken: state.callIds,
    timeoutMsOf: () => undefined,
  });
  const { summary, topics } = readSummary(answerText(content));
  if (summary === '') return compactionFailure(state, 'the summary is blank', environment, usage);
  // Without facts, the agent's compression was switched off meanwhile. The conversation then stays as it is.
  const { through, tail } = current.compaction;
  const plan = facts === undefined ? undefined : planCompaction(state, facts, { through, tail });
  if (plan === undefined) return compactionFailure(state, 'nothing is left to sum up', environment, usage);
  const { chunk } = plan;
  const compacted: SessionRecord = {
    type: 'compacted',
    halfStep,
    number: (state.compression?.number ?? 0) + 1,
    level: (state.compression?.level ?? 0) + 1,
    summary,
    archived: plan.archived,
    kept: plan.kept,
    ...(plan.cut.length === 0 ? {} : { cut: plan.cut }),
    ...(chunk === undefined
      ? {}
      : {
          chunk: {
            number: (state.compression?.chunk ?? 0) + 1,
            ...chunk,
            ...(topics === undefined ? {} : { topics }),
          },
        }),
    ...(state.tasks.active === 0 ? {} : { task: state.tasks.active }),
    usage,
  };
  return { records: [compacted], effects: [afterSummary(state, current, environment)] };
}

/**
 * Why an answer is not a usable summary, or `undefined`. A summary that was cut off is not usable, because it would
 * replace messages whose content it lacks.
 */
function problemOf(content: unknown, stop: string): string | undefined {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  for (const block of blocks) {
    if (!isRecord(block) || block['type'] === 'text' || isThought(block)) continue;
    return `the summary holds a block of type ${describeValue(block['type'])}`;
  }
  return WHOLE_STOPS.has(stop) ? undefined : `the summary ended with ${stop}`;
}

/**
 * The effect that continues the session in the new epoch: a wake-up that looks for waiting work, or the repeated call
 * whose prompt was too long.
 */
function afterSummary(
  state: SessionState,
  { compaction }: CurrentCall & { readonly compaction: CompactionCall },
  environment: Environment,
): Effect {
  const { overflow } = compaction;
  if (overflow === undefined) return WAKE;
  const { halfStep, attempt } = overflow.suspended;
  return callOrEvaluate(state, environment, halfStep, state.epoch + 1, attempt);
}

/**
 * Handles a failed compression. The conversation stays as it was. If the compression was to recover a call whose prompt
 * was too long, it is tried once more with a shorter request. If the second attempt fails too, the call fails with its
 * original error.
 */
export function compactionFailure(
  state: SessionState,
  reason: string,
  environment: Environment,
  usage?: Usage,
): Decision {
  const current = state.current;
  const overflow = current?.compaction?.overflow;
  const failed = failedRecord(current?.halfStep ?? 0, reason, usage);
  if (overflow === undefined) return { records: [failed], effects: [WAKE] };
  const { error, suspended } = overflow;
  const second = overflow.attempt === 1 ? beginOverflow(state, environment, { error, attempt: 2 }) : undefined;
  if (second !== undefined) return { records: [failed, ...second.records], effects: second.effects };
  const { halfStep, attempt } = suspended;
  return { records: [failed], effects: [{ type: 'again', input: { type: 'modelFailed', halfStep, attempt, error } }] };
}

function failedRecord(halfStep: number, reason: string, usage?: Usage): SessionRecord {
  return { type: 'compactionFailed', halfStep, reason, ...(usage === undefined ? {} : { usage }) };
}

/**
 * The record that gives up a compression on request. The session returns to its state before the compression. Further
 * records must end that state.
 */
export function compactionInterrupted(halfStep: number): SessionRecord {
  return failedRecord(halfStep, INTERRUPTED);
}

/**
 * The records of the turn that was about to begin when a compression, or a half-step's wait for a summary, was
 * interrupted. The turn is cancelled as if the interrupt had come during its half-step. Empty if no such turn was due,
 * or if the turn would have taken an entry that is no user's message.
 */
export function claimCutShort(state: SessionState): readonly SessionRecord[] {
  const isWaiting = state.state === 'idle' && isPreparing(state.memory);
  if (!isWaiting && state.current?.compaction?.returnsTo !== 'idle') return NO_RECORDS;
  const selection = selectEntries({ ...state, state: 'idle' });
  if (selection === undefined) return NO_RECORDS;
  const entries = promotionOrder(selection);
  const isUsers = state.mailbox.every((entry) => entry.type === 'user_message' || !entries.includes(entry.id));
  if (!isUsers) return NO_RECORDS;
  return [{ type: 'claimed', halfStep: state.nextHalfStep, entries, ...turnStart(state) }, { type: 'released' }];
}

/**
 * Recovers a call whose prompt was too long (`data.reason`), once for each call. All messages but the newest are summed
 * up, and the call is repeated. `undefined`: the call failed for another reason, or no message can be summed up.
 */
export function decideOverflow(state: SessionState, error: ErrorShape, environment: Environment): Decision | undefined {
  const { current } = state;
  if (error.data?.['reason'] !== CONTEXT_OVERFLOW || environment.agent.compression === undefined) return undefined;
  if (current === undefined || current.compaction !== undefined || current.overflowed === true) return undefined;
  if (!isWorthForcing(state, environment.agent.compression)) return undefined;
  return (
    beginOverflow(state, environment, { error, attempt: 1 }) ?? beginOverflow(state, environment, { error, attempt: 2 })
  );
}

function beginOverflow(
  state: SessionState,
  environment: Environment,
  overflow: OverflowRecovery,
): Decision | undefined {
  const facts = environment.agent.compression;
  if (facts === undefined) return undefined;
  const { messages } = state;
  const start = new MessageGroups(messages).tailStart(overflow.attempt === 1 ? 1 : pulledBack(historySize(messages)));
  const tail = start === undefined ? undefined : messages[start]?.seq;
  return tail === undefined ? undefined : begin(state, facts, environment, { entries: [], tail, overflow });
}

/** The number of newest history messages that the second attempt leaves out of the summary request. */
function pulledBack(size: number): number {
  return Math.min(Math.max(Math.floor(size / 2), 4), Math.min(size - 2, PULLED_BACK_MAX));
}

/** Records the removal of old history. A removal that reaches no further than the last one changes nothing. */
export function decideRemoveHistory(
  state: SessionState,
  { history }: Extract<Input, { type: 'removeHistory' }>,
): Decision {
  if (isRemovedBefore(state, history.before)) return NOTHING;
  return { records: [{ type: 'historyRemoved', ...history }], effects: [] };
}
