/**
 * Applies the records of summaries to a session and publishes their events. Changes the given state in place, as
 * `apply` does; otherwise pure.
 */
import { addUsage } from '../../base/messages.ts';
import { hasActive } from '../rules/mailbox.ts';
import { NO_MEMORY, uncovered, withRun, withSnapshot } from '../rules/memory.ts';
import type { Memory, SummaryEnd, SummaryRun } from '../state/memory.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import type { Fold } from './fold.ts';

type MemoryRecord = RecordOf<
  'summaryBegun' | 'summaryAwaited' | 'summaryEnded' | 'remembered' | 'summaryFailed' | 'summaryDropped'
>;

/**
 * Applies a record of a summary. Publishes that a half-step waits for a summary, and the end of that wait if no
 * half-step follows at once. Throws an Error if the record belongs to no current run.
 */
export function applyMemory(fold: Fold, record: MemoryRecord): void {
  const { state } = fold;
  const before = state.memory?.summarising;
  changeMemory(state, record);
  const { memory } = state;
  if (record.type === 'summaryAwaited') {
    if (before?.isAwaited !== true)
      fold.countAndPublish({ type: 'session.state', state: state.state, phase: 'preparing' });
  } else if (before?.isAwaited === true && memory?.summarising === undefined && !hasActive(state)) {
    fold.countAndPublish({ type: 'session.state', state: state.state });
  }
  // After a summary of messages (level 1), an eviction follows and opens the epoch.
  if (record.type === 'remembered' && before?.level === 2) fold.openEpoch();
}

function changeMemory(state: SessionState, record: MemoryRecord): void {
  const memory = state.memory ?? NO_MEMORY;
  if (record.type === 'summaryBegun') {
    const { type: _type, ...run } = record;
    state.memory = withRun(memory, run);
    state.nextMuseRun = run.run + 1;
    return;
  }
  const run = memory.summarising;
  if (run === undefined) throw new Error(`M1: ${record.type} without a summary under way`);
  switch (record.type) {
    case 'summaryAwaited':
      state.memory = withRun(memory, { ...run, isAwaited: true });
      return;
    case 'summaryEnded':
      if (record.run !== run.run) throw new Error(`M1: the end of run ${record.run}, and ${run.run} is under way`);
      if (record.usage !== undefined) state.usage = addUsage(state.usage, record.usage);
      state.memory = withRun(memory, { ...run, ended: endOf(record) });
      return;
    case 'remembered':
      state.memory = { ...remembered(memory, run), budgets: record.budgets };
      return;
    case 'summaryFailed':
      state.memory = failed(withRun(memory, undefined), run, state.nextMessageSeq);
      return;
    case 'summaryDropped':
      state.memory = withRun(memory, undefined);
      return;
  }
}

function endOf({ text, error }: Extract<MemoryRecord, { type: 'summaryEnded' }>): SummaryEnd {
  if (error !== undefined) return { error };
  return text === undefined ? {} : { text };
}

function remembered(memory: Memory, run: SummaryRun): Memory {
  const { ended } = run;
  if (ended === undefined || 'error' in ended) throw new Error(`M1: run ${run.run} did not end well`);
  const { failedAt: _failedAt, restsAt, ...settled } = withRun(memory, undefined);
  const text = ended.text === undefined ? settled : withSnapshot(settled, run, ended.text);
  // Without a text, the snapshots had nothing worth remembering. They stay until they are summed up with later ones.
  const rests = run.level === 2 && ended.text === undefined ? uncovered(settled.snapshots).length : restsAt;
  return rests === undefined ? text : { ...text, restsAt: rests };
}

function failed(memory: Memory, run: SummaryRun, nextSeq: number): Memory {
  return run.level === 1
    ? { ...memory, failedAt: nextSeq }
    : { ...memory, restsAt: uncovered(memory.snapshots).length };
}
