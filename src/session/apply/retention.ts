/** Applies the removal of old history. Changes the given state in place, as `apply` does; otherwise pure. */
import { withoutArchived } from '../rules/eviction.ts';
import type { RecordOf } from '../state/records.ts';
import type { Fold } from './fold.ts';

/** Archived messages leave the memory. The older part of the log leaves with this record, in one write. */
export function applyHistoryRemoved(fold: Fold, { before, firstEvent, archives }: RecordOf<'historyRemoved'>): void {
  Object.assign(fold.state, withoutArchived(fold.state, { before, firstEvent, archives }));
}
