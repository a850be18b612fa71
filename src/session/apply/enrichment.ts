/**
 * Applies the records of a turn's preparation and of naming. Changes the given state in place, as `apply` does;
 * otherwise pure. Keeps S7 of `state.ts`.
 */
import { addUsage, type Usage } from '../../base/messages.ts';
import { goalOf } from '../rules/goal-book.ts';
import { bookOf, type GoalRecord } from '../rules/goals.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import type { Fold } from './fold.ts';

type EnrichmentRecord = RecordOf<'preparing' | 'recalling' | 'prepared'>;

/**
 * Begins a preparation, advances it to its second stage, or ends it. Throws an Error for a record that does not belong
 * to the current run.
 */
export function applyEnrichment(fold: Fold, record: EnrichmentRecord): void {
  const { state, at } = fold;
  if (record.type === 'preparing') {
    if (state.state !== 'idle') throw new Error('S7: prepared while it is not idle');
    const { run, entry } = record;
    const before = state.enrichment;
    if (before !== undefined && record.again !== true) throw new Error('S7: prepared while it is being prepared');
    // After a crash the preparation begins again. Goal changes that were made before the crash still count.
    const goalsChanged = before?.goalsChanged ?? false;
    const stage = record.naming === true ? 'naming' : 'preparing';
    state.enrichment = { run, stage, entry, at, goalsChanged };
    state.nextMuseRun = run + 1;
    if (before === undefined) fold.countAndPublish({ type: 'session.state', state: 'idle', phase: 'preparing' });
    return;
  }
  const { enrichment } = state;
  if (enrichment === undefined) throw new Error('S7: nothing is being prepared');
  addCost(state, record.usage);
  if (record.type === 'recalling') {
    state.enrichment = { ...enrichment, run: record.run, stage: 'recalling' };
    state.nextMuseRun = record.run + 1;
    return;
  }
  if (enrichment.run !== record.run) throw new Error('S7: the end of no current preparation');
  state.enrichment = undefined;
  if (record.entry !== undefined) state.prepared = [...(state.prepared ?? []), record.entry];
  state.unnamed = false;
  fold.countAndPublish({ type: 'session.state', state: 'idle' });
}

/** Forgets that these entries were prepared, because they have left the mailbox. */
export function forgetPrepared(state: SessionState, claimed: readonly number[]): void {
  const left = state.prepared?.filter((id) => !claimed.includes(id)) ?? [];
  state.prepared = left.length === 0 ? undefined : left;
}

/** Counts the tokens of a run for the session, but for no turn. */
function addCost(state: SessionState, usage: Usage | undefined): void {
  if (usage !== undefined) state.usage = addUsage(state.usage, usage);
}

export function applyNamed(fold: Fold, { name, prompt }: RecordOf<'named'>): void {
  const { state } = fold;
  state.name = name;
  if (prompt !== undefined) state.prompt = prompt;
  fold.countAndPublish({ type: 'session.name', name });
}

/**
 * True for a record that creates a goal or changes its text. After such a record, the preparation in progress also
 * searches earlier messages. Must be called before the record is applied.
 */
export function isReworded(state: SessionState, record: GoalRecord): boolean {
  if (record.type === 'goalCreated') return true;
  if (record.type !== 'goalUpdated') return false;
  return goalOf(bookOf(state), record.id)?.description !== record.description;
}
