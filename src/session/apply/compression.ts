/**
 * The course of a compression: it occupies the session like a claim, and releases it when it has ended, successful or
 * not. `apply/compaction.ts` has its effects on the messages. Pure but linear, as `apply`.
 */
import type { Draft } from '../../base/draft.ts';
import { addUsage, type Usage } from '../../base/messages.ts';
import { publicMessage } from '../state/messages.ts';
import type { RecordOf } from '../state/records.ts';
import type { CompactionCall, SessionState } from '../state/state.ts';
import { applyCompaction, noteFailedCompaction } from './compaction.ts';
import type { Fold } from './fold.ts';
import { promoteAll } from './mailbox.ts';

/**
 * A compression begins. It is like a claim, but without a separate turn. If it replaces a call that was too long, the
 * session's state stays the same.
 */
export function applyCompacting(fold: Fold, record: RecordOf<'compacting'>): void {
  const { state } = fold;
  const { halfStep, overflow, tail } = record;
  const { current: suspended, state: returnsTo } = state;
  if (returnsTo === 'awaiting' && (overflow === undefined || suspended === undefined)) {
    throw new Error('T1/T2: compacting while awaiting');
  }
  if (returnsTo !== 'awaiting') fold.enter('awaiting');
  promoteAll(fold, record.entries);
  const compaction: Draft<CompactionCall> = { returnsTo, through: state.nextMessageSeq - 1, at: fold.at };
  if (tail !== undefined) compaction.tail = tail;
  if (overflow !== undefined && suspended !== undefined) compaction.overflow = { ...overflow, suspended };
  state.current = { halfStep, attempt: 1, compaction };
  state.nextHalfStep = halfStep + 1;
}

/** The summary replaces the summed-up messages. */
export function applyCompacted(fold: Fold, record: RecordOf<'compacted'>): void {
  const { state } = fold;
  const compaction = endCompaction(state, record.halfStep, record.usage);
  const { archived, created } = applyCompaction(state, record, fold.at);
  fold.openEpoch();
  if (fold.counts()) {
    const { number, level, chunk } = record;
    const body = {
      type: 'compaction.applied',
      number,
      level,
      archived,
      created: created.map(publicMessage),
    } as const;
    fold.publish(chunk === undefined ? body : { ...body, chunk: chunk.number });
  }
  goBack(fold, compaction);
}

/** Everything is as before, except that the results stay promoted. */
export function applyCompactionFailed(fold: Fold, record: RecordOf<'compactionFailed'>): void {
  const compaction = endCompaction(fold.state, record.halfStep, record.usage);
  noteFailedCompaction(fold.state, record);
  if (fold.counts()) fold.publish({ type: 'compaction.failed', reason: record.reason });
  goBack(fold, compaction);
}

/** The cost of a compression counts for the session, and for no turn. */
function endCompaction(state: SessionState, halfStep: number, usage: Usage | undefined): CompactionCall {
  const compaction = state.current?.compaction;
  if (compaction === undefined || state.current?.halfStep !== halfStep) {
    throw new Error('S3: the end of no current compression');
  }
  if (usage !== undefined) state.usage = addUsage(state.usage, usage);
  return compaction;
}

/** Returns to the state in which the compression began. */
function goBack(fold: Fold, { returnsTo, overflow }: CompactionCall): void {
  const { state } = fold;
  if (overflow === undefined) {
    state.current = undefined;
    fold.enter(returnsTo);
    return;
  }
  const { halfStep, attempt, bouncing, keeps } = overflow.suspended;
  state.current = {
    halfStep,
    attempt,
    overflowed: true,
    ...(bouncing === undefined ? {} : { bouncing }),
    ...(keeps === undefined ? {} : { keeps }),
  };
}
